//! TRC vector: consecutive steps, each with a rate, and the amount of data that they carry.
//!
//! [`Trc`] is the form in which schedulers promise capacity and senders follow it (VBLS paper).
//! Steps are sorted and do not overlap. Amounts are exact: they are computed in units of 10^-9 bit,
//! and only results are rounded, down.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::rate::Rate;
use crate::time::Instant;

/// Capacity of a circuit over time: sorted steps that do not overlap, each with a rate. Nothing may be sent in the
/// gaps between steps. All times are on one clock. Cloning is cheap (reference counted).
///
/// The text form is `0s-2s 400Mb/s, 2s-5s 900Mb/s`, separated by commas or line breaks; `#` starts a comment. The
/// caller defines the start of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trc {
    /// At least one step.
    steps: Arc<[Step]>,
}

/// Time range and its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Start of the step.
    pub from: Instant,
    /// End of the step (exclusive).
    pub till: Instant,
    /// Rate on the wire, headers included.
    pub rate: Rate,
}

impl Trc {
    /// Returns a single step of `rate` over a hundred years: a circuit that is always available. The rate is clamped
    /// to `RATE_MIN..=RATE_MAX`.
    pub fn steady(rate: Rate) -> Self {
        let rate = rate.clamp(RATE_MIN, RATE_MAX);
        let step = Step {
            from: Instant::ZERO,
            till: TILL_MAX,
            rate,
        };
        Self {
            steps: [step].into(),
        }
    }

    /// Returns a vector of these steps, which must be in order.
    pub fn new(steps: Vec<Step>) -> Result<Self, TrcError> {
        if steps.is_empty() {
            return Err(TrcError::Empty);
        }
        if steps.len() > STEPS_MAX {
            return Err(TrcError::TooMany);
        }
        let mut before: Option<Step> = None;
        for (nth, step) in (1..).zip(&steps) {
            if step.till <= step.from {
                return Err(TrcError::EndBeforeStart(nth));
            }
            if step.till > TILL_MAX {
                return Err(TrcError::EndTooLate(nth));
            }
            if !(RATE_MIN..=RATE_MAX).contains(&step.rate) {
                return Err(TrcError::RateOutOfRange(nth, step.rate));
            }
            if before.is_some_and(|before| step.from < before.from) {
                return Err(TrcError::OutOfOrder(nth));
            }
            if before.is_some_and(|before| step.from < before.till) {
                return Err(TrcError::Overlap(nth));
            }
            before = Some(*step);
        }
        Ok(Self {
            steps: steps.into(),
        })
    }

    /// Returns the steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the start of the first step.
    pub fn start(&self) -> Instant {
        self.steps[0].from
    }

    /// Returns the end of the last step.
    pub fn end(&self) -> Instant {
        self.steps[self.steps.len() - 1].till
    }

    /// Fails with [`TrcError::Past`] if the vector has ended at `now`.
    pub fn check_ahead(&self, now: Instant) -> Result<(), TrcError> {
        if now < self.end() {
            Ok(())
        } else {
            Err(TrcError::Past)
        }
    }

    /// Returns the step that contains `at`, or the next one. Returns `None` after the last step.
    pub fn step_at(&self, at: Instant) -> Option<Step> {
        self.steps.get(self.first_at(at)).copied()
    }

    /// Returns the rate at `at`, or `None` in a gap.
    pub fn rate_at(&self, at: Instant) -> Option<Rate> {
        let step = self.step_at(at)?;
        (step.from <= at).then_some(step.rate)
    }

    /// Returns the first time after `at` at which the rate changes, gaps included.
    pub fn next_change(&self, at: Instant) -> Option<Instant> {
        let now = self.rate_at(at);
        let bounds = self.steps[self.first_at(at)..]
            .iter()
            .flat_map(|step| [step.from, step.till]);
        let mut later = bounds.filter(|bound| *bound > at);
        later.find(|bound| self.rate_at(*bound) != now)
    }

    /// Returns the whole bytes that the vector carries between two times.
    pub fn bytes_between(&self, from: Instant, till: Instant) -> u64 {
        u64::try_from(self.work_between(from, till) / WORK_PER_BYTE).unwrap_or(u64::MAX)
    }

