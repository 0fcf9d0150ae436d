//! The wide-area link in real time: one thread reads what hosts send, asks the links' machines what becomes
//! of each packet, and delivers what survives when it is due.
//!
//! Packets are decided one by one, whatever super-segment they came in. On the last link of its path a run of
//! surviving neighbours is kept together and delivered, as a super-segment again, when its last packet is due,
//! as long as that makes none of them later than [`SPREAD`].

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::clock::Clock;
use lighthaul_io::tun::Tun;
use lighthaul_sim::Verdict;

use crate::counters::Troubles;
use crate::icmp;
use crate::line::{Flight, Line, Run};
use crate::segment::Packet;

/// All emulated links of a lab, and what is on them.
#[derive(Debug)]
pub(crate) struct Wan {
    clock: Clock,
    tuns: Vec<Arc<Tun>>,
    /// The path from each host to each host.
    paths: Vec<Vec<Option<Arc<[usize]>>>>,
    lines: Vec<Line>,
    troubles: Troubles,
    spare: Vec<Box<[u8]>>,
    held_bytes: usize,
}

impl Wan {
    /// Links with nothing on them.
    pub(crate) fn new(
        clock: Clock,
        tuns: Vec<Arc<Tun>>,
        paths: Vec<Vec<Option<Arc<[usize]>>>>,
        lines: Vec<Line>,
    ) -> Self {
        let (spare, troubles) = (Vec::new(), Troubles::default());
        Self {
            clock,
            tuns,
            paths,
            lines,
            troubles,
            spare,
            held_bytes: 0,
        }
    }

    /// Does what is to be done now; `is_ready` tells which hosts have sent something. Answers when to come back.
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

    /// The directions, for their counters.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// What went wrong outside the links.
    pub(crate) const fn troubles(&self) -> Troubles {
        self.troubles
    }

    /// Takes in what a host has sent; answers whether there may be more.
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
                    self.troubles.unreadable += 1;
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
                self.troubles.foreign += 1;
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
                &mut self.troubles.overrun
            } else {
                &mut self.troubles.foreign
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

    /// Offers each segment of a run to the link that is the path's hop of this number.
    fn offer(&mut self, now: Instant, flight: &Arc<Flight>, run: (u32, u32), hop: usize) {
        let line = &mut self.lines[flight.path[hop]];
        let is_last_hop = hop + 1 == flight.path.len();
        let spread = if is_last_hop { SPREAD } else { Duration::ZERO };
        // a packet that is due earlier may be offered later, if this thread was late
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
                self.troubles.refused += 1;
            }
        }
    }

    /// Moves on all that is due; answers whether it stopped before the end.
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
                    self.troubles.refused += u64::from(run.last - run.first + 1);
                }
            }
            self.release(run.flight);
        }
        true
    }

    /// Lets go of a packet; its buffer is used again if nobody else holds it.
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

/// When a turn is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// In so many nanoseconds, or when somebody sends.
    In(u64),
    /// When somebody sends.
    WhenSent,
}

fn full_buffer() -> Box<[u8]> {
    vec![0; Tun::READ_BYTES_MAX].into_boxed_slice()
}

/// How much later than due a packet may be for the sake of its neighbours.
const SPREAD: Duration = Duration::from_micros(250);
/// How much earlier than due a packet may be, to save a sleep.
const EARLY: Duration = Duration::from_micros(20);
const READS_MAX: usize = 32;
const DELIVERIES_MAX: usize = 64;
/// Packets shorter than this are copied, so that they do not hold a buffer made for a super-segment.
const COPY_BYTES_MAX: usize = 40_000;
const SPARE_MAX: usize = 256;
const HELD_BYTES_MAX: usize = 2 << 30;
