//! Steps of time with rates, and what they carry.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::rate::Rate;
use crate::time::Instant;

/// Steps of time that neither overlap nor are out of order, each with a rate; between them may be gaps, in which
/// nothing may be sent. Its moments are those of one clock; a copy of it costs nothing.
///
/// People write it as `0s-2s 400Mb/s, 2s-5s 900Mb/s`, with commas or on lines of their own; times count from
/// whatever the reader takes for the beginning, and `#` begins a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trc {
    /// At least one.
    steps: Arc<[Step]>,
}

/// A time range and its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its first moment.
    pub from: Instant,
    /// The first moment after it.
    pub till: Instant,
    /// Bits a second on the wire, headers included.
    pub rate: Rate,
}

impl Trc {
    /// One step of `rate` that ends with the century: a channel that is always there.
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

    /// A vector of these steps, in order.
    pub fn new(steps: Vec<Step>) -> Result<Self, Misuse> {
        if steps.is_empty() {
            return Err(Misuse::Empty);
        }
        if steps.len() > STEPS_MAX {
            return Err(Misuse::TooMany);
        }
        let mut before: Option<Step> = None;
        for (nth, step) in (1..).zip(&steps) {
            if step.till <= step.from {
                return Err(Misuse::Backwards(nth));
            }
            if step.till > TILL_MAX {
                return Err(Misuse::Far(nth));
            }
            if !(RATE_MIN..=RATE_MAX).contains(&step.rate) {
                return Err(Misuse::Absurd(nth, step.rate));
            }
            if before.is_some_and(|before| step.from < before.from) {
                return Err(Misuse::Disorder(nth));
            }
            if before.is_some_and(|before| step.from < before.till) {
                return Err(Misuse::Overlap(nth));
            }
            before = Some(*step);
        }
        Ok(Self {
            steps: steps.into(),
        })
    }

    /// Its steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The first moment of its first step.
    pub fn start(&self) -> Instant {
        self.steps[0].from
    }

    /// The first moment after its last step.
    pub fn end(&self) -> Instant {
        self.steps[self.steps.len() - 1].till
    }

    /// Refuses a vector of which nothing is left at `now`.
    pub fn check_ahead(&self, now: Instant) -> Result<(), Misuse> {
        if now < self.end() {
            Ok(())
        } else {
            Err(Misuse::Past)
        }
    }

    /// The step that a moment is in, or the next one; nothing behind the last.
    pub fn step_at(&self, at: Instant) -> Option<Step> {
        self.steps.get(self.first_at(at)).copied()
    }

    /// What may be sent at a moment; nothing in a gap.
    pub fn rate_at(&self, at: Instant) -> Option<Rate> {
        let step = self.step_at(at)?;
        (step.from <= at).then_some(step.rate)
    }

    /// The next moment after `at` from which another rate holds, or none does, or one does again.
    pub fn next_change(&self, at: Instant) -> Option<Instant> {
        let now = self.rate_at(at);
        let bounds = self.steps[self.first_at(at)..]
            .iter()
            .flat_map(|step| [step.from, step.till]);
        let mut later = bounds.filter(|bound| *bound > at);
        later.find(|bound| self.rate_at(*bound) != now)
    }

    /// How many whole bytes it carries from one moment till another.
    pub fn bytes_between(&self, from: Instant, till: Instant) -> u64 {
        u64::try_from(self.work_between(from, till) / WORK_PER_BYTE).unwrap_or(u64::MAX)
    }

    /// The same in bits times nanoseconds of a second, of which nothing is lost by rounding.
    pub fn work_between(&self, from: Instant, till: Instant) -> u128 {
        let steps = self.steps[self.first_at(from)..].iter();
        let steps = steps.take_while(|step| step.from < till);
        steps
            .map(|step| step.till.min(till).since(step.from.max(from)).as_nanos() * work(step))
            .sum()
    }

    /// The first moment till which it carries `bytes` if they begin to leave at `from`; nothing if it ends before.
    pub fn time_to_send(&self, bytes: u64, from: Instant) -> Option<Instant> {
        self.time_for_work(u128::from(bytes) * WORK_PER_BYTE, from)
    }

    /// The same for what [`Trc::work_between`] counts.
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

    /// The same vector, all of it `by` later.
    pub fn shifted(&self, by: Duration) -> Result<Self, Misuse> {
        self.with(|step| Step {
            from: step.from + by,
            till: step.till + by,
            ..step
        })
    }

    /// The same vector, all of it `by` earlier, without what would be before the beginning; nothing if that is all of it.
    pub fn advanced(&self, by: Duration) -> Option<Self> {
        let earlier = |at: Instant| Instant::ZERO + at.since(Instant::ZERO + by);
        let steps = self.steps.iter().map(|step| Step {
            from: earlier(step.from),
            till: earlier(step.till),
            ..*step
        });
        Self::new(steps.filter(|step| step.from < step.till).collect()).ok()
    }

    /// What it surely carries for who knows the time to within `by`: at every moment the least that it carries so
    /// long before or after.
    pub fn narrowed(&self, by: Duration) -> Option<Self> {
        let ends = self.steps.iter().flat_map(|step| [step.from, step.till]);
        let mut points: Vec<Instant> = ends
            .flat_map(|at| [Instant::ZERO + at.since(Instant::ZERO + by), at + by])
            .collect();
        points.sort_unstable();
        points.dedup();
        let steps = points.windows(2).filter_map(|pair| {
            let [from, till] = [pair[0], pair[1]];
            let before = Instant::ZERO + from.since(Instant::ZERO + by);
            let rate = self.least_between(before.max(Instant::ZERO), till + by)?;
            Some(Step { from, till, rate })
        });
        Self::new(steps.collect()).ok()
    }