    /// Returns the capacity between two times in units of 10^-9 bit, which needs no rounding.
    pub fn work_between(&self, from: Instant, till: Instant) -> u128 {
        let steps = self.steps[self.first_at(from)..].iter();
        let steps = steps.take_while(|step| step.from < till);
        steps
            .map(|step| step.till.min(till).since(step.from.max(from)).as_nanos() * work(step))
            .sum()
    }

    /// Returns the earliest time by which the vector carries `bytes`, if sending starts at `from`. Returns `None` if
    /// the vector ends before.
    pub fn time_to_send(&self, bytes: u64, from: Instant) -> Option<Instant> {
        self.time_for_work(u128::from(bytes) * WORK_PER_BYTE, from)
    }

    /// Returns the earliest time by which an amount of work is done, in the unit of [`Trc::work_between`].
    fn time_for_work(&self, mut left: u128, from: Instant) -> Option<Instant> {
        if left == 0 {
            return Some(from);
        }
        for step in &self.steps[self.first_at(from)..] {
            let begin = step.from.max(from);
            let most = step.till.since(begin).as_nanos() * work(step);
            if left <= most {
                // at most the step's own length
                let nanos = left.div_ceil(work(step)) as u64;
                return Some(begin + Duration::from_nanos(nanos));
            }
            left -= most;
        }
        None
    }

    /// Returns the vector delayed by `by`. Fails if it would end more than a hundred years after the start.
    pub fn shifted(&self, by: Duration) -> Result<Self, TrcError> {
        self.with(|step| Step {
            from: step.from + by,
            till: step.till + by,
            ..step
        })
    }

    /// Returns the vector moved earlier by `by`. Parts before time zero are cut off; `None` if no part remains.
    pub fn advanced(&self, by: Duration) -> Option<Self> {
        let earlier = |at: Instant| Instant::ZERO + at.since(Instant::ZERO + by);
        let steps = self.steps.iter().map(|step| Step {
            from: earlier(step.from),
            till: earlier(step.till),
            ..*step
        });
        Self::new(steps.filter(|step| step.from < step.till).collect()).ok()
    }

    /// Returns the capacity that is certain despite a clock error of at most `by`: the minimum rate within `by` around
    /// each time. Returns `None` if no such capacity exists.
    pub fn narrowed(&self, by: Duration) -> Option<Self> {
        self.least_around(by, by)
    }

    /// Returns the capacity that devices carry if an increase takes `by`: the minimum rate of the last `by`. The time
    /// before zero does not count. Returns `None` if no such capacity exists.
    pub fn settled(&self, by: Duration) -> Option<Self> {
        self.least_around(by, Duration::ZERO)
    }

    /// Returns at every time the minimum rate from `before` earlier to `after` later.
    fn least_around(&self, before: Duration, after: Duration) -> Option<Self> {
        let ends = self.steps.iter().flat_map(|step| [step.from, step.till]);
        let mut points: Vec<Instant> = ends.flat_map(|at| [at - after, at + before]).collect();
        points.sort_unstable();
        points.dedup();
        let steps = points.windows(2).filter_map(|pair| {
            let [from, till] = [pair[0], pair[1]];
            let rate = self.least_between(from - before, till + after)?;
            Some(Step { from, till, rate })
        });
        Self::new(steps.collect()).ok()
    }

    /// Returns the minimum rate between two times, or `None` if there is a gap.
    fn least_between(&self, from: Instant, till: Instant) -> Option<Rate> {
        let (mut at, mut least) = (from, Rate::UNLIMITED);
        while at < till {
            let step = self.step_at(at).filter(|step| step.from <= at)?;
            least = least.min(step.rate);
            at = step.till;
        }
        Some(least)
    }

    /// Returns the vector with all rates multiplied by `numerator / denominator`, as for a margin or a share. Fails
    /// if a rate leaves `RATE_MIN..=RATE_MAX`.
    pub fn scaled(&self, numerator: u32, denominator: u32) -> Result<Self, TrcError> {
        self.with(|step| Step {
            rate: step.rate.scaled(numerator, denominator),
            ..step
        })
    }

    fn with(&self, change: impl FnMut(Step) -> Step) -> Result<Self, TrcError> {
        Self::new(self.steps.iter().copied().map(change).collect())
    }

    /// Returns the index of the first step that ends after `at`.
    fn first_at(&self, at: Instant) -> usize {
        self.steps.partition_point(|step| step.till <= at)
    }
}

