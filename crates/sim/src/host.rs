//! Receiving host of limited speed.
//!
//! A [`Host`] decides when the machine behind a socket gets a datagram, and drops it if the receive
//! buffer is full. [`HostConfig`] selects one of four models:
//!
//! ```text
//! absorb = None                 each datagram is received at once
//! absorb                        the buffer is the queue of a Link of that rate
//! absorb, and arrival time      the kernel's work on datagrams takes processor time from the receiver
//! absorb, and competitors       the receiver runs only while the Processor schedules it
//! ```
//!
//! In addition, a host may have a disk that takes received bytes at a rate. Then its [`Load`] contains the backlog.
//! Only the last model predicts its absence in a [`Load`]. Stream messages are never lost.

use alloc::collections::VecDeque;
use core::time::Duration;

use lighthaul_base::{Instant, Load, Rate};

use crate::link::{Counters, Link, LinkConfig, Verdict};
use crate::processor::{Predictions, Processor};

/// Parameters of a receiving host. The default host receives infinitely fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// Rate at which the receiver empties its socket while it has the processor; `None` is infinitely fast.
    pub absorb: Option<Rate>,
    /// Size of the socket's receive buffer in bytes.
    pub socket_bytes_max: u64,
    /// Number of tasks that compete for the processor. It counts only if `absorb` is set.
    pub competitors: u32,
    /// Nice value of the competing tasks.
    pub nice: i8,
    /// Processor time of the kernel for each datagram that arrives, including dropped datagrams. It counts only if
    /// `absorb` is set. While a competitor runs, it is the competitor's time.
    pub arrival: Duration,
    /// Rate at which the disk takes received bytes; `None` is infinitely fast.
    pub disk: Option<Rate>,
    /// Maximum number of received bytes that wait for the disk. It counts only if `disk` is set.
    pub backlog_bytes_max: u64,
}

/// Receiving host: a socket's receive buffer, and a receiver that empties it at a limited rate.
///
/// This is the model of section 4.2.1 of the RBUDP paper in its simplest form: a datagram is lost if the buffer is
/// full.
#[derive(Clone, Debug)]
pub struct Host {
    socket: Link,
    shared: Option<Shared>,
    disk: Option<Disk>,
}

/// Disk that takes received bytes at a rate.
#[derive(Clone, Copy, Debug)]
struct Disk {
    rate: Rate,
    backlog_bytes_max: u64,
    /// Time at which all received bytes are on the disk.
    idle_at: Instant,
    /// Time of the next load sample; never while nothing waits.
    sample_at: Instant,
}

/// Receiver that shares its processor with other tasks.
#[derive(Clone, Debug)]
struct Shared {
    rate: Rate,
    arrival: Duration,
    socket_bytes_max: u64,
    processor: Processor,
    /// Datagrams in the receive buffer: the time at which each leaves the buffer, and its length.
    queue: VecDeque<(Instant, u32)>,
    queue_bytes: u64,
    counters: Counters,
}

impl Host {
    /// Returns a host with an empty socket. `seed` determines the state of its other tasks.
    pub fn new(config: HostConfig, seed: u64) -> Self {
        let socket = LinkConfig {
            rate: config.absorb,
            queue_bytes_max: config.socket_bytes_max,
            ..LinkConfig::PERFECT
        };
        let is_shared = config.competitors > 0 || !config.arrival.is_zero();
        let rate = config.absorb.filter(|_| is_shared);
        // the socket makes no random choice, so any seed will do
        Self {
            socket: Link::new(socket, 0),
            shared: rate.map(|rate| Shared {
                rate,
                arrival: config.arrival,
                socket_bytes_max: config.socket_bytes_max,
                processor: Processor::new(config.competitors, config.nice, seed),
                queue: VecDeque::new(),
                queue_bytes: 0,
                counters: Counters::default(),
            }),
            disk: config.disk.map(|rate| Disk {
                rate,
                backlog_bytes_max: config.backlog_bytes_max,
                idle_at: Instant::ZERO,
                sample_at: Instant::NEVER,
            }),
        }
    }

    /// Takes a datagram of `len` bytes. Returns the time at which the machine receives it, or `None` if the receive
    /// buffer is full.
    pub fn absorb(&mut self, now: Instant, len: u32) -> Option<Instant> {
        let received = if let Some(shared) = &mut self.shared {
            shared.absorb(now, len)
        } else {
            match self.socket.offer(now, len) {
                Verdict::Delivered { at, .. } => Some(at),
                Verdict::Dropped(_) => None,
            }
        };
        match &mut self.disk {
            Some(disk) => received.map(|at| disk.write(at, len)),
            None => received,
        }
    }

    /// Returns the time at which the machine receives a stream message that arrived at `now`, after all earlier
    /// datagrams.
    pub fn receive_message(&mut self, now: Instant) -> Instant {
        match &mut self.shared {
            Some(shared) => shared.processor.run(now, MESSAGE_TIME),
            None => now,
        }
    }

    /// Returns the time at which the receiver has finished its present work.
    pub fn free_at(&self) -> Instant {
        let shared = self.shared.as_ref();
        shared.map_or(Instant::ZERO, |shared| shared.processor.free_at())
    }

    /// Returns the time of the next load sample.
    pub fn next_load_at(&self) -> Instant {
        let shared = self.shared.as_ref();
        let predicted = shared.map_or(Instant::NEVER, |shared| {
            shared.processor.next_prediction_at()
        });
        let disk = self.disk.as_ref();
        predicted.min(disk.map_or(Instant::NEVER, |disk| disk.sample_at))
    }

