//! Networks that refuse, fail for a moment, or lose circuits.

use std::path::Path;
use std::time::Duration;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_nsi::machine::{LifecycleState, ProvisionState, ReservationState};
use lighthaul_nsi::message::notification::ErrorEvent;
use lighthaul_nsi::message::{
    ConnectionStates, DataPlaneStatus, Envelope, ErrorId, Failure, Header, Message,
    NotificationKind, Operation,
};
use lighthaul_nsi::provider::Status;

use super::{HOLD, Run, SECOND, reserve};

impl Run {
    fn states(&mut self, id: &str) -> ConnectionStates {
        let all = self.summaries();
        let found = all.into_iter().find(|one| one.connection_id == id);
        found.unwrap().states
    }

    /// Returns a connection that was committed.
    fn committed(&mut self) -> String {
        let id = self.reserve_from("urn:n:a").unwrap();
        self.messages();
        self.operate(Operation::Commit, &id);
        self.messages();
        id
    }

    /// Returns a connection that carries packets.
    fn active(&mut self) -> String {
        let id = self.committed();
        self.operate(Operation::Provision, &id);
        self.messages();
        id
    }
}

fn confirmed(operation: Operation, id: &str) -> Message {
    Message::Confirmed(operation, id.to_owned())
}

/// Returns the kinds of notifications.
fn kinds(all: &[Message]) -> Vec<NotificationKind> {
    let all = all.iter().map(|message| {
        let Message::Notification(one) = message else {
            panic!("{message:?}");
        };
        one.kind.clone()
    });
    all.collect()
}

/// Returns the only event about a connection of its provider.
fn event(told: &Message, id: &str, reason: ErrorId) -> ErrorEvent {
    let NotificationKind::ErrorEvent {
        event,
        connection_id,
        nsa,
        exception,
    } = kinds(std::slice::from_ref(told)).remove(0)
    else {
        panic!("{told:?}");
    };
    assert_eq!((connection_id.as_str(), nsa.as_str()), (id, "urn:p"));
    let exception = exception.unwrap();
    assert_eq!(exception.connection_id.as_deref(), Some(id));
    assert_eq!(exception.id, reason);
    event
}

const fn data_plane(active: bool) -> NotificationKind {
    NotificationKind::DataPlane(DataPlaneStatus {
        active,
        version: 1,
        is_consistent: true,
    })
}

fn failure(message: Message) -> Failure {
    if let Message::ReserveFailed(failure) | Message::ReserveCommitFailed(failure) = message {
        return *failure;
    }
    panic!("{message:?}");
}

#[test]
fn hold_that_fails_for_the_moment_is_tried_again() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.link.fail("hold", Some(true));
    assert_eq!(run.messages(), []);
    assert_eq!(run.provider.work(), Duration::from_secs(1));
    let states = run.states(&id);
    assert_eq!(states.reservation, ReservationState::Checking);
    run.link.fail("hold", None);
    let told = run.messages();
    assert!(
        matches!(told[..], [Message::ReserveConfirmed(_)]),
        "{told:?}"
    );
}

#[test]
fn refused_hold_fails_the_reservation_which_can_then_be_aborted() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.link.fail("hold", Some(false));
    let mut told = run.messages();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].name(), "reserveFailed");
    let why = failure(told.remove(0));
    assert_eq!(why.connection_id, id);
    assert_eq!(why.states.reservation, ReservationState::Failed);
    assert_eq!(why.exception.id, ErrorId::NoPath);
    assert_eq!(why.exception.connection_id.as_ref(), Some(&id));
    run.operate(Operation::Abort, &id);
    assert_eq!(run.messages(), [confirmed(Operation::Abort, &id)]);
    let states = run.states(&id);
    assert_eq!(states.reservation, ReservationState::Start);
}

#[test]
fn reservation_can_be_terminated_before_the_network_refuses_its_hold() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.operate(Operation::Terminate, &id);
    run.link.fail("hold", Some(false));
    assert_eq!(run.messages(), [confirmed(Operation::Terminate, &id)]);
    let states = run.states(&id);
    assert_eq!(states.lifecycle, LifecycleState::Terminated);
}