/// Reason why a vector is invalid. Steps are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrcError {
    /// The vector has no step.
    Empty,
    /// The vector has more than [`STEPS_MAX`] steps.
    TooMany,
    /// The step cannot be parsed.
    Malformed(usize),
    /// The step ends at or before its start.
    EndBeforeStart(usize),
    /// The step begins before the previous step begins.
    OutOfOrder(usize),
    /// The step begins before the previous step ends.
    Overlap(usize),
    /// The step ends more than a hundred years after time zero.
    EndTooLate(usize),
    /// The step has a rate of zero.
    ZeroRate(usize),
    /// The step has a rate outside `RATE_MIN..=RATE_MAX`.
    RateOutOfRange(usize, Rate),
    /// All steps lie in the past.
    Past,
}

impl core::error::Error for TrcError {}

/// Maximum number of steps in a vector.
pub const STEPS_MAX: usize = 4096;

/// Returns the amount that the step carries in one nanosecond, in units of 10^-9 bit.
fn work(step: &Step) -> u128 {
    u128::from(step.rate.as_bps())
}

/// Amount of one byte in units of 10^-9 bit.
const WORK_PER_BYTE: u128 = 8_000_000_000;
const TILL_MAX: Instant = Instant::from_nanos(100 * 366 * 24 * 3600 * 1_000_000_000);
/// Lowest rate of a step. At a lower rate a datagram takes seconds, and the unit was probably forgotten.
pub const RATE_MIN: Rate = match Rate::from_bps(1000) {
    Some(rate) => rate,
    None => Rate::UNLIMITED,
};
/// Highest rate of a step.
pub const RATE_MAX: Rate = Rate::from_mbps(1_000_000_000);

#[cfg(test)]
pub(crate) mod tests {
    use super::super::parse_time;
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    pub(crate) fn step(from: u64, till: u64, bps: u64) -> Step {
        Step {
            from: at(from),
            till: at(till),
            rate: Rate::from_bps(bps).unwrap(),
        }
    }

    #[test]
    fn past_vector_is_refused_but_vector_in_gap_is_not() {
        let trc: Trc = "0s-1s 1G, 9h-10h 1G".parse().unwrap();
        assert_eq!(trc.check_ahead(at(2_000_000_000)), Ok(()));
        assert_eq!(trc.next_change(at(2_000_000_000)), parse_time("9h"));
        assert_eq!(trc.check_ahead(trc.end()), Err(TrcError::Past));
        assert_eq!(trc.next_change(trc.end()), None);
    }

    #[test]
    fn advancing_cuts_off_time_before_zero() {
        let trc: Trc = "1s-3s 1G, 4s-5s 2G".parse().unwrap();
        let earlier = |seconds| trc.advanced(Duration::from_secs(seconds));
        assert_eq!(earlier(2).unwrap().to_string(), "0s-1s 1Gb/s, 2s-3s 2Gb/s");
        assert_eq!(earlier(4).unwrap().to_string(), "0s-1s 2Gb/s");
        assert_eq!(earlier(5), None);
    }

    proptest! {
        #[test]
        fn narrowed_vector_has_minimum_rate_over_clock_error(
            (trc, rates) in ticks(),
            by in 0_usize..20,
        ) {
            let narrowed = trc.narrowed(Duration::from_nanos(8 * by as u64));
            for at in 0..rates.len() {
                let window = at.saturating_sub(by)..(at + by + 1).min(rates.len());
                let ends = at + by < rates.len();
                let least = rates[window].iter().copied().min().filter(|_| ends).unwrap_or(0);
                let moment = Instant::from_nanos(8 * at as u64 + 4);
                let has = narrowed.as_ref().and_then(|trc| trc.rate_at(moment));
                prop_assert_eq!(has.map_or(0, Rate::as_bps), least * 1_000_000_000, "at {}", at);
            }
        }
    }

    #[test]
    fn settled_vector_increases_later_and_decreases_at_its_time() {
        let trc: Trc = "1s-3s 1G, 3s-9s 2G, 9s-9.2s 3G, 9.2s-10s 1G"
            .parse()
            .unwrap();
        let settled = trc.settled(Duration::from_millis(500)).unwrap();
        assert_eq!(
            settled.to_string(),
            "1500ms-3s 1Gb/s, 3s-3500ms 1Gb/s, 3500ms-9s 2Gb/s, 9s-9200ms 2Gb/s, 9200ms-9500ms 1Gb/s, 9500ms-9700ms 1Gb/s, 9700ms-10s 1Gb/s"
        );
        assert_eq!(trc.settled(Duration::ZERO), Some(trc.clone()));
        assert_eq!(trc.settled(Duration::from_secs(10)), None);
        // what was there before zero is not known
        let begun: Trc = "0s-2s 1G".parse().unwrap();
        let settled = begun.settled(Duration::from_secs(1)).unwrap();
        assert_eq!(
            (settled.start(), settled.end()),
            (begun.start(), begun.end())
        );
    }

