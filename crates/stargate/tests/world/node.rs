//! One domain with its store, its clock and its devices.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use lighthaul_base::{Instant, Rate};
use lighthaul_stargate::{
    CalendarResources, Domain, DomainId, Key, PortId, Record, StoredReservation,
};

use crate::devices::Devices;
use crate::plan::Plan;

/// Domain of a world. The store, the devices and the clock survive a crash; the agent does not.
pub(crate) struct Node {
    pub(crate) me: DomainId,
    pub(crate) domain: Option<Domain<CalendarResources>>,
    /// Durable records.
    pub(crate) store: BTreeMap<Key, StoredReservation>,
    /// Records that are being written.
    pub(crate) writing: VecDeque<(u64, Record)>,
    pub(crate) devices: Devices,
    /// Offset of the clock, in nanoseconds.
    pub(crate) offset: i64,
    /// Number of restarts.
    pub(crate) epoch: u64,
    pub(crate) has_left: bool,
    /// Time of the wake-up that is planned.
    pub(crate) planned: Instant,
}

impl Node {
    pub(crate) fn now(&self, real: Instant) -> Instant {
        Instant::from_nanos(real.as_nanos().saturating_add_signed(self.offset))
    }

    pub(crate) fn real(&self, local: Instant) -> Instant {
        Instant::from_nanos(local.as_nanos().saturating_add_signed(-self.offset))
    }

    /// Compares the calendar with a dumb reference: the sum of all held vectors at every boundary.
    pub(crate) fn check_capacity(
        &self,
        ports: &BTreeMap<PortId, u64>,
        channel: u64,
    ) -> Result<(), String> {
        let Some(domain) = &self.domain else {
            return Ok(());
        };
        let held: Vec<_> = domain.reservations().filter(|one| one.is_held()).collect();
        if held.len() < 2 {
            return Ok(());
        }
        let starts = held.iter().flat_map(|one| one.stored().vector.steps());
        for at in starts.map(|step| step.from) {
            let mut sums: BTreeMap<(bool, PortId), u64> = BTreeMap::new();
            for one in &held {
                let rate = one.stored().vector.rate_at(at).map_or(0, Rate::as_bps);
                for (_, segment) in one.stored().kept() {
                    *sums.entry((false, segment.ingress)).or_default() += rate;
                    *sums.entry((true, segment.egress)).or_default() += rate;
                }
            }
            for ((is_out, port), sum) in sums {
                if sum > ports[&port] * channel {
                    return Err(format!(
                        "{:?} exceeds its capacity at {port:?} ({is_out}) at {at}: {sum}",
                        self.me
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that no neighbor has more than its total rate, at the start of each range.
    pub(crate) fn check_totals(&self, plan: &Plan) -> Result<(), String> {
        let reservations = self.domain.iter().flat_map(Domain::reservations);
        let held: Vec<_> = reservations.filter(|one| one.is_held()).collect();
        for one in &held {
            let Some(upstream) = one.stored().upstream else {
                continue;
            };
            let total = plan.policy(self.me, upstream).rate_total_max;
            for step in one.stored().vector.steps() {
                let same = held.iter().map(|one| one.stored());
                let same = same.filter(|stored| stored.upstream == Some(upstream));
                let rates = same.filter_map(|stored| stored.vector.rate_at(step.from));
                let sum: u64 = rates.map(Rate::as_bps).sum();
                if sum > total.as_bps() {
                    return Err(format!("{upstream:?} has {sum} b/s at {:?}", self.me));
                }
            }
        }
        Ok(())
    }
}
