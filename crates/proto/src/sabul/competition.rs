//! Signs that other flows use the path, and this flow's share of it.
//!
//! A flow that is alone makes its queue itself. The queue begins when the rate exceeds that of the path, and a lower
//! rate ends it. Meanwhile, packets arrive at the rate of the path. So there are others if
//!
//! - a queue lasts although the rate is clearly below that of the path,
//! - packets arrive at another rate when the path is full: less than it carries, or more than the last time,
//! - the start-up meets congestion although the rate was measured before.
//!
//! The rate of the path is the highest rate that was measured, or at which packets have arrived. It is forgotten after
//! 10 to 20 seconds, since a path may become slower, unless others fill the path for all that time.
//!
//! A rate that an earlier transfer has measured is only likely. It counts for 10 seconds, until packets arrive faster.
//! Then the rate of the path is unknown.

use core::time::Duration;

use lighthaul_base::Instant;

/// Signs of other flows. Rates are in bits per second.
// fields: state of one judgment, which outlasts an object
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competition {
    /// Highest rate of the previous period, or the rate that was measured before the transfer.
    previous: u64,
    /// Highest rate of the present period.
    present: u64,
    /// Latest arrival rate.
    arrived: u64,
    arrived_at: Instant,
    /// True if something else than the path limited the rate in the present window.
    is_limited: bool,
    /// Lowest arrival rate at a reduction of the rate in the present period.
    full_least: u64,
    /// End of the present period.
    ends: Instant,
    /// Source of the path's rate.
    source: Source,
    /// Time since which a queue lasts that this flow does not make.
    queued_since: Option<Instant>,
    /// Latest time at which other flows were seen.
    seen: Option<Instant>,
    /// True if others made a queue in the present period. Then the rate of the path is not forgotten.
    is_shared: bool,
    /// Part of what this flow has above its fair share, in thousandths: zero for a small share, and 1000 for most of the
    /// path. None without other flows, and on a path of which nothing was measured.
    excess: Option<u16>,
}

/// Source of the path's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Nothing was measured: the highest arrival rate is only a lower bound.
    Arrivals,
    /// An earlier transfer measured less, or the memory is old. The highest arrival rate is a lower bound.
    Outgrown,
    /// Rate that an earlier transfer measured.
    Memory,
    /// Rate measured before the transfer.
    Measurement,
}

impl Competition {
    /// State for a path of unknown rate.
    pub const UNKNOWN: Self = Self {
        previous: 0,
        present: 0,
        arrived: 0,
        arrived_at: Instant::ZERO,
        is_limited: false,
        full_least: u64::MAX,
        ends: Instant::ZERO,
        source: Source::Arrivals,
        queued_since: None,
        seen: None,
        is_shared: false,
        excess: None,
    };

    /// Returns the state for a path of a measured rate.
    pub const fn measured(bps: u64) -> Self {
        Self {
            previous: bps,
            source: Source::Measurement,
            ..Self::UNKNOWN
        }
    }

    /// Returns the state for a path whose rate an earlier transfer measured.
    pub const fn remembered(bps: u64) -> Self {
        Self {
            source: Source::Memory,
            ..Self::measured(bps)
        }
    }

    /// Records the rate at which packets have arrived.
    pub(super) fn handle_arrivals(&mut self, now: Instant, bps: u64) {
        if self.ends == Instant::ZERO {
            self.ends = now + PERIOD;
        }
        let is_memory = self.source == Source::Memory;
        if is_memory && (now >= self.ends || self.exceeds_path(bps as f64)) {
            // the memory has not been confirmed, or is wrong
            self.source = Source::Outgrown;
        }
        if now >= self.ends {
            if !self.is_shared {
                self.previous = self.present;
                self.present = 0;
            }
            (self.full_least, self.is_shared) = (u64::MAX, false);
            self.ends = now + PERIOD;
        }
        self.present = self.present.max(bps);
        if !core::mem::take(&mut self.is_limited) {
            (self.arrived, self.arrived_at) = (bps, now);
        }
    }

    /// Forgets the arrival rates of the latest window and of the present one, since something else than the path limits
    /// them.
    pub(super) const fn forget_arrivals(&mut self) {
        self.arrived_at = Instant::ZERO;
        self.is_limited = true;
    }

