//! Emulated links in real time. One thread reads the packets that hosts send, asks the links'
//! machines about each, and delivers surviving packets when they are due.
//!
//! Segments are decided one by one, even if they arrive as a super-segment. On the last link of its
//! path, a run of surviving neighbors is delivered as one super-segment when its last segment is
//! due. That delays no segment by more than [`SPREAD`].

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::tun::Tun;
use lighthaul_sim::Verdict;

use crate::counters::EmulatorCounters;
use crate::icmp;
use crate::line::{Flight, Line, Run};
use lighthaul_kernel::segment::Packet;

/// All emulated links of a lab, with the packets on them.
#[derive(Debug)]
pub(crate) struct Wan {
    clock: Clock,
    tuns: Vec<Arc<Tun>>,
    /// Paths from each host to each host.
    paths: Vec<Vec<Option<Arc<[usize]>>>>,
    lines: Vec<Line>,
    emulator: EmulatorCounters,
    spare: Vec<Box<[u8]>>,
    held_bytes: usize,
}

impl Wan {
    /// Creates idle links.
    pub(crate) fn new(
        clock: Clock,
        tuns: Vec<Arc<Tun>>,
        paths: Vec<Vec<Option<Arc<[usize]>>>>,
        lines: Vec<Line>,
    ) -> Self {
        let (spare, emulator) = (Vec::new(), EmulatorCounters::default());
        Self {
            clock,
            tuns,
            paths,
            lines,
            emulator,
            spare,
            held_bytes: 0,
        }
    }

    /// Delivers due packets, and reads packets of hosts for which `is_ready` is true. Returns when to call again.
    pub(crate) fn turn(&mut self, is_ready: impl Fn(usize) -> bool) -> Next {
        self.deliver();
        let mut is_behind = false;
        for host in 0..self.tuns.len() {
            if is_ready(host) {
                is_behind |= self.drain(host);
            }
        }
        let is_behind = self.deliver() || is_behind;
        let due = self
            .lines
            .iter()
            .filter_map(|line| line.front())
            .map(|run| run.due);
        match due.min() {
            _ if is_behind => Next::In(0),
            Some(due) => Next::In(due.since(self.clock.now()).as_nanos() as u64),
            None => Next::WhenSent,
        }
    }

    /// Returns the directions, for their counters.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the counters of packets lost outside the links.
    pub(crate) const fn emulator(&self) -> EmulatorCounters {
        self.emulator
    }

    /// Reads the packets of a host. Returns true if there may be more.
    fn drain(&mut self, host: usize) -> bool {
        for _ in 0..READS_MAX {
            let mut buffer = self.spare.pop().unwrap_or_else(full_buffer);
            let len = match self.tuns[host].read(&mut buffer) {
                Ok(Some(len)) => len,
                Ok(None) => {
                    self.spare.push(buffer);
                    return false;
                }
                Err(_) => {
                    self.emulator.unreadable += 1;
                    return false;
                }
            };
            let now = self.clock.now();
            if len < COPY_BYTES_MAX {
                let copy = Box::from(&buffer[..len]);
                self.spare.push(buffer);
                buffer = copy;
            }
            self.accept(now, host, buffer, len);
        }
        true
    }

    /// Starts a packet on its path.
    fn accept(&mut self, now: Instant, host: usize, buffer: Box<[u8]>, len: usize) {
        let packet = match Packet::new(buffer, len) {
            Ok(packet) => packet,
            Err(buffer) => {
                self.emulator.foreign += 1;
                self.recycle(buffer);
                return;
            }
        };
        let target = usize::from(u16::from_be_bytes([
            packet.target().octets()[2],
            packet.target().octets()[3],
        ]));
        let path = target
            .checked_sub(1)
            .and_then(|t| self.paths[host].get(t)?.clone());
        let Some(path) = path.filter(|_| self.held_bytes < HELD_BYTES_MAX) else {
            let is_full = self.held_bytes >= HELD_BYTES_MAX;
            let count = u64::from(packet.count());
            *(if is_full {
                &mut self.emulator.overrun
            } else {
                &mut self.emulator.foreign
            }) += count;
            self.recycle(packet.into_buffer());
            return;
        };
        self.held_bytes += packet.held_bytes();
        let last = packet.count() - 1;
        let flight = Arc::new(Flight {
            packet,
            path,
            source: host,
            target: target - 1,
        });
        self.offer(now, &flight, (0, last), 0);
        self.release(flight);
    }

