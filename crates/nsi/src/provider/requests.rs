//! Answers to requests.
//!
//! A request is checked, its state machine enters the state of work, and both the connection and
//! the answer are written to the store. The work itself follows after the response.

use std::sync::Arc;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::crypto::identity::Fingerprint;

use super::config::Requester;
use super::connection::Connection;
use super::outgoing::COPIES_MAX;
use super::resources::{Circuit, Port};
use super::state::{Answer, Change, Provider, Reply, State, uuid};
use super::stp::{self, Labels, Stp};
use crate::machine::{
    InvalidTransition, LifecycleEvent, LifecycleState, ProvisionEvent, ReservationEvent,
};
use crate::message::name::PROVIDER_PROTOCOL;
use crate::message::{
    ConnectionStates, Criteria, Directionality, Envelope, ErrorId, Header, Message, Operation, P2p,
    Reserve, Schedule, ServiceException,
};
use crate::xml::DecodeError;

/// Result of a check.
type Checked<T> = Result<T, ServiceException>;

impl Provider {
    /// Answers a request of an authenticated client.
    pub fn answer(&self, identity: &str, octets: &[u8]) -> Reply {
        let (header, answer) = match Envelope::decode(octets, REQUEST_MAX) {
            Ok(Envelope {
                header: Some(header),
                message,
            }) => {
                let answer = self.handle(identity, &header, &message);
                (Some(header), answer)
            }
            Ok(Envelope { header: None, .. }) => {
                let why = DecodeError::Missing("nsiHeader");
                (None, Err(self.unreadable(&why)))
            }
            Err(why) => (None, Err(self.unreadable(&why))),
        };
        let is_fault = answer.is_err();
        let message = match answer {
            Ok(Answered::Again(document)) => return Reply { is_fault, document },
            Ok(Answered::New(message)) => message,
            Err(exception) => Message::Fault(Box::new(exception)),
        };
        let header = header.map(|header| header.answer());
        let document = Envelope { header, message }.encode();
        Reply { is_fault, document }
    }

    fn unreadable(&self, why: &DecodeError) -> ServiceException {
        let id = if matches!(why, DecodeError::Missing(_)) {
            ErrorId::MissingParameter
        } else {
            ErrorId::Payload
        };
        self.exception(id, why.to_string())
    }

    fn handle(&self, identity: &str, header: &Header, message: &Message) -> Checked<Answered> {
        let requester = self.check_header(identity, header)?;
        let is_query = matches!(
            message,
            Message::Query(..) | Message::QueryNotification(..) | Message::QueryResult(..)
        );
        if is_query {
            return self.query(requester, header, message).map(Answered::New);
        }
        self.check_reply_to(requester, header)?;
        let mut state = self.lock();
        let key = format!("{} {}", header.requester, header.correlation_id);
        let whole = Envelope::new(header.clone(), message.clone());
        let digest = Fingerprint::of_token(&whole.encode()).to_string();
        if let Some(answer) = state.answers.get(&key).cloned() {
            return self.repeat(&mut state, &answer, &digest);
        }
        let (connection, answer) = if let Message::Reserve(reserve) = message {
            let connection = self.reserve(&state, requester, header, reserve)?;
            let answer = Message::ReserveResponse(connection.id.clone());
            (connection, answer)
        } else if let Message::Request(operation, id) = message {
            let connection = self.operate(&state, requester, header, (*operation, id))?;
            (connection, Message::Acknowledgment)
        } else {
            let text = format!(
                "{} is no request: send one of those to a provider",
                message.name()
            );
            return Err(self.exception(ErrorId::Payload, text));
        };
        let document = Envelope::new(header.answer(), answer).encode();
        let mut change = room(&state, requester, &connection);
        let last = state.answers.values().map(|one| one.nth).max();
        change.answer = Some(Answer {
            key,
            nth: last.map_or(0, |last| last + 1),
            requester: header.requester.clone(),
            correlation_id: header.correlation_id.clone(),
            digest,
            connection_id: connection.id.clone(),
            document: document.clone(),
            at: self.now(),
        });
        change.connection = Some(connection);
        self.write(&mut state, change)?;
        drop(state);
        self.wake();
        Ok(Answered::Again(document))
    }

    /// Answers a repeated request like the first one, and sends its confirmation again.
    fn repeat(&self, state: &mut State, answer: &Answer, digest: &str) -> Checked<Answered> {
        if answer.digest != digest {
            let text = "the correlationId was used for another request: give each a new one";
            return Err(self.exception(ErrorId::Payload, text));
        }
        let connection = state.connections.get(&answer.connection_id);
        let mut results = connection.iter().flat_map(|one| &one.results);
        let result = results.find(|result| result.correlation_id == answer.correlation_id);
        let waiting = state.outbox.values();
        let waiting = waiting.filter(|one| one.correlation_id == answer.correlation_id);
        // a waiting confirmation may have arrived already, while the requester asks for another one
        if let Some(result) = result.filter(|_| waiting.count() < COPIES_MAX) {
            let outgoing =
                self.outgoing_result(state, (&answer.requester, &answer.connection_id), result);
            let outgoing = vec![outgoing];
            self.write(
                state,
                Change {
                    outgoing,
                    ..Change::default()
                },
            )?;
            self.wake();
        }
        Ok(Answered::Again(answer.document.clone()))
    }