    /// Looks for a queue that this flow does not make. `is_queued` is true if the queue is longer than by chance, and
    /// `patience` is the time in which a queue of this flow would end.
    pub(super) fn handle_queue(
        &mut self,
        now: Instant,
        bps: f64,
        is_queued: bool,
        patience: Duration,
    ) {
        if !is_queued || bps >= self.path_bps() * LOW {
            self.queued_since = None;
            return;
        }
        let since = *self.queued_since.get_or_insert(now);
        if now.since(since) >= patience {
            self.seen = Some(now);
            // the path may have become slower than it was measured
            self.is_shared |= bps < self.present as f64 * LOW;
        }
    }

    /// Judges a reduction of the rate because of congestion, and returns the greatest rate after it. `starting` is the
    /// latest arrival rate in a start-up.
    ///
    /// Alone, a start up to the rate of the path causes no congestion. So there are others, and half of the path is
    /// enough. Later, packets of a flow that is alone then arrive at the rate of the path, which is always the same.
    pub(super) fn handle_brake(&mut self, now: Instant, starting: Option<f64>) -> f64 {
        let arriving = match starting {
            Some(arriving) => arriving,
            None if self.arrived == 0 => 0.0,
            None => {
                self.judge_arrivals(now);
                return f64::MAX;
            }
        };
        let is_full = match self.source {
            Source::Arrivals | Source::Outgrown => true,
            // the start-up continues beyond a remembered rate until the path is full
            Source::Memory => arriving.max(self.arrived as f64) >= self.path_bps() * ARRIVED_PART,
            Source::Measurement => false,
        };
        if is_full {
            return f64::MAX;
        }
        self.seen = Some(now);
        self.path_bps() / 2.0
    }

    /// Looks for others by the arrival rate when the path is full.
    fn judge_arrivals(&mut self, now: Instant) {
        if now.since(self.arrived_at) >= FRESH {
            return;
        }
        let arrived = self.arrived as f64;
        self.full_least = self.full_least.min(self.arrived);
        let is_less = arrived < self.path_bps() * ARRIVED_PART;
        let is_more = arrived * ARRIVED_PART > self.full_least as f64;
        if is_less || is_more {
            self.seen = Some(now);
        }
    }

    /// Returns the time for which others count as present after they were seen: that in which CUBIC regains its window
    /// after a loss (RFC 9438, section 4.2), if it had the whole path.
    fn memory(&self, rtt: Duration, packet_bytes: f64) -> Duration {
        let window = self.path_bps() * rtt.as_secs_f64() / 8.0 / packet_bytes;
        let regained = Duration::from_secs_f64(libm::cbrt(window * REGAINED));
        regained.clamp(MEMORY_MIN, MEMORY_MAX)
    }

    /// Returns the highest rate at which the path has carried packets of this flow, if others use the path.
    pub(super) fn carried_beside_others(&self) -> Option<u64> {
        self.are_others().then(|| self.previous.max(self.present))
    }

    /// Judges whether others use the path, and how much of it this flow has.
    ///
    /// The share of a path that an earlier transfer did not measure well enough counts as small. The highest arrival rate
    /// is only what others have left, so a share of it would always be large: the flow would yield, its arrivals would
    /// fall, and it would yield again.
    pub(super) fn judge(&mut self, now: Instant, bps: f64, (rtt, packet_bytes): (Duration, f64)) {
        let memory = self.memory(rtt, packet_bytes);
        let are_others = self.seen.is_some_and(|at| now.since(at) < memory);
        let is_judged = are_others && self.source != Source::Arrivals;
        self.excess = is_judged.then(|| {
            let above = bps / self.path_bps() - SHARE_LEAST;
            let part = above / (SHARE_MOST - SHARE_LEAST);
            let most = match self.source {
                Source::Arrivals | Source::Outgrown => 0.0,
                Source::Memory => EXCESS_REMEMBERED,
                Source::Measurement => 1.0,
            };
            ((part.clamp(0.0, most) * 1000.0) as i16).cast_unsigned()
        });
    }

    /// True if others use the path, of which something was measured.
    pub(super) const fn are_others(&self) -> bool {
        self.excess.is_some()
    }

    /// True if others use the path, and this flow has more than its fair share.
    pub(super) const fn is_greedy(&self) -> bool {
        matches!(self.excess, Some(500..))
    }