    /// Takes the load sample that is due at `now`.
    pub fn take_load(&mut self, now: Instant) -> Load {
        let mut load = Load::default();
        if let Some(disk) = &mut self.disk {
            load.backlog_bytes = disk.sample(now);
            load.backlog_bytes_max = disk.backlog_bytes_max;
        }
        if let Some(shared) = &mut self.shared {
            shared.drain(now);
            load.socket_bytes = shared.queue_bytes;
            load.socket_bytes_max = shared.socket_bytes_max;
            if shared.processor.next_prediction_at() <= now {
                load.absence = shared.processor.take_prediction();
            }
        }
        load
    }

    /// Returns the numbers of predictions of the monitor.
    pub fn predictions(&self) -> Predictions {
        let shared = self.shared.as_ref();
        shared.map_or_else(Predictions::default, |shared| shared.processor.counts())
    }

    /// Returns the packet counters. `dropped_queue` counts datagrams that the receive buffer could not hold.
    pub const fn counters(&self) -> &Counters {
        match &self.shared {
            Some(shared) => &shared.counters,
            None => self.socket.counters(),
        }
    }
}

impl Disk {
    /// Queues `len` bytes for the disk. Returns the time at which memory is free for them.
    fn write(&mut self, now: Instant, len: u32) -> Instant {
        self.idle_at = self.idle_at.max(now) + self.rate.time_for(len.into());
        self.sample_at = self.sample_at.min(now + SAMPLE_INTERVAL);
        let whole = self.rate.time_for(self.backlog_bytes_max);
        now.max(Instant::ZERO + self.idle_at.since(Instant::ZERO + whole))
    }

    /// Returns the bytes that wait for the disk, and plans the next sample.
    fn sample(&mut self, now: Instant) -> u64 {
        let waiting = self.rate.bytes_in(self.idle_at.since(now));
        self.sample_at = if waiting > 0 {
            now + SAMPLE_INTERVAL
        } else {
            Instant::NEVER
        };
        waiting
    }
}

impl Shared {
    fn absorb(&mut self, now: Instant, len: u32) -> Option<Instant> {
        self.drain(now);
        self.counters.offered.add(len);
        // the kernel's work precedes the receiver's; that of datagrams on which the receiver still works is done
        if !self.arrival.is_zero() && !self.processor.is_away(now) {
            self.processor.run(now, self.arrival);
        }
        if self.queue_bytes + u64::from(len) > self.socket_bytes_max {
            self.counters.dropped_queue.add(len);
            return None;
        }
        self.counters.delivered.add(len);
        // later datagrams cannot delay this one: the receiver does not sleep before it has handled it
        let at = self.processor.run(now, self.rate.time_for(len.into()));
        self.queue.push_back((at, len));
        self.queue_bytes += u64::from(len);
        Some(at)
    }

    /// Removes the datagrams that have left the receive buffer by `now`.
    fn drain(&mut self, now: Instant) {
        while let Some((at, len)) = self.queue.front()
            && *at <= now
        {
            self.queue_bytes -= u64::from(*len);
            self.queue.pop_front();
        }
    }
}

/// Interval of load samples while bytes wait for the disk.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);
/// Processor time for one stream message.
const MESSAGE_TIME: Duration = Duration::from_micros(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descheduled_receiver_drops_datagrams_beyond_its_buffer() {
        let config = HostConfig {
            absorb: Some(Rate::from_mbps(8)),
            socket_bytes_max: 10_000,
            competitors: 1,
            ..HostConfig::default()
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
        assert!(host.next_load_at() < now);
        assert!(host.take_load(now).absence.is_some());
    }

    #[test]
    fn slow_receiver_drops_datagrams_beyond_its_buffer() {
        let mut host = Host::new(
            HostConfig {
                absorb: Some(Rate::from_mbps(8)),
                socket_bytes_max: 2500,
                ..HostConfig::default()
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

    #[test]
    fn backlog_of_the_disk_is_sampled_until_it_is_written() {
        let config = HostConfig {
            disk: Some(Rate::from_mbps(8)),
            backlog_bytes_max: 10_000,
            ..HostConfig::default()
        };
        let mut host = Host::new(config, 1);
        assert_eq!(host.next_load_at(), Instant::NEVER);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        for _ in 0..10 {
            assert_eq!(host.absorb(at(100), 1000), Some(at(100)));
        }
        assert_eq!(host.absorb(at(100), 1000), Some(at(101)), "no room before");
        let mut samples = std::vec::Vec::new();
        while host.next_load_at() < Instant::NEVER {
            let now = host.next_load_at();
            let load = host.take_load(now);
            assert_eq!(load.backlog_bytes_max, 10_000);
            samples.push((now, load.backlog_bytes));
        }
        assert_eq!(samples, [(at(105), 6000), (at(110), 1000), (at(115), 0)]);
    }

    #[test]
    fn dropped_datagrams_cost_the_receiver_time() {
        // a datagram takes the receiver 0.6 ms, and the kernel 0.4 ms, so a thousand a second can be received
        let config = HostConfig {
            absorb: Some(Rate::from_bps(13_333_333).expect("a rate above zero")),
            socket_bytes_max: 10_000,
            arrival: Duration::from_micros(400),
            ..HostConfig::default()
        };
        let received = |per_second: u32| {
            let mut host = Host::new(config, 1);
            let gap = Duration::from_secs(1) / per_second;
            for nth in 0..per_second * 10 {
                host.absorb(Instant::ZERO + gap * nth, 1000);
            }
            let all = u64::from(per_second) * 10;
            all - host.counters().dropped_queue.packets
        };
        assert_eq!(received(990), 9900);
        // of each second, 0.8 s go to arrivals, and 0.2 s are left for 333 datagrams
        let late = received(2000);
        assert!((3200..3500).contains(&late), "{late}");
    }
}