    fn check_header(&self, identity: &str, header: &Header) -> Checked<&Requester> {
        if header.protocol != PROVIDER_PROTOCOL {
            let text = format!("the protocol is not supported: send {PROVIDER_PROTOCOL}");
            return Err(self.exception(ErrorId::VersionNotSupported, text));
        }
        if header.provider != self.config.nsa {
            let text = format!("this is {}: send it as providerNSA", self.config.nsa);
            return Err(self.exception(ErrorId::UnsupportedParameter, text));
        }
        if !header.has_correlation() {
            let text = "the correlationId is not a UUID: send one as in urn:uuid:...";
            return Err(self.exception(ErrorId::Payload, text));
        }
        let requester = self.requester(&header.requester);
        requester
            .filter(|requester| requester.identity == identity)
            .ok_or_else(|| {
                let text =
                    "the requester is not permitted: ask the operator to list its NSA and identity";
                self.exception(ErrorId::Unauthorized, text)
            })
    }

    pub(super) fn check_reply_to(&self, requester: &Requester, header: &Header) -> Checked<String> {
        let Some(url) = &header.reply_to else {
            let text = "the replyTo is missing: send the URL for confirmations";
            return Err(self.exception(ErrorId::MissingParameter, text));
        };
        if !requester.permits(url) {
            let text =
                "the replyTo is not permitted: ask the operator to list the beginning of the URL";
            return Err(self.exception(ErrorId::Unauthorized, text));
        }
        Ok(url.clone())
    }

    fn reserve(
        &self,
        state: &State,
        requester: &Requester,
        header: &Header,
        reserve: &Reserve,
    ) -> Checked<Connection> {
        if let Some(id) = &reserve.connection_id {
            self.connection(state, requester, id)?;
            let text = "this provider cannot change a reservation: make a new one";
            return Err(self.exception(ErrorId::NotImplemented, text));
        }
        let all = state.connections.values();
        let all = all.filter(|one| one.requester == requester.nsa && !one.is_finished());
        if all.count() >= CONNECTIONS_MAX {
            let text = "the requester has too many connections: terminate some";
            return Err(self.exception(ErrorId::ResourceUnavailable, text));
        }
        let (criteria, circuit) = self.judge(state, &reserve.criteria)?;
        let reservation = ConnectionStates::default().reservation;
        let mut states = ConnectionStates::default();
        let started = reservation.after(ReservationEvent::Reserve);
        states.reservation = started.map_err(|why| self.misplaced(why))?;
        Ok(Connection {
            id: uuid().trim_start_matches("urn:uuid:").to_owned(),
            requester: requester.nsa.clone(),
            identity: requester.identity.clone(),
            reply_to: header.reply_to.clone().unwrap_or_default(),
            global_id: reserve.global_id.clone(),
            description: reserve.description.clone(),
            criteria,
            circuit,
            states,
            is_committed: false,
            reservations: Vec::new(),
            hold_till: None,
            hold_seconds: 0,
            changed: self.now(),
            reserve: Some(header.clone()),
            pending: [].into(),
            notifications: Vec::new(),
            results: Vec::new(),
            notification_id: 0,
            result_id: 0,
        })
    }

