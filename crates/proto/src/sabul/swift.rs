//! Second set of rate-control rules, [`super::Mode::Swift`]: fast start, tolerance of random loss, and fairness.
//!
//! Like the paper's rules it raises the rate every SYN interval and lowers it ("brakes") on congestion. It differs in
//! seven points:
//!
//! - The start-up doubles the rate each round trip until the queue grows, or the measured rate of the path is reached.
//! - The flow window is at its maximum from the start. A window that opens with arriving packets would limit the rate
//!   without need, and the measured arrival rate would not reflect the path.
//! - It brakes when the *queueing delay* exceeds a [`target`], not only on loss. The delay is measured by the
//!   packets' timestamps. The target is shorter at a higher rate. So the fastest of several flows brakes first,
//!   regardless of the round-trip times, until all rates are equal.
//! - Braking sets the rate below the *arrival* rate, the lower the more the delay exceeds its target. It then freezes
//!   for the queueing delay, which is the same for all flows on the queue, instead of a round trip, which is not. The
//!   queue drains, so that later flows can measure the path's base delay.
//! - The increase is a power of the rate instead of a power of ten, and vanishes as the delay nears its target.
//! - Loss at a short queue counts as random loss of the line, unless there is much of it. A short queue is far below
//!   the target, since a small buffer may overflow before the target is reached. On paths
//!   of 10 ms and more, as much loss as usual at a short queue is random at a longer one, too.
//! - If braking does not shorten the queue, another flow such as TCP fills it, and the target grows until braking
//!   helps.

use core::time::Duration;

use lighthaul_base::Instant;

use super::config::{LossCount, Memory, SYN};
use super::sample::{Interval, Loss};
use super::wire::{Ack, Clock};

/// State of the rules.
#[derive(Clone, Debug)]
pub(super) struct Swift {
    packet_bytes: f64,
    is_starting: bool,
    start_bps_max: f64,
    /// Losses lately, and losses of the line.
    recent: RecentLoss,
    line: LossCount,
    /// Time of the latest brake, and first packet that was unsent then.
    lowered_at: Option<Instant>,
    lowered_next: u64,
    /// Factor by which the target is raised because of competing traffic.
    target_factor: f64,
    rtt: Duration,
    /// Recent arrival rate, averaged longer (`delivery`) and shorter for the start-up (`arriving`).
    delivery: Delivery,
    arriving: Delivery,
    queue: Queue,
}

impl Swift {
    pub(super) fn new(memory: &Memory, packet_bytes: u32) -> Self {
        Self {
            packet_bytes: f64::from(packet_bytes),
            is_starting: !memory.has_started,
            start_bps_max: memory.start_max.as_bps() as f64,
            recent: RecentLoss::default(),
            line: memory.line,
            lowered_at: memory.lowered_at,
            lowered_next: 0,
            target_factor: 1.0,
            rtt: memory.rtt,
            delivery: Delivery::over(DELIVERY_MICROS, 0),
            arriving: Delivery::over(ARRIVING_MICROS, ARRIVING_PACKETS),
            queue: Queue::new(memory.delay_min),
        }
    }

    /// Returns `memory` with the start-up phase and the base delay filled in.
    pub(super) const fn updated_memory(&self, memory: Memory) -> Memory {
        Memory {
            has_started: !self.is_starting,
            lowered_at: self.lowered_at,
            delay_min: self.queue.least,
            line: self.line,
            ..memory
        }
    }

    /// Returns the rate after a SYN interval.
    pub(super) fn after_interval(&mut self, bps: f64, interval: &Interval) -> f64 {
        self.rtt = interval.rtt;
        self.recent.add(interval);
        if self.queue.is_short(bps) {
            self.line = self.line.plus(interval.sent, interval.lost);
        }
        if interval.is_limited_elsewhere {
            return bps;
        }
        let syn = SYN.as_secs_f64();
        if self.is_starting {
            let round = interval.rtt.max(ROUND_MIN).as_secs_f64();
            let raised = bps * (1.0 + core::f64::consts::LN_2 * syn / round);
            self.is_starting = raised < self.start_bps_max;
            return raised.min(self.start_bps_max).max(bps);
        }
        let room = 1.0 - self.queue.length().as_secs_f64() / self.target(bps).as_secs_f64();
        let increase = INCREASE * BPS_UNIT * libm::pow(bps / BPS_UNIT, INCREASE_POWER);
        bps + increase * syn * room.max(0.0)
    }