    /// Offers each segment of a run to the link at index `hop` of its path.
    fn offer(&mut self, now: Instant, flight: &Arc<Flight>, run: (u32, u32), hop: usize) {
        let line = &mut self.lines[flight.path[hop]];
        let is_last_hop = hop + 1 == flight.path.len();
        let spread = if is_last_hop { SPREAD } else { Duration::ZERO };
        // If this thread was late, packets may be offered out of order.
        let now = now.max(line.seen);
        line.seen = now;
        let is_tcp = flight.packet.is_tcp();
        let mut is_too_long = false;
        for number in run.0..=run.1 {
            let len = flight.packet.segment_bytes(number);
            if len > line.mtu {
                line.too_long += 1;
                is_too_long = true;
                continue;
            }
            let Verdict::Delivered { at, again } = line.offer(now, len, is_tcp) else {
                continue;
            };
            line.schedule(Run::single(at, flight, number, hop), spread);
            if let Some(at) = again {
                line.schedule(Run::single(at, flight, number, hop), spread);
            }
        }
        if is_too_long {
            let complaint = icmp::too_long(flight.packet.octets(), line.mtu);
            if self.tuns[flight.source]
                .write(&[IoSlice::new(&complaint)])
                .is_err()
            {
                self.emulator.refused += 1;
            }
        }
    }

    /// Delivers packets that are due, or offers them to their next link. Returns true if more are
    /// due.
    fn deliver(&mut self) -> bool {
        let mut now = self.clock.now() + EARLY;
        for round in 0..DELIVERIES_MAX {
            if round % 16 == 15 {
                now = self.clock.now() + EARLY;
            }
            let fronts = self.lines.iter().enumerate();
            let due = fronts.filter_map(|(i, line)| line.front().map(|run| (run.due, i)));
            let Some((due, line)) = due.min().filter(|(due, _)| *due <= now) else {
                return false;
            };
            let Some(run) = self.lines[line].pop() else {
                return false;
            };
            if run.hop + 1 < run.flight.path.len() {
                self.offer(due, &run.flight, (run.first, run.last), run.hop + 1);
            } else {
                let tun = &self.tuns[run.flight.target];
                let written = run
                    .flight
                    .packet
                    .show(run.first, run.last, |pieces| tun.write(pieces));
                if written.is_err() {
                    self.emulator.refused += u64::from(run.last - run.first + 1);
                }
            }
            self.release(run.flight);
        }
        true
    }

    /// Releases a packet. Reuses its buffer unless a duplicate still needs it.
    fn release(&mut self, flight: Arc<Flight>) {
        if let Some(flight) = Arc::into_inner(flight) {
            self.held_bytes -= flight.packet.held_bytes();
            self.recycle(flight.packet.into_buffer());
        }
    }

    fn recycle(&mut self, buffer: Box<[u8]>) {
        if buffer.len() == Tun::READ_BYTES_MAX && self.spare.len() < SPARE_MAX {
            self.spare.push(buffer);
        }
    }
}

/// Time of the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// After the given number of nanoseconds, or when a host sends.
    In(u64),
    /// At the next time that a host sends.
    WhenSent,
}

fn full_buffer() -> Box<[u8]> {
    vec![0; Tun::READ_BYTES_MAX].into_boxed_slice()
}

/// Longest extra delay of a segment that is delivered together with its neighbors.
const SPREAD: Duration = Duration::from_micros(250);
/// Time before its due time at which a packet may be delivered, to save a sleep.
const EARLY: Duration = Duration::from_micros(20);
const READS_MAX: usize = 32;
const DELIVERIES_MAX: usize = 64;
/// Length in bytes below which a packet is copied, so that it does not occupy a super-segment's
/// buffer.
const COPY_BYTES_MAX: usize = 40_000;
const SPARE_MAX: usize = 256;
const HELD_BYTES_MAX: usize = 2 << 30;