#[test]
fn commit_that_fails_for_the_moment_keeps_its_hold() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.messages();
    run.operate(Operation::Commit, &id);
    run.link.fail("commit", Some(true));
    assert_eq!(run.messages(), []);
    assert_eq!(run.link.used(), 1);
    let states = run.states(&id);
    assert_eq!(states.reservation, ReservationState::Committing);
    run.link.fail("commit", None);
    assert_eq!(run.messages(), [confirmed(Operation::Commit, &id)]);
    // the promise outlives the hold
    run.pass(2 * HOLD / SECOND);
    assert_eq!(run.messages(), []);
    assert_eq!(run.link.used(), 1);
}

#[test]
fn refused_commit_ends_both_directions() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.messages();
    run.operate(Operation::Commit, &id);
    run.link.fail("commit", Some(false));
    run.link.fail("end", Some(true));
    // without the end of both, it is not answered
    assert_eq!(run.messages(), []);
    run.link.fail("end", None);
    let mut told = run.messages();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].name(), "reserveCommitFailed");
    let why = failure(told.remove(0));
    assert_eq!(why.exception.id, ErrorId::NoPath);
    assert!(run.link.all().values().all(|one| one.is_ended));
    let states = run.states(&id);
    assert_eq!(states.reservation, ReservationState::Start);
    let refused = run.ask(Message::Request(Operation::Provision, id));
    assert!(matches!(refused, Message::Fault(_)), "{refused:?}");
    // no time-out follows
    run.pass(2 * HOLD / SECOND);
    assert_eq!(run.messages(), []);
}

#[test]
fn circuit_that_cannot_be_made_is_reported_after_its_confirmation() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.committed();
    run.operate(Operation::Provision, &id);
    run.link.fail("provision", Some(true));
    assert_eq!(run.messages(), []);
    assert_eq!(run.states(&id).provision, ProvisionState::Provisioning);
    run.link.fail("provision", Some(false));
    let told = run.messages();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], confirmed(Operation::Provision, &id));
    let event = event(&told[1], &id, ErrorId::NoPath);
    assert_eq!(event, ErrorEvent::ActivateFailed);
    assert_eq!(run.states(&id).provision, ProvisionState::Provisioned);
}

#[test]
fn circuit_that_cannot_be_removed_is_reported_after_its_confirmation() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.active();
    run.operate(Operation::Release, &id);
    run.link.fail("release", Some(true));
    // its state changes no more while the removal is tried
    assert_eq!(run.messages(), []);
    assert_eq!(run.states(&id).provision, ProvisionState::Releasing);
    run.link.fail("release", Some(false));
    *run.link.status.lock().unwrap() = Some(Status::Idle);
    let told = run.messages();
    assert_eq!(told.len(), 3);
    assert_eq!(told[0], confirmed(Operation::Release, &id));
    let event = event(&told[1], &id, ErrorId::NoPath);
    assert_eq!(event, ErrorEvent::DeactivateFailed);
    assert_eq!(kinds(&told[2..]), [data_plane(false)]);
    assert_eq!(run.states(&id).provision, ProvisionState::Released);
}

#[test]
fn failed_circuit_ends_in_both_directions_and_is_reported() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.active();
    *run.link.status.lock().unwrap() = Some(Status::Failed("the fiber is cut".to_owned()));
    run.link.fail("end", Some(true));
    assert_eq!(run.messages(), []);
    assert_eq!(run.states(&id).lifecycle, LifecycleState::Created);
    run.link.fail("end", None);
    let told = run.messages();
    assert_eq!(told.len(), 2);
    assert_eq!(kinds(&told[..1]), [data_plane(false)]);
    let event = event(&told[1], &id, ErrorId::Internal);
    assert_eq!(event, ErrorEvent::ForcedEnd);
    let Message::Notification(last) = &told[1] else {
        unreachable!()
    };
    assert!(format!("{last:?}").contains("the fiber is cut"));
    assert_eq!(run.link.used(), 0);
    let states = run.states(&id);
    assert_eq!(states.lifecycle, LifecycleState::Failed);
    // nothing else happens to it, and only its end is permitted
    assert_eq!(run.messages(), []);
    let refused = run.ask(Message::Request(Operation::Release, id.clone()));
    assert!(matches!(refused, Message::Fault(_)), "{refused:?}");
    run.operate(Operation::Terminate, &id);
    assert_eq!(run.messages(), [confirmed(Operation::Terminate, &id)]);
}

