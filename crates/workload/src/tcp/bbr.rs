//! BBR, version 1, as in Linux: the window and the pace follow the measured rate and the shortest
//! round-trip time.

use alloc::collections::VecDeque;
use core::time::Duration;

use lighthaul_base::{Instant, Rng};

use super::sample::{Sample, WINDOW_INITIAL};

/// State of the control. Rates are in packets a second, windows in packets.
#[derive(Debug)]
// fields: state of one control, which each acknowledgment reads and changes
pub(super) struct Bbr {
    mode: Mode,
    rng: Rng,
    rates: MaxRate,
    rounds: Rounds,
    rtt: MinRtt,
    pipe: FullPipe,
    /// Position in the cycle of gains, and its begin.
    cycle: (usize, Instant),
    pace: f64,
    window: f64,
    window_before: f64,
    /// True in the first round of a recovery.
    is_conserving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeRate,
    /// Measuring the round-trip time with an empty queue. The end, once the window is small.
    ProbeRtt(Option<Instant>),
}

impl Bbr {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            mode: Mode::Startup,
            rng: Rng::new(seed),
            rates: MaxRate::default(),
            rounds: Rounds::default(),
            rtt: MinRtt::default(),
            pipe: FullPipe::default(),
            cycle: (0, Instant::ZERO),
            pace: WINDOW_INITIAL / 1e-3 * HIGH_GAIN,
            window: WINDOW_INITIAL,
            window_before: 0.0,
            is_conserving: false,
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "a window is positive")]
    pub(super) const fn window(&self) -> u32 {
        let window = match self.mode {
            Mode::ProbeRtt(_) => self.window.min(WINDOW_MIN),
            Mode::Startup | Mode::Drain | Mode::ProbeRate => self.window,
        };
        window as u32
    }

    pub(super) const fn pace(&self) -> f64 {
        self.pace
    }

    pub(super) fn handle_ack(&mut self, sample: &Sample) {
        self.rounds.handle_ack(sample);
        if self.rounds.is_begin {
            self.is_conserving = false;
        }
        self.rates
            .insert(self.rounds.number, sample.packets_per_second);
        self.advance_cycle(sample);
        if self.rounds.is_begin && !self.pipe.is_full() {
            self.pipe.handle_round(self.rates.most());
        }
        if self.mode == Mode::Startup && self.pipe.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && f64::from(sample.in_flight) <= self.product(1.0) {
            self.begin_cycle(sample.now);
        }
        self.probe_rtt(sample);
        self.set_pace();
        self.set_window(sample);
    }

    pub(super) fn begin_recovery(&mut self, sample: &Sample) {
        self.save_window();
        self.is_conserving = true;
        self.rounds.ends = sample.delivered;
        self.window = f64::from(sample.in_flight + sample.acked).max(WINDOW_MIN);
    }

    pub(super) const fn end_recovery(&mut self) {
        self.is_conserving = false;
        self.window = self.window.max(self.window_before);
    }

    pub(super) fn handle_timeout(&mut self) {
        self.save_window();
        self.pipe = FullPipe::default();
        self.window = 1.0;
        if self.mode != Mode::Startup {
            self.pipe.count = FULL_ROUNDS;
        }
    }

    fn save_window(&mut self) {
        self.window_before = match self.mode {
            Mode::ProbeRtt(_) => self.window_before.max(self.window),
            Mode::Startup | Mode::Drain | Mode::ProbeRate => self.window,
        };
    }

    /// Returns a multiple of the product of rate and round-trip time.
    fn product(&self, gain: f64) -> f64 {
        self.rtt.least.map_or(WINDOW_INITIAL, |rtt| {
            gain * self.rates.most() * rtt.as_secs_f64()
        })
    }

    fn gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeRate => CYCLE[self.cycle.0],
            Mode::ProbeRtt(_) => 1.0,
        }
    }

    fn begin_cycle(&mut self, now: Instant) {
        self.mode = Mode::ProbeRate;
        // any phase but the one that drains
        let phase = CYCLE.len() as u64 - 1;
        let phase = (self.rng.below(phase) as usize + 2) % CYCLE.len();
        self.cycle = (phase, now);
    }

    fn advance_cycle(&mut self, sample: &Sample) {
        let (phase, since) = self.cycle;
        if self.mode != Mode::ProbeRate {
            return;
        }
        let is_whole = sample.now.since(since) > self.rtt.least.unwrap_or_default();
        let in_flight = f64::from(sample.in_flight + sample.acked);
        let is_over = match phase {
            0 => is_whole && (sample.lost > 0 || in_flight >= self.product(CYCLE[0])),
            1 => is_whole || in_flight <= self.product(1.0),
            _ => is_whole,
        };
        if is_over {
            self.cycle = ((phase + 1) % CYCLE.len(), sample.now);
        }
    }

    /// Empties the queue if the shortest round-trip time is old.
    fn probe_rtt(&mut self, sample: &Sample) {
        let is_old = self.rtt.update(sample);
        if is_old && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.window_before = self.window;
            self.mode = Mode::ProbeRtt(None);
        }
        match self.mode {
            Mode::ProbeRtt(None) if f64::from(sample.in_flight) <= WINDOW_MIN => {
                self.mode = Mode::ProbeRtt(Some(sample.now + PROBE_RTT_TIME));
                self.rounds.ends = sample.delivered;
            }
            Mode::ProbeRtt(Some(end)) if sample.now >= end => {
                self.rtt.seen = sample.now;
                self.window = self.window.max(self.window_before);
                if self.pipe.is_full() {
                    self.begin_cycle(sample.now);
                } else {
                    self.mode = Mode::Startup;
                }
            }
            Mode::ProbeRtt(_) | Mode::Startup | Mode::Drain | Mode::ProbeRate => {}
        }
    }

    fn set_pace(&mut self) {
        let Some(rtt) = self.rtt.least else {
            return;
        };
        let mut rate = self.rates.most();
        if self.rounds.number < 1 {
            rate = rate.max(WINDOW_INITIAL / rtt.as_secs_f64().max(1e-6));
        }
        let pace = rate * self.gain() * PACE_MARGIN;
        if self.pipe.is_full() || pace > self.pace || self.rounds.number < 2 {
            self.pace = pace.max(1.0);
        }
    }

    fn set_window(&mut self, sample: &Sample) {
        let acked = f64::from(sample.acked);
        if sample.lost > 0 {
            self.window = (self.window - f64::from(sample.lost)).max(1.0);
        }
        if self.is_conserving {
            self.window = self.window.max(f64::from(sample.in_flight) + acked);
            return;
        }
        let gain = match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeRate => WINDOW_GAIN,
            Mode::ProbeRtt(_) => 1.0,
        };
        let target = self.product(gain) + 3.0 * quantum(self.pace);
        if self.pipe.is_full() {
            self.window = (self.window + acked).min(target);
        } else if self.window < target || (sample.delivered as f64) < WINDOW_INITIAL {
            self.window += acked;
        }
        self.window = self.window.max(WINDOW_MIN);
    }
}