    /// Returns the rate after a loss, and the time to freeze.
    pub(super) fn after_loss(&mut self, now: Instant, bps: f64, loss: Loss) -> (f64, Duration) {
        let is_old = self.lowered_at.is_some() && loss.number < self.lowered_next;
        let lately = self.recent.ratio();
        let (usual, loss_max) = if self.rtt < NEAR {
            (0.0, LOSS_MAX_NEAR)
        } else {
            (self.line.ratio() * LOSS_USUAL, LOSS_MAX)
        };
        let is_usual = self.queue.is_short(bps) || lately <= usual;
        let is_line = lately < loss_max && is_usual;
        if is_old || is_line {
            return (bps, Duration::ZERO);
        }
        self.lowered_next = loss.next;
        self.brake(now, bps)
    }

    /// Returns the rate after an ACK, and the time to freeze.
    pub(super) fn after_ack(&mut self, now: Instant, bps: f64, ack: &Ack) -> (f64, Duration) {
        self.delivery.handle_ack(ack);
        self.arriving.handle_ack(ack);
        self.queue.handle_ack(now, ack);
        if self.queue.length() < target(bps) / 2 {
            self.target_factor = 1.0;
        }
        if self.queue.length() <= self.target(bps) {
            return (bps, Duration::ZERO);
        }
        let before = self.lowered_at;
        let braked = self.brake(now, bps);
        if before != self.lowered_at {
            // the previous brake did not help: another flow fills the queue
            self.target_factor = (self.target_factor * TARGET_FACTOR_STEP).min(TARGET_FACTOR_MAX);
        }
        braked
    }

    fn target(&self, bps: f64) -> Duration {
        target(bps).mul_f64(self.target_factor)
    }

    fn brake(&mut self, now: Instant, bps: f64) -> (f64, Duration) {
        let hold = HOLD_MIN.max(self.rtt + self.queue.length());
        if self.lowered_at.is_some_and(|at| now.since(at) < hold) {
            return (bps, Duration::ZERO);
        }
        let mut delivered = self.delivery.bps(self.packet_bytes).unwrap_or(bps);
        // in the start-up the longer average lags behind the rate, which has doubled since
        if self.is_starting
            && let Some(arriving) = self.arriving.bps(self.packet_bytes)
        {
            delivered = delivered.max(arriving);
        }
        // after the start-up, the arrival rate may be low only because little was sent
        let least = bps
            * if self.is_starting {
                ARRIVED_LEAST_START
            } else {
                ARRIVED_LEAST
            };
        self.is_starting = false;
        self.lowered_at = Some(now);
        let freeze = self.queue.length().min(FREEZE_MAX);
        // the farther above its target, the deeper; the fastest flow of a queue is the farthest above
        let above = self.queue.length().as_secs_f64() / self.target(bps).as_secs_f64();
        let fall = 1.0 - (FALL * above).clamp(FALL_LEAST, FALL_MOST);
        (delivered.clamp(least, bps) * fall, freeze)
    }
}

/// Packets sent and lost in the last intervals, with less weight the older they are.
#[derive(Clone, Copy, Debug, Default)]
struct RecentLoss {
    sent: f64,
    lost: f64,
}

impl RecentLoss {
    fn add(&mut self, interval: &Interval) {
        self.sent += interval.sent as f64 - self.sent * LOSS_WEIGHT;
        self.lost += interval.lost as f64 - self.lost * LOSS_WEIGHT;
    }

