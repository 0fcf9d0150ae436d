//! Work of a provider: requests to execute, and changes that are due.

use std::time::Duration;

use tracing::warn;

use super::connection::{Connection, StoredResult};
use super::outgoing::Outgoing;
use super::resources::{Refusal, Status};
use super::state::{Change, Provider, State, uuid};
use crate::machine::{
    LifecycleEvent, LifecycleState, ProvisionEvent, ProvisionState, ReservationEvent,
    ReservationState,
};
use crate::message::name::REQUESTER_PROTOCOL;
use crate::message::notification::ErrorEvent;
use crate::message::{
    DataPlaneStatus, Envelope, Failure, Header, Message, Notification, NotificationKind, Operation,
    ReserveConfirmed, ServiceException,
};

/// Messages of a step, each with the request that it answers, if any.
type Messages = Vec<(Option<Header>, Message)>;

impl Provider {
    /// Does all work, and returns the time until the next call, at most one second. Requests are answered
    /// while the network works. Only one thread may call it.
    pub fn work(&self) -> Duration {
        let is_live =
            |one: &&Connection| one.has_work() || one.states.lifecycle == LifecycleState::Created;
        let state = self.lock();
        let live = state.connections.values().filter(is_live);
        let live: Vec<String> = live.map(|one| one.id.clone()).collect();
        drop(state);
        let mut wait = TURN;
        for id in live {
            match self.advance(&id) {
                Ok(false) => {}
                // another change may follow at once
                Ok(true) => wait = Duration::ZERO,
                Err(why) => {
                    warn!("cannot work on the connection {id}: {why}");
                    // a hold that has expired must not shorten the pause
                    continue;
                }
            }
            let due = self
                .lock()
                .connections
                .get(&id)
                .and_then(|one| one.hold_till);
            let left = due.map(|due| Duration::from_nanos(due.0.saturating_sub(self.now().0)));
            wait = wait.min(left.unwrap_or(TURN).max(Duration::from_millis(5)));
        }
        wait
    }

    /// Advances a connection by one step, and returns true if the connection has changed.
    fn advance(&self, id: &str) -> Result<bool, String> {
        let Some(before) = self.lock().connections.get(id).cloned() else {
            return Ok(false);
        };
        let mut connection = before.clone();
        let messages = self.step(&mut connection).map_err(|why| why.to_string())?;
        if connection == before {
            return Ok(false);
        }
        let mut state = self.lock();
        if state.connections.get(id) != Some(&before) {
            // a request came meanwhile: as after a crash, the next step finds the result of this step
            return Ok(true);
        }
        connection.changed = self.now();
        let mut outgoing: Vec<Outgoing> = Vec::new();
        for (request, message) in messages {
            let result = self.result(&connection, request.as_ref(), message);
            let to = (connection.requester.as_str(), connection.id.as_str());
            let mut next = self.outgoing_result(&state, to, &result);
            next.nth += outgoing.len() as u64;
            outgoing.push(next);
            if request.is_some() {
                connection.keep_result(result);
            }
        }
        let change = Change {
            connection: Some(connection),
            outgoing,
            ..Change::default()
        };
        self.apply(&mut state, change)
            .map_err(|why| why.to_string())?;
        Ok(true)
    }

    /// Does the most urgent work of a connection.
    fn step(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        if connection.states.lifecycle == LifecycleState::Terminating {
            return self.terminate(connection);
        }
        if connection.states.lifecycle == LifecycleState::Terminated {
            return Ok(Vec::new());
        }
        match connection.states.reservation {
            ReservationState::Checking => return self.hold(connection),
            ReservationState::Committing => return self.commit(connection),
            ReservationState::Aborting => return self.abort(connection),
            ReservationState::Held => {
                if connection.hold_till.is_some_and(|till| till <= self.now()) {
                    return self.time_out(connection);
                }
            }
            ReservationState::Start | ReservationState::Failed | ReservationState::Timeout => {}
        }
        match connection.states.provision {
            ProvisionState::Provisioning => return self.provision(connection),
            ProvisionState::Releasing => return self.release(connection),
            ProvisionState::Released | ProvisionState::Provisioned => {}
        }
        if connection.states.lifecycle != LifecycleState::Created {
            return Ok(Vec::new());
        }
        if connection.is_committed {
            return self.watch(connection);
        }
        let is_held = connection.states.reservation == ReservationState::Held;
        if connection.circuit.end <= self.now() && !is_held {
            self.live(connection, LifecycleEvent::EndTime);
        }
        Ok(Vec::new())
    }

