//! Leases of an earlier run of the program.
//!
//! The requester keeps no file: the provider has the truth. A lease is found by its global reservation
//! ID. A committed one continues. One that was only held cannot be checked, since queries show no
//! criteria before the commit, so it is useless.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;

use super::client::{Requester, check, lease};
use super::lease::{Lease, LeaseError, Step};
use crate::machine::{LifecycleState, ProvisionState};
use crate::message::query::{Query, Summary};
use crate::message::{Criteria, Operation, Reserve, Schedule};

/// Connections that earlier runs have made for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Committed connection that continues.
    pub lease: Option<Lease>,
    /// Connections that cannot be used, which the caller terminates.
    pub useless: Vec<Useless>,
}

/// Connection that cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Useless {
    /// Connection at the provider.
    pub connection_id: String,
    /// Capacity that the connection promised, if it was committed. A link may still offer it.
    pub lease: Option<Lease>,
}

impl Requester {
    /// Returns the connections that earlier runs made for this request, which must have a global reservation ID.
    /// Changes none of them.
    pub fn earlier(&self, reserve: &Reserve) -> Result<Earlier, LeaseError> {
        let mut earlier = Earlier::default();
        let Some(global_id) = &reserve.global_id else {
            return Ok(earlier);
        };
        // the times are those of the first request
        let wanted = Criteria {
            schedule: Schedule::default(),
            ..reserve.criteria.clone()
        };
        for summary in self.named(global_id)? {
            let id = summary.connection_id;
            let newest = summary.criteria.last();
            let lease = newest.and_then(|newest| lease(&id, newest).ok());
            let is_live = summary.states.lifecycle == LifecycleState::Created;
            let is_usable = |lease: &Lease| is_live && check(&wanted, lease).is_ok();
            if earlier.lease.is_none() && lease.as_ref().is_some_and(is_usable) {
                earlier.lease = lease;
            } else {
                earlier.useless.push(Useless {
                    connection_id: id,
                    lease,
                });
            }
        }
        Ok(earlier)
    }

    /// Continues a lease of an earlier run: makes the provider provision it, unless that is done.
    pub fn resume(&self, lease: &Lease) -> Result<(), LeaseError> {
        self.provision(&self.query(&lease.connection_id)?)
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

/// Time between two queries.
const LOOK: Duration = Duration::from_millis(500);
