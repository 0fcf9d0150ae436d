//! Work of a provider: requests to execute, and changes that are due.

use std::sync::Arc;
use std::sync::atomic::Ordering;
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
    DataPlaneStatus, Envelope, ErrorId, Failure, Header, Message, Notification, NotificationKind,
    Operation, ReserveConfirmed, ServiceException,
};

/// Messages of a step, each with the request that it answers, if any.
pub(super) type Messages = Vec<(Option<Header>, Message)>;

/// Task of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Terminate,
    Hold,
    Commit,
    Abort,
    /// End a hold that was not committed.
    TimeOut,
    Provision,
    Release,
    /// Note the status of the network, which differs from that of the connection.
    Watch(Status),
    /// Note that the end time of a connection without a circuit has passed.
    Expire,
}

impl Provider {
    /// Does all work, and returns the time until the next call, at most one second. Requests are answered
    /// while the network works. Only one thread may call it.
    pub fn work(&self) -> Duration {
        if !self.is_compared.load(Ordering::Relaxed) {
            if let Err(why) = self.compare() {
                warn!("cannot compare the NSI connections with the books yet: {why}");
                return TURN;
            }
            self.is_compared.store(true, Ordering::Relaxed);
        }
        let mut wait = TURN;
        for one in self.live() {
            let id = one.id.as_str();
            match self.advance(id) {
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
                .get(id)
                .and_then(|one| one.hold_till);
            let left = due.map(|due| Duration::from_nanos(due.0.saturating_sub(self.now().0)));
            wait = wait.min(left.unwrap_or(TURN).max(Duration::from_millis(5)));
        }
        wait
    }

    /// Returns the connections that can change without a request.
    fn live(&self) -> Vec<Arc<Connection>> {
        let is_live = |one: &&Arc<Connection>| {
            one.has_work() || one.states.lifecycle == LifecycleState::Created
        };
        let state = self.lock();
        let live = state.connections.values().filter(is_live);
        live.map(Arc::clone).collect()
    }

    /// Advances a connection by one step, and returns true if the connection has changed. A connection without a due task
    /// is not copied.
    fn advance(&self, id: &str) -> Result<bool, String> {
        let Some(before) = self.lock().connections.get(id).map(Arc::clone) else {
            return Ok(false);
        };
        let task = self.task(&before).map_err(|why| why.to_string())?;
        let Some(task) = task else {
            return Ok(false);
        };
        let mut connection = Connection::clone(&before);
        let messages = self.step(&mut connection, task);
        let messages = messages.map_err(|why| why.to_string())?;
        self.settle_step(&before, connection, messages)
    }

    /// Stores a changed connection and queues its messages. Returns true if the connection has changed.
    pub(super) fn settle_step(
        &self,
        before: &Arc<Connection>,
        mut connection: Connection,
        messages: Messages,
    ) -> Result<bool, String> {
        if connection == **before {
            return Ok(false);
        }
        let mut state = self.lock();
        if state.connections.get(&connection.id) != Some(before) {
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

    /// Returns the most urgent task of a connection, if one is due.
    fn task(&self, connection: &Connection) -> Result<Option<Task>, Refusal> {
        let states = &connection.states;
        if states.lifecycle == LifecycleState::Terminating {
            return Ok(Some(Task::Terminate));
        }
        if states.lifecycle == LifecycleState::Terminated {
            return Ok(None);
        }
        match states.reservation {
            ReservationState::Checking => return Ok(Some(Task::Hold)),
            ReservationState::Committing => return Ok(Some(Task::Commit)),
            ReservationState::Aborting => return Ok(Some(Task::Abort)),
            ReservationState::Held => {
                if connection.hold_till.is_some_and(|till| till <= self.now()) {
                    return Ok(Some(Task::TimeOut));
                }
            }
            ReservationState::Start | ReservationState::Failed | ReservationState::Timeout => {}
        }
        match states.provision {
            ProvisionState::Provisioning => return Ok(Some(Task::Provision)),
            ProvisionState::Releasing => return Ok(Some(Task::Release)),
            ProvisionState::Released | ProvisionState::Provisioned => {}
        }
        if states.lifecycle != LifecycleState::Created {
            return Ok(None);
        }
        let has_passed = connection.circuit.end <= self.now();
        if connection.is_committed {
            let status = (self.resources).status(&connection.identity, &connection.reservations)?;
            let is_same = match &status {
                Status::Idle => !states.data_plane.active,
                Status::Active => states.data_plane.active,
                Status::Ended | Status::Missing | Status::Failed(_) => false,
            };
            return Ok((!is_same || has_passed).then_some(Task::Watch(status)));
        }
        let is_held = states.reservation == ReservationState::Held;
        Ok((has_passed && !is_held).then_some(Task::Expire))
    }

    /// Does a task of a connection.
    fn step(&self, connection: &mut Connection, task: Task) -> Result<Messages, Refusal> {
        match task {
            Task::Terminate => self.terminate(connection),
            Task::Hold => self.hold(connection),
            Task::Commit => self.commit(connection),
            Task::Abort => self.abort(connection),
            Task::TimeOut => self.time_out(connection),
            Task::Provision => self.provision(connection),
            Task::Release => self.release(connection),
            Task::Watch(status) => self.watch(connection, status),
            Task::Expire => {
                self.live_on(connection, LifecycleEvent::EndTime);
                Ok(Messages::new())
            }
        }
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
                connection
                    .pending
                    .extend(request.map(|request| (Operation::Commit, request)));
                self.fail_commit(connection, &why)
            }
        }
    }

    /// Fails the commit of a connection.
    pub(super) fn fail_commit(
        &self,
        connection: &mut Connection,
        why: &Refusal,
    ) -> Result<Messages, Refusal> {
        let request = connection.pending.remove(&Operation::Commit);
        // one of two directions may be committed
        self.end(connection)?;
        self.enter(connection, ReservationEvent::CommitFailed);
        let failure = self.failure(connection, why);
        Ok(vec![(request, Message::ReserveCommitFailed(failure))])
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
        self.live_on(connection, LifecycleEvent::Terminated);
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

    pub(super) fn time_out(&self, connection: &mut Connection) -> Result<Messages, Refusal> {
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
    fn watch(&self, connection: &mut Connection, status: Status) -> Result<Messages, Refusal> {
        let mut messages = Vec::new();
        let is_active = status == Status::Active;
        messages.extend(self.data_plane(connection, is_active));
        let is_early = self.now() < connection.circuit.end;
        let has_ended = status == Status::Ended;
        let failure = match status {
            Status::Failed(why) => Some(why),
            Status::Missing if is_early => Some(missing().text),
            // the history of the network is shorter than that of connections
            Status::Missing | Status::Idle | Status::Active | Status::Ended => None,
        };
        if let Some(text) = failure {
            let why = Refusal {
                id: ErrorId::Internal,
                text,
                is_temporary: false,
            };
            messages.extend(self.force_end(connection, &why)?);
        } else if !is_early || has_ended {
            if is_early {
                // the other direction may still be reserved
                self.end(connection)?;
            }
            messages.extend(self.data_plane(connection, false));
            self.live_on(connection, LifecycleEvent::EndTime);
        }
        Ok(messages)
    }

    /// Ends a connection that has failed.
    pub(super) fn force_end(
        &self,
        connection: &mut Connection,
        why: &Refusal,
    ) -> Result<Messages, Refusal> {
        // the other direction alone is unusable
        self.end(connection)?;
        let mut messages: Messages = self.data_plane(connection, false).into_iter().collect();
        self.live_on(connection, LifecycleEvent::ForcedEnd);
        messages.push(self.event(connection, ErrorEvent::ForcedEnd, why));
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

    fn live_on(&self, connection: &mut Connection, event: LifecycleEvent) {
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

/// Returns the reason for which a connection without its reservations fails.
pub(super) fn missing() -> Refusal {
    Refusal {
        id: ErrorId::Internal,
        text: MISSING.to_owned(),
        is_temporary: false,
    }
}

fn note(notification: Notification) -> (Option<Header>, Message) {
    (None, Message::Notification(Box::new(notification)))
}

/// Reason for which a connection fails whose reservation the network does not have.
const MISSING: &str = "the network has no reservation of this connection: its books may be older than the connection; \
    reserve again";
/// Maximum time between two calls.
const TURN: Duration = Duration::from_secs(1);
/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use lighthaul_booking_client::json::Timestamp;

    use super::*;
    use crate::provider::resources::{Circuit, Committed, Hold, Resources};
    use crate::provider::tests::{connection, provider_of};

    /// Network whose circuits have one status.
    #[derive(Debug)]
    struct Circuits(Arc<Mutex<Status>>);

    impl Resources for Circuits {
        fn hold(&self, _: &str, _: &str, _: &Circuit) -> Result<Hold, Refusal> {
            unreachable!()
        }

        fn commit(&self, _: &str, _: &[u64]) -> Result<(), Refusal> {
            unreachable!()
        }

        fn provision(&self, _: &str, _: &[u64]) -> Result<(), Refusal> {
            unreachable!()
        }

        fn release(&self, _: &str, _: &[u64]) -> Result<(), Refusal> {
            unreachable!()
        }

        fn end(&self, _: &str, _: &[u64]) -> Result<(), Refusal> {
            unreachable!()
        }

        fn status(&self, _: &str, _: &[u64]) -> Result<Status, Refusal> {
            let status = self.0.lock();
            Ok(status.unwrap_or_else(PoisonError::into_inner).clone())
        }

        fn committed(&self) -> Result<Vec<Committed>, Refusal> {
            Ok(Vec::new())
        }

        fn missing(&self, _: &str, _: &[u64], _: &Circuit) -> Result<Vec<u64>, Refusal> {
            Ok(Vec::new())
        }
    }

    /// A connection with a task is copied, which takes time and memory for each of thousands.
    #[test]
    fn connection_that_waits_for_its_requester_or_its_end_has_no_task() {
        let status = Arc::new(Mutex::new(Status::Idle));
        let (provider, _) = provider_of(Circuits(Arc::clone(&status)));
        let now = provider.now();
        let later = |nanos: u64| Timestamp(now.0 + nanos);
        let task = |one: &Connection| provider.task(one).unwrap();
        let mut held = connection();
        held.states.reservation = ReservationState::Held;
        held.hold_till = Some(later(1));
        assert_eq!(task(&held), None);
        held.hold_till = Some(now);
        assert_eq!(task(&held), Some(Task::TimeOut));
        let mut idle = connection();
        assert_eq!(task(&idle), None);
        idle.circuit.end = now;
        assert_eq!(task(&idle), Some(Task::Expire));
        let mut committed = connection();
        committed.is_committed = true;
        for (known, active, is_same) in [
            (Status::Idle, false, true),
            (Status::Active, true, true),
            (Status::Idle, true, false),
            (Status::Active, false, false),
            (Status::Ended, false, false),
            (Status::Missing, false, false),
            (Status::Failed("fault".to_owned()), false, false),
        ] {
            status.lock().unwrap().clone_from(&known);
            committed.states.data_plane.active = active;
            let expected = (!is_same).then_some(Task::Watch(known));
            assert_eq!(task(&committed), expected);
        }
        status.lock().unwrap().clone_from(&Status::Idle);
        committed.circuit.end = now;
        assert_eq!(task(&committed), Some(Task::Watch(Status::Idle)));
        committed.states.lifecycle = LifecycleState::PassedEndTime;
        assert_eq!(task(&committed), None);
    }

    #[test]
    fn connections_without_a_task_stay_the_same_objects() {
        let (provider, clock) = provider_of(Circuits(Arc::new(Mutex::new(Status::Idle))));
        let mut one = connection();
        one.is_committed = true;
        let one = Arc::new(one);
        let known = Arc::clone(&one);
        provider.lock().connections.insert(one.id.clone(), one);
        assert_eq!(provider.work(), TURN);
        let is_known = |one: &Arc<Connection>| Arc::ptr_eq(one, &known);
        assert!(provider.lock().connections.values().all(is_known));
        clock.fetch_add(SECOND, Ordering::Relaxed);
        provider.work();
        assert!(!provider.lock().connections.values().any(is_known));
    }
}
