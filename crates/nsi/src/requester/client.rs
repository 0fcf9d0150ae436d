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

use lighthaul_booking_client::https::{HttpsClient, ServerTrust};

use super::inbox::Inbox;
use super::lease::{Lease, LeaseError, Step};
use crate::machine::{LifecycleState, ProvisionState, ReservationState};
use crate::message::body::QueryKind;
use crate::message::name::{PROVIDER_PROTOCOL, soap_action};
use crate::message::query::{Query, Summary};
use crate::message::{Criteria, Envelope, Header, Message, Operation, Reserve, ServiceException};
use crate::provider::state::uuid;

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
    /// Bearer token, if the provider wants one.
    pub token: Option<String>,
    /// URL at which the provider reaches the inbox.
    pub reply_to: String,
    /// Maximum time of a step.
    pub step_max: Duration,
}

impl Requester {
    /// Returns a requester, which trusts the provider if it is `known`.
    pub fn new(config: RequesterConfig, known: ServerTrust) -> Result<Self, LeaseError> {
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

    /// Returns the inbox, to which a listener must give all messages.
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
        if let Err(why) = made {
            // the first reason is the one to report
            self.terminate(id).ok();
            return Err(why);
        }
        Ok(lease)
    }

    /// Ends a lease.
    pub fn terminate(&self, connection_id: &str) -> Result<(), LeaseError> {
        self.operate(Operation::Terminate, connection_id)
    }

    /// Returns the connection as the provider shows it.
    pub fn query(&self, connection_id: &str) -> Result<Summary, LeaseError> {
        let query = Query {
            connection_ids: vec![connection_id.to_owned()],
            ..Query::default()
        };
        let message = Message::Query(QueryKind::SummarySync, query);
        let answer = self.send(Step::Query, &uuid(), message)?;
        if let Message::QueryConfirmed(_, all) = &answer
            && let Some(one) = all.iter().find(|one| one.connection_id == connection_id)
        {
            return Ok(one.clone());
        }
        Err(self.other(Step::Query, &answer))
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
        let failed = |why| {
            self.terminate(&id).ok();
            Err(why)
        };
        match confirmed {
            Some(Message::ReserveConfirmed(confirmed)) if confirmed.connection_id == id => {
                lease(id, &confirmed.criteria)
            }
            Some(Message::ReserveFailed(failure)) => {
                failed(refused(Step::Reserve, failure.exception))
            }
            Some(other) => failed(self.other(Step::Reserve, &other)),
            None => failed(LeaseError::Timeout(Step::Reserve)),
        }
    }

    fn operate(&self, operation: Operation, id: &str) -> Result<(), LeaseError> {
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
                let summary = self.query(id)?;
                let is_done = is_done(operation, &summary);
                is_done.then_some(()).ok_or(LeaseError::Timeout(step))
            }
        }
    }

    /// Sends a request until there is a response, and returns its message.
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
fn lease(connection_id: String, criteria: &Criteria) -> Result<Lease, LeaseError> {
    let p2p = criteria.p2p.as_ref();
    let p2p = p2p.ok_or(LeaseError::OtherCircuit("it has no point-to-point service"))?;
    let schedule = criteria.schedule.start.zip(criteria.schedule.end);
    let (start, end) = schedule.ok_or(LeaseError::OtherCircuit("it has no start or no end"))?;
    Ok(Lease {
        connection_id,
        capacity_mbps: p2p.capacity_mbps,
        start,
        end,
        source: p2p.source.clone(),
        dest: p2p.dest.clone(),
    })
}

/// Checks that a lease has at least what was wanted.
fn check(wanted: &Criteria, lease: &Lease) -> Result<(), LeaseError> {
    let capacity = wanted.p2p.as_ref().map_or(0, |p2p| p2p.capacity_mbps);
    if lease.capacity_mbps < capacity {
        return Err(LeaseError::OtherCircuit("its capacity is lower"));
    }
    if wanted
        .schedule
        .start
        .is_some_and(|start| lease.start > start)
    {
        return Err(LeaseError::OtherCircuit("it starts later"));
    }
    if wanted.schedule.end.is_some_and(|end| lease.end < end) {
        return Err(LeaseError::OtherCircuit("it ends earlier"));
    }
    Ok(())
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

/// Maximum time of a response, which is short, since confirmations come later.
const RESPONSE_MAX: Duration = Duration::from_secs(20);
/// Number of times that a request is sent if there is no response.
const TRIES: u32 = 3;
/// Maximum length of a response in bytes.
const ANSWER_MAX: usize = 1 << 20;
