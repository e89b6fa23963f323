//! Callbacks for the end of a backward (`queue_backward_final_callback`).
//!
//! ```text
//! running engine ─▶ queue ─▶ callback     run once after propagation, dropped
//!                                         with the engine; queue again each step
//! ```

use crate::census::Tally;
use crate::error::Error;
use crate::runtime::Core;

/// A callback for the end of a backward.
pub(crate) type FinalCallback = Box<dyn FnOnce() -> Result<(), Error>>;

/// Runs the callbacks of the innermost backward in the order they were queued.
pub(super) fn run(core: &Core) -> Result<(), Error> {
    let mut next = 0;
    loop {
        // A callback may queue another: take them one at a time.
        let callback = {
            let mut engines = core.engines.borrow_mut();
            let queue = engines.last_mut();
            let slot = queue.and_then(|queue| queue.get_mut(next));
            slot.map(|slot| std::mem::replace(slot, Box::new(|| Ok(()))))
        };
        let Some(callback) = callback else {
            return Ok(());
        };
        core.census.happened(Tally::FinalCallbacks, 1);
        callback()?;
        next += 1;
    }
}
