//! What is counted besides blocks: hazards of the device, and work done.

/// Something that happened, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tally {
    /// An event was destroyed while its work ran and nobody had waited for it.
    DestroyedBeforeWait,
    /// An event was destroyed while its work ran, waited for or not.
    DestroyedBeforeCompletion,
    /// An event was recorded anew before its earlier work was done.
    ReusedBeforeCompletion,
    /// An event was destroyed a second time.
    DestroyedTwice,
    /// A destroyed event was waited for.
    WaitedAfterDestroy,
    /// Entries of `device_events` that searches have looked at.
    RegistryScanned,
    /// Hooks that were registered on tensors.
    HooksRegistered,
    /// Hooks that backwards have run.
    HookCalls,
    /// Custom functions that were applied.
    Applies,
    /// Final callbacks that backwards have run.
    FinalCallbacks,
    /// Collectives that were launched.
    Collectives,
    /// Times that a sharding unit has gone to another state.
    StateChanges,
    /// Backwards through a sharding unit that no hook had gathered it for.
    BackwardWithoutUnshard,
}

impl Tally {
    /// All tallies, in declaration order.
    pub const ALL: [Self; 13] = [
        Self::DestroyedBeforeWait,
        Self::DestroyedBeforeCompletion,
        Self::ReusedBeforeCompletion,
        Self::DestroyedTwice,
        Self::WaitedAfterDestroy,
        Self::RegistryScanned,
        Self::HooksRegistered,
        Self::HookCalls,
        Self::Applies,
        Self::FinalCallbacks,
        Self::Collectives,
        Self::StateChanges,
        Self::BackwardWithoutUnshard,
    ];

    /// The metric in results and scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::DestroyedBeforeWait => "hazards.destroyed_before_wait",
            Self::DestroyedBeforeCompletion => "hazards.destroyed_before_completion",
            Self::ReusedBeforeCompletion => "hazards.reused_before_completion",
            Self::DestroyedTwice => "hazards.destroyed_twice",
            Self::WaitedAfterDestroy => "hazards.waited_after_destroy",
            Self::RegistryScanned => "work.registry_scanned",
            Self::HooksRegistered => "work.hooks_registered",
            Self::HookCalls => "work.hook_calls",
            Self::Applies => "work.applies",
            Self::FinalCallbacks => "work.final_callbacks",
            Self::Collectives => "work.collectives",
            Self::StateChanges => "work.state_changes",
            Self::BackwardWithoutUnshard => "hazards.backward_without_unshard",
        }
    }
}