#[test]
fn changes_of_the_data_plane_are_reported_in_order() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.committed();
    run.operate(Operation::Provision, &id);
    let told = run.messages();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], confirmed(Operation::Provision, &id));
    assert_eq!(kinds(&told[1..]), [data_plane(true)]);
    assert!(run.states(&id).data_plane.active);
    assert_eq!(run.messages(), []);
    run.operate(Operation::Terminate, &id);
    let told = run.messages();
    assert_eq!(told.len(), 2);
    assert_eq!(kinds(&told[..1]), [data_plane(false)]);
    assert_eq!(told[1], confirmed(Operation::Terminate, &id));
    let Message::Notification(last) = &told[0] else {
        unreachable!()
    };
    assert_eq!((last.id, last.connection_id.as_str()), (2, id.as_str()));
    assert_eq!(last.at, Timestamp(run.link.now()));
}

#[test]
fn messages_of_one_step_follow_those_that_wait() {
    let mut run = Run::new(Path::new(":memory:"));
    let first = run.active();
    let second = run.active();
    for id in [&first, &second] {
        run.operate(Operation::Terminate, id);
    }
    for _ in 0..4 {
        run.provider.work();
    }
    let told = run.messages();
    let names: Vec<&str> = told.iter().map(Message::name).collect();
    let (change, end) = ("dataPlaneStateChange", "terminateConfirmed");
    assert_eq!(names, [change, end, change, end]);
}

#[test]
fn hold_expires_at_its_end_and_is_reported_with_its_length() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.messages();
    assert_eq!(run.provider.work(), Duration::from_secs(1));
    run.pass(HOLD / SECOND - 1);
    let millis = SECOND / 1000;
    let set = |run: &Run, more: u64| {
        let now = &run.link.now;
        now.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
    };
    set(&run, 700 * millis);
    assert_eq!(run.provider.work(), Duration::from_millis(300));
    set(&run, 300 * millis - 1);
    assert_eq!(run.provider.work(), Duration::from_millis(5));
    assert_eq!(run.messages(), []);
    set(&run, 1);
    let told = run.messages();
    let expected = NotificationKind::ReserveTimeout {
        seconds: 10,
        connection_id: id.clone(),
        nsa: "urn:p".to_owned(),
    };
    assert_eq!(kinds(&told), [expected]);
    let states = run.states(&id);
    assert_eq!(states.reservation, ReservationState::Timeout);
    assert_eq!(run.link.used(), 0);
    assert_eq!(run.messages(), []);
}

#[test]
fn circuit_passes_its_end_at_that_time() {
    let mut run = Run::new(Path::new(":memory:"));
    let end = Timestamp(run.link.now() + 100 * SECOND);
    let answer = run.ask(reserve(1, end));
    let Message::ReserveResponse(id) = answer else {
        panic!("{answer:?}");
    };
    run.messages();
    run.operate(Operation::Commit, &id);
    run.messages();
    run.operate(Operation::Provision, &id);
    run.messages();
    run.pass(99);
    assert_eq!(run.messages(), []);
    assert_eq!(run.states(&id).lifecycle, LifecycleState::Created);
    run.pass(1);
    let told = run.messages();
    // the devices end the circuit by themselves
    assert_eq!(kinds(&told), [data_plane(false)]);
    let states = run.states(&id);
    assert_eq!(states.lifecycle, LifecycleState::PassedEndTime);
    assert!(run.link.all().values().all(|one| !one.is_ended));
}

#[test]
fn confirmations_go_where_their_requests_say_and_reports_where_the_first_did() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.committed();
    let header = Header {
        reply_to: Some("http://r/y".to_owned()),
        ..run.header()
    };
    let correlation = header.correlation_id.clone();
    let message = Message::Request(Operation::Provision, id);
    run.send("agg", &Envelope::new(header, message).encode());
    for _ in 0..4 {
        run.provider.work();
    }
    let told = run.delivered("urn:r");
    let urls: Vec<&str> = told.iter().map(|(url, _)| url.as_str()).collect();
    assert_eq!(urls, ["http://r/y", "http://r/x"]);
    let headers = told.into_iter().map(|(_, one)| one.header.unwrap());
    let headers: Vec<Header> = headers.collect();
    assert_eq!(headers[0].correlation_id, correlation);
    assert!(headers[1].has_correlation());
    assert_ne!(headers[1].correlation_id, correlation);
    for header in headers {
        assert_eq!(header.requester, "urn:r");
        assert_eq!(header.provider, "urn:p");
        assert_eq!(
            header.protocol,
            "application/vnd.ogf.nsi.cs.v2.requester+soap"
        );
        assert_eq!(header.reply_to, None);
    }
}
