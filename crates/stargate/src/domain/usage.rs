//! Numbers and rates of the reservations of each neighbor, so that quota checks need not read all reservations.
//!
//! A child that agreed to a commit and then never answers keeps a record here until the end of the vector. Such records
//! are counted for the child, and not for the neighbor that asked.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Rate};

use super::reservation::Reservation;
use crate::key::DomainId;

/// Numbers and rates of the reservations of each neighbor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    accounts: BTreeMap<DomainId, Account>,
    /// Reservations that each child was asked to end, and that it may have committed.
    unanswered: BTreeMap<DomainId, usize>,
    uncommitted: BTreeMap<DomainId, Uncommitted>,
}

/// Time for which a neighbor held a whole capacity without a commit. It is paid back within an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Uncommitted {
    time: Duration,
    at: Instant,
}

/// Reservations of one neighbor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    /// All that are remembered.
    all: usize,
    /// Reservations that take capacity.
    held: usize,
    /// Changes of the total rate of the held reservations, in bits per second.
    changes: BTreeMap<Instant, i128>,
}

impl Usage {
    /// Counts a reservation.
    pub(crate) fn enter(&mut self, reservation: &Reservation) {
        if reservation.waits_for_an_end() {
            for child in reservation.silent_children() {
                *self.unanswered.entry(child).or_default() += 1;
            }
            return;
        }
        if let Some(upstream) = reservation.stored.upstream {
            let account = self.accounts.entry(upstream).or_default();
            account.all += 1;
            if reservation.is_held() {
                account.held += 1;
                account.add(&reservation.stored.vector, 1);
            }
        }
    }

    /// Counts a reservation no longer. It must be as it was counted.
    pub(crate) fn leave(&mut self, reservation: &Reservation) {
        if reservation.waits_for_an_end() {
            for child in reservation.silent_children() {
                let count = self.unanswered.entry(child).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.unanswered.remove(&child);
                }
            }
            return;
        }
        let Some(upstream) = reservation.stored.upstream else {
            return;
        };
        if let Some(account) = self.accounts.get_mut(&upstream) {
            account.all -= 1;
            if reservation.is_held() {
                account.held -= 1;
                account.add(&reservation.stored.vector, -1);
            }
            if account.all == 0 {
                self.accounts.remove(&upstream);
            }
        }
    }

    /// Returns the number of remembered reservations of a neighbor, and the number that take capacity.
    pub(crate) fn of(&self, neighbor: DomainId) -> (usize, usize) {
        let account = self.accounts.get(&neighbor);
        account.map_or((0, 0), |account| (account.all, account.held))
    }

    /// Returns true if a child has [`UNANSWERED_MAX`] unanswered requests to end a reservation, and gets no further one.
    pub(crate) fn is_silent(&self, child: DomainId) -> bool {
        self.unanswered.get(&child).copied().unwrap_or_default() >= UNANSWERED_MAX
    }

    /// Charges a neighbor for a hold without a commit, up to its `limit`.
    pub(crate) fn charge(
        &mut self,
        (neighbor, now): (DomainId, Instant),
        time: Duration,
        limit: Duration,
    ) {
        let time = self
            .uncommitted((neighbor, now), limit)
            .saturating_add(time);
        let charged = Uncommitted {
            time: time.min(limit),
            at: now,
        };
        self.uncommitted.insert(neighbor, charged);
    }

    /// Returns the time that a neighbor is charged for, and has not paid back. It pays `limit` in an hour.
    pub(crate) fn uncommitted(
        &self,
        (neighbor, now): (DomainId, Instant),
        limit: Duration,
    ) -> Duration {
        let Some(one) = self.uncommitted.get(&neighbor) else {
            return Duration::ZERO;
        };
        let passed = now.since(one.at).as_nanos();
        let paid = passed.saturating_mul(limit.as_nanos()) / HOUR.as_nanos();
        let paid = Duration::from_nanos(u64::try_from(paid).unwrap_or(u64::MAX));
        one.time.saturating_sub(paid)
    }

    /// Returns the unused rate in `from..till`: `total` without the reservations of a neighbor.
    pub(crate) fn left(
        &self,
        neighbor: DomainId,
        total: Rate,
        (from, till): (Instant, Instant),
    ) -> Vec<Step> {
        let account = self.accounts.get(&neighbor);
        let changes = account.into_iter().flat_map(|account| &account.changes);
        let mut steps: Vec<Step> = Vec::new();
        let (mut sum, mut since) = (0, from);
        for (at, change) in changes
            .map(|(at, change)| (*at, *change))
            .chain([(till, 0)])
        {
            let at = at.min(till);
            let left = i128::from(total.as_bps()) - sum;
            let rate = u64::try_from(left).ok().and_then(Rate::from_bps);
            if let Some(rate) = rate.filter(|_| since < at) {
                steps.push(Step {
                    from: since,
                    till: at,
                    rate,
                });
            }
            if at == till {
                break;
            }
            since = since.max(at);
            sum += change;
        }
        steps
    }

    /// Returns true if a vector fits into the unused part of a total rate.
    pub(crate) fn has_left(&self, neighbor: DomainId, total: Rate, vector: &Trc) -> bool {
        let left = self.left(neighbor, total, (vector.start(), vector.end()));
        let mut left = left.iter().peekable();
        // both are in order of time, so one pass compares them
        vector.steps().iter().all(|step| {
            let mut covered = step.from;
            while covered < step.till {
                while left.next_if(|one| one.till <= covered).is_some() {}
                match left.peek() {
                    Some(one) if one.from <= covered && one.rate >= step.rate => covered = one.till,
                    _ => return false,
                }
            }
            true
        })
    }
}

