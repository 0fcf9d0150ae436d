//! Second set of rate-control rules, [`super::Mode::Swift`]: fast start, tolerance of random loss, and fairness.
//!
//! Like the paper's rules it raises the rate every SYN interval and lowers it ("brakes") on congestion. It differs in
//! ten points:
//!
//! - The start-up doubles the rate each round trip until the queue grows, or the measured rate of the path is reached.
//!   Beyond a rate that is only remembered, it continues by a quarter each round trip.
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
//!   helps. Beside others it follows the queue within a few brakes.
//! - Beside others ([`Competition`]), the share of the path decides how fast the rate rises, and how far it falls. So a
//!   flow with most of the path leaves room to flows that rise slowly.
//! - After seconds without brake, queue or loss, the path is wider than it was. The rate grows by a quarter each round
//!   trip until one of them appears. Other flows of a full path cause them sooner.
//! - A delay that jumps farther than any burst of packets could lengthen the queue may be a longer route. If a pause of
//!   its own length does not shorten it, and it then stays constant, its delay becomes the base, and the rate returns.

use core::time::Duration;

use lighthaul_base::Instant;

use super::competition::Competition;
use super::config::{DelayJump, LossCount, Memory, SYN, rate_of};
use super::sample::{Interval, Loss};
use super::wire::{Ack, Clock};

/// State of the rules.
#[derive(Clone, Debug)]
// fields: state of one set of rules, which each sample reads and changes
pub(super) struct Swift {
    packet_bytes: f64,
    is_starting: bool,
    start_bps_max: f64,
    is_remembered: bool,
    /// Number of SYN intervals without rate reduction, queue or loss.
    calm: u32,
    /// Losses of the last SYN intervals.
    recent: RecentLoss,
    /// Losses of the line itself, counted while the queue is short.
    line: LossCount,
    /// Time of the latest rate reduction.
    lowered_at: Option<Instant>,
    /// First packet that was unsent at the latest reduction because of a loss.
    lowered_next: u64,
    /// Factor by which the target is raised because of competing traffic.
    target_factor: f64,
    rtt: Duration,
    /// Arrival rate over a long window.
    delivery: Delivery,
    /// Arrival rate over a short window, for the start-up.
    arriving: Delivery,
    queue: Queue,
    /// Jump of the delay that was not judged yet.
    doubt: Option<DelayJump>,
    competition: Competition,
}

impl Swift {
    pub(super) fn new(memory: &Memory, packet_bytes: u32) -> Self {
        Self {
            packet_bytes: f64::from(packet_bytes),
            is_starting: !memory.has_started,
            start_bps_max: memory.start_max.as_bps() as f64,
            is_remembered: memory.is_remembered,
            calm: memory.calm,
            recent: RecentLoss::default(),
            line: memory.line,
            lowered_at: memory.lowered_at,
            lowered_next: 0,
            // alone, a raised target is a mistake, which ends with the object
            target_factor: if memory.competition.are_others() {
                f64::from(memory.target_milli.max(1000)) / 1000.0
            } else {
                1.0
            },
            rtt: memory.rtt,
            delivery: Delivery::over(DELIVERY_MICROS, 0),
            arriving: Delivery::over(ARRIVING_MICROS, ARRIVING_PACKETS),
            queue: Queue::new(memory.delay_min, memory.longer),
            doubt: memory.doubt,
            competition: memory.competition,
        }
    }

    /// Returns `memory` with the start-up phase and the base delay filled in.
    pub(super) fn updated_memory(&self, memory: Memory) -> Memory {
        Memory {
            has_started: !self.is_starting,
            lowered_at: self.lowered_at,
            delay_min: self.queue.least,
            line: self.line,
            calm: self.calm,
            doubt: self.doubt,
            longer: self.queue.longer,
            target_milli: ((self.target_factor * 1000.0) as i32).cast_unsigned(),
            competition: self.competition,
            ..memory
        }
    }

    /// Returns the time by which the route has become longer since its round-trip time was measured.
    pub(super) const fn longer(&self) -> Duration {
        self.queue.longer
    }

