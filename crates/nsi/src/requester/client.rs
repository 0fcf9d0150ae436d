//! Requests to a provider, and their confirmations.
//!
//! ```text
//! reserve -> reserveConfirmed -> reserveCommit -> reserveCommitConfirmed -> provision -> provisionConfirmed
//! ```
//!
//! A request that gets no response is sent again with the same correlation, which providers answer
//! once. If a confirmation is late, the requester asks for the states. A lease that fails halfway is
//! terminated.

use std::sync::Arc;
use std::time::Duration;

use lighthaul_booking_client::clear_text::stays_private;
use lighthaul_booking_client::https::{HttpsClient, ServerTrust};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::host::clock::unix_nanos;

use super::inbox::Inbox;
use super::lease::{Lease, LeaseError, Step};
use crate::machine::{LifecycleState, ProvisionState, ReservationState};
use crate::message::body::QueryKind;
use crate::message::name::{PROVIDER_PROTOCOL, soap_action};
use crate::message::query::{Query, Summary};
use crate::message::{Criteria, Envelope, Header, Message, Operation, Reserve, ServiceException};
use crate::provider::state::uuid;
use crate::provider::stp::{self, Labels};

/// Requester of one provider.
#[derive(Debug)]
pub struct Requester {
    config: RequesterConfig,
    client: HttpsClient,
    inbox: Arc<Inbox>,
}

/// Settings of a requester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequesterConfig {
    /// URN of the requester.
    pub nsa: String,
    /// URN of the provider.
    pub provider: String,
    /// URL of the provider.
    pub url: String,
    /// Bearer token, if the provider requires one.
    pub token: Option<String>,
    /// URL at which the provider reaches the inbox.
    pub reply_to: String,
    /// Maximum time of a step.
    pub step_max: Duration,
}

impl Requester {
    /// Returns a requester, which trusts the provider if it is `known`. A token is refused for a URL without TLS, unless it
    /// is of this host.
    pub fn new(config: RequesterConfig, known: ServerTrust) -> Result<Self, LeaseError> {
        if config.token.is_some() && !stays_private(&config.url) {
            return Err(LeaseError::ClearText(config.url));
        }
        let client = HttpsClient::new(known, config.step_max.min(RESPONSE_MAX));
        let client = client.map_err(|why| LeaseError::Network {
            step: Step::Reserve,
            url: config.url.clone(),
            why: why.to_string(),
        })?;
        let inbox = Inbox::new(config.nsa.clone(), config.provider.clone());
        Ok(Self {
            config,
            client,
            inbox: Arc::new(inbox),
        })
    }

    /// Returns the inbox, which must receive all messages of the provider.
    pub fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    /// Reserves, commits and provisions a circuit.
    pub fn lease(&self, reserve: Reserve) -> Result<Lease, LeaseError> {
        let wanted = reserve.criteria.clone();
        let lease = self.reserve(reserve)?;
        let id = &lease.connection_id;
        let made = check(&wanted, &lease)
            .and_then(|()| self.operate(Operation::Commit, id))
            .and_then(|()| self.operate(Operation::Provision, id));
        match made {
            Ok(()) => Ok(lease),
            Err(why) => Err(self.give_up(id, why)),
        }
    }

    /// Ends a lease that has failed, and returns the first reason. If it cannot be ended, the reason
    /// also names the connection.
    fn give_up(&self, connection_id: &str, why: LeaseError) -> LeaseError {
        match self.terminate(connection_id) {
            Ok(()) => why,
            Err(left) => LeaseError::Left {
                why: Box::new(why),
                connection_id: connection_id.to_owned(),
                left: Box::new(left),
            },
        }
    }

    /// Stops the data plane of a lease, and keeps its capacity.
    pub fn release(&self, connection_id: &str) -> Result<(), LeaseError> {
        self.operate(Operation::Release, connection_id)
    }

    /// Ends a lease.
    pub fn terminate(&self, connection_id: &str) -> Result<(), LeaseError> {
        self.operate(Operation::Terminate, connection_id)
    }

