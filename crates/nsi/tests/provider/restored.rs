//! Starts with a store of connections, or a network, that was restored from an older backup.

use std::fs;
use std::path::{Path, PathBuf};

use lighthaul_nsi::machine::{LifecycleState, ReservationState};
use lighthaul_nsi::message::notification::ErrorEvent;
use lighthaul_nsi::message::query::{Range, Summary};
use lighthaul_nsi::message::{Message, NotificationKind, Operation};

use super::{Run, open};

/// Files of a store, which are removed with it.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let name = format!("restored-{name}-{}", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn copy(&self) -> PathBuf {
        let copy = self.0.with_extension("backup");
        fs::copy(&self.0, &copy).unwrap();
        copy
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            fs::remove_file(format!("{}{end}", self.0.display())).ok();
        }
        fs::remove_file(self.0.with_extension("backup")).ok();
    }
}

/// Closes the store.
fn close(run: &mut Run) {
    run.provider = open(Path::new(":memory:"), &run.link);
}

/// Opens the store again, and works.
fn start(run: &mut Run) -> Vec<Message> {
    run.provider = open(&run.path, &run.link);
    run.messages()
}

/// Returns a new connection that is committed and provisioned.
fn leased(run: &mut Run) -> String {
    let id = run.reserve_from("urn:n:a").unwrap();
    run.messages();
    for operation in [Operation::Commit, Operation::Provision] {
        run.operate(operation, &id);
        run.messages();
    }
    id
}

fn summary(run: &mut Run, id: &str) -> Summary {
    let all = run.summaries();
    let one = all.into_iter().find(|one| one.connection_id == id);
    one.unwrap()
}

/// Returns the notifications of a connection.
fn notified(run: &mut Run, id: &str) -> Vec<NotificationKind> {
    let range = Range {
        connection_id: id.to_owned(),
        first: None,
        last: None,
    };
    let answer = run.ask(Message::QueryNotification(true, range));
    let Message::QueryNotificationConfirmed(_, all) = answer else {
        panic!("{answer:?}");
    };
    all.into_iter().map(|one| one.kind).collect()
}

#[test]
fn circuit_that_an_older_store_does_not_know_is_ended() {
    let files = Files::new("store");
    let mut run = Run::new(&files.0);
    let kept = leased(&mut run);
    close(&mut run);
    let backup = files.copy();
    start(&mut run);
    let lost = leased(&mut run);
    assert_eq!(run.link.used(), 2);
    close(&mut run);
    fs::copy(&backup, &files.0).unwrap();
    // the network is away at first
    run.set_down(true);
    start(&mut run);
    assert_eq!(run.link.used(), 2);
    run.set_down(false);
    run.messages();
    assert_eq!(run.link.used(), 1);
    assert!(run.link.all()[&lost].is_ended && !run.link.all()[&kept].is_ended);
    assert!(summary(&mut run, &kept).states.data_plane.active);
}

#[test]
fn reservation_of_a_terminated_connection_is_ended() {
    let files = Files::new("terminated");
    let mut run = Run::new(&files.0);
    let id = leased(&mut run);
    run.operate(Operation::Terminate, &id);
    run.messages();
    assert_eq!(run.link.used(), 0);
    // older books have it still
    run.link.all().get_mut(&id).unwrap().is_ended = false;
    close(&mut run);
    start(&mut run);
    assert_eq!(run.link.used(), 0);
}

#[test]
fn connection_whose_reservation_older_books_do_not_have_fails() {
    let files = Files::new("books");
    let mut run = Run::new(&files.0);
    let (kept, lost) = (leased(&mut run), leased(&mut run));
    let held = run.reserve_from("urn:n:a").unwrap();
    run.messages();
    let reused = leased(&mut run);
    close(&mut run);
    run.link.all().remove(&lost);
    run.link.all().remove(&held);
    // another circuit has its number
    let mut other = run.link.all().remove(&reused).unwrap();
    other.mbps = 7;
    run.link.all().insert("other".to_owned(), other);
    run.link.all().get_mut("other").unwrap().is_committed = false;
    let said = start(&mut run);
    for id in [&lost, &reused] {
        let states = summary(&mut run, id).states;
        assert_eq!(states.lifecycle, LifecycleState::Failed);
        assert!(!states.data_plane.active);
        let notified = notified(&mut run, id);
        let Some(NotificationKind::ErrorEvent {
            event: ErrorEvent::ForcedEnd,
            exception: Some(why),
            ..
        }) = notified.last()
        else {
            panic!("{notified:?}");
        };
        assert!(why.text.contains("has no reservation"), "{why}");
    }
    assert_eq!(
        summary(&mut run, &held).states.reservation,
        ReservationState::Timeout
    );
    assert!(matches!(
        notified(&mut run, &held).last(),
        Some(NotificationKind::ReserveTimeout { .. })
    ));
    let states = summary(&mut run, &kept).states;
    assert_eq!(states.lifecycle, LifecycleState::Created);
    // the circuit that has the number was left alone
    assert!(!run.link.all()["other"].is_ended);
    assert_eq!(said.len(), 5, "{said:?}");
}
