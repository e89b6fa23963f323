//! Every defect as a value, and the values that each release has.

mod caller;
mod moe;
mod runtime;

use serde::{Deserialize, Serialize};

pub use caller::{BackwardPreHook, HookRelease, NeedsInputGrad, RecomputeStop};
pub use moe::{CombineHandle, CoreBound, ExpertBiasRule, MonitorRegister};
pub use runtime::{
    AbstractCache, CtxClear, EventRelease, HookMap, KernelArgument, OutputOwner, ReadyTopCell,
    Victims,
};

/// Where tensors live. It decides which defects exist: on `Cpu` no device
/// event, on `Ascend` no kernel-argument block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Device {
    /// `device_target="CPU"`.
    #[serde(rename = "CPU")]
    Cpu,
    /// `device_target="Ascend"`.
    Ascend,
}

impl Device {
    /// Both devices.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Ascend];

    /// The name as `MindSpore` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Ascend => "Ascend",
        }
    }

    /// The device of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|device| device.name() == name)
    }
}

/// A released `MindSpore` whose lifetimes a preset reproduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(non_camel_case_types, reason = "the dots of a release number")]
pub enum Version {
    /// Release 2.7.2.
    V2_7_2,
    /// Release 2.8.0.
    V2_8_0,
    /// Release 2.9.0.
    V2_9_0,
    /// Release 2.10.0.
    V2_10_0,
}

impl Version {
    /// All modelled releases, oldest first.
    pub const ALL: [Self; 4] = [Self::V2_7_2, Self::V2_8_0, Self::V2_9_0, Self::V2_10_0];

    /// The release number as `MindSpore` prints it.
    pub fn number(self) -> &'static str {
        match self {
            Self::V2_7_2 => "2.7.2",
            Self::V2_8_0 => "2.8.0",
            Self::V2_9_0 => "2.9.0",
            Self::V2_10_0 => "2.10.0",
        }
    }
}

/// One value per modelled defect. Policies decide lifetimes and never numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policies {
    /// The runtime's registry of hooks.
    pub hook_map: HookMap,
    /// The caller's use of the hook handle.
    pub hook_release: HookRelease,
    /// The sharding scheduler's use of its hook handles.
    pub backward_pre_hook: BackwardPreHook,
    /// The runtime's destructor of a ctx.
    pub ctx_clear: CtxClear,
    /// The caller's use of a ctx field.
    pub needs_input_grad: NeedsInputGrad,
    /// The runtime's hold on an operator's outputs.
    pub output_owner: OutputOwner,
    /// The end of a recomputed forward.
    pub recompute_stop: RecomputeStop,
    /// The runtime's upload of kernel arguments.
    pub kernel_argument: KernelArgument,
    /// The runtime's unconsumed forwards.
    pub ready_top_cell: ReadyTopCell,
    /// The runtime's cache of abstracts.
    pub abstract_cache: AbstractCache,
    /// What that cache drops.
    pub victims: Victims,
    /// The runtime's events of collectives.
    pub event_release: EventRelease,
    /// The load monitor's slot for its hook handle.
    pub monitor_register: MonitorRegister,
    /// The load monitor's rule for the expert bias.
    pub expert_bias_rule: ExpertBiasRule,
    /// The expert-parallel combine's use of its handle.
    pub combine_handle: CombineHandle,
    /// The forward tiling's bound on cube cores.
    pub forward_tiling: CoreBound,
    /// The backward tiling's.
    pub backward_tiling: CoreBound,
    /// The scheduler's.
    pub num_cube_cores: CoreBound,
}

/// The preset with every defect cured.
const FIXED: &str = "fixed";

/// Idle events that the fixed pool keeps.
const POOLED_EVENTS: u32 = 64;

impl Policies {
    /// The presets' names: each release, oldest first, then `fixed`.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        Version::ALL.map(Version::number).into_iter().chain([FIXED])
    }

    /// The preset of a release number or of `fixed`.
    pub fn preset(name: &str) -> Option<Self> {
        if name == FIXED {
            return Some(Self::fixed());
        }
        let version = Version::ALL
            .into_iter()
            .find(|known| known.number() == name);
        version.map(Self::mindspore)
    }

    /// What `version` does, under a caller that does as the reports' did.
    pub fn mindspore(version: Version) -> Self {
        Self {
            hook_map: HookMap::KeepsDead,
            hook_release: HookRelease::Dropped,
            backward_pre_hook: BackwardPreHook::Dropped,
            ctx_clear: match version {
                Version::V2_7_2 => CtxClear::ClearsEachField,
                _ => CtxClear::NamesSavedTensorsTwice,
            },
            needs_input_grad: NeedsInputGrad::Kept,
            output_owner: OutputOwner::RawPointer,
            recompute_stop: match version {
                Version::V2_7_2 | Version::V2_8_0 => RecomputeStop::AtTheEnd,
                Version::V2_9_0 | Version::V2_10_0 => RecomputeStop::Early,
            },
            kernel_argument: match version {
                Version::V2_7_2 => KernelArgument::Returned,
                _ => KernelArgument::NeverReturned,
            },
            ready_top_cell: ReadyTopCell::KeepsAll,
            abstract_cache: AbstractCache::Bounded,
            victims: Victims::IterationOrder,
            event_release: match version {
                Version::V2_10_0 => EventRelease::NeverErased,
                _ => EventRelease::ErasedByManager,
            },
            monitor_register: MonitorRegister::Overwrites,
            expert_bias_rule: ExpertBiasRule::ZeroesCounters,
            combine_handle: CombineHandle::KeptOnModule,
            forward_tiling: CoreBound::Unchecked,
            backward_tiling: CoreBound::Unchecked,
            num_cube_cores: CoreBound::Unchecked,
        }
    }

    /// Every defect cured, in the runtime and in the caller.
    pub fn fixed() -> Self {
        Self {
            hook_map: HookMap::ErasesWithNode,
            hook_release: HookRelease::RemovedInFinalCallback,
            backward_pre_hook: BackwardPreHook::ReleasedWithBackward,
            ctx_clear: CtxClear::ClearsEachField,
            needs_input_grad: NeedsInputGrad::ClearedInForward,
            output_owner: OutputOwner::Owned,
            recompute_stop: RecomputeStop::Early,
            kernel_argument: KernelArgument::Returned,
            ready_top_cell: ReadyTopCell::KeepsLatest,
            abstract_cache: AbstractCache::Bounded,
            victims: Victims::IterationOrder,
            event_release: EventRelease::Pooled { cap: POOLED_EVENTS },
            monitor_register: MonitorRegister::Replaces,
            expert_bias_rule: ExpertBiasRule::ZeroesCounters,
            combine_handle: CombineHandle::LocalHandle,
            forward_tiling: CoreBound::Checked,
            backward_tiling: CoreBound::Checked,
            num_cube_cores: CoreBound::Checked,
        }
    }
}
