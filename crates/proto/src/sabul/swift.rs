//! The second set of rules, [`super::Mode::Swift`]: quick to begin, calm about random loss, fair.
//!
//! It keeps the paper's shape, a step every SYN interval and a brake, and differs in seven things.
//!
//! - It begins by doubling the rate each round trip, until the queue grows.
//! - The flow window is open from the start. One that opens as packets arrive holds the rate back without anybody's need,
//!   and what arrives meanwhile says nothing of the path.
//! - It brakes when the *queue* is longer than [`target`], and not only when a packet is lost: the packets'
//!   clocks tell how long the queue is. The target is shorter for who sends faster, so of several flows the
//!   fastest brakes first, whatever their round-trip times, until all are equal.
//! - Braking, it falls below what *arrived*, the deeper the farther the queue is above its target, and freezes
//!   for as long as the queue is, which is the same for all who share it, instead of a round trip, which is
//!   not. The queue drains, so that who comes later sees how short it can be.
//! - Its increase, a power of the rate and not a power of ten, ends as the queue nears the target.
//! - A loss while the queue is short is taken for the line's, and not for congestion, unless there is much of it.
//!   Short is far below the target, since a queue may hold less than that and lose before it is reached.
//! - Where braking does not help, somebody else fills the queue, say TCP, and the target grows until it does.

use core::time::Duration;

use lighthaul_base::Instant;

use super::config::{Memory, SYN};
use super::rate::{Interval, Loss};
use super::wire::{Ack, Clock};

/// The rules, and what they have seen.
#[derive(Clone, Debug)]
pub(super) struct Swift {
    packet_bytes: f64,
    starts: bool,
    loss_mean: f64,
    /// When the rate was last lowered, and the first packet never sent then.
    lowered_at: Option<Instant>,
    lowered_next: u64,
    /// How much longer than its target the queue may be.
    patience: f64,
    rtt: Duration,
    /// How fast packets arrived of late, and how fast they arrive while the rate doubles.
    delivery: Delivery,
    arriving: Delivery,
    queue: Queue,
}

impl Swift {
    pub(super) fn new(memory: &Memory, packet_bytes: u32) -> Self {
        Self {
            packet_bytes: f64::from(packet_bytes),
            starts: !memory.has_started,
            loss_mean: 0.0,
            lowered_at: None,
            lowered_next: 0,
            patience: 1.0,
            rtt: memory.rtt,
            delivery: Delivery::over(DELIVERY_MICROS, 0),
            arriving: Delivery::over(ARRIVING_MICROS, ARRIVING_PACKETS),
            queue: Queue::new(memory.delay_min),
        }
    }

    /// What it has learnt beside the rate.
    pub(super) const fn learnt(&self, memory: Memory) -> Memory {
        Memory {
            has_started: !self.starts,
            delay_min: self.queue.least,
            ..memory
        }
    }

    /// The rate after a SYN interval.
    pub(super) fn raised(&mut self, bps: f64, interval: &Interval) -> f64 {
        self.rtt = interval.rtt;
        if interval.sent > 0 {
            let loss = (interval.lost as f64 / interval.sent as f64).min(1.0);
            self.loss_mean += (loss - self.loss_mean) * LOSS_WEIGHT;
        }
        if interval.is_untried {
            return bps;
        }
        let syn = SYN.as_secs_f64();
        if self.starts {
            let round = interval.rtt.max(ROUND_MIN).as_secs_f64();
            return bps * (1.0 + core::f64::consts::LN_2 * syn / round);
        }
        let room = 1.0 - self.queue.length().as_secs_f64() / self.target(bps).as_secs_f64();
        let increase = INCREASE * BPS_UNIT * libm::pow(bps / BPS_UNIT, INCREASE_POWER);
        bps + increase * syn * room.max(0.0)
    }

    /// The rate after a loss, and how long to freeze.
    pub(super) fn lowered(&mut self, now: Instant, bps: f64, loss: Loss) -> (f64, Duration) {
        let is_old = self.lowered_at.is_some() && loss.number < self.lowered_next;
        let is_line = self.loss_mean < LOSS_MAX && self.queue.is_short(bps);
        if is_old || is_line {
            return (bps, Duration::ZERO);
        }
        self.lowered_next = loss.next;
        self.brake(now, bps)
    }

    /// The rate after an ACK, and how long to freeze.
    pub(super) fn heard(&mut self, now: Instant, bps: f64, ack: &Ack) -> (f64, Duration) {
        self.delivery.handle_ack(ack);
        self.arriving.handle_ack(ack);
        self.queue.handle_ack(now, ack);
        if self.queue.length() < target(bps) / 2 {
            self.patience = 1.0;
        }
        if self.queue.length() <= self.target(bps) {
            return (bps, Duration::ZERO);
        }
        let before = self.lowered_at;
        let braked = self.brake(now, bps);
        if before != self.lowered_at {
            // it did not help: somebody else fills the queue
            self.patience = (self.patience * PATIENCE_STEP).min(PATIENCE_MAX);
        }
        braked
    }

    fn target(&self, bps: f64) -> Duration {
        target(bps).mul_f64(self.patience)
    }

