//! Capacity that owners use, and checks of their quotas.
//!
//! `Usage` is an index of the records. The ledger adds and removes each record that it changes, so
//! the sums need no search. It counts live reservations, circuits by interface, rates by owner, and
//! work by owner and window. Work is a rate times a time, in bits times nanoseconds per second. A
//! window is a period of `Config::window` since 1970. Work of ended reservations counts until its
//! window is deleted.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Instant;
use lighthaul_booking_client::json::{Step, Timestamp};

use super::config::Config;
use super::rate_sum::RateSum;
use super::record::{Record, work};
use crate::error::QuotaError;

/// Use of capacity by each owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Reservations that have not ended, by owner.
    live: BTreeMap<String, BTreeSet<u64>>,
    /// Reservations with a circuit that have not ended, by interface.
    circuits: BTreeMap<String, BTreeSet<u64>>,
    /// Sum of the rates of reservations that have not ended, by owner.
    rates: BTreeMap<String, RateSum>,
    /// Work that is or was booked, by window and owner.
    work: BTreeMap<(u64, String), u128>,
}

impl Usage {
    /// Adds a record.
    pub(crate) fn add(&mut self, config: &Config, record: &Record) {
        let owner = &record.reservation.owner;
        let id = record.reservation.id;
        if record.is_live() {
            self.live.entry(owner.clone()).or_default().insert(id);
            let rates = self.rates.entry(owner.clone()).or_default();
            rates.add(&record.reservation.steps);
            if let Some(flow) = &record.reservation.request.flow {
                let circuits = self.circuits.entry(flow.interface.clone());
                circuits.or_default().insert(id);
            }
        }
        for (window, work) in parts(config, &record.reservation.steps) {
            *self.work.entry((window, owner.clone())).or_default() += work;
        }
    }

    /// Removes a record, which must be unchanged since it was added.
    pub(crate) fn remove(&mut self, config: &Config, record: &Record) {
        let owner = &record.reservation.owner;
        let id = record.reservation.id;
        if record.is_live() {
            drop_one(&mut self.live, owner, id);
            if let Some(rates) = self.rates.get_mut(owner) {
                rates.remove(&record.reservation.steps);
                if rates.is_empty() {
                    self.rates.remove(owner);
                }
            }
            if let Some(flow) = &record.reservation.request.flow {
                drop_one(&mut self.circuits, &flow.interface, id);
            }
        }
        for (window, work) in parts(config, &record.reservation.steps) {
            let key = (window, owner.clone());
            if let Some(sum) = self.work.get_mut(&key) {
                *sum = sum.saturating_sub(work);
                if *sum == 0 {
                    self.work.remove(&key);
                }
            }
        }
    }

    /// Returns the sum of the rates of an owner.
    pub(crate) fn rates(&self, owner: &str) -> Option<&RateSum> {
        self.rates.get(owner)
    }

    /// Returns the work of an owner in a window.
    pub(crate) fn work(&self, window: u64, owner: &str) -> u128 {
        let work = self.work.get(&(window, owner.to_owned()));
        work.copied().unwrap_or(0)
    }

    /// Returns all reservations with a circuit.
    pub(crate) fn all_circuits(&self) -> impl Iterator<Item = u64> + '_ {
        self.circuits.values().flatten().copied()
    }

    /// Returns the interfaces at which reservations have circuits.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = &String> {
        let used = self.circuits.iter().filter(|(_, ids)| !ids.is_empty());
        used.map(|(interface, _)| interface)
    }

    /// Returns the reservations with a circuit at an interface.
    pub(crate) fn circuits(&self, interface: &str) -> impl Iterator<Item = u64> + '_ {
        self.circuits.get(interface).into_iter().flatten().copied()
    }

    /// Refuses a reservation above the quota of an owner.
    pub(crate) fn check_count(&self, config: &Config, owner: &str) -> Result<(), QuotaError> {
        let most = config.quota_of(owner).reservations;
        if self.live.get(owner).map_or(0, BTreeSet::len) >= most {
            let owner = owner.to_owned();
            return Err(QuotaError::Reservations { owner, most });
        }
        Ok(())
    }

    /// Refuses steps that exceed the quota of bytes of an owner in a window, with the bytes counted before.
    pub(crate) fn check_work(
        &self,
        config: &Config,
        owner: &str,
        steps: &[Step],
    ) -> Result<(), QuotaError> {
        let most = config.quota_of(owner).bytes;
        for (window, work) in parts(config, steps) {
            let had = self.work(window, owner);
            if (had + work) / WORK_PER_BYTE > u128::from(most) {
                let nanos = config.window.as_nanos() as u64;
                let left = u128::from(most).saturating_sub(had / WORK_PER_BYTE);
                return Err(QuotaError::Bytes {
                    owner: owner.to_owned(),
                    most,
                    from: Timestamp(window * nanos),
                    till: Timestamp(window.saturating_add(1).saturating_mul(nanos)),
                    left,
                });
            }
        }
        Ok(())
    }

    /// Deletes windows that have ended.
    pub(crate) fn forget(&mut self, config: &Config, before: Timestamp) {
        let first = before.0 / (config.window.as_nanos() as u64);
        self.work = self.work.split_off(&(first, String::new()));
    }
}