    /// Returns the connection in the provider's words.
    pub fn query(&self, connection_id: &str) -> Result<Summary, LeaseError> {
        let query = Query {
            connection_ids: vec![connection_id.to_owned()],
            ..Query::default()
        };
        let mut all = self.summaries(query)?.into_iter();
        let found = all.find(|one| one.connection_id == connection_id);
        found.ok_or_else(|| LeaseError::Gone(connection_id.to_owned()))
    }

    /// Returns the connections that a query selects.
    pub(super) fn summaries(&self, query: Query) -> Result<Vec<Summary>, LeaseError> {
        let message = Message::Query(QueryKind::SummarySync, query);
        let answer = self.send(Step::Query, &uuid(), message)?;
        if let Message::QueryConfirmed(_, all) = answer {
            return Ok(all);
        }
        Err(self.other(Step::Query, &answer))
    }

    /// Sets the maximum time of a step.
    #[cfg(test)]
    pub(super) const fn wait_at_most(&mut self, step_max: Duration) {
        self.config.step_max = step_max;
    }

    /// Returns the maximum time of a step.
    pub(super) const fn step_max(&self) -> Duration {
        self.config.step_max
    }

    fn reserve(&self, reserve: Reserve) -> Result<Lease, LeaseError> {
        let correlation = uuid();
        self.inbox.expect(&correlation);
        let sent = self.send(
            Step::Reserve,
            &correlation,
            Message::Reserve(Box::new(reserve)),
        );
        let longest = self.config.step_max;
        let longest = if sent.is_ok() {
            longest
        } else {
            Duration::ZERO
        };
        let confirmed = self.inbox.take(&correlation, longest);
        let sent = sent?;
        let Message::ReserveResponse(id) = sent else {
            return Err(self.other(Step::Reserve, &sent));
        };
        let leased = match confirmed {
            Some(Message::ReserveConfirmed(confirmed)) if confirmed.connection_id == id => {
                lease(&id, &confirmed.criteria)
            }
            Some(Message::ReserveFailed(failure)) => Err(refused(Step::Reserve, failure.exception)),
            Some(other) => Err(self.other(Step::Reserve, &other)),
            None => Err(LeaseError::Timeout(Step::Reserve)),
        };
        leased.map_err(|why| self.give_up(&id, why))
    }

    pub(super) fn operate(&self, operation: Operation, id: &str) -> Result<(), LeaseError> {
        let step = Step::Operation(operation);
        let correlation = uuid();
        self.inbox.expect(&correlation);
        let sent = self.send(
            step,
            &correlation,
            Message::Request(operation, id.to_owned()),
        );
        let longest = self.config.step_max;
        let longest = if sent.is_ok() {
            longest
        } else {
            Duration::ZERO
        };
        let confirmed = self.inbox.take(&correlation, longest);
        sent?;
        match confirmed {
            Some(Message::Confirmed(confirmed, of)) if confirmed == operation && of == id => Ok(()),
            Some(Message::ReserveCommitFailed(failure)) => Err(refused(step, failure.exception)),
            Some(other) => Err(self.other(step, &other)),
            None => {
                // the confirmation may have been lost
                let is_done = match self.query(id) {
                    Ok(summary) => is_done(operation, &summary),
                    // the provider keeps no connection that has ended
                    Err(LeaseError::Gone(_)) if operation == Operation::Terminate => true,
                    Err(why) => return Err(why),
                };
                is_done.then_some(()).ok_or(LeaseError::Timeout(step))
            }
        }
    }