    fn brake(&mut self, now: Instant, bps: f64) -> (f64, Duration) {
        let hold = HOLD_MIN.max(self.rtt + self.queue.length());
        if self.lowered_at.is_some_and(|at| now.since(at) < hold) {
            return (bps, Duration::ZERO);
        }
        let mut delivered = self.delivery.bps(self.packet_bytes).unwrap_or(bps);
        // what arrived of late was sent before the rate had doubled, and doubled again
        if self.starts
            && let Some(arriving) = self.arriving.bps(self.packet_bytes)
        {
            delivered = delivered.max(arriving);
        }
        // but for the start, what arrived may have been little because little was sent
        let least = bps
            * if self.starts {
                ARRIVED_LEAST_START
            } else {
                ARRIVED_LEAST
            };
        self.starts = false;
        self.lowered_at = Some(now);
        let freeze = self.queue.length().min(FREEZE_MAX);
        // the farther above its target, the deeper: of those who share a queue, who sends fastest
        let above = self.queue.length().as_secs_f64() / self.target(bps).as_secs_f64();
        let fall = 1.0 - (FALL * above).clamp(FALL_LEAST, FALL_MOST);
        (delivered.clamp(least, bps) * fall, freeze)
    }
}

/// How long a queue may be for who sends at this rate.
fn target(bps: f64) -> Duration {
    let share = libm::pow(BPS_UNIT / bps, TARGET_POWER);
    Duration::from_secs_f64((TARGET.as_secs_f64() * share).min(TARGET_MAX.as_secs_f64()))
}

/// How fast packets arrive, over some time.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    /// So long at least, and so many packets.
    micros: u32,
    packets: u32,
    since: Option<(Clock, u32)>,
    packets_per_second: Option<f64>,
}

impl Delivery {
    const fn over(micros: u32, packets: u32) -> Self {
        Self {
            micros,
            packets,
            since: None,
            packets_per_second: None,
        }
    }

    fn handle_ack(&mut self, ack: &Ack) {
        let Some((clock, received)) = self.since else {
            self.since = Some((ack.clock, ack.received));
            return;
        };
        let micros = ack.clock.since(clock);
        if micros >= self.micros {
            let packets = ack.received.saturating_sub(received);
            let is_enough = packets >= self.packets;
            self.packets_per_second =
                is_enough.then(|| f64::from(packets) * 1e6 / f64::from(micros));
            self.since = Some((ack.clock, ack.received));
        }
    }

    fn bps(&self, packet_bytes: f64) -> Option<f64> {
        self.packets_per_second
            .map(|packets| packets * packet_bytes * 8.0)
    }
}

/// How long the queue is, from what packets take more than the quickest of the last seconds.
#[derive(Clone, Copy, Debug)]
struct Queue {
    least: Option<u32>,
    /// The least of the present period and of the one before, and when the present one ends.
    present: Option<u32>,
    ends: Instant,
    micros: u32,
}

impl Queue {
    const fn new(least: Option<u32>) -> Self {
        Self {
            least,
            present: least,
            ends: Instant::ZERO,
            micros: 0,
        }
    }

    fn handle_ack(&mut self, now: Instant, ack: &Ack) {
        if now >= self.ends {
            self.least = self.present;
            self.present = None;
            self.ends = now + PERIOD;
        }
        let present = lesser(self.present.unwrap_or(ack.delay), ack.delay);
        self.present = Some(present);
        let least = self.least.map_or(present, |least| lesser(least, present));
        self.least = Some(least);
        self.micros = ack.delay.wrapping_sub(least);
    }

    const fn length(&self) -> Duration {
        Duration::from_micros(self.micros as u64)
    }

    fn is_short(&self, bps: f64) -> bool {
        self.least.is_some() && self.length() < target(bps) / SHORT
    }
}

/// The lesser of two differences of clocks, which go round.
const fn lesser(a: u32, b: u32) -> u32 {
    if b.wrapping_sub(a).cast_signed() < 0 {
        b
    } else {
        a
    }
}

/// The queue that stops who sends at [`BPS_UNIT`], and the longest that does not stop anybody.
const TARGET: Duration = Duration::from_micros(1900);
const TARGET_POWER: f64 = 0.5;
const TARGET_MAX: Duration = Duration::from_millis(250);
/// How much of itself a rate of [`BPS_UNIT`] grows each second, and with which power of the rate that changes.
const INCREASE: f64 = 0.17;
const INCREASE_POWER: f64 = 0.75;
const BPS_UNIT: f64 = 1e9;
/// How deep it falls below what arrived: this for a queue as long as its target, within bounds.
const FALL: f64 = 0.045;
const FALL_LEAST: f64 = 0.08;
const FALL_MOST: f64 = 0.16;
/// The least part of a rate that counts as having arrived, at the start and later.
const ARRIVED_LEAST: f64 = 0.75;
const ARRIVED_LEAST_START: f64 = 0.25;
/// How the target grows while braking does not help, and how far.
const PATIENCE_STEP: f64 = 1.25;
const PATIENCE_MAX: f64 = 1000.0;
/// The shortest time between two brakes.
const HOLD_MIN: Duration = Duration::from_millis(500);
const FREEZE_MAX: Duration = Duration::from_millis(500);
/// The start doubles the rate in a round trip, or in this.
const ROUND_MIN: Duration = Duration::from_millis(50);
/// This much mean loss is congestion, whatever the queue.
const LOSS_MAX: f64 = 0.02;
const LOSS_WEIGHT: f64 = 1.0 / 32.0;
/// A queue of this part of the target says that the link is full.
const SHORT: u32 = 8;
/// Over how long an arriving rate is taken.
const DELIVERY_MICROS: u32 = 95_000;
/// The same at the start: from one ACK to the next, if it tells of enough packets.
const ARRIVING_MICROS: u32 = 5_000;
const ARRIVING_PACKETS: u32 = 16;
/// How long a quickest packet counts, once or twice.
const PERIOD: Duration = Duration::from_secs(10);
