//! Capacity function of a path over a window, and the vector that a transfer gets from it.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::{RATE_MAX, RATE_MIN, Step, Trc};
use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::counted;

use crate::refusal::Refusal;

/// Free rate over time between two border points: sorted steps, with no capacity in the gaps between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Unit of rates in bits per second.
    unit: Rate,
    losses: Losses,
    steps: Vec<Step>,
}

/// Capacity that devices take from a transfer. The longest and the largest one of a path count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Guard time, in which an increase carries nothing. At most [`GUARD_MAX`].
    pub guard: Duration,
    /// Bytes that a device counts for each packet in addition to the packet of IP.
    pub packet_bytes: u16,
}

/// Amount and limits of a transfer that is fitted into an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Bytes of packets of IP.
    pub bytes: u64,
    /// Highest usable rate.
    pub rate_max: Rate,
    /// Lowest usable rate; slower steps are skipped.
    pub rate_min: Rate,
}

impl Offer {
    /// Returns an offer of `steps`, with rates rounded down to the unit. Returns `None` for steps that are out of
    /// order, empty or out of range, and for more than [`RANGES_MAX`] of them.
    pub fn new(unit: Rate, steps: Vec<Step>) -> Option<Self> {
        let known = RATE_MIN..=RATE_MAX;
        let is_valid = |step: &Step| step.from < step.till && known.contains(&step.rate);
        let is_sorted = steps.windows(2).all(|pair| pair[0].till <= pair[1].from);
        let is_bounded = steps.len() <= RANGES_MAX && known.contains(&unit);
        if !is_bounded || !is_sorted || !steps.iter().all(is_valid) {
            return None;
        }
        let mut rounded: Vec<Step> = Vec::with_capacity(steps.len());
        for step in steps {
            push(&mut rounded, step, unit);
        }
        let steps = rounded;
        let losses = Losses::default();
        Some(Self {
            unit,
            losses,
            steps,
        })
    }

    /// Returns the offer with the losses of devices. Returns `None` if a guard time is too long.
    pub fn with_losses(self, losses: Losses) -> Option<Self> {
        (losses.guard <= GUARD_MAX).then_some(Self { losses, ..self })
    }

    /// Returns the losses of devices.
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// Returns the steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the unit of rates.
    pub const fn unit(&self) -> Rate {
        self.unit
    }

    /// Returns the capacity that both offers have at each time. Returns `None` if their units have no common multiple
    /// in range. Steps beyond [`RANGES_MAX`] are cut off.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let unit = common_multiple(self.unit, other.unit)?;
        let (mut steps, mut left, mut right) = (Vec::new(), 0, 0);
        while let (Some(one), Some(two)) = (self.steps.get(left), other.steps.get(right)) {
            let (from, till) = (one.from.max(two.from), one.till.min(two.till));
            if from < till {
                let rate = one.rate.min(two.rate);
                push(&mut steps, Step { from, till, rate }, unit);
            }
            if one.till <= till {
                left += 1;
            }
            if two.till <= till {
                right += 1;
            }
        }
        steps.truncate(RANGES_MAX);
        let losses = self.losses.max(other.losses);
        Some(Self {
            unit,
            losses,
            steps,
        })
    }

    /// Returns half of the capacity at each time. Returns `None` if the steps are invalid then.
    pub fn halved(&self) -> Option<Self> {
        let half = |step: &Step| {
            let rate = Rate::from_bps(step.rate.as_bps() / 2)?;
            Some(Step { rate, ..*step }).filter(|_| rate >= self.unit)
        };
        let steps = self.steps.iter().filter_map(half).collect();
        Self::new(self.unit, steps)?.with_losses(self.losses)
    }

    /// Returns the vector of a transfer from `from` on, by the VBLS discipline: the free rate at each time (VBLS paper,
    /// section 3). An increase that would not outlast its guard time is skipped.
    pub fn fit(&self, demand: &Demand, from: Instant) -> Result<Trc, Refusal> {
        let guard = self.losses.guard;
        let mut left = self.losses.work(demand.bytes);
        let mut steps: Vec<Step> = Vec::new();
        for (nth, step) in self.steps.iter().enumerate() {
            let begin = step.from.max(from);
            if begin >= step.till {
                continue;
            }
            let meets = steps.last().filter(|last| last.till == begin);
            let before = meets.map_or(0, |last| last.rate.as_bps());
            let is_late = left <= u128::from(before) * guard.as_nanos();
            let lasting = if is_late {
                before
            } else {
                self.lasting(demand, nth, begin + guard)
            };
            let bps = self.usable(demand, step).min(lasting.max(before));
            let Some(rate) = Rate::from_bps(bps) else {
                continue;
            };
            // no matter which part of the transfer pays it
            let lost = u128::from(bps.saturating_sub(before)) * guard.as_nanos();
            left = left.saturating_add(lost);
            let bps = u128::from(bps);
            let most = step.till.since(begin).as_nanos() * bps;
            let nanos = left.min(most).div_ceil(bps) as u64;
            let till = Instant::from_nanos(begin.as_nanos() + nanos);
            let step = Step {
                from: begin,
                till,
                rate,
            };
            push(&mut steps, step, self.unit);
            left -= left.min(most);
            if left == 0 {
                return Trc::new(steps).map_err(|_| Refusal::TooLarge);
            }
        }
        Err(Refusal::NoCapacity)
    }

    /// Returns the rate of a step that a transfer can use, or zero.
    fn usable(&self, demand: &Demand, step: &Step) -> u64 {
        let rate = step.rate.min(demand.rate_max).as_bps();
        let rate = rate - rate % self.unit.as_bps();
        if rate < demand.rate_min.as_bps() {
            return 0;
        }
        rate
    }

    /// Returns the lowest usable rate from a step until `till`, or zero if there is a gap.
    fn lasting(&self, demand: &Demand, first: usize, till: Instant) -> u64 {
        let mut least = u64::MAX;
        let mut end = None;
        for step in &self.steps[first..] {
            if end.is_some_and(|end| end != step.from) {
                return 0;
            }
            least = least.min(self.usable(demand, step));
            end = Some(step.till);
            if step.till >= till || least == 0 {
                break;
            }
        }
        if end.is_none_or(|end| end < till) {
            return 0;
        }
        least
    }
}