    /// The least that it carries all the time from one moment till another; nothing if there is a gap.
    fn least_between(&self, from: Instant, till: Instant) -> Option<Rate> {
        let (mut at, mut least) = (from, Rate::UNLIMITED);
        while at < till {
            let step = self.step_at(at).filter(|step| step.from <= at)?;
            least = least.min(step.rate);
            at = step.till;
        }
        Some(least)
    }

    /// The same times at `numerator / denominator` of the rates: a margin, or a share.
    pub fn scaled(&self, numerator: u32, denominator: u32) -> Result<Self, Misuse> {
        self.with(|step| Step {
            rate: step.rate.scaled(numerator, denominator),
            ..step
        })
    }

    fn with(&self, change: impl FnMut(Step) -> Step) -> Result<Self, Misuse> {
        Self::new(self.steps.iter().copied().map(change).collect())
    }

    /// The first step that is not over at a moment.
    fn first_at(&self, at: Instant) -> usize {
        self.steps.partition_point(|step| step.till <= at)
    }
}

/// Why something is no vector; steps are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// It has no step.
    Empty,
    /// It has more than [`STEPS_MAX`] steps.
    TooMany,
    /// A step that is not written as one.
    Unreadable(usize),
    /// A step that ends when it begins, or before.
    Backwards(usize),
    /// A step that begins before the one in front of it does.
    Disorder(usize),
    /// A step that begins before the one in front of it ends.
    Overlap(usize),
    /// A step that ends more than a hundred years from the beginning.
    Far(usize),
    /// A step with a rate of zero.
    Zero(usize),
    /// A step with a rate that no circuit has.
    Absurd(usize, Rate),
    /// All steps are over.
    Past,
}

impl core::error::Error for Misuse {}

/// The most steps a vector has.
pub const STEPS_MAX: usize = 4096;

/// Work of a nanosecond.
fn work(step: &Step) -> u128 {
    u128::from(step.rate.as_bps())
}

/// The work of one byte: bits times nanoseconds in a second.
const WORK_PER_BYTE: u128 = 8_000_000_000;
const TILL_MAX: Instant = Instant::from_nanos(100 * 366 * 24 * 3600 * 1_000_000_000);
/// The lowest rate that a step may have: slower, a datagram takes seconds, and somebody has forgotten the unit.
pub const RATE_MIN: Rate = match Rate::from_bps(1000) {
    Some(rate) => rate,
    None => Rate::UNLIMITED,
};
/// The highest rate that a step may have.
pub const RATE_MAX: Rate = Rate::from_mbps(1_000_000_000);

#[cfg(test)]
pub(crate) mod tests {
    use super::super::moment;
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
    fn the_past_is_refused_and_a_gap_of_hours_is_not() {
        let trc: Trc = "0s-1s 1G, 9h-10h 1G".parse().unwrap();
        assert_eq!(trc.check_ahead(at(2_000_000_000)), Ok(()));
        assert_eq!(trc.next_change(at(2_000_000_000)), moment("9h"));
        assert_eq!(trc.check_ahead(trc.end()), Err(Misuse::Past));
        assert_eq!(trc.next_change(trc.end()), None);
    }

    #[test]
    fn what_would_be_before_the_beginning_is_over() {
        let trc: Trc = "1s-3s 1G, 4s-5s 2G".parse().unwrap();
        let earlier = |seconds| trc.advanced(Duration::from_secs(seconds));
        assert_eq!(earlier(2).unwrap().to_string(), "0s-1s 1Gb/s, 2s-3s 2Gb/s");
        assert_eq!(earlier(4).unwrap().to_string(), "0s-1s 2Gb/s");
        assert_eq!(earlier(5), None);
    }

    proptest! {
        #[test]
        fn a_narrowed_vector_carries_what_it_does_by_any_clock(
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

    /// A vector of ticks of 8 ns each and the array of its rates, so that a rate of so many Gb/s is as
    /// many bytes a tick.
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
        fn it_does_what_an_array_of_ticks_does(
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
            // within the last tick the bytes leave evenly, and no nanosecond is too short
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
        fn nothing_is_lost_between_two_moments_that_meet((trc, _) in ticks(), cuts in prop::collection::vec(0_u64..700, 3)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let work = |from: usize, till: usize| trc.work_between(at(cuts[from]), at(cuts[till]));
            prop_assert_eq!(work(0, 1) + work(1, 2), work(0, 2));
            prop_assert_eq!(trc.bytes_between(at(cuts[2]), at(cuts[0])), 0);
        }

        #[test]
        fn later_or_faster_it_keeps_its_shape((trc, _) in ticks(), by in 0_u64..1000, times in 1_u32..5) {
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
    fn moving_and_scaling_stay_within_what_can_be() {
        let trc: Trc = "0s-1s 1G".parse().unwrap();
        assert_eq!(trc.shifted(Duration::MAX), Err(Misuse::Backwards(1)));
        assert_eq!(
            trc.shifted(Duration::from_secs(4_000_000_000)),
            Err(Misuse::Far(1))
        );
        let slow = Rate::from_bps(1).unwrap();
        assert_eq!(trc.scaled(0, 1), Err(Misuse::Absurd(1, slow)));
    }
}