    /// Checks criteria, and returns them with all defaults and labels.
    fn judge(&self, state: &State, criteria: &Criteria) -> Checked<(Criteria, Circuit)> {
        let Some(p2p) = &criteria.p2p else {
            let text = "the service is missing: send p2ps";
            return Err(self.exception(ErrorId::MissingParameter, text));
        };
        let other = criteria.service_type.as_ref();
        if let Some(other) = other.filter(|other| **other != self.config.service_type) {
            let text = format!(
                "the service {other} is not offered: send {}",
                self.config.service_type
            );
            return Err(self.exception(ErrorId::UnsupportedParameter, text));
        }
        if let Some(name) = p2p.unsupported.first() {
            let text = format!("the element {name} is not supported: leave it out");
            return Err(self.exception(ErrorId::UnsupportedParameter, text));
        }
        if p2p.capacity_mbps == 0 || p2p.capacity_mbps > CAPACITY_MAX {
            let text = format!("the capacity must be from 1 to {CAPACITY_MAX} Mb/s: send another");
            return Err(self.exception(ErrorId::CapacityUnavailable, text));
        }
        let (start, end) = self.judge_schedule(criteria.schedule)?;
        let (source, from) = self.point(state, &p2p.source, (start, end), None)?;
        let (dest, to) = self.point(state, &p2p.dest, (start, end), Some(&source))?;
        if from.id == to.id {
            let text = "both ends are the same point: send two different ones";
            return Err(self.exception(ErrorId::Payload, text));
        }
        let port = |stp: &Stp| Port {
            node: stp.node.clone(),
            interface: stp.interface.clone(),
            packets: stp.packets.clone(),
        };
        let circuit = Circuit {
            from: port(from),
            to: port(to),
            rate_mbps: p2p.capacity_mbps,
            start,
            end,
            is_bidirectional: p2p.directionality == Directionality::Bidirectional,
            is_symmetric: p2p.symmetric_path.unwrap_or(false),
            via: self.via(&p2p.ero, (from, to))?,
        };
        let criteria = Criteria {
            version: Some(criteria.version.unwrap_or(1)),
            schedule: Schedule {
                start: Some(start),
                end: Some(end),
            },
            service_type: Some(self.config.service_type.clone()),
            p2p: Some(P2p {
                source,
                dest,
                ..p2p.clone()
            }),
        };
        Ok((criteria, circuit))
    }

    /// Checks a schedule. A start that is absent or just passed becomes a moment from now.
    fn judge_schedule(&self, schedule: Schedule) -> Checked<(Timestamp, Timestamp)> {
        let now = self.now();
        let Some(end) = schedule.end else {
            let text = "the endTime is missing: send one";
            return Err(self.exception(ErrorId::MissingParameter, text));
        };
        let soon = Timestamp(now.0.saturating_add(SOON));
        let start = schedule.start.unwrap_or(soon);
        if start.0.saturating_add(LATE_MAX) < now.0 {
            let text = format!("the startTime {start} has passed: send a later one, or none");
            return Err(self.exception(ErrorId::Payload, text));
        }
        let start = start.max(soon);
        if end <= start {
            let text =
                format!("the endTime {end} is not after the start at {start}: send a later one");
            return Err(self.exception(ErrorId::Payload, text));
        }
        Ok((start, end))
    }

    /// Returns a point, and its name with a label that is free in a range of time. `other` is the
    /// name of the other end, whose label is taken.
    fn point(
        &self,
        state: &State,
        name: &str,
        (start, end): (Timestamp, Timestamp),
        other: Option<&str>,
    ) -> Checked<(String, &Stp)> {
        let (stp, wanted) = self.known(name)?;
        let id = stp.id.as_str();
        let Some(labels) = &stp.labels else {
            if wanted.is_none() {
                return Ok((id.to_owned(), stp));
            }
            let text = format!("the point {id} has no labels: leave the label out");
            return Err(self.exception(ErrorId::StpResolution, text));
        };
        let wanted = wanted.as_ref();
        let mut offered = labels.all();
        if !offered.any(|label| wanted.is_none_or(|wanted| wanted.has(label))) {
            let text = format!("the point {id} has no such label: take one of {labels}");
            return Err(self.exception(ErrorId::StpResolution, text));
        }
        let holding = state
            .connections
            .values()
            .filter(|one| one.is_holding() && one.circuit.start < end && start < one.circuit.end);
        let p2ps = holding.filter_map(|one| one.criteria.p2p.as_ref());
        let taken = p2ps.flat_map(|p2p| [p2p.source.as_str(), p2p.dest.as_str()]);
        let taken: Vec<&str> = taken.chain(other).collect();
        let candidates = labels
            .all()
            .filter(|label| wanted.is_none_or(|all| all.has(*label)));
        let mut names = candidates.map(|label| format!("{id}?vlan={label}"));
        let free = names.find(|name| !taken.contains(&name.as_str()));
        let free = free.ok_or_else(|| {
            let text = format!("all these labels of {id} are in use: send others, or another time");
            self.exception(ErrorId::StpUnavailable, text)
        })?;
        Ok((free, stp))
    }

    /// Returns the point with a name, and the labels that are wanted.
    fn known(&self, name: &str) -> Checked<(&Stp, Option<Labels>)> {
        let (id, wanted) = stp::split(name).map_err(|why| {
            let text = format!("the label of {name} cannot be read: {why}");
            self.exception(ErrorId::StpResolution, text)
        })?;
        let stp = self.config.stps.iter().find(|stp| stp.id == id);
        let stp = stp.ok_or_else(|| {
            let text = format!("the point {id} is unknown: take one of the topology document");
            self.exception(ErrorId::UnknownStp, text)
        })?;
        Ok((stp, wanted))
    }