    /// Generates a vector of ticks of 8 ns, and its rates in Gb/s as an array. A rate of 1 Gb/s carries one byte per
    /// tick.
    pub(crate) fn ticks() -> impl Strategy<Value = (Trc, Vec<u64>)> {
        prop::collection::vec((0_u64..4, 1_u64..6, 1_u64..4), 1..8).prop_map(|parts| {
            let (mut now, mut steps, mut array) = (0, vec![], vec![]);
            for (gap, len, rate) in parts {
                now += gap;
                array.resize(now as usize, 0);
                steps.push(step(now * 8, (now + len) * 8, rate * 1_000_000_000));
                now += len;
                array.resize(now as usize, rate);
            }
            (Trc::new(steps).unwrap(), array)
        })
    }

    proptest! {
        #[test]
        fn vector_matches_array_of_ticks(
            (trc, array) in ticks(), from in 0_usize..80, len in 0_usize..80, bytes in 0_u64..120,
        ) {
            let rate = |tick: usize| array.get(tick).copied().unwrap_or(0);
            let moment = |tick: usize| at(tick as u64 * 8);
            let bps = trc.rate_at(moment(from)).map_or(0, Rate::as_bps);
            prop_assert_eq!(bps, rate(from) * 1_000_000_000);
            let carried: u64 = (from..from + len).map(rate).sum();
            prop_assert_eq!(trc.bytes_between(moment(from), moment(from + len)), carried);
            let change = (from + 1..from + 90).find(|tick| rate(*tick) != rate(from));
            prop_assert_eq!(trc.next_change(moment(from)), change.map(moment));
            // the bytes of the last tick leave evenly, so the end is exact to the nanosecond
            let (mut tick, mut left) = (from, bytes);
            while left > rate(tick) && tick < 200 {
                left -= rate(tick);
                tick += 1;
            }
            while left > 0 && rate(tick) == 0 && tick < 200 {
                tick += 1;
            }
            let within = (left * 8).div_ceil(rate(tick).max(1));
            let end = (tick < 200).then(|| moment(tick) + Duration::from_nanos(within));
            prop_assert_eq!(trc.time_to_send(bytes, moment(from)), end);
        }

        #[test]
        fn work_of_adjacent_intervals_adds_up((trc, _) in ticks(), cuts in prop::collection::vec(0_u64..700, 3)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let work = |from: usize, till: usize| trc.work_between(at(cuts[from]), at(cuts[till]));
            prop_assert_eq!(work(0, 1) + work(1, 2), work(0, 2));
            prop_assert_eq!(trc.bytes_between(at(cuts[2]), at(cuts[0])), 0);
        }

        #[test]
        fn shifting_and_scaling_preserve_shape((trc, _) in ticks(), by in 0_u64..1000, times in 1_u32..5) {
            let late = trc.shifted(Duration::from_nanos(by)).unwrap();
            let (start, end) = (late.start(), late.end());
            prop_assert_eq!(start, trc.start() + Duration::from_nanos(by));
            prop_assert_eq!(late.work_between(start, end), trc.work_between(Instant::ZERO, end));
            let fast = trc.scaled(times, 1).unwrap();
            let work = fast.work_between(Instant::ZERO, end);
            prop_assert_eq!(work, trc.work_between(Instant::ZERO, end) * u128::from(times));
        }

    }

    #[test]
    fn shifting_and_scaling_beyond_limits_are_refused() {
        let trc: Trc = "0s-1s 1G".parse().unwrap();
        assert_eq!(trc.shifted(Duration::MAX), Err(TrcError::EndBeforeStart(1)));
        assert_eq!(
            trc.shifted(Duration::from_secs(4_000_000_000)),
            Err(TrcError::EndTooLate(1))
        );
        let slow = Rate::from_bps(1).unwrap();
        assert_eq!(trc.scaled(0, 1), Err(TrcError::RateOutOfRange(1, slow)));
    }
}