/// Removes a number from a set, then the set if it is empty.
fn drop_one(sets: &mut BTreeMap<String, BTreeSet<u64>>, of: &str, id: u64) {
    if let Some(set) = sets.get_mut(of) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(of);
        }
    }
}

/// Returns the work of steps in each window.
pub(crate) fn parts(config: &Config, steps: &[Step]) -> BTreeMap<u64, u128> {
    let nanos = config.window.as_nanos() as u64;
    let mut parts = BTreeMap::new();
    for step in steps.iter().filter(|step| step.from < step.till) {
        for window in step.from.0 / nanos..=(step.till.0 - 1) / nanos {
            let from = Instant::from_nanos(window * nanos);
            let part = work(step, from, from + config.window);
            *parts.entry(window).or_default() += part;
        }
    }
    parts
}

/// Work of one byte: bits times nanoseconds per second.
pub(crate) const WORK_PER_BYTE: u128 = 8_000_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lighthaul_booking_client::json::{FlowAt, NewReservation, Reservation};
    use lighthaul_booking_client::reservation::{ReservationState, Verb};

    use super::*;
    use crate::books::Quota;
    use crate::books::principal::{Action, Principal};
    use lighthaul_booking_client::role::Role;

    const SECOND: u64 = 1_000_000_000;

    /// Returns rules with windows of ten seconds, and with these quotas.
    fn config(reservations: usize, bytes: u64) -> Config {
        let quota = Quota {
            reservations,
            bytes,
            ..Quota::default()
        };
        Config {
            policy: quota.into(),
            window: Duration::from_secs(10),
            ..Config::default()
        }
    }

    /// Returns steps between these seconds, of one byte a second.
    fn steps(times: &[(u64, u64)]) -> Vec<Step> {
        let step = |(from, till): &(u64, u64)| Step {
            from: Timestamp(from * SECOND),
            till: Timestamp(till * SECOND),
            rate_bps: 8,
        };
        times.iter().map(step).collect()
    }

    fn record(id: u64, owner: &str, interface: Option<&str>, times: &[(u64, u64)]) -> Record {
        let flow = interface.map(|interface| FlowAt {
            interface: interface.to_owned(),
            packets: "all".parse().unwrap(),
        });
        let reservation = Reservation {
            id,
            owner: owner.to_owned(),
            state: ReservationState::Reserved,
            request: NewReservation {
                flow,
                ..NewReservation::default()
            },
            path: Vec::new(),
            steps: steps(times),
            packet_overhead_bytes: 0,
            promised_end: Timestamp(0),
            hold_till: None,
            created: Timestamp(0),
            changed: Timestamp(0),
            journal: Vec::new(),
            failure: None,
        };
        Record::new(reservation, id, Timestamp(1000 * SECOND))
    }

    /// Returns a reservation that was terminated after its last step.
    fn ended(mut record: Record) -> Record {
        let action = Action {
            now: Timestamp(100 * SECOND),
            principal: &Principal::new("ada", Role::User),
            why: "",
        };
        record.transition(action, Verb::Terminate).unwrap();
        record
    }

    /// Returns the use by these records.
    fn of(config: &Config, records: &[&Record]) -> Usage {
        let mut usage = Usage::default();
        for record in records {
            usage.add(config, record);
        }
        usage
    }

    /// Returns the bytes of each window, by owner.
    fn bytes(usage: &Usage) -> Vec<(u64, &str, u128)> {
        let work = usage.work.iter();
        work.map(|((window, owner), work)| (*window, owner.as_str(), work / WORK_PER_BYTE))
            .collect()
    }

    #[test]
    fn removed_reservation_does_not_change_the_usage_of_others() {
        let config = config(9, 99);
        let (one, two, three) = (
            record(1, "ada", Some("eth1"), &[(0, 15)]),
            record(2, "ada", Some("eth1"), &[(5, 15)]),
            record(3, "ben", None, &[(5, 15)]),
        );
        let past = ended(record(4, "ada", Some("eth1"), &[(0, 5)]));
        let all = [&one, &two, &three, &past];
        for removed in all {
            let mut usage = of(&config, &all);
            usage.remove(&config, removed);
            let others = all.into_iter().filter(|other| *other != removed);
            assert_eq!(usage, of(&config, &others.collect::<Vec<_>>()));
        }
        let mut usage = of(&config, &all);
        for record in all {
            usage.remove(&config, record);
        }
        assert_eq!(usage, Usage::default());
    }

    #[test]
    fn bytes_are_charged_to_the_window_of_sending() {
        let config = config(9, 99);
        let (one, two) = (
            record(1, "ada", None, &[(5, 20), (25, 26), (28, 30)]),
            record(2, "ada", None, &[(12, 14), (47, 47)]),
        );
        let past = ended(record(3, "ben", None, &[(0, 4)]));
        let mut usage = of(&config, &[&one, &two, &past]);
        let (first, second, third) = ((0, "ada", 5), (1, "ada", 12), (2, "ada", 3));
        assert_eq!(bytes(&usage), [first, (0, "ben", 4), second, third]);
        // a window is kept until its end
        usage.forget(&config, Timestamp(10 * SECOND - 1));
        assert_eq!(bytes(&usage), [first, (0, "ben", 4), second, third]);
        usage.forget(&config, Timestamp(29 * SECOND));
        assert_eq!(bytes(&usage), [third]);
    }

    #[test]
    fn steps_may_use_the_remaining_bytes_of_each_window() {
        let wanted = steps(&[(5, 25)]);
        for (booked, most, left) in [
            (&[][..], 10, None),
            (&[], 9, Some(9)),
            (&[(12, 15)], 13, None),
            (&[(12, 15)], 12, Some(9)),
            (&[(10, 20), (10, 15)], 12, Some(0)),
            (&[(0, 5), (25, 30)], 10, None),
        ] {
            let config = config(9, most);
            let usage = of(&config, &[&record(1, "ada", None, booked)]);
            let checked = usage.check_work(&config, "ada", &wanted);
            let expected = left.map_or(Ok(()), |left| {
                Err(QuotaError::Bytes {
                    owner: "ada".to_owned(),
                    most,
                    from: Timestamp(10 * SECOND),
                    till: Timestamp(20 * SECOND),
                    left,
                })
            });
            assert_eq!(checked, expected, "{booked:?} {most}");
            let other = usage.check_work(&config, "ben", &steps(&[(5, 6)]));
            assert_eq!(other, Ok(()));
        }
    }

    #[test]
    fn owner_may_have_as_many_live_reservations_as_its_quota() {
        let config = config(2, 99);
        let (one, two) = (
            record(1, "ada", None, &[(0, 5)]),
            record(2, "ada", None, &[(0, 5)]),
        );
        let past = ended(record(3, "ada", None, &[(0, 5)]));
        let usage = of(&config, &[&one, &past]);
        assert_eq!(usage.check_count(&config, "ada"), Ok(()));
        let usage = of(&config, &[&one, &two]);
        let refused = QuotaError::Reservations {
            owner: "ada".to_owned(),
            most: 2,
        };
        assert_eq!(usage.check_count(&config, "ada"), Err(refused));
        assert_eq!(usage.check_count(&config, "ben"), Ok(()));
    }

    #[test]
    fn rates_and_circuits_include_live_reservations_only() {
        let config = config(9, 99);
        let (one, two) = (
            record(5, "ada", Some("eth1"), &[(0, 5)]),
            record(6, "ben", Some("eth2"), &[(0, 5)]),
        );
        let past = ended(record(7, "cem", Some("eth1"), &[(0, 5)]));
        let usage = of(&config, &[&one, &two, &past]);
        let beside = |owner| {
            usage
                .rates(owner)
                .map(|rates| rates.peak(&steps(&[(4, 9)])))
        };
        assert_eq!(beside("ada"), Some((16, 8)));
        assert_eq!(beside("cem"), None);
        assert!(usage.circuits("eth1").eq([5]));
        assert!(usage.circuits("eth3").next().is_none());
        assert!(usage.all_circuits().eq([5, 6]));
    }
}