impl Losses {
    /// Returns the larger one of each loss.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            guard: self.guard.max(other.guard),
            packet_bytes: self.packet_bytes.max(other.packet_bytes),
        }
    }

    /// Returns the work of packets of IP with this many bytes, in bits times nanoseconds per second.
    fn work(self, bytes: u64) -> u128 {
        counted::work(u128::from(bytes) * WORK_PER_BYTE, self.packet_bytes)
    }
}

/// Appends a step with its rate rounded down to `unit`, merged with the last step if both are contiguous and equal.
fn push(steps: &mut Vec<Step>, mut step: Step, unit: Rate) {
    let bps = step.rate.as_bps();
    let Some(rate) = Rate::from_bps(bps - bps % unit.as_bps()) else {
        return;
    };
    step.rate = rate;
    match steps.last_mut() {
        Some(last) if last.till == step.from && last.rate == rate => last.till = step.till,
        Some(_) | None => steps.push(step),
    }
}

fn common_multiple(one: Rate, two: Rate) -> Option<Rate> {
    let (mut high, mut low) = (one.as_bps(), two.as_bps());
    while low > 0 {
        (high, low) = (low, high % low);
    }
    let multiple = (one.as_bps() / high).checked_mul(two.as_bps())?;
    Rate::from_bps(multiple).filter(|rate| *rate <= RATE_MAX)
}

