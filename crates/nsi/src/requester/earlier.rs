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

    /// Returns the connections with a global reservation ID that are not terminated. A provider that does not find them by
    /// this ID, such as `OpenNSA`, is asked for all connections of this requester.
    fn named(&self, global_id: &str) -> Result<Vec<Summary>, LeaseError> {
        let query = Query {
            global_ids: vec![global_id.to_owned()],
            ..Query::default()
        };
        let mut all = match self.summaries(query) {
            Ok(all) => all,
            // with a reason, the provider has understood the query
            Err(why @ LeaseError::Refused { .. }) => {
                self.summaries(Query::default()).map_err(|_| why)?
            }
            Err(why) => return Err(why),
        };
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use lighthaul_booking_client::https::ServerTrust;

    use super::*;
    use crate::message::body::QueryKind;
    use crate::message::{ConnectionStates, ErrorId, Message, ServiceException};
    use crate::requester::RequesterConfig;
    use crate::requester::tests::{read, respond};

    fn summary(id: &str, global_id: &str) -> Summary {
        Summary {
            connection_id: id.to_owned(),
            global_id: Some(global_id.to_owned()),
            description: None,
            criteria: Vec::new(),
            requester: "urn:r".to_owned(),
            states: ConnectionStates::default(),
            notification_id: None,
            result_id: None,
        }
    }

    /// Answers a request on a connection: refuses a query by a global reservation ID.
    fn answer(tcp: &TcpStream) {
        let body = read(tcp);
        let (status, message) = if body.contains("globalReservationId") {
            let why = ServiceException::new("urn:p", ErrorId::Internal, "no such column");
            ("500 Fault", Message::Fault(Box::new(why)))
        } else {
            let all = vec![summary("c-1", "g-1"), summary("c-2", "g-2")];
            (
                "200 OK",
                Message::QueryConfirmed(QueryKind::SummarySync, all),
            )
        };
        respond(tcp, status, message);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a server for a test")]
    fn earlier_connections_are_found_although_the_provider_cannot_search_by_their_id() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            for tcp in listener.incoming().take(2) {
                answer(&tcp.unwrap());
            }
        });
        let config = RequesterConfig {
            nsa: "urn:r".to_owned(),
            provider: "urn:p".to_owned(),
            url,
            token: None,
            reply_to: "http://r/".to_owned(),
            step_max: Duration::from_secs(20),
        };
        let requester = Requester::new(config, ServerTrust::certificate()).unwrap();
        let reserve = Reserve {
            global_id: Some("g-2".to_owned()),
            ..Reserve::default()
        };
        let earlier = requester.earlier(&reserve).unwrap();
        server.join().unwrap();
        let ids: Vec<&str> = earlier
            .useless
            .iter()
            .map(|one| one.connection_id.as_str())
            .collect();
        assert_eq!((ids, earlier.lease), (vec!["c-2"], None));
    }
}