/// Returns the packets of one train at a pace: the packets of a millisecond, within bounds.
pub(super) fn quantum(pace: f64) -> f64 {
    (pace / 1000.0).clamp(2.0, TRAIN_MAX)
}

/// Largest rate of the last rounds.
#[derive(Debug, Default)]
struct MaxRate(VecDeque<(u64, f64)>);

impl MaxRate {
    fn insert(&mut self, round: u64, rate: f64) {
        while self.0.back().is_some_and(|(_, last)| *last <= rate) {
            self.0.pop_back();
        }
        self.0.push_back((round, rate));
        while self
            .0
            .front()
            .is_some_and(|(first, _)| first + RATE_ROUNDS < round)
        {
            self.0.pop_front();
        }
    }

    fn most(&self) -> f64 {
        self.0.front().map_or(0.0, |(_, rate)| *rate)
    }
}

/// Count of round trips.
#[derive(Debug, Default)]
struct Rounds {
    number: u64,
    /// Packets acknowledged when the present round began to be sent.
    ends: u64,
    is_begin: bool,
}

impl Rounds {
    const fn handle_ack(&mut self, sample: &Sample) {
        self.is_begin = sample.delivered_before >= self.ends;
        if self.is_begin {
            self.ends = sample.delivered;
            self.number += 1;
        }
    }
}

/// Shortest round-trip time of the last ten seconds.
#[derive(Debug, Default)]
struct MinRtt {
    least: Option<Duration>,
    seen: Instant,
}

impl MinRtt {
    /// Takes a sample. Returns true if the previous minimum was old.
    fn update(&mut self, sample: &Sample) -> bool {
        let is_old = sample.now.since(self.seen) > RTT_TIME;
        let is_old = self.least.is_some() && is_old;
        if is_old || self.least.is_none_or(|least| sample.rtt <= least) {
            self.least = Some(sample.rtt);
            self.seen = sample.now;
        }
        is_old
    }
}

/// Search for the round in which the rate no longer grows.
#[derive(Debug, Default)]
struct FullPipe {
    rate: f64,
    count: u32,
}

impl FullPipe {
    const fn is_full(&self) -> bool {
        self.count >= FULL_ROUNDS
    }

    fn handle_round(&mut self, rate: f64) {
        if rate >= self.rate * FULL_GROWTH {
            (self.rate, self.count) = (rate, 0);
        } else {
            self.count += 1;
        }
    }
}

/// Gain that doubles the rate each round trip: 2 / ln 2.
const HIGH_GAIN: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const WINDOW_GAIN: f64 = 2.0;
const WINDOW_MIN: f64 = 4.0;
const PACE_MARGIN: f64 = 0.99;
/// Packets of the longest train, of 64 KiB.
const TRAIN_MAX: f64 = 44.0;
/// Rounds of the largest rate.
const RATE_ROUNDS: u64 = 10;
const RTT_TIME: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Minimum growth of the rate in a round that counts as growth.
const FULL_GROWTH: f64 = 1.25;
/// Number of rounds without such growth after which the pipe counts as full.
const FULL_ROUNDS: u32 = 3;