    fn hold(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        let request = connection.reserve.take();
        let held = (self.resources).hold(&connection.identity, &connection.id, &connection.circuit);
        match held {
            Ok(hold) => {
                self.enter(connection, ReservationEvent::Confirmed);
                connection.reservations = hold.reservations;
                connection.hold_till = Some(hold.till);
                let left = hold.till.0.saturating_sub(self.now().0);
                connection.hold_seconds = u32::try_from(left / SECOND).unwrap_or(u32::MAX);
                let confirmed = ReserveConfirmed {
                    connection_id: connection.id.clone(),
                    global_id: connection.global_id.clone(),
                    description: connection.description.clone(),
                    criteria: connection.criteria.clone(),
                };
                Ok(vec![(
                    request,
                    Message::ReserveConfirmed(Box::new(confirmed)),
                )])
            }
            Err(why) if why.is_temporary => Err(why),
            Err(why) => {
                self.enter(connection, ReservationEvent::Failed);
                let failure = self.failure(connection, &why);
                Ok(vec![(request, Message::ReserveFailed(failure))])
            }
        }
    }

    fn commit(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        let request = connection.pending.remove(&Operation::Commit);
        match (self.resources).commit(&connection.identity, &connection.reservations) {
            Ok(()) => {
                self.enter(connection, ReservationEvent::Committed);
                connection.is_committed = true;
                connection.hold_till = None;
                let confirmed = Message::Confirmed(Operation::Commit, connection.id.clone());
                Ok(vec![(request, confirmed)])
            }
            Err(why) if why.is_temporary => Err(why),
            Err(why) => {
                // one of two directions may be committed
                self.end(connection)?;
                self.enter(connection, ReservationEvent::CommitFailed);
                let failure = self.failure(connection, &why);
                Ok(vec![(request, Message::ReserveCommitFailed(failure))])
            }
        }
    }

    fn abort(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        self.end(connection)?;
        let request = connection.pending.remove(&Operation::Abort);
        self.enter(connection, ReservationEvent::Aborted);
        let confirmed = Message::Confirmed(Operation::Abort, connection.id.clone());
        Ok(vec![(request, confirmed)])
    }

    fn provision(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        let made = (self.resources).provision(&connection.identity, &connection.reservations);
        let failed = made.err();
        if let Some(why) = failed.clone().filter(|why| why.is_temporary) {
            return Err(why);
        }
        let request = connection.pending.remove(&Operation::Provision);
        self.turn(connection, ProvisionEvent::Provisioned);
        let confirmed = Message::Confirmed(Operation::Provision, connection.id.clone());
        let mut messages = vec![(request, confirmed)];
        if let Some(why) = failed {
            messages.push(self.event(connection, ErrorEvent::ActivateFailed, &why));
        }
        Ok(messages)
    }

    fn release(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        let removed = (self.resources).release(&connection.identity, &connection.reservations);
        let failed = removed.err();
        if let Some(why) = failed.clone().filter(|why| why.is_temporary) {
            return Err(why);
        }
        let request = connection.pending.remove(&Operation::Release);
        self.turn(connection, ProvisionEvent::Released);
        let confirmed = Message::Confirmed(Operation::Release, connection.id.clone());
        let mut messages = vec![(request, confirmed)];
        if let Some(why) = failed {
            messages.push(self.event(connection, ErrorEvent::DeactivateFailed, &why));
        }
        messages.extend(self.data_plane(connection, false));
        Ok(messages)
    }

    fn terminate(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        // a hold may have been made just before a crash
        if connection.reserve.is_some() {
            let found =
                (self.resources).hold(&connection.identity, &connection.id, &connection.circuit);
            match found {
                Ok(hold) => connection.reservations = hold.reservations,
                Err(why) if why.is_temporary => return Err(why),
                Err(_) => {}
            }
        }
        self.end(connection)?;
        let request = connection.pending.remove(&Operation::Terminate);
        self.live(connection, LifecycleEvent::Terminated);
        connection.reserve = None;
        connection.pending.clear();
        let mut messages: Messages = self.data_plane(connection, false).into_iter().collect();
        let confirmed = Message::Confirmed(Operation::Terminate, connection.id.clone());
        messages.push((request, confirmed));
        Ok(messages)
    }

    /// Releases the capacity of a connection.
    fn end(&self, connection: &mut Connection) -> Result<(), Refusal> {
        (self.resources).end(&connection.identity, &connection.reservations)?;
        connection.hold_till = None;
        Ok(())
    }

    fn time_out(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        self.end(connection)?;
        self.enter(connection, ReservationEvent::TimedOut);
        let kind = NotificationKind::ReserveTimeout {
            seconds: connection.hold_seconds,
            connection_id: connection.id.clone(),
            nsa: self.config.nsa.clone(),
        };
        Ok(vec![note(connection.notify(self.now(), kind))])
    }

