//! An end system that absorbs only so much.

use alloc::collections::VecDeque;
use core::time::Duration;

use lighthaul_base::{Instant, Load, Rate};

use crate::link::{Counters, Link, LinkConfig, Verdict};
use crate::scheduler::Scheduler;

/// What a receiving host is made of; the default is one that absorbs all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// How fast it takes datagrams from its socket while it has the processor, or all at once.
    pub absorb: Option<Rate>,
    /// Bytes that the socket holds meanwhile.
    pub socket_bytes_max: u64,
    /// Tasks that compete for its processor, if it absorbs at a rate.
    pub competitors: u32,
}

/// A receiving host: a socket's buffer, and a processor that empties it at a rate of its own.
///
/// It is the section 4.2.1 of the RBUDP paper in its simplest form: what finds the buffer full is
/// lost.
#[derive(Clone, Debug)]
pub struct Host {
    socket: Link,
    shared: Option<Shared>,
}

/// A processor that others want, too.
#[derive(Clone, Debug)]
struct Shared {
    rate: Rate,
    socket_bytes_max: u64,
    scheduler: Scheduler,
    /// Datagrams in the socket: when they will be out of it, and how long they are.
    queue: VecDeque<(Instant, u32)>,
    queue_bytes: u64,
    counters: Counters,
}

impl Host {
    /// A host with an empty socket; `seed` says what its other tasks are up to.
    pub fn new(config: HostConfig, seed: u64) -> Self {
        let socket = LinkConfig {
            rate: config.absorb,
            queue_bytes_max: config.socket_bytes_max,
            ..LinkConfig::PERFECT
        };
        let rate = config.absorb.filter(|_| config.competitors > 0);
        // nothing in the socket is up to chance
        Self {
            socket: Link::new(socket, 0),
            shared: rate.map(|rate| Shared {
                rate,
                socket_bytes_max: config.socket_bytes_max,
                scheduler: Scheduler::new(config.competitors, seed),
                queue: VecDeque::new(),
                queue_bytes: 0,
                counters: Counters::default(),
            }),
        }
    }

    /// Takes a datagram of `len` bytes in; answers when its machine gets it, or nothing if it is
    /// lost.
    pub fn absorb(&mut self, now: Instant, len: u32) -> Option<Instant> {
        if let Some(shared) = &mut self.shared {
            return shared.absorb(now, len);
        }
        match self.socket.offer(now, len) {
            Verdict::Delivered { at, .. } => Some(at),
            Verdict::Dropped(_) => None,
        }
    }

    /// When the machine can look at a message that came `now`: behind the datagrams that came before.
    pub fn attend(&mut self, now: Instant) -> Instant {
        match &mut self.shared {
            Some(shared) => shared.scheduler.run(now, ATTEND),
            None => now,
        }
    }

    /// When it is done with what has come so far.
    pub fn free_at(&self) -> Instant {
        let shared = self.shared.as_ref();
        shared.map_or(Instant::ZERO, |shared| shared.scheduler.free_at())
    }

    /// When its monitor has something to tell the machine.
    pub fn foresees_at(&self) -> Instant {
        let shared = self.shared.as_ref();
        shared.map_or(Instant::NEVER, |shared| shared.scheduler.foresees_at())
    }

    /// Takes what its monitor tells the machine `now`.
    pub fn foresee(&mut self, now: Instant) -> Load {
        let Some(shared) = &mut self.shared else {
            return Load::default();
        };
        shared.drain(now);
        Load {
            socket_bytes: shared.queue_bytes,
            socket_bytes_max: shared.socket_bytes_max,
            absence: shared.scheduler.foresee(),
            ..Load::default()
        }
    }

    /// What it has seen; `dropped_queue` is what its socket lost.
    pub const fn counters(&self) -> &Counters {
        match &self.shared {
            Some(shared) => &shared.counters,
            None => self.socket.counters(),
        }
    }
}

impl Shared {
    fn absorb(&mut self, now: Instant, len: u32) -> Option<Instant> {
        self.drain(now);
        self.counters.offered.add(len);
        if self.queue_bytes + u64::from(len) > self.socket_bytes_max {
            self.counters.dropped_queue.add(len);
            return None;
        }
        self.counters.delivered.add(len);
        // what comes later changes nothing for this one: until it is out, the receiver does not sleep
        let at = self.scheduler.run(now, self.rate.time_for(len.into()));
        self.queue.push_back((at, len));
        self.queue_bytes += u64::from(len);
        Some(at)
    }

    /// Forgets what is out of the socket.
    fn drain(&mut self, now: Instant) {
        while let Some((at, len)) = self.queue.front()
            && *at <= now
        {
            self.queue_bytes -= u64::from(*len);
            self.queue.pop_front();
        }
    }
}

/// What a message of a stream costs.
const ATTEND: Duration = Duration::from_micros(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_away_loses_what_its_socket_cannot_hold() {
        let config = HostConfig {
            absorb: Some(Rate::from_mbps(8)),
            socket_bytes_max: 10_000,
            competitors: 1,
        };
        let mut host = Host::new(config, 1);
        let mut now = Instant::ZERO;
        let mut last = now;
        for _ in 0..10_000 {
            if let Some(at) = host.absorb(now, 1000) {
                assert!(at > last, "in order");
                last = at;
            }
            now += Duration::from_millis(1);
        }
        let seen = host.counters();
        assert_eq!(seen.offered.packets, 10_000);
        let lost = seen.dropped_queue.packets;
        assert!((4000..5500).contains(&lost), "half of the time: {lost}");
        assert!(host.foresees_at() < now);
        assert!(host.foresee(now).absence.is_some());
    }

    #[test]
    fn a_slow_host_loses_what_its_socket_cannot_hold() {
        let mut host = Host::new(
            HostConfig {
                absorb: Some(Rate::from_mbps(8)),
                socket_bytes_max: 2500,
                competitors: 0,
            },
            1,
        );
        let now = Instant::ZERO;
        assert_eq!(host.absorb(now, 1000), Some(Instant::from_nanos(1_000_000)));
        assert_eq!(host.absorb(now, 1000), Some(Instant::from_nanos(2_000_000)));
        assert_eq!(host.absorb(now, 1000), None);
        assert_eq!(host.counters().dropped_queue.packets, 1);
        assert_eq!(
            Host::new(HostConfig::default(), 1).absorb(now, 9000),
            Some(now)
        );
    }
}