/// Maximum number of ranges in an offer or a vector.
pub const RANGES_MAX: usize = 1024;
/// Longest guard time.
pub const GUARD_MAX: Duration = Duration::from_hours(1);
/// Work of one byte, in bits times nanoseconds per second.
const WORK_PER_BYTE: u128 = 8_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Time in which 1 kb/s carries one byte.
    const TICK: u64 = 8_000_000;

    fn kbps(number: u64) -> Option<Rate> {
        Rate::from_bps(number * 1000)
    }

    /// Returns an offer with one step for each tick, and its free rates in kb/s.
    fn ticks(unit: u64) -> impl Strategy<Value = (Offer, Vec<u64>)> {
        prop::collection::vec(0_u64..7, 1..40).prop_map(move |rates| {
            let steps = (0..).zip(&rates).filter_map(|(nth, rate)| {
                Some(Step {
                    from: at(nth * TICK),
                    till: at((nth + 1) * TICK),
                    rate: kbps(*rate)?,
                })
            });
            let offer = Offer::new(kbps(unit).unwrap(), steps.collect()).unwrap();
            let rounded = rates.iter().map(|rate| rate - rate % unit).collect();
            (offer, rounded)
        })
    }

    fn rate_at(steps: &[Step], tick: u64) -> u64 {
        let at = at(tick * TICK);
        let mut steps = steps.iter();
        let step = steps.find(|step| step.from <= at && at < step.till);
        step.map_or(0, |step| step.rate.as_bps() / 1000)
    }

    proptest! {
        #[test]
        fn intersection_is_the_minimum_at_each_time((one, a) in ticks(2), (two, b) in ticks(3)) {
            let both = one.intersect(&two).unwrap();
            prop_assert_eq!(both.unit().as_bps(), 6000);
            // no step is empty, and neighbors with one rate are one step
            prop_assert!(both.steps().iter().all(|step| step.from < step.till));
            let is_split = |pair: &[Step]| pair[0].till == pair[1].from && pair[0].rate == pair[1].rate;
            prop_assert!(!both.steps().windows(2).any(is_split));
            for tick in 0..40 {
                let of = |rates: &Vec<u64>| rates.get(tick as usize).copied().unwrap_or(0);
                let least = of(&a).min(of(&b));
                prop_assert_eq!(rate_at(both.steps(), tick), least - least % 6);
            }
        }

        #[test]
        fn half_of_an_offer_has_half_of_each_rate_in_whole_units((offer, rates) in ticks(2)) {
            let losses = Losses { guard: Duration::from_secs(1), packet_bytes: 7 };
            let half = offer.with_losses(losses).unwrap().halved().unwrap();
            prop_assert_eq!((half.unit().as_bps(), half.losses()), (2000, losses));
            for (tick, rate) in (0..).zip(rates) {
                let expected = rate / 2;
                prop_assert_eq!(rate_at(half.steps(), tick), expected - expected % 2);
            }
        }

        #[test]
        fn fitted_vector_is_greedy_and_ends_exactly(
            (offer, rates) in ticks(1), most in 1_u64..5, least in 1_u64..4, from in 0_usize..9, bytes in 1_u64..60,
        ) {
            let demand = Demand { bytes, rate_max: kbps(most).unwrap(), rate_min: kbps(least).unwrap() };
            let usable = |tick: &u64| (*tick).min(most) * u64::from((*tick).min(most) >= least);
            let mut left = bytes;
            let mut end = None;
            let mut expected = Vec::new();
            for (tick, rate) in rates.iter().enumerate().skip(from) {
                let rate = usable(rate);
                expected.push((tick as u64, if left == 0 { 0 } else { rate }));
                if rate > 0 && left > 0 {
                    let last = tick as u64 * TICK + (left * TICK).div_ceil(rate);
                    end = end.or_else(|| (left <= rate).then(|| at(last)));
                    left -= left.min(rate);
                }
            }
            match offer.fit(&demand, at(from as u64 * TICK)) {
                Ok(vector) => {
                    prop_assert_eq!(Some(vector.end()), end);
                    for (tick, rate) in expected {
                        prop_assert_eq!(rate_at(vector.steps(), tick), rate);
                    }
                }
                Err(refusal) => prop_assert_eq!((refusal, left > 0), (Refusal::NoCapacity, true)),
            }
        }
    }

    #[test]
    fn transfer_uses_the_free_rate_and_ends_exactly() {
        let gigabit = |from: u64, till: u64, mbps| Step {
            from: at(from * 1_000_000_000),
            till: at(till * 1_000_000_000),
            rate: Rate::from_mbps(mbps),
        };
        let steps = vec![gigabit(0, 1, 100), gigabit(1, 2, 30), gigabit(3, 9, 800)];
        let offer = Offer::new(Rate::from_mbps(50), steps).unwrap();
        let demand = Demand {
            bytes: 112_500_000,
            rate_max: Rate::from_mbps(420),
            rate_min: Rate::from_mbps(1),
        };
        let vector = offer.fit(&demand, at(0)).unwrap();
        assert_eq!(vector.steps()[0], gigabit(0, 1, 100));
        assert_eq!(vector.steps()[1], gigabit(3, 5, 400));
        assert_eq!(vector.steps().len(), 2);
        let fast = Demand {
            rate_min: Rate::from_mbps(200),
            ..demand
        };
        assert_eq!(offer.fit(&fast, at(0)).unwrap().start(), at(3_000_000_000));
    }

    /// Returns the bytes that pass a device, tick by tick: an increased rate is in use after a guard time.
    fn carried(steps: &[Step], guard: u64) -> u64 {
        let ticks = steps.last().map_or(0, |step| step.till.as_nanos() / TICK);
        let in_use = |tick: u64| {
            let since =
                (0..=guard).map(|ago| tick.checked_sub(ago).map_or(0, |at| rate_at(steps, at)));
            since.min().unwrap_or(0)
        };
        (0..ticks).map(in_use).sum()
    }

    /// Returns the most bytes that any vector carries: each channel on its own, in each run of ticks that has it.
    fn most_carried(rates: &[u64], guard: u64) -> u64 {
        let channels = 1..=rates.iter().copied().max().unwrap_or(0);
        let of_channel = |channel: u64| -> u64 {
            let runs = rates.split(|rate| *rate < channel);
            runs.map(|run| (run.len() as u64).saturating_sub(guard))
                .sum()
        };
        channels.map(of_channel).sum()
    }

    proptest! {
        #[test]
        fn vector_with_guard_times_carries_all_bytes_and_no_more(
            (offer, rates) in ticks(1), most in 1_u64..6, guard in 0_u64..5, bytes in 1_u64..60,
        ) {
            let guard_time = Duration::from_nanos(guard * TICK);
            let losses = Losses { guard: guard_time, packet_bytes: 0 };
            let offer = offer.with_losses(losses).unwrap();
            let demand = Demand { bytes, rate_max: kbps(most).unwrap(), rate_min: kbps(1).unwrap() };
            let usable: Vec<u64> = rates.iter().map(|rate| (*rate).min(most)).collect();
            let most_bytes = most_carried(&usable, guard);
            let vector = match offer.fit(&demand, at(0)) {
                Ok(vector) => vector,
                Err(refusal) => {
                    prop_assert_eq!(refusal, Refusal::NoCapacity);
                    prop_assert!(most_bytes < bytes, "refused {} of {}", bytes, most_bytes);
                    return Ok(());
                }
            };
            prop_assert!(most_bytes >= bytes);
            for tick in 0..40 {
                let free = rates.get(tick as usize).copied().unwrap_or(0);
                prop_assert!(rate_at(vector.steps(), tick) <= free.min(most));
            }
            // no step is shorter than the guard time of its increase, so the whole guard time is paid
            let last = vector.steps().last().unwrap();
            let whole = last.till.as_nanos().div_ceil(TICK) * TICK;
            let mut longer = vector.steps().to_vec();
            longer.last_mut().unwrap().till = at(whole);
            let all = carried(&longer, guard);
            prop_assert!(all >= bytes, "{all} of {bytes}: {vector}");
            // one tick less is too short
            longer.last_mut().unwrap().till = at(whole - TICK);
            longer.retain(|step| step.from < step.till);
            let less = carried(&longer, guard);
            prop_assert!(less < bytes, "{less} of {bytes}: {vector}");
        }
    }

    #[test]
    fn counted_bytes_of_each_packet_lengthen_the_vector() {
        let second = 1_000_000_000;
        let step = Step {
            from: at(0),
            till: at(9 * second),
            rate: Rate::from_mbps(12),
        };
        let offer = |packet_bytes| {
            let losses = Losses {
                guard: Duration::ZERO,
                packet_bytes,
            };
            let offer = Offer::new(Rate::from_mbps(1), vec![step]).unwrap();
            offer.with_losses(losses).unwrap()
        };
        let demand = Demand {
            bytes: 1_500_000,
            rate_max: Rate::from_mbps(12),
            rate_min: Rate::from_mbps(1),
        };
        let end = |packet_bytes| offer(packet_bytes).fit(&demand, at(0)).unwrap().end();
        // a thousand packets
        assert_eq!(end(0), at(second));
        assert_eq!(end(15), at(second + second / 100));
        let both = offer(15).intersect(&offer(3)).unwrap();
        assert_eq!(both.losses().packet_bytes, 15);
    }

    #[test]
    fn guard_time_of_more_than_an_hour_is_refused() {
        let losses = |guard| Losses {
            guard,
            packet_bytes: 0,
        };
        let offer = Offer::new(Rate::from_mbps(1), vec![]).unwrap();
        assert!(offer.clone().with_losses(losses(GUARD_MAX)).is_some());
        let longer = GUARD_MAX + Duration::from_nanos(1);
        assert!(offer.with_losses(losses(longer)).is_none());
    }
}
