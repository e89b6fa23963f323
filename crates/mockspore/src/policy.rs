//! Every defect as a value, and the values that each release has.

use serde::{Deserialize, Serialize};

/// Where tensors live. It decides which defects exist: on `Cpu` no device
/// event, on `Ascend` no kernel-argument block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Device {
    /// `device_target="CPU"`.
    #[serde(rename = "CPU")]
    Cpu,
    /// `device_target="Ascend"`.
    Ascend,
}

/// What the runtime's `hook_id_node_map_` does when a node dies
/// (`ccsrc/pynative/backward/hook/hook_py.cc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookMap {
    /// The entry stays, and its weak pointer pins the control block.
    KeepsDead,
    /// The node's destructor erases its entries: the framework's own possible fix.
    ErasesWithNode,
}

/// What the modelled caller does with the handle of `register_hook`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookRelease {
    /// Thrown away, as Hyper-Parallel's `_register_backward_pre_hook` does.
    Dropped,
    /// `remove()` on each handle once the backward has returned.
    RemovedAfterBackward,
    /// `remove()` on each handle in a final callback of that backward.
    RemovedInFinalCallback,
}

/// What the destructor of a custom function's ctx clears
/// (`ccsrc/pynative/backward/hook/function_py.cc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CtxClear {
    /// `saved_tensors` twice and `needs_input_grad` never: since 2.8.0.
    NamesSavedTensorsTwice,
    /// Each field once: 2.7.2, and the report's proposal.
    ClearsEachField,
}

/// A released `MindSpore` whose lifetimes a preset reproduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The runtime's destructor of a ctx.
    pub ctx_clear: CtxClear,
}

/// The preset with every defect cured.
const FIXED: &str = "fixed";

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
            // The hook registry is the same in all four releases.
            hook_map: HookMap::KeepsDead,
            hook_release: HookRelease::Dropped,
            ctx_clear: match version {
                Version::V2_7_2 => CtxClear::ClearsEachField,
                Version::V2_8_0 | Version::V2_9_0 | Version::V2_10_0 => {
                    CtxClear::NamesSavedTensorsTwice
                }
            },
        }
    }

    /// Every defect cured, in the runtime and in the caller.
    pub fn fixed() -> Self {
        Self {
            hook_map: HookMap::ErasesWithNode,
            hook_release: HookRelease::RemovedInFinalCallback,
            ctx_clear: CtxClear::ClearsEachField,
        }
    }
}
