//! Leases of an earlier run of the program.
//!
//! The requester keeps no file: the provider has the truth. A lease is found by its global reservation
//! ID. A committed one continues. One that was only held cannot be checked, since queries show no
//! criteria before the commit, so it is terminated.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;

use super::client::{Requester, check, lease};
use super::lease::{Lease, LeaseError, Step};
use crate::machine::{LifecycleState, ProvisionState};
use crate::message::query::{Query, Summary};
use crate::message::{Criteria, Operation, Reserve, Schedule};

impl Requester {
    /// Continues the lease that an earlier run has made for this request, which must have a global
    /// reservation ID. Terminates all connections with this ID that cannot be used. Returns `None` if
    /// none is left.
    pub fn resume(&self, reserve: &Reserve) -> Result<Option<Lease>, LeaseError> {
        let Some(global_id) = &reserve.global_id else {
            return Ok(None);
        };
        // the times are those of the first request
        let wanted = Criteria {
            schedule: Schedule::default(),
            ..reserve.criteria.clone()
        };
        let mut resumed = None;
        for summary in self.named(global_id)? {
            let id = &summary.connection_id;
            let usable = usable(&summary).filter(|_| resumed.is_none());
            match usable.filter(|lease| check(&wanted, lease).is_ok()) {
                Some(lease) => {
                    self.provision(&summary)?;
                    resumed = Some(lease);
                }
                None => self.terminate(id)?,
            }
        }
        Ok(resumed)
    }

    /// Returns the connections with a global reservation ID that are not terminated.
    fn named(&self, global_id: &str) -> Result<Vec<Summary>, LeaseError> {
        let query = Query {
            global_ids: vec![global_id.to_owned()],
            ..Query::default()
        };
        let mut all = self.summaries(query)?;
        all.retain(|one| {
            let lifecycle = one.states.lifecycle;
            one.global_id.as_deref() == Some(global_id)
                && !matches!(
                    lifecycle,
                    LifecycleState::Terminating | LifecycleState::Terminated
                )
        });
        Ok(all)
    }

    /// Provisions a committed connection, or waits until an earlier request has done so.
    fn provision(&self, summary: &Summary) -> Result<(), LeaseError> {
        let id = &summary.connection_id;
        let clock = Clock::start();
        let mut state = summary.states.provision;
        loop {
            match state {
                ProvisionState::Provisioned => return Ok(()),
                ProvisionState::Released => return self.operate(Operation::Provision, id),
                ProvisionState::Provisioning | ProvisionState::Releasing => {
                    if clock.now().since(Instant::ZERO) > self.step_max() {
                        return Err(LeaseError::Timeout(Step::Operation(Operation::Provision)));
                    }
                    pause(LOOK);
                    state = self.query(id)?.states.provision;
                }
            }
        }
    }
}

/// Returns the lease of a connection that is committed and has not ended.
fn usable(summary: &Summary) -> Option<Lease> {
    let newest = summary.criteria.last()?;
    let is_live = summary.states.lifecycle == LifecycleState::Created;
    lease(&summary.connection_id, newest)
        .ok()
        .filter(|_| is_live)
}

/// Time between two queries.
const LOOK: Duration = Duration::from_millis(500);