    /// Sends a request until a response arrives, and returns the message of the response.
    fn send(&self, step: Step, correlation: &str, message: Message) -> Result<Message, LeaseError> {
        let action = format!("\"{}\"", soap_action(message.name()));
        let header = Header {
            protocol: PROVIDER_PROTOCOL.to_owned(),
            correlation_id: correlation.to_owned(),
            requester: self.config.nsa.clone(),
            provider: self.config.provider.clone(),
            reply_to: Some(self.config.reply_to.clone()),
        };
        let document = Envelope::new(header, message).encode();
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.post(step, &action, &document) {
                Err(LeaseError::Network { .. }) if tries > 0 => {}
                Ok(Message::Fault(why)) => return Err(refused(step, *why)),
                answer => return answer,
            }
        }
    }

    fn post(&self, step: Step, action: &str, document: &str) -> Result<Message, LeaseError> {
        let url = &self.config.url;
        let mut request = self.client.agent.post(url.as_str());
        request = request.header("Content-Type", "text/xml; charset=utf-8");
        request = request.header("SOAPAction", action);
        if let Some(token) = &self.config.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let network = |why: String| LeaseError::Network {
            step,
            url: url.clone(),
            why,
        };
        let longest = self.config.step_max.min(RESPONSE_MAX);
        let request = request.config().timeout_global(Some(longest)).build();
        let answer = request.send(document.as_bytes());
        let mut answer = answer.map_err(|why| {
            let refused = self.client.refused();
            network(refused.unwrap_or_else(|| why.to_string()))
        })?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_MAX as u64);
        let body = body.read_to_vec().map_err(|why| network(why.to_string()))?;
        let read = Envelope::decode(&body, ANSWER_MAX);
        let read = read.map(|envelope| envelope.message);
        read.map_err(|why| LeaseError::Protocol {
            step,
            url: url.clone(),
            why: format!("status {status} ({why})"),
        })
    }

    fn other(&self, step: Step, message: &Message) -> LeaseError {
        LeaseError::Protocol {
            step,
            url: self.config.url.clone(),
            why: message.name().to_owned(),
        }
    }
}

fn refused(step: Step, why: ServiceException) -> LeaseError {
    let why = Box::new(why);
    LeaseError::Refused { step, why }
}

/// Returns the lease of confirmed criteria.
pub(super) fn lease(connection_id: &str, criteria: &Criteria) -> Result<Lease, LeaseError> {
    let p2p = criteria.p2p.as_ref();
    let p2p = p2p.ok_or(LeaseError::OtherCircuit("it has no point-to-point service"))?;
    // OpenNSA confirms an absent start, which means now, as it is
    let start = criteria
        .schedule
        .start
        .unwrap_or_else(|| Timestamp(unix_nanos()));
    let end = criteria.schedule.end;
    let end = end.ok_or(LeaseError::OtherCircuit("it has no end"))?;
    Ok(Lease {
        connection_id: connection_id.to_owned(),
        capacity_mbps: p2p.capacity_mbps,
        start,
        end,
        source: p2p.source.clone(),
        dest: p2p.dest.clone(),
    })
}

/// Checks that a lease has at least the capacity and time that were wanted.
pub(super) fn check(wanted: &Criteria, lease: &Lease) -> Result<(), LeaseError> {
    if let Some(p2p) = &wanted.p2p {
        if lease.capacity_mbps < p2p.capacity_mbps {
            return Err(LeaseError::OtherCircuit("its capacity is lower"));
        }
        if !is_point(&p2p.source, &lease.source) {
            return Err(LeaseError::OtherCircuit("it starts at another point"));
        }
        if !is_point(&p2p.dest, &lease.dest) {
            return Err(LeaseError::OtherCircuit("it ends at another point"));
        }
    }
    // a provider needs time to make the circuit
    let latest = |start: Timestamp| Timestamp(start.0.saturating_add(START_MARGIN));
    let start = wanted.schedule.start;
    if start.is_some_and(|start| lease.start > latest(start)) {
        return Err(LeaseError::OtherCircuit("it starts later"));
    }
    // OpenNSA knows whole seconds only
    let second = |at: Timestamp| at.0 / 1_000_000_000;
    if wanted
        .schedule
        .end
        .is_some_and(|end| second(lease.end) < second(end))
    {
        return Err(LeaseError::OtherCircuit("it ends earlier"));
    }
    Ok(())
}

