//! Streams in virtual time: nothing runs, only its end is known.
//!
//! The host's clock moves when the host says so. Work on a stream begins when
//! the stream is free (and what it waits for is done) and ends a number of
//! ticks later. Models the streams of a device context
//! (`ccsrc/runtime/device/multi_stream_controller.cc`) as far as events see
//! them. Not modelled: kernels that overlap within a stream.

use std::cell::Cell;

use crate::error::Error;

/// Streams of a device.
const STREAMS: usize = 8;

/// A stream by number: 0 is the default, [`StreamId::COMM`] that of collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId(u8);

impl StreamId {
    /// The default stream.
    pub const DEFAULT: Self = Self(0);
    /// The stream that collectives run on.
    pub const COMM: Self = Self(1);
    /// The stream of copies.
    pub const COPY: Self = Self(2);

    /// Stream `number`, 0 to 7.
    ///
    /// # Errors
    /// [`Error::Stream`] if there is none.
    pub fn new(number: usize) -> Result<Self, Error> {
        let known = u8::try_from(number).ok().filter(|_| number < STREAMS);
        known.map(Self).ok_or(Error::Stream { number })
    }

    pub(crate) fn bit(self) -> u8 {
        1 << self.0
    }
}

/// The host's clock and the end of each stream's last work, in ticks.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    now: Cell<u64>,
    busy_until: [Cell<u64>; STREAMS],
}

impl Streams {
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    /// The host goes on for `ticks`.
    pub(crate) fn advance(&self, ticks: u64) {
        self.now.set(self.now.get() + ticks);
    }

    /// Queues `ticks` of work behind what the stream has; when it will be done.
    pub(crate) fn launch(&self, stream: StreamId, ticks: u64) -> u64 {
        let busy = &self.busy_until[usize::from(stream.0)];
        busy.set(busy.get().max(self.now.get()) + ticks);
        busy.get()
    }

    /// Work queued on `stream` from now on begins at `tick` or later.
    pub(crate) fn wait(&self, stream: StreamId, tick: u64) {
        let busy = &self.busy_until[usize::from(stream.0)];
        busy.set(busy.get().max(tick));
    }

    /// The host waits until every stream is done.
    pub(crate) fn synchronize(&self) {
        let last = self.busy_until.iter().map(Cell::get).max();
        self.now.set(self.now.get().max(last.unwrap_or_default()));
    }
}