impl Account {
    /// Adds the rates of a vector, or removes them.
    fn add(&mut self, vector: &Trc, sign: i128) {
        for step in vector.steps() {
            let rate = sign * i128::from(step.rate.as_bps());
            for (at, change) in [(step.from, rate), (step.till, -rate)] {
                let entry = self.changes.entry(at).or_default();
                *entry += change;
                if *entry == 0 {
                    self.changes.remove(&at);
                }
            }
        }
    }
}

/// Most unanswered requests to end a reservation, for each child.
const UNANSWERED_MAX: usize = 256;
/// Time in which a neighbor pays its limit back.
const HOUR: Duration = Duration::from_hours(1);

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::domain::reservation::Stage;
    use crate::key::{CorrelationId, Key};
    use crate::record::{StoredReservation, StoredStage};

    fn reservation(id: u128, upstream: Option<u32>, stage: Stage) -> Reservation {
        let stored = StoredReservation {
            key: Key {
                source: DomainId(9),
                id: CorrelationId(id),
                attempt: 0,
                leg: 0,
            },
            upstream: upstream.map(DomainId),
            segments: Vec::new(),
            children: Vec::new(),
            trace: Vec::new(),
            vector: "0s-2s 100kb/s".parse().unwrap(),
            guard: Duration::ZERO,
            hold_till: Instant::ZERO,
            decide_till: Instant::ZERO,
            stage: StoredStage::Holding,
            lost: None,
        };
        Reservation::new(stored, stage)
    }

    #[test]
    fn reservations_are_charged_to_the_requesting_neighbor() {
        let mut usage = Usage::default();
        let mut held = reservation(1, Some(2), Stage::Held);
        let closed = reservation(2, Some(2), Stage::Closed);
        usage.enter(&held);
        usage.enter(&closed);
        usage.enter(&reservation(3, None, Stage::Committed));
        usage.enter(&reservation(4, Some(3), Stage::Committed));
        assert_eq!(usage.of(DomainId(2)), (2, 1));
        assert_eq!(usage.of(DomainId(3)), (1, 1));
        assert_eq!(usage.of(DomainId(9)), (0, 0));
        usage.leave(&held);
        held.enter(Stage::Closing);
        usage.enter(&held);
        assert_eq!(usage.of(DomainId(2)), (2, 0));
        usage.leave(&held);
        usage.leave(&closed);
        usage.leave(&reservation(4, Some(3), Stage::Committed));
        assert_eq!(usage, Usage::default());
    }

    #[test]
    fn charge_is_paid_back_within_an_hour_and_never_above_the_limit() {
        let at = |mins| Instant::ZERO + Duration::from_mins(mins);
        let (limit, me) = (Duration::from_mins(10), DomainId(2));
        let mut usage = Usage::default();
        let left = |usage: &Usage, mins| usage.uncommitted((me, at(mins)), limit);
        assert_eq!(left(&usage, 5), Duration::ZERO);
        usage.charge((me, at(5)), Duration::from_mins(4), limit);
        assert_eq!(left(&usage, 5), Duration::from_mins(4));
        assert_eq!(left(&usage, 11), Duration::from_mins(3));
        usage.charge((me, at(11)), Duration::from_mins(2), limit);
        assert_eq!(left(&usage, 11), Duration::from_mins(5));
        usage.charge((me, at(11)), Duration::from_hours(1), limit);
        assert_eq!(left(&usage, 11), limit);
        assert_eq!(left(&usage, 70), Duration::from_secs(10));
        assert_eq!(left(&usage, 72), Duration::ZERO);
        let other = usage.uncommitted((DomainId(3), at(11)), limit);
        assert_eq!(other, Duration::ZERO);
    }

    #[test]
    fn rates_match_the_sum_over_all_held_reservations() {
        let seed = 11;
        let mut rng = lighthaul_base::Rng::new(seed);
        let at = |tick: u64| Instant::from_nanos(tick);
        let total = Rate::from_bps(5000).unwrap();
        let (mut usage, mut known) = (Usage::default(), Vec::<Reservation>::new());
        for nth in 0..400 {
            if rng.below(3) == 0 && !known.is_empty() {
                let index = rng.below(known.len() as u64) as usize;
                usage.leave(&known.swap_remove(index));
            } else {
                let from = rng.below(40);
                let stage = [Stage::Held, Stage::Committed, Stage::Closed][rng.below(3) as usize];
                let mut one = reservation(nth, Some(2), stage);
                let step = Step {
                    from: at(from),
                    till: at(from + 1 + rng.below(9)),
                    rate: Rate::from_bps(1000 * (1 + rng.below(3))).unwrap(),
                };
                one.stored.vector = Trc::new([step].into()).unwrap();
                let is_within = usage.has_left(DomainId(2), total, &one.stored.vector);
                let most = |tick: u64| -> u64 {
                    let held = known.iter().filter(|one| one.is_held());
                    let rates = held.filter_map(|one| one.stored.vector.rate_at(at(tick)));
                    rates.map(Rate::as_bps).sum()
                };
                let mut ticks = step.from.as_nanos()..step.till.as_nanos();
                let fits = ticks.all(|tick| most(tick) + step.rate.as_bps() <= total.as_bps());
                assert_eq!(is_within, fits, "seed {seed}");
                for left in usage.left(DomainId(2), total, (at(3), at(45))) {
                    let expected = total.as_bps() - most(left.from.as_nanos());
                    assert_eq!(left.rate.as_bps(), expected, "seed {seed}");
                }
                if is_within || !one.is_held() {
                    usage.enter(&one);
                    known.push(one);
                }
            }
        }
        for one in known {
            usage.leave(&one);
        }
        assert_eq!(usage, Usage::default());
    }
}