    /// Returns the factors of the increase and of the decrease of the rate.
    pub(super) fn factors(&self) -> (f64, f64) {
        match self.excess {
            None => (1.0, 1.0),
            Some(milli) => {
                let part = f64::from(milli) / 1000.0;
                (INCREASE * (1.0 - part), DECREASE + DECREASE_GREEDY * part)
            }
        }
    }

    /// True if a rate is clearly above that of the path.
    fn exceeds_path(&self, bps: f64) -> bool {
        bps * ARRIVED_PART > self.path_bps()
    }

    fn path_bps(&self) -> f64 {
        self.previous.max(self.present) as f64
    }
}

/// Share of the path up to which this flow does not yield to others.
const SHARE_LEAST: f64 = 0.4;
/// Share of the path from which this flow yields most.
const SHARE_MOST: f64 = 0.7;
/// Maximum excess by a remembered rate. A rate that is too low would let the flow yield until it stands still.
const EXCESS_REMEMBERED: f64 = 0.5;
/// Factor of the increase beside others, for a flow with a small share. A flow with most of the path does not increase.
const INCREASE: f64 = 2.5;
/// Factor of the decrease beside others, for a flow with a small share.
const DECREASE: f64 = 0.25;
/// Increase of [`DECREASE`] for a flow that has most of the path.
const DECREASE_GREEDY: f64 = 2.75;
/// Part of the path's rate below which this flow makes no queue.
const LOW: f64 = 0.85;
/// Part of the path's rate at which packets of a flow that is alone arrive when the path is full.
const ARRIVED_PART: f64 = 0.93;
/// Time after which an arrival rate no longer counts.
const FRESH: Duration = Duration::from_millis(200);
/// Reduction of CUBIC by a loss, divided by its scale (RFC 9438, section 5).
const REGAINED: f64 = 0.75;
/// Minimum time for which others count as present.
const MEMORY_MIN: Duration = Duration::from_secs(3);
/// Maximum time for which others count as present.
const MEMORY_MAX: Duration = Duration::from_secs(10);
/// Period of the highest rate.
const PERIOD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use lighthaul_base::Rate;

    use super::*;

    const PATH: f64 = 200e6;
    const STEP: Duration = Duration::from_millis(10);
    const PATIENCE: Duration = Duration::from_millis(200);

    /// Returns the state for a path that was measured at a part of its rate.
    fn measured(part: f64) -> Competition {
        Competition::measured(rate_of(PATH * part).as_bps())
    }

    /// Returns a rate in bits per second.
    fn rate_of(bps: f64) -> Rate {
        Rate::from_bps((bps as i64).cast_unsigned()).unwrap()
    }

    /// Flow at a rate, with a report each 10 ms.
    struct Run {
        competition: Competition,
        now: Instant,
    }

    impl Run {
        fn measured() -> Self {
            Self {
                competition: measured(1.0),
                now: Instant::ZERO + Duration::from_secs(1),
            }
        }

        /// Continues for a time at a part of the path's rate.
        fn pass(&mut self, millis: u32, part: f64, is_queued: bool) -> &mut Self {
            for _ in 0..millis / 10 {
                self.now += STEP;
                let bps = PATH * part;
                self.competition
                    .handle_arrivals(self.now, rate_of(bps.min(PATH)).as_bps());
                self.competition
                    .handle_queue(self.now, bps, is_queued, PATIENCE);
                self.judge(part);
            }
            self
        }

        fn judge(&mut self, part: f64) {
            let path = (Duration::from_millis(20), 1500.0);
            self.competition.judge(self.now, PATH * part, path);
        }

        /// Lowers the rate because of congestion.
        fn brake(&mut self) -> &mut Self {
            self.competition.handle_brake(self.now, None);
            let part = self.competition.arrived as f64 / PATH;
            self.judge(part);
            self
        }

        fn are_others(&self) -> bool {
            self.competition.are_others()
        }
    }

    #[test]
    fn queue_that_a_lower_rate_ends_is_of_this_flow() {
        let mut run = Run::measured();
        for _ in 0..20 {
            run.pass(500, 1.05, true).brake();
            run.pass(150, 0.8, true);
            run.pass(300, 0.8, false);
        }
        assert!(!run.are_others());
    }

    #[test]
    fn queue_that_lasts_at_a_low_rate_is_of_others_until_it_has_ended() {
        let mut run = Run::measured();
        assert!(run.pass(300, 0.6, true).are_others());
        // CUBIC with this path would regain its window in 6.3 seconds
        assert!(run.pass(6200, 0.6, false).are_others());
        assert!(!run.pass(200, 0.6, false).are_others());
    }

    #[test]
    fn full_path_at_another_rate_has_others() {
        for (part, before, now, expected) in [
            (1.0, 1.0, 1.0, false),
            (1.0, 1.0, 0.95, false),
            (1.0, 1.0, 0.9, true),
            (0.9, 0.9, 0.95, false),
            (0.9, 0.9, 1.0, true),
        ] {
            let mut run = Run {
                competition: measured(part),
                ..Run::measured()
            };
            run.pass(1000, before, false).brake();
            assert!(!run.are_others());
            run.pass(1000, now, false).brake();
            assert_eq!(run.are_others(), expected, "{before}, {now}");
            // nothing is known of a path that was not full
            run.competition.seen = None;
            run.pass(1000, 0.5, false).competition.forget_arrivals();
            assert!(!run.brake().are_others());
        }
    }

    #[test]
    fn congestion_in_the_start_up_to_a_known_rate_is_of_others() {
        let remembered = Competition::remembered(rate_of(PATH).as_bps());
        for (competition, arriving, expected) in [
            (measured(1.0), 0.6, true),
            (measured(1.0), 1.0, true),
            (remembered, 0.6, true),
            // the start-up continues beyond a remembered rate, and fills the path
            (remembered, 1.0, false),
            (Competition::UNKNOWN, 0.6, false),
        ] {
            let mut run = Run {
                competition,
                ..Run::measured()
            };
            let most = run.competition.handle_brake(run.now, Some(PATH * arriving));
            assert_eq!(most == PATH / 2.0, expected, "{most}");
            run.judge(1.0);
            assert_eq!(run.are_others(), expected);
        }
    }

    #[test]
    fn remembered_rate_counts_half_until_it_is_exceeded_or_old() {
        let begun = || {
            let mut run = Run {
                competition: Competition::remembered(rate_of(PATH * 0.5).as_bps()),
                ..Run::measured()
            };
            run.competition.handle_brake(run.now, Some(0.0));
            run
        };
        let mut run = begun();
        run.pass(1000, 0.5, false);
        assert_eq!(
            run.competition.factors(),
            (INCREASE / 2.0, DECREASE + DECREASE_GREEDY / 2.0)
        );
        assert!(run.competition.is_greedy());
        // the path carries more
        run.pass(100, 0.6, false);
        assert_eq!(run.competition.factors(), (INCREASE, DECREASE));
        let mut old = begun();
        old.pass(10_100, 0.4, true);
        assert!(old.are_others());
        assert_eq!(old.competition.factors(), (INCREASE, DECREASE));
    }

    #[test]
    fn flow_yields_the_more_the_more_it_has() {
        let mut run = Run::measured();
        let mut last = (f64::MAX, 0.0);
        for percent in [40, 50, 60, 70] {
            run.pass(300, f64::from(percent) / 100.0, true);
            let factors = run.competition.factors();
            assert!(factors.0 < last.0 && factors.1 > last.1, "{factors:?}");
            assert_eq!(run.competition.is_greedy(), percent >= 60);
            last = factors;
        }
        assert_eq!(last, (0.0, 3.0));
    }

    #[test]
    fn rate_of_a_path_is_forgotten_unless_others_fill_the_path() {
        let share = |run: &Run| PATH * 0.5 / run.competition.path_bps();
        let mut alone = Run::measured();
        alone.pass(25_000, 0.5, false);
        assert!((share(&alone) - 1.0).abs() < 1e-3);
        let mut beside = Run::measured();
        for _ in 0..30 {
            beside.pass(1000, 0.6, true).pass(1000, 0.5, true);
        }
        assert!(share(&beside) < 0.51, "{}", share(&beside));
        // a path that has become slower
        let mut slower = Run::measured();
        for _ in 0..60 {
            slower.pass(300, 0.52, true).brake().pass(200, 0.48, false);
        }
        assert!(share(&slower) > 0.9, "{}", share(&slower));
    }

    #[test]
    fn share_of_a_path_of_unknown_rate_is_unknown() {
        let mut run = Run {
            competition: Competition::UNKNOWN,
            ..Run::measured()
        };
        run.pass(1000, 0.5, false).pass(1000, 0.3, true);
        assert_eq!(run.competition.factors(), (1.0, 1.0));
    }
}