    /// Returns the nodes of an explicit route between two ends. Its points may include the ends.
    fn via(&self, ero: &[String], (from, to): (&Stp, &Stp)) -> Checked<Vec<String>> {
        let mut via = Vec::new();
        for name in ero {
            let (stp, label) = self.known(name)?;
            if label.is_some() {
                let text = format!("the route has a label at {}: leave it out there", stp.id);
                return Err(self.exception(ErrorId::StpResolution, text));
            }
            via.push(stp.node.clone());
        }
        if via.first() == Some(&from.node) {
            via.remove(0);
        }
        if via.last() == Some(&to.node) {
            via.pop();
        }
        Ok(via)
    }

    fn operate(
        &self,
        state: &State,
        requester: &Requester,
        header: &Header,
        (operation, id): (Operation, &str),
    ) -> Checked<Connection> {
        let mut connection = self.connection(state, requester, id)?.clone();
        let states = &mut connection.states;
        if operation != Operation::Terminate && states.lifecycle.is_over() {
            let id = if states.lifecycle == LifecycleState::Terminated {
                ErrorId::ConnectionGone
            } else {
                ErrorId::InvalidTransition
            };
            let text = format!(
                "the connection is {}: reserve again",
                states.lifecycle.name()
            );
            return Err(self.exception(id, text));
        }
        let entered = match operation {
            Operation::Commit => (states.reservation.after(ReservationEvent::Commit))
                .map(|next| states.reservation = next),
            Operation::Abort => (states.reservation.after(ReservationEvent::Abort))
                .map(|next| states.reservation = next),
            Operation::Terminate => (states.lifecycle.after(LifecycleEvent::Terminate))
                .map(|next| states.lifecycle = next),
            Operation::Provision | Operation::Release if !connection.is_committed => {
                Err(InvalidTransition {
                    state: states.reservation.name(),
                    event: operation.names().0,
                })
            }
            Operation::Provision => (states.provision.after(ProvisionEvent::Provision))
                .map(|next| states.provision = next),
            Operation::Release => (states.provision.after(ProvisionEvent::Release))
                .map(|next| states.provision = next),
        };
        entered.map_err(|why| self.misplaced(why))?;
        connection.pending.insert(operation, header.clone());
        connection.changed = self.now();
        Ok(connection)
    }

    /// Returns a connection of a requester.
    pub(super) fn connection<'a>(
        &self,
        state: &'a State,
        requester: &Requester,
        id: &str,
    ) -> Checked<&'a Connection> {
        let found = state.connections.get(id).map(Arc::as_ref);
        let found = found.filter(|one| one.requester == requester.nsa);
        found.ok_or_else(|| {
            let id = ErrorId::ConnectionNonexistent;
            self.exception(
                id,
                "the requester has no such connection: query its connections",
            )
        })
    }

    pub(super) fn write(&self, state: &mut State, change: Change) -> Checked<()> {
        self.apply(state, change).map_err(|why| {
            let text = format!("the store of the provider failed: {why}; send the request again");
            self.exception(ErrorId::Internal, text)
        })
    }

    fn misplaced(&self, why: InvalidTransition) -> ServiceException {
        self.exception(ErrorId::InvalidTransition, why.to_string())
    }
}

/// Returns the deletions that make room for a connection and an answer.
fn room(state: &State, requester: &Requester, connection: &Connection) -> Change {
    let mut change = Change::default();
    let answers = state.answers.values();
    let mut old: Vec<&Answer> = answers
        .filter(|one| one.requester == requester.nsa)
        .collect();
    if old.len() >= ANSWERS_MAX {
        old.sort_by_key(|one| one.nth);
        let most = old.len() - ANSWERS_MAX + 1;
        change.outdated = old.iter().take(most).map(|one| one.key.clone()).collect();
    }
    let all = state.connections.values();
    let all: Vec<&Arc<Connection>> = all.filter(|one| one.requester == requester.nsa).collect();
    if all.len() >= CONNECTIONS_MAX && !state.connections.contains_key(&connection.id) {
        let finished = all.iter().filter(|one| one.is_finished());
        let oldest = finished.min_by_key(|one| one.changed);
        change.forgotten = oldest.iter().map(|one| one.id.clone()).collect();
    }
    change
}

/// Answer to a request.
#[derive(Debug)]
enum Answered {
    /// Message that is not in the store.
    New(Message),
    /// Document that is in the store.
    Again(String),
}

/// Maximum length of a request in bytes.
const REQUEST_MAX: usize = 64 << 10;
/// Maximum number of connections of a requester.
const CONNECTIONS_MAX: usize = 2000;
/// Number of answers that are kept for a requester.
const ANSWERS_MAX: usize = 4000;
/// Maximum rate of a circuit in megabits a second.
const CAPACITY_MAX: u64 = 10_000_000;
/// Time from now to an immediate start, in nanoseconds.
const SOON: u64 = 10_000_000_000;
/// Maximum age of a start, in nanoseconds, for clocks that differ.
const LATE_MAX: u64 = 60_000_000_000;