    /// Notes the end of a connection, its failure, and changes of its data plane.
    fn watch(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
        let status = (self.resources).status(&connection.identity, &connection.reservations)?;
        let mut messages = Vec::new();
        let is_active = status == Status::Active;
        messages.extend(self.data_plane(connection, is_active));
        if let Status::Failed(why) = status {
            // the other direction alone is unusable
            self.end(connection)?;
            self.live(connection, LifecycleEvent::ForcedEnd);
            let why = Refusal {
                id: crate::message::ErrorId::Internal,
                text: why,
                is_temporary: false,
            };
            messages.push(self.event(connection, ErrorEvent::ForcedEnd, &why));
        } else if connection.circuit.end <= self.now() || status == Status::Ended {
            if self.now() < connection.circuit.end {
                // the other direction may still be reserved
                self.end(connection)?;
            }
            messages.extend(self.data_plane(connection, false));
            self.live(connection, LifecycleEvent::EndTime);
        }
        Ok(messages)
    }

    /// Returns the report of a data plane that has changed.
    fn data_plane(
        &self,
        connection: &mut Connection,
        active: bool,
    ) -> Option<(Option<Header>, Message)> {
        if connection.states.data_plane.active == active {
            return None;
        }
        let status = DataPlaneStatus {
            active,
            version: connection.criteria.version.unwrap_or(1),
            is_consistent: true,
        };
        connection.states.data_plane = status;
        Some(note(
            connection.notify(self.now(), NotificationKind::DataPlane(status)),
        ))
    }

    fn event(
        &self,
        connection: &mut Connection,
        event: ErrorEvent,
        why: &Refusal,
    ) -> (Option<Header>, Message) {
        let kind = NotificationKind::ErrorEvent {
            event,
            connection_id: connection.id.clone(),
            nsa: self.config.nsa.clone(),
            exception: Some(Box::new(self.because(connection, why))),
        };
        note(connection.notify(self.now(), kind))
    }

    fn failure(&self, connection: &Connection, why: &Refusal) -> Box<Failure> {
        Box::new(Failure {
            connection_id: connection.id.clone(),
            states: connection.states,
            exception: self.because(connection, why),
        })
    }

    fn because(&self, connection: &Connection, why: &Refusal) -> ServiceException {
        ServiceException {
            connection_id: Some(connection.id.clone()),
            ..self.exception(why.id, why.text.as_str())
        }
    }

    fn enter(&self, connection: &mut Connection, event: ReservationEvent) {
        let next = connection.states.reservation.after(event);
        connection.states.reservation = next.unwrap_or(connection.states.reservation);
        debug_assert!(
            next.is_ok(),
            "{} works only in states that permit it",
            self.config.nsa
        );
    }

    fn turn(&self, connection: &mut Connection, event: ProvisionEvent) {
        let next = connection.states.provision.after(event);
        connection.states.provision = next.unwrap_or(connection.states.provision);
        debug_assert!(
            next.is_ok(),
            "{} works only in states that permit it",
            self.config.nsa
        );
    }

    fn live(&self, connection: &mut Connection, event: LifecycleEvent) {
        let next = connection.states.lifecycle.after(event);
        connection.states.lifecycle = next.unwrap_or(connection.states.lifecycle);
        debug_assert!(
            next.is_ok(),
            "{} works only in states that permit it",
            self.config.nsa
        );
    }

    /// Returns a message with its envelope: an answer to `request`, or a report.
    pub(super) fn result(
        &self,
        connection: &Connection,
        request: Option<&Header>,
        message: Message,
    ) -> StoredResult {
        let header = request.map_or_else(
            || Header {
                protocol: REQUESTER_PROTOCOL.to_owned(),
                correlation_id: uuid(),
                requester: connection.requester.clone(),
                provider: self.config.nsa.clone(),
                reply_to: None,
            },
            Header::confirmation,
        );
        let url = request.and_then(|request| request.reply_to.clone());
        StoredResult {
            id: 0,
            correlation_id: header.correlation_id.clone(),
            at: self.now(),
            url: url.unwrap_or_else(|| connection.reply_to.clone()),
            name: message.name().to_owned(),
            document: Envelope::new(header, message).encode(),
        }
    }

    /// Returns the message for the outbox, to a requester and about a connection.
    pub(super) fn outgoing_result(
        &self,
        state: &State,
        (requester, connection_id): (&str, &str),
        result: &StoredResult,
    ) -> Outgoing {
        Outgoing {
            nth: state.next_outgoing(),
            requester: requester.to_owned(),
            url: result.url.clone(),
            name: result.name.clone(),
            document: result.document.clone(),
            connection_id: connection_id.to_owned(),
            correlation_id: result.correlation_id.clone(),
            attempts: 0,
            next: self.now(),
            queued: self.now(),
        }
    }
}

fn note(notification: Notification) -> (Option<Header>, Message) {
    (None, Message::Notification(Box::new(notification)))
}

/// Maximum time between two calls.
const TURN: Duration = Duration::from_secs(1);
/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;
