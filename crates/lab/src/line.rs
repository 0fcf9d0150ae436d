//! One direction of a link in real time: its machine, and the packets in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_sim::{Link, Verdict};

use lighthaul_kernel::segment::Packet;

/// Direction of a link: its machine, and the accepted packets that are not due yet.
#[derive(Debug)]
pub(crate) struct Line {
    /// Machine that decides on each packet.
    pub(crate) machine: Link,
    /// Longest IP packet that the link accepts, in bytes.
    pub(crate) mtu: u32,
    /// True if random loss does not affect TCP.
    spares_tcp: bool,
    /// Number of packets dropped because they exceed the MTU.
    pub(crate) too_long: u64,
    /// Time of the last offer.
    pub(crate) seen: Instant,
    waiting: VecDeque<Run>,
}

/// Consecutive segments of one packet that are delivered together.
#[derive(Debug)]
pub(crate) struct Run {
    /// Time at which the last segment is due.
    pub(crate) due: Instant,
    due_first: Instant,
    /// Packet of the segments.
    pub(crate) flight: Arc<Flight>,
    /// Index of the first segment.
    pub(crate) first: u32,
    /// Index of the last segment.
    pub(crate) last: u32,
    /// Index of the link on the packet's path.
    pub(crate) hop: usize,
}

/// Packet in flight, possibly a super-segment.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Octets of the packet.
    pub(crate) packet: Packet,
    /// Directions on the packet's path, in order.
    pub(crate) path: Arc<[usize]>,
    /// Index of the sending host.
    pub(crate) source: usize,
    /// Index of the receiving host.
    pub(crate) target: usize,
}

impl Line {
    /// Creates an idle direction.
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

    /// Inserts a segment in the order of due times. Joins it to the run before if that delays no
    /// segment by more than `spread`.
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

    /// Returns the run that is due first.
    pub(crate) fn front(&self) -> Option<&Run> {
        self.waiting.front()
    }

    /// Removes the run that is due first.
    pub(crate) fn pop(&mut self) -> Option<Run> {
        self.waiting.pop_front()
    }
}

impl Run {
    /// Creates a run of one segment, due at `due`.
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