/// Returns true if a point is the wanted point, with one of the wanted labels, if any.
fn is_point(wanted: &str, point: &str) -> bool {
    if wanted == point {
        return true;
    }
    let Ok((wanted, labels)) = stp::split(wanted) else {
        return false;
    };
    let (id, label) = point.split_once('?').unwrap_or((point, ""));
    let label = label.strip_prefix("vlan=").map(str::parse::<u16>);
    let is_offered = |all: Labels| label.is_some_and(|one| one.is_ok_and(|one| all.has(one)));
    wanted == id && labels.is_none_or(is_offered)
}

/// Returns true if the states show that an operation was done.
fn is_done(operation: Operation, summary: &Summary) -> bool {
    let states = &summary.states;
    match operation {
        Operation::Commit => {
            states.reservation == ReservationState::Start && !summary.criteria.is_empty()
        }
        Operation::Abort => states.reservation == ReservationState::Start,
        Operation::Provision => states.provision == ProvisionState::Provisioned,
        Operation::Release => states.provision == ProvisionState::Released,
        Operation::Terminate => states.lifecycle == LifecycleState::Terminated,
    }
}

/// Maximum delay of a start after the requested time, in nanoseconds.
const START_MARGIN: u64 = 30_000_000_000;
/// Maximum time of a response, which is short, since confirmations come later.
const RESPONSE_MAX: Duration = Duration::from_secs(20);
/// Number of times that a request is sent without a response.
const TRIES: u32 = 3;
/// Maximum length of a response in bytes.
const ANSWER_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::message::{ConnectionStates, Directionality, P2p, Schedule};

    fn requester(url: String) -> Requester {
        let config = RequesterConfig {
            nsa: "urn:r".to_owned(),
            provider: "urn:p".to_owned(),
            url,
            token: None,
            reply_to: "http://r/".to_owned(),
            step_max: Duration::from_millis(200),
        };
        Requester::new(config, ServerTrust::certificate()).unwrap()
    }

    #[test]
    fn token_for_another_host_needs_tls() {
        let new = |url: &str| {
            let config = RequesterConfig {
                token: Some("secret".to_owned()),
                ..requester(url.to_owned()).config
            };
            Requester::new(config, ServerTrust::certificate()).map(drop)
        };
        let url = "http://provider.example.org/nsi";
        assert_eq!(new(url), Err(LeaseError::ClearText(url.to_owned())));
        assert_eq!(new("https://provider.example.org/nsi"), Ok(()));
        assert_eq!(new("http://127.0.0.1:4811/nsi"), Ok(()));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a server for a test")]
    fn provider_that_never_reads_fails_the_step() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let requester = requester(format!("http://{}/", listener.local_addr().unwrap()));
        let reserve = Reserve {
            description: Some("d".repeat(16 << 20)),
            ..Reserve::default()
        };
        let why = requester.lease(reserve).unwrap_err();
        assert!(matches!(why, LeaseError::Network { .. }), "{why}");
    }

    #[test]
    fn states_show_which_operations_were_done() {
        let created = ConnectionStates::default();
        let mut held = created;
        held.reservation = ReservationState::Held;
        let mut provisioned = created;
        provisioned.provision = ProvisionState::Provisioned;
        let mut ended = created;
        ended.lifecycle = LifecycleState::Terminated;
        for (operation, states, criteria, expected) in [
            (Operation::Commit, created, 1, true),
            (Operation::Commit, created, 0, false),
            (Operation::Commit, held, 1, false),
            (Operation::Abort, created, 0, true),
            (Operation::Abort, held, 0, false),
            (Operation::Provision, provisioned, 1, true),
            (Operation::Provision, created, 1, false),
            (Operation::Release, created, 1, true),
            (Operation::Release, provisioned, 1, false),
            (Operation::Terminate, ended, 1, true),
            (Operation::Terminate, created, 1, false),
        ] {
            let summary = Summary {
                connection_id: "c-1".to_owned(),
                global_id: None,
                description: None,
                criteria: vec![Criteria::default(); criteria],
                requester: "urn:r".to_owned(),
                states,
                notification_id: None,
                result_id: None,
            };
            let done = is_done(operation, &summary);
            assert_eq!(done, expected, "{operation:?} {states:?}");
        }
    }

    #[test]
    fn connection_that_cannot_be_ended_is_named() {
        let requester = requester("http://127.0.0.1:1/".to_owned());
        let why = requester.give_up("c-17", LeaseError::Timeout(Step::Reserve));
        let why = why.to_string();
        assert!(why.starts_with("the provider has not confirmed reserve") && why.contains("c-17"));
    }

    #[test]
    fn confirmation_without_a_start_begins_now_and_one_without_an_end_is_refused() {
        let p2p = P2p {
            capacity_mbps: 10,
            directionality: Directionality::Bidirectional,
            symmetric_path: None,
            source: "urn:n:a".to_owned(),
            dest: "urn:n:b".to_owned(),
            ero: Vec::new(),
            unsupported: Vec::new(),
        };
        let mut criteria = Criteria {
            p2p: Some(p2p),
            ..Criteria::default()
        };
        criteria.schedule.end = Some(Timestamp(u64::MAX));
        let before = unix_nanos();
        let begun = lease("c-1", &criteria).unwrap().start.0;
        assert!((before..=unix_nanos()).contains(&begun));
        criteria.schedule.end = None;
        assert!(lease("c-1", &criteria).is_err());
    }

    #[test]
    fn lease_that_ends_within_the_second_of_the_wanted_end_is_accepted() {
        let mut lease = Lease {
            connection_id: "c-1".to_owned(),
            capacity_mbps: 10,
            start: Timestamp(0),
            end: Timestamp(5_000_000_000),
            source: "urn:n:a".to_owned(),
            dest: "urn:n:b".to_owned(),
        };
        let mut wanted = Criteria::default();
        wanted.schedule.end = Some(Timestamp(5_999_999_999));
        assert_eq!(
            check(&wanted, &lease).map_err(|why| why.to_string()),
            Ok(())
        );
        lease.end = Timestamp(4_999_999_999);
        assert!(check(&wanted, &lease).is_err());
    }

    #[test]
    fn lease_of_other_points_or_a_much_later_start_is_refused() {
        let p2p = P2p {
            capacity_mbps: 10,
            directionality: Directionality::Bidirectional,
            symmetric_path: None,
            source: "urn:n:a?vlan=7-9".to_owned(),
            dest: "urn:n:c".to_owned(),
            ero: Vec::new(),
            unsupported: Vec::new(),
        };
        let (start, end) = (Timestamp(1_000_000_000), Timestamp(99_000_000_000));
        let wanted = Criteria {
            schedule: Schedule {
                start: Some(start),
                end: Some(end),
            },
            p2p: Some(p2p),
            ..Criteria::default()
        };
        let lease = |source: &str, dest: &str, start: u64| Lease {
            connection_id: "c".to_owned(),
            capacity_mbps: 10,
            start: Timestamp(start),
            end,
            source: source.to_owned(),
            dest: dest.to_owned(),
        };
        let is_fit = |one: Lease| check(&wanted, &one).is_ok();
        assert!(is_fit(lease(
            "urn:n:a?vlan=8",
            "urn:n:c?vlan=3",
            31_000_000_000
        )));
        assert!(!is_fit(lease("urn:n:a?vlan=8", "urn:n:c", 31_000_000_001)));
        assert!(!is_fit(lease("urn:n:a?vlan=6", "urn:n:c", start.0)));
        assert!(!is_fit(lease("urn:n:b?vlan=8", "urn:n:c", start.0)));
        assert!(!is_fit(lease("urn:n:a?vlan=8", "urn:n:d", start.0)));
    }
}
