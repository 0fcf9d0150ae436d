//! Sum of the rates of an owner's reservations over time.

use lighthaul_base::Rate;
use lighthaul_calendar::{Capacity, RateLimit};

use lighthaul_booking_client::json::Step;

/// Sum of the rates of several reservations at each time.
///
/// It is stored as a capacity function from which the rates are taken. The cost of adding, removing
/// and comparing a reservation therefore hardly depends on their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateSum(Capacity);

impl Default for RateSum {
    fn default() -> Self {
        Self(Capacity::new(u64::MAX))
    }
}

impl RateSum {
    /// Adds the steps of a reservation.
    pub(crate) fn add(&mut self, steps: &[Step]) {
        for step in steps {
            let (from, till) = (step.from.instant(), step.till.instant());
            self.0.take(from, till, step.rate_bps);
        }
    }

    /// Removes steps that were added.
    pub(crate) fn remove(&mut self, steps: &[Step]) {
        for step in steps {
            let (from, till) = (step.from.instant(), step.till.instant());
            self.0.give(from, till, step.rate_bps);
        }
    }

    /// Returns true if the sum is always zero.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rate that remains of `rate` at each time.
    pub(crate) const fn left_of(&self, rate: Rate) -> RateLimit<'_> {
        RateLimit {
            left: &self.0,
            less: self.0.whole() - rate.as_bps(),
        }
    }

    /// Returns the highest sum of `steps` and the added rates, and the part of the sum that is not from `steps`.
    pub(crate) fn peak(&self, steps: &[Step]) -> (u64, u64) {
        let steps = steps.iter().filter(|step| step.from < step.till);
        let sums = steps.map(|step| {
            let least = self.0.least(step.from.instant(), step.till.instant());
            let beside = self.0.whole() - least;
            (beside.saturating_add(step.rate_bps), beside)
        });
        sums.max().unwrap_or((0, 0))
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_booking_client::json::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn step(from: u64, till: u64, rate_bps: u64) -> Step {
        Step {
            from: Timestamp(from),
            till: Timestamp(till),
            rate_bps,
        }
    }

    fn of(steps: &[Step]) -> RateSum {
        let mut rates = RateSum::default();
        rates.add(steps);
        rates
    }

    #[test]
    fn peak_is_found_at_any_time() {
        let own = [step(10, 20, 5), step(20, 30, 2)];
        let peak = |others: &[Step]| of(others).peak(&own);
        assert_eq!(peak(&[]), (5, 0));
        assert_eq!(peak(&[step(0, 10, 100), step(30, 40, 100)]), (5, 0));
        assert_eq!(peak(&[step(25, 40, 9)]), (11, 9));
        assert_eq!(peak(&[step(0, 11, 1), step(15, 16, 3)]), (8, 3));
        assert_eq!(of(&[step(0, 1, 1)]).peak(&[]), (0, 0));
    }

    proptest! {
        #[test]
        fn peak_matches_an_array(
            others in prop::collection::vec((0_u64..60, 1_u64..20, 1_u64..9), 0..40), own in (0_u64..60, 1_u64..20, 1_u64..9),
        ) {
            let others: Vec<Step> = others.iter().map(|(from, len, bps)| step(*from, from + len, *bps)).collect();
            let own = step(own.0, own.0 + own.1, own.2);
            let at = |moment: u64| -> u64 {
                let now = others.iter().filter(|step| (step.from.0..step.till.0).contains(&moment));
                now.map(|step| step.rate_bps).sum()
            };
            let beside = (own.from.0..own.till.0).map(at).max().unwrap();
            let mut rates = of(&others);
            prop_assert_eq!(rates.peak(&[own]), (beside + own.rate_bps, beside));
            rates.remove(&others);
            prop_assert!(rates.is_empty());
        }
    }

    #[test]
    fn thousand_reservations_of_512_steps_are_compared_quickly() {
        let reservation = |nth: u64| -> Vec<Step> {
            let steps = 0..512;
            let steps = steps.map(|part| step(part * 4000 + nth, part * 4000 + nth + 2000, 1));
            steps.collect()
        };
        let mut rates = RateSum::default();
        (0..1000).for_each(|nth| rates.add(&reservation(nth)));
        let most: Vec<u64> = (0..1000)
            .map(|nth| rates.peak(&reservation(nth)).0)
            .collect();
        assert_eq!(most, vec![1001; 1000]);
    }
}
