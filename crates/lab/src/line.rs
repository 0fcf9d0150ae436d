//! One direction of a link in real time: the machine that decides, and what is on the line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_sim::{Link, Verdict};

use crate::segment::Packet;

/// One direction of a link: its machine, and the packets that it has let through and that are not yet due.
#[derive(Debug)]
pub(crate) struct Line {
    /// What decides.
    pub(crate) machine: Link,
    /// The longest IP packet it takes.
    pub(crate) mtu: u32,
    /// Whether loss spares TCP.
    spares_tcp: bool,
    /// Packets longer than that, which it did not take.
    pub(crate) too_long: u64,
    /// The last moment something was offered.
    pub(crate) seen: Instant,
    waiting: VecDeque<Run>,
}

/// Neighbouring segments of one packet that are due together.
#[derive(Debug)]
pub(crate) struct Run {
    /// When the last of them is due.
    pub(crate) due: Instant,
    due_first: Instant,
    /// What they are segments of.
    pub(crate) flight: Arc<Flight>,
    /// The first of them.
    pub(crate) first: u32,
    /// The last of them.
    pub(crate) last: u32,
    /// Which link of the path they are on.
    pub(crate) hop: usize,
}

/// A packet on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What was sent.
    pub(crate) packet: Packet,
    /// The directions that it takes.
    pub(crate) path: Arc<[usize]>,
    /// The host that sent it.
    pub(crate) source: usize,
    /// The host that it is for.
    pub(crate) target: usize,
}

impl Line {
    /// An idle direction.
    pub(crate) const fn new(machine: Link, mtu: u32, spares_tcp: bool) -> Self {
        Self {
            machine,
            mtu,
            spares_tcp,
            too_long: 0,
            seen: Instant::ZERO,
            waiting: VecDeque::new(),
        }
    }

    /// Offers a packet of `len` bytes to the machine.
    pub(crate) fn offer(&mut self, now: Instant, len: u32, is_tcp: bool) -> Verdict {
        if self.spares_tcp && is_tcp {
            self.machine.offer_without_loss(now, len)
        } else {
            self.machine.offer(now, len)
        }
    }

    /// Puts a segment in the order of arrival, with its neighbour where they can travel together.
    pub(crate) fn schedule(&mut self, run: Run, spread: Duration) {
        let place = self.waiting.iter().rposition(|other| other.due <= run.due);
        let place = place.map_or(0, |before| before + 1);
        if place == self.waiting.len()
            && let Some(before) = self.waiting.back_mut()
            && before.last + 1 == run.first
            && run.due.since(before.due_first) <= spread
            && Arc::ptr_eq(&before.flight, &run.flight)
        {
            before.last = run.last;
            before.due = run.due;
            return;
        }
        self.waiting.insert(place, run);
    }

    /// The run that is due first.
    pub(crate) fn front(&self) -> Option<&Run> {
        self.waiting.front()
    }

    /// Takes the run that is due first.
    pub(crate) fn pop(&mut self) -> Option<Run> {
        self.waiting.pop_front()
    }
}

impl Run {
    /// One segment, due at `due`.
    pub(crate) fn single(due: Instant, flight: &Arc<Flight>, number: u32, hop: usize) -> Self {
        let flight = Arc::clone(flight);
        Self {
            due,
            due_first: due,
            flight,
            first: number,
            last: number,
            hop,
        }
    }
}