    /// Returns the rate after a SYN interval.
    pub(super) fn after_interval(&mut self, bps: f64, interval: &Interval) -> f64 {
        self.rtt = interval.rtt;
        self.recent.add(interval);
        if self.queue.is_short(bps) {
            self.line = self.line.plus(interval.sent, interval.lost);
        }
        if !self.queue.is_short(bps) || self.recent.ratio() > CALM_LOSS {
            self.calm = 0;
        }
        if interval.is_limited_elsewhere {
            self.competition.forget_arrivals();
            return bps;
        }
        let syn = SYN.as_secs_f64();
        let rounds = syn / interval.rtt.max(ROUND_MIN).as_secs_f64();
        if self.is_starting {
            if bps >= self.start_bps_max && self.is_remembered {
                return bps * (1.0 + SEARCH * rounds);
            }
            let raised = bps * (1.0 + core::f64::consts::LN_2 * rounds);
            self.is_starting = self.is_remembered || raised < self.start_bps_max;
            return raised.min(self.start_bps_max).max(bps);
        }
        self.calm = self.calm.saturating_add(1);
        if !self.competition.are_others()
            && SYN * self.calm >= CALM_MIN.max(interval.rtt * CALM_RTTS)
        {
            return bps * (1.0 + SEARCH * rounds);
        }
        let room = 1.0 - self.queue.length().as_secs_f64() / self.target(bps).as_secs_f64();
        let increase = INCREASE * BPS_UNIT * libm::pow(bps / BPS_UNIT, INCREASE_POWER);
        let increase = increase * self.competition.factors().0;
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
        let is_usual = lately <= usual && !self.competition.is_greedy();
        let is_line = lately < loss_max && (self.queue.is_short(bps) || is_usual);
        if is_old || is_line {
            return (bps, Duration::ZERO);
        }
        self.lowered_next = loss.next;
        self.brake(now, bps)
    }

    /// Returns the rate after an ACK, and the time to freeze.
    pub(super) fn after_ack(&mut self, now: Instant, bps: f64, ack: &Ack) -> (f64, Duration) {
        if self.delivery.handle_ack(ack)
            && let Some(arrived) = self.delivery.bps(self.packet_bytes)
        {
            self.competition
                .handle_arrivals(now, rate_of(arrived).as_bps());
        }
        self.arriving.handle_ack(ack);
        self.queue.handle_ack(now, bps, ack);
        self.watch_others(now, bps);
        if !self.queue.is_short(bps) {
            self.calm = 0;
        }
        if let Some(doubt) = self.doubt {
            if now < doubt.frozen_till + LONGER_MAX {
                return (self.judge(bps, doubt, ack), Duration::ZERO);
            }
            // no packet that left after the pause was reported: the doubt must not last
            self.doubt = None;
            self.queue.jumped = None;
        }
        let is_short = self.queue.length() < target(bps) / 2;
        if is_short && !self.competition.are_others() {
            self.target_factor = 1.0;
        } else if is_short || self.competition.is_greedy() {
            self.target_factor = (self.target_factor * TARGET_FACTOR_DECAY).max(1.0);
        }
        if self.queue.length() <= self.target(bps) {
            return (bps, Duration::ZERO);
        }
        let before = self.lowered_at;
        let above = self.queue.length().as_secs_f64() / self.target(bps).as_secs_f64();
        let braked = self.brake(now, bps);
        if before != self.lowered_at && self.queue.has_jumped() {
            self.doubt = Some(DelayJump {
                rate: rate_of(bps),
                micros: self.queue.micros,
                frozen_till: now + braked.1,
            });
        } else if before != self.lowered_at && !self.competition.is_greedy() {
            // the previous brake did not help: another flow fills the queue
            self.raise_target(above);
        }
        braked
    }

    /// Raises the target after a brake that did not help. `above` is the queueing delay as a multiple of the target. Beside
    /// others, the target follows a queue that is much longer, so that the rate does not fall many times before.
    fn raise_target(&mut self, above: f64) {
        let step = if self.competition.are_others() {
            libm::pow(above, TARGET_FACTOR_POWER).max(TARGET_FACTOR_STEP)
        } else {
            TARGET_FACTOR_STEP
        };
        self.target_factor = (self.target_factor * step).min(TARGET_FACTOR_MAX);
    }

    /// Judges a jump of the delay by the packets that follow the pause. If all of them still have the same delay, it is
    /// the delay of the route; the rate before the reduction is then restored. Returns the rate.
    fn judge(&mut self, bps: f64, doubt: DelayJump, ack: &Ack) -> f64 {
        let after = ack
            .sent_at()
            .since(Clock::at(doubt.frozen_till))
            .cast_signed();
        // the acknowledged packets arrived within an interval
        let [first, last] = [SYN, SYN + WATCH].map(|time| time.as_micros() as i32);
        if after < first {
            return bps;
        }
        if self.queue.micros.abs_diff(doubt.micros) > doubt.micros / SAME {
            self.doubt = None;
            self.queue.jumped = None;
            return bps;
        }
        if after < last {
            return bps;
        }
        self.doubt = None;
        self.queue.take_as_base(ack.delay);
        bps.max(doubt.rate.as_bps() as f64)
    }