    fn ratio(&self) -> f64 {
        self.lost / self.sent.max(1.0)
    }
}

impl LossCount {
    /// Counts more packets. Older ones weigh less and less.
    fn plus(self, sent: u64, lost: u64) -> Self {
        let (sent, lost) = (self.sent + sent, self.lost + lost);
        let half = if sent > LINE_PACKETS { 2 } else { 1 };
        Self {
            sent: sent / half,
            lost: lost / half,
        }
    }

    fn ratio(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// Returns the target queueing delay at a rate of `bps`.
fn target(bps: f64) -> Duration {
    let share = libm::pow(BPS_UNIT / bps, TARGET_POWER);
    Duration::from_secs_f64((TARGET.as_secs_f64() * share).min(TARGET_MAX.as_secs_f64()))
}

/// Arrival rate of packets, averaged over a window.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    /// Minimum length of the window in microseconds, and minimum number of packets in it.
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

/// Queueing delay: the delay of the packets less the minimum over the last 10 to 20 seconds.
#[derive(Clone, Copy, Debug)]
struct Queue {
    least: Option<u32>,
    /// Minimum of the present period, and its end. `least` is the minimum of the present and the previous period.
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

/// Returns the lesser of two clock differences, which wrap around.
const fn lesser(a: u32, b: u32) -> u32 {
    if b.wrapping_sub(a).cast_signed() < 0 {
        b
    } else {
        a
    }
}

/// Target queueing delay at [`BPS_UNIT`], the exponent of its decrease with the rate, and its maximum.
const TARGET: Duration = Duration::from_micros(1900);
const TARGET_POWER: f64 = 0.5;
const TARGET_MAX: Duration = Duration::from_millis(250);
/// Relative increase per second at [`BPS_UNIT`], and the exponent of the increase with the rate.
const INCREASE: f64 = 0.17;
const INCREASE_POWER: f64 = 0.75;
const BPS_UNIT: f64 = 1e9;
/// Relative decrease below the arrival rate at a delay of once the target, and its bounds.
const FALL: f64 = 0.045;
const FALL_LEAST: f64 = 0.08;
const FALL_MOST: f64 = 0.16;
/// Lower bound of the arrival rate as a fraction of the sending rate, later and in the start-up.
const ARRIVED_LEAST: f64 = 0.75;
const ARRIVED_LEAST_START: f64 = 0.25;
/// Growth of the target each time that braking does not help, and its limit.
const TARGET_FACTOR_STEP: f64 = 1.5;
const TARGET_FACTOR_MAX: f64 = 1000.0;
/// Minimum time between two brakes.
const HOLD_MIN: Duration = Duration::from_millis(500);
const FREEZE_MAX: Duration = Duration::from_millis(500);
/// Minimum time in which the start-up doubles the rate.
const ROUND_MIN: Duration = Duration::from_millis(50);
/// Loss that counts as congestion at any queueing delay. Within short round trips, less counts: flows of TCP that share a small buffer
/// cause losses of a few percent themselves. The queue is short again before its delay is reported.
const LOSS_MAX: f64 = 0.05;
const LOSS_MAX_NEAR: f64 = 0.015;
const NEAR: Duration = Duration::from_millis(10);
const LOSS_WEIGHT: f64 = 1.0 / 32.0;
/// Factor by which the loss of some hundred milliseconds may exceed the mean by chance.
const LOSS_USUAL: f64 = 2.0;
/// Packets from which the loss of the line is known.
const LINE_PACKETS: u64 = 1 << 16;
/// A delay below 1/8 of the target counts as a short queue.
const SHORT: u32 = 8;
/// Averaging window of the arrival rate.
const DELIVERY_MICROS: u32 = 95_000;
/// The same in the start-up: a single ACK interval, if it covers enough packets.
const ARRIVING_MICROS: u32 = 5_000;
const ARRIVING_PACKETS: u32 = 16;
/// Period of the minimum delay.
const PERIOD: Duration = Duration::from_secs(10);
