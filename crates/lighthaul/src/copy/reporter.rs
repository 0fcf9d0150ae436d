//! Events of a copy over all of its attempts, and the data that later steps need from them.

use std::fmt::{self, Debug, Formatter};
use std::sync::mpsc::Sender;
use std::time::Duration;

use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_io::host::clock::Clock;
use lighthaul_session::error::Error;
use lighthaul_session::known_path::KnownPath;

use crate::copy::attempts::Attempts;
use crate::event::Event;

/// Reporter of the events of a copy to its observer.
pub(crate) struct Reporter<'a> {
    observer: &'a mut dyn FnMut(Event),
    clock: Clock,
    tries: Attempts,
    has_started: bool,
    /// True if the peer, which ssh has started, has accepted the copy.
    is_connected_by_ssh: bool,
    /// Takes a message when all data have left the circuit.
    release_signal: Option<Sender<()>>,
    /// Loss on the path that an earlier copy has measured, in parts per million.
    lost_ppm: u32,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(observer: &'a mut dyn FnMut(Event)) -> Self {
        Self {
            observer,
            clock: Clock::start(),
            tries: Attempts::default(),
            has_started: false,
            is_connected_by_ssh: false,
            release_signal: None,
            lost_ppm: 0,
        }
    }

    /// Reports an event.
    pub(crate) fn tell(&mut self, event: Event) {
        (self.observer)(event);
    }

    /// Reports a fault that does not end the copy.
    pub(crate) fn warn(&mut self, text: String) {
        self.tell(Event::Warning(text));
    }

    /// Reports a note that is no fault.
    pub(crate) fn note(&mut self, text: &str) {
        self.tell(Event::Note(text.to_owned()));
    }

    /// Reports an event of the present attempt.
    pub(crate) fn watch(&mut self, event: CopyEvent) {
        if let CopyEvent::Started(_) = &event {
            let now = self.clock.now();
            self.tries.moving.get_or_insert(now);
            self.has_started = true;
        } else if let CopyEvent::Moving(progress) = &event {
            self.tries.now = *progress;
        } else if let CopyEvent::CircuitReleased = &event
            && let Some(signal) = self.release_signal.take()
        {
            signal.send(()).ok();
        }
        self.tell(Event::Copy(event));
    }

    /// Reports a route of the data other than the direct route, and its protocol.
    pub(crate) fn route(&mut self, protocol: &str, why: String) {
        let protocol = protocol.to_owned();
        self.tell(Event::Routed { protocol, why });
    }

    /// Records that an attempt has failed and another follows.
    pub(crate) fn try_again(&mut self, error: Error, pause: Duration, left: u32) {
        self.tries.fail();
        self.tell(Event::Retrying { error, pause, left });
    }

    /// Sends a message to `signal` when all data have left the circuit.
    pub(crate) fn signal_release(&mut self, signal: Option<Sender<()>>) {
        self.release_signal = signal;
    }

    /// Returns the summary of all attempts; `summary` is that of the last one.
    pub(crate) fn whole(&self, summary: Summary) -> Summary {
        self.tries.whole(summary, self.clock.now())
    }

    /// Records that the peer has accepted the copy; `by_ssh` is true if ssh has started it.
    pub(crate) const fn connected(&mut self, by_ssh: bool) {
        self.is_connected_by_ssh = by_ssh;
    }

    /// Records the measurements of an earlier copy on the path.
    pub(crate) fn know_path(&mut self, known: Option<KnownPath>) {
        self.lost_ppm = known.map_or(0, |known| known.lost_ppm);
    }

    /// Returns the loss on the path that an earlier copy has measured, in parts per million.
    pub(crate) const fn lost_ppm(&self) -> u32 {
        self.lost_ppm
    }

    /// Returns true if the copy has a login that an ssh process may lose before files move.
    pub(crate) const fn is_connected_by_ssh(&self) -> bool {
        self.is_connected_by_ssh
    }

    /// Returns true if both sides have agreed on how to move files.
    pub(crate) const fn has_started(&self) -> bool {
        self.has_started
    }
}

impl Debug for Reporter<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("tries", &self.tries)
            .finish_non_exhaustive()
    }
}