    /// Looks for other flows, and judges this flow's share of the path.
    fn watch_others(&mut self, now: Instant, bps: f64) {
        let patience = PATIENCE + self.rtt * 2 + self.queue.length();
        let is_queued = self.queue.length() >= target(bps) / 2;
        self.competition.handle_queue(now, bps, is_queued, patience);
        self.competition
            .judge(now, bps, (self.rtt, self.packet_bytes));
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
        let most = if self.queue.is_short(bps) {
            // the loss of a line or of a policer says nothing about others
            bps
        } else {
            let arriving = self.arriving.bps(self.packet_bytes).unwrap_or_default();
            let starting = self.is_starting.then_some(arriving);
            self.competition.handle_brake(now, starting)
        };
        // in the start-up the longer average lags behind the rate, which has doubled since
        if self.is_starting
            && let Some(arriving) = self.arriving.bps(self.packet_bytes)
        {
            delivered = delivered.max(arriving);
        }
        // after the start-up, the arrival rate may be low only because little was sent, unless most of it was lost
        let lately = self.recent.ratio();
        let left = if lately > LOSS_HEAVY {
            1.0 - lately
        } else {
            1.0
        };
        let least = left
            * bps
            * if self.is_starting {
                ARRIVED_LEAST_START
            } else {
                ARRIVED_LEAST
            };
        self.is_starting = false;
        self.calm = 0;
        // a route that has only become longer loses nothing
        self.doubt = None;
        self.lowered_at = Some(now);
        let freeze = self.queue.length().min(FREEZE_MAX);
        // the farther above its target, the deeper; the fastest flow of a queue is the farthest above
        let above = self.queue.length().as_secs_f64() / self.target(bps).as_secs_f64();
        let fall = (FALL * above).clamp(FALL_LEAST, FALL_MOST);
        let fall = fall * self.competition.factors().1;
        let fall = 1.0 - fall;
        ((delivered.clamp(least, bps) * fall).min(most), freeze)
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
    /// Minimum length of the window in microseconds.
    micros: u32,
    /// Minimum number of packets in the window.
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

    /// Takes an ACK. Returns true at the end of a window.
    fn handle_ack(&mut self, ack: &Ack) -> bool {
        let Some((clock, received)) = self.since else {
            self.since = Some((ack.clock, ack.received));
            return false;
        };
        let micros = ack.clock.since(clock);
        let is_over = micros >= self.micros;
        if is_over {
            let packets = ack.received.saturating_sub(received);
            let is_enough = packets >= self.packets;
            self.packets_per_second =
                is_enough.then(|| f64::from(packets) * 1e6 / f64::from(micros));
            self.since = Some((ack.clock, ack.received));
        }
        is_over
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
    /// Minimum of the present period. `least` is the minimum of the present and the previous period.
    present: Option<u32>,
    /// End of the present period.
    ends: Instant,
    micros: u32,
    /// Delay in the latest ACK in microseconds, with the time at which its packets were sent.
    latest: Option<(u32, Clock)>,
    /// Queueing delay in microseconds below which a jump of the delay has ended; none without a jump.
    jumped: Option<u32>,
    /// Time by which the route has become longer.
    longer: Duration,
}

impl Queue {
    const fn new(least: Option<u32>, longer: Duration) -> Self {
        Self {
            least,
            present: least,
            ends: Instant::ZERO,
            micros: 0,
            latest: None,
            jumped: None,
            longer,
        }
    }

    fn handle_ack(&mut self, now: Instant, bps: f64, ack: &Ack) {
        let before = self.least;
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
        if let Some(before) = before {
            let shorter = before.wrapping_sub(least).cast_signed().max(0);
            let shorter = Duration::from_micros(shorter.unsigned_abs().into());
            self.longer = self.longer.saturating_sub(shorter);
        }
        self.look_for_jump(bps, ack);
    }

    /// Notes a delay that rises faster than a queue can grow. Other flows would have to send a burst at a multiple of
    /// the line's rate, with more bytes than they have in flight.
    fn look_for_jump(&mut self, bps: f64, ack: &Ack) {
        let sent_at = ack.sent_at();
        if let Some((delay, before)) = self.latest {
            let rise = ack.delay.wrapping_sub(delay).cast_signed();
            let time = sent_at.since(before).cast_signed().max(0);
            let bytes = f64::from(rise) / 1e6 * bps / 8.0;
            if rise >= JUMP_MIN && bytes >= JUMP_BYTES && rise > time.saturating_mul(JUMP_SLOPE) {
                self.jumped = Some(self.micros / 2);
            }
        }
        if self.jumped.is_some_and(|short| self.micros < short) {
            self.jumped = None;
        }
        self.latest = Some((ack.delay, sent_at));
    }

    const fn has_jumped(&self) -> bool {
        self.jumped.is_some()
    }

    /// Takes the present delay as that of the route.
    fn take_as_base(&mut self, delay: u32) {
        self.longer = (self.longer + self.length()).min(LONGER_MAX);
        self.least = Some(delay);
        self.present = Some(delay);
        self.micros = 0;
        self.jumped = None;
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

/// Target queueing delay at the rate [`BPS_UNIT`].
const TARGET: Duration = Duration::from_micros(1900);
/// Exponent by which the target decreases with the rate.
const TARGET_POWER: f64 = 0.5;
/// Maximum of the target queueing delay.
const TARGET_MAX: Duration = Duration::from_millis(250);
/// Relative increase of the rate per second at the rate [`BPS_UNIT`].
const INCREASE: f64 = 0.17;
/// Exponent by which the absolute increase grows with the rate.
const INCREASE_POWER: f64 = 0.75;
/// Reference rate of [`TARGET`] and [`INCREASE`], in bits per second.
const BPS_UNIT: f64 = 1e9;
/// Relative decrease below the arrival rate for each multiple of the target in the queueing delay.
const FALL: f64 = 0.045;
/// Minimum relative decrease below the arrival rate.
const FALL_LEAST: f64 = 0.08;
/// Maximum relative decrease below the arrival rate.
const FALL_MOST: f64 = 0.16;
/// Time for which a queue lasts that this flow makes, in addition to two round trips and its own length.
const PATIENCE: Duration = Duration::from_millis(150);
/// Factor of the raised target in each ACK at a short queue beside other flows.
const TARGET_FACTOR_DECAY: f64 = 0.995;
/// Lower bound of the arrival rate after the start-up, as a fraction of the sending rate.
const ARRIVED_LEAST: f64 = 0.75;
/// Lower bound of the arrival rate during the start-up, as a fraction of the sending rate.
const ARRIVED_LEAST_START: f64 = 0.25;
/// Minimum factor by which the target grows whenever a lower rate does not help.
const TARGET_FACTOR_STEP: f64 = 1.5;
/// Exponent by which that factor grows with the queueing delay beside others. With one, a queue that others make for a
/// moment would raise the target for long.
const TARGET_FACTOR_POWER: f64 = 0.75;
/// Maximum factor by which the target is raised in total.
const TARGET_FACTOR_MAX: f64 = 1000.0;
/// Minimum time between two rate reductions.
const HOLD_MIN: Duration = Duration::from_millis(500);
/// Maximum pause after a rate reduction.
const FREEZE_MAX: Duration = Duration::from_millis(500);
/// Growth of the rate each round trip in a search (logarithm of 1.25).
const SEARCH: f64 = 0.223;
/// Minimum time without rate reduction, queue or loss before a search.
const CALM_MIN: Duration = Duration::from_secs(3);
/// Minimum number of round trips without rate reduction, queue or loss before a search.
const CALM_RTTS: u32 = 30;
/// Fraction of lost packets above which a search ends.
const CALM_LOSS: f64 = 0.001;
/// Minimum jump of the delay, in microseconds.
const JUMP_MIN: i32 = 10_000;
/// Minimum ratio of a jump of the delay to the time between its packets.
const JUMP_SLOPE: i32 = 4;
/// Minimum number of bytes that this flow sends in the time of a jump.
const JUMP_BYTES: f64 = 256_000.0;
/// Time after a pause during which the delay must stay equal, so that it counts as the delay of a longer route.
const WATCH: Duration = Duration::from_millis(100);
/// Divisor of the jump: delays that differ by less than this part of the jump count as equal.
const SAME: u32 = 16;
/// Greatest lengthening of a route.
const LONGER_MAX: Duration = Duration::from_secs(10);
/// Minimum time in which the start-up doubles the rate.
const ROUND_MIN: Duration = Duration::from_millis(50);
/// Loss that counts as congestion at any queueing delay.
const LOSS_MAX: f64 = 0.05;
/// Loss that counts as congestion at round-trip times below [`NEAR`]. It is lower than [`LOSS_MAX`], since TCP flows
/// that share a small buffer cause losses of a few percent themselves. Their queue is short again before its delay is
/// reported.
const LOSS_MAX_NEAR: f64 = 0.015;
/// Loss at which the rate may fall to the arrival rate in one step.
const LOSS_HEAVY: f64 = 0.55;
/// Round-trip time below which [`LOSS_MAX_NEAR`] applies.
const NEAR: Duration = Duration::from_millis(10);
/// Weight of the latest SYN interval in the average loss.
const LOSS_WEIGHT: f64 = 1.0 / 32.0;
/// Factor by which the loss of some hundred milliseconds may exceed the mean by chance.
const LOSS_USUAL: f64 = 2.0;
/// Number of packets from which the loss of the line is known.
const LINE_PACKETS: u64 = 1 << 16;
/// A delay below 1/8 of the target counts as a short queue.
const SHORT: u32 = 8;
/// Averaging window of the arrival rate, in microseconds.
const DELIVERY_MICROS: u32 = 95_000;
/// Averaging window in the start-up, in microseconds: a single ACK interval, if it covers enough packets.
const ARRIVING_MICROS: u32 = 5_000;
/// Minimum number of packets in the averaging window of the start-up.
const ARRIVING_PACKETS: u32 = 16;
/// Period of the minimum delay.
const PERIOD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use lighthaul_base::Rate;

    const RTT: Duration = Duration::from_millis(20);
    const PACKET_BYTES: u32 = 1500;

    /// Rules at a rate, with an ACK and an interval each 10 ms. The delay is a function of the time.
    struct Run {
        swift: Swift,
        bps: f64,
        millis: u64,
        received: u32,
        frozen_till: Instant,
    }

    impl Run {
        fn at(mbps: u64) -> Self {
            let memory = Memory {
                has_started: true,
                ..Memory::new(Rate::from_mbps(mbps), RTT)
            };
            Self {
                swift: Swift::new(&memory, PACKET_BYTES),
                bps: mbps as f64 * 1e6,
                millis: 1000,
                received: 0,
                frozen_till: Instant::ZERO,
            }
        }

        /// Continues until a time. `delay` is the delay in microseconds of packets that arrive at a time, of which the
        /// second argument is the end of the latest pause.
        fn till(&mut self, millis: u64, delay: impl Fn(u64, Instant) -> u32) -> &mut Self {
            while self.millis < millis {
                self.millis += 10;
                let now = Instant::ZERO + Duration::from_millis(self.millis);
                let micros = delay(self.millis, self.frozen_till);
                let packets = (self.bps * 0.01 / 8.0 / f64::from(PACKET_BYTES)) as i64;
                self.received += packets.unsigned_abs() as u32;
                let ack = Ack {
                    received: self.received,
                    clock: Clock::at(now),
                    delay: micros,
                    ..Ack::default()
                };
                let (bps, freeze) = self.swift.after_ack(now, self.bps, &ack);
                if freeze > Duration::ZERO {
                    self.frozen_till = now + freeze;
                }
                self.bps = self.swift.after_interval(bps, &interval(0));
            }
            self
        }

        fn mbps(&self) -> f64 {
            self.bps / 1e6
        }
    }

    fn interval(lost: u64) -> Interval {
        Interval {
            sent: 1000,
            lost,
            is_limited_elsewhere: false,
            rtt: RTT,
        }
    }

    fn millis_of(at: Instant) -> u64 {
        at.since(Instant::ZERO).as_millis() as u64
    }

    #[test]
    fn longer_route_becomes_the_base_and_the_rate_returns() {
        let mut run = Run::at(200);
        run.till(2000, |_, _| 10_000);
        let before = run.mbps();
        run.till(2100, |_, _| 100_000);
        assert!(run.mbps() < before * 0.95, "{}", run.mbps());
        assert!(run.swift.doubt.is_some());
        run.till(2400, |_, _| 100_000);
        assert!(run.mbps() >= before, "{} after {before}", run.mbps());
        assert_eq!(run.swift.queue.micros, 0);
        assert_eq!(run.swift.longer(), Duration::from_millis(90));
        // the route of before
        run.till(2500, |_, _| 10_000);
        assert_eq!(run.swift.longer(), Duration::ZERO);
    }

    #[test]
    fn doubt_ends_without_reports_of_later_packets() {
        let mut run = Run::at(200);
        run.till(2000, |_, _| 10_000);
        // each report is about packets that left before the pause
        let late = |millis: u64, paused| match millis_of(paused) {
            0 => 100_000,
            till => 100_000 + (millis.saturating_sub(till) * 1000) as u32,
        };
        run.till(2100, late);
        assert!(run.swift.doubt.is_some());
        run.till(9000, late);
        assert!(run.swift.doubt.is_some());
        run.till(13_000, late);
        assert!(run.swift.doubt.is_none());
    }

    #[test]
    fn queue_that_a_pause_shortens_is_no_longer_route() {
        let mut run = Run::at(200);
        run.till(2000, |_, _| 10_000);
        let before = run.mbps();
        // others fill the queue at once, and a pause empties a tenth of it
        let delay = |millis, paused| match millis_of(paused) {
            0 => 100_000,
            till if millis < till => 100_000,
            _ => 91_000,
        };
        run.till(2400, delay);
        assert!(run.swift.doubt.is_none() && !run.swift.queue.has_jumped());
        assert_eq!(run.swift.longer(), Duration::ZERO);
        assert!(run.mbps() < before * 0.95, "{}", run.mbps());
    }

    #[test]
    fn queue_that_grows_is_no_jump() {
        let mut run = Run::at(200);
        run.till(2000, |_, _| 10_000);
        // four times the line's rate arrives
        run.till(2060, |millis, _| 10_000 + (millis - 2000) as u32 * 750);
        assert!(!run.swift.queue.has_jumped());
        // and a burst of 64 KB at a slow rate
        let mut slow = Run::at(10);
        slow.till(2000, |_, _| 10_000);
        slow.till(2010, |_, _| 62_000);
        assert!(!slow.swift.queue.has_jumped());
    }

    #[test]
    fn rate_grows_fast_only_after_seconds_of_calm() {
        let mut run = Run::at(100);
        run.till(3900, |_, _| 10_000);
        let slow = run.mbps();
        assert!(slow < 240.0, "{slow}");
        run.till(5000, |_, _| 10_000);
        let fast = run.mbps();
        assert!(fast > slow * 5.0, "{fast} after {slow}");
        // a queue ends the search
        run.till(5010, |_, _| 10_400);
        let ended = run.mbps();
        run.till(5500, |_, _| 10_000);
        assert!(run.mbps() < ended * 1.2, "{} after {ended}", run.mbps());
        // so does a loss
        for lost in [0, 50] {
            let mut run = Run::at(100);
            run.till(3800, |_, _| 10_000);
            for _ in 0..100 {
                run.bps = run.swift.after_interval(run.bps, &interval(lost));
            }
            assert_eq!(run.mbps() > 1000.0, lost == 0, "{}", run.mbps());
        }
    }

    #[test]
    fn target_follows_a_long_queue_of_others() {
        let mut swift = Run::at(200).swift;
        // a queue of ten times the target
        swift.raise_target(10.0);
        assert!((swift.target_factor - 1.5).abs() < 1e-9);
        // congestion before the measured rate is reached
        let now = Instant::ZERO + Duration::from_secs(1);
        swift.competition = Competition::measured(400_000_000);
        swift.competition.handle_brake(now, Some(0.0));
        swift.competition.judge(now, 2e8, (RTT, 1500.0));
        for (above, least) in [(1.1, 1.5 * 1.5), (10.0, 10.0), (10.0, 40.0)] {
            swift.raise_target(above);
            assert!(swift.target_factor >= least, "{}", swift.target_factor);
        }
    }

    #[test]
    fn start_continues_beyond_a_remembered_rate() {
        for is_remembered in [false, true] {
            let memory = Memory {
                is_remembered,
                ..Memory::measured(Rate::from_mbps(20), RTT)
            };
            let mut run = Run::at(10);
            run.swift = Swift::new(&memory, PACKET_BYTES);
            run.till(2000, |_, _| 10_000);
            assert_eq!(run.mbps() > 200.0, is_remembered, "{}", run.mbps());
            assert_eq!(run.swift.is_starting, is_remembered);
            run.till(2050, |_, _| 60_000);
            assert!(!run.swift.is_starting);
        }
    }
}
