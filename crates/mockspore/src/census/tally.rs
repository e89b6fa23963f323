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
    /// Hooks that backwards have run.
    HookCalls,
}

impl Tally {
    /// All tallies, in declaration order.
    pub const ALL: [Self; 7] = [
        Self::DestroyedBeforeWait,
        Self::DestroyedBeforeCompletion,
        Self::ReusedBeforeCompletion,
        Self::DestroyedTwice,
        Self::WaitedAfterDestroy,
        Self::RegistryScanned,
        Self::HookCalls,
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
            Self::HookCalls => "work.hook_calls",
        }
    }
}
