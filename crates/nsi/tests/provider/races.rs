//! Connections that a request or the time overtakes.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::host::clock::Clock;
use lighthaul_nsi::machine::{LifecycleState, ReservationState};
use lighthaul_nsi::message::{ErrorId, Message, Operation};

use super::{HOLD, LINK_MBPS, Run, SECOND, reserve};

/// Starts work whose hold has begun, and ends once it gets a message.
fn begin_hold(run: &Run) -> (JoinHandle<Duration>, Sender<()>) {
    let (begun, has_begun) = channel();
    let (end, may_end) = channel();
    *run.link.slow.lock().unwrap() = Some((begun, may_end));
    let provider = Arc::clone(&run.provider);
    let worker = thread::spawn(move || provider.work());
    has_begun.recv_timeout(Duration::from_mins(1)).unwrap();
    (worker, end)
}

#[test]
fn requests_are_answered_while_the_network_works() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    let (worker, end) = begin_hold(&run);
    // the hold is being made
    let other = run.reserve_from("urn:n:a").unwrap();
    assert_eq!(run.summaries().len(), 2);
    run.operate(Operation::Terminate, &id);
    end.send(()).unwrap();
    worker.join().unwrap();
    let mut rounds = (0..100).map(|_| run.provider.work());
    assert!(rounds.any(|wait| wait > Duration::ZERO));
    let states = run.summaries();
    let of = |id: &str| states.iter().find(|one| one.connection_id == id).unwrap();
    assert_eq!(of(&id).states.lifecycle, LifecycleState::Terminated);
    assert_eq!(of(&other).states.reservation, ReservationState::Held);
    // the hold that was overtaken has ended
    assert_eq!(run.link.used(), 1);
}

#[test]
fn waiting_thread_is_woken_by_each_request() {
    let mut run = Run::new(Path::new(":memory:"));
    let (start, may_start) = channel();
    let (end, has_ended) = channel();
    let provider = Arc::clone(&run.provider);
    thread::spawn(move || {
        for () in may_start {
            provider.wait(Duration::from_hours(1));
            end.send(()).unwrap();
        }
    });
    let wait = || start.send(()).unwrap();
    let assert_woken = || has_ended.recv_timeout(Duration::from_mins(1)).unwrap();
    // work may be left from before the start
    wait();
    assert_woken();
    wait();
    let id = run.reserve_from("urn:n:a").unwrap();
    assert_woken();
    run.operate(Operation::Terminate, &id);
    wait();
    assert_woken();
    // there is no other news
    let (clock, longest) = (Clock::start(), Duration::from_millis(20));
    run.provider.wait(longest);
    assert!(clock.now() >= lighthaul_base::Instant::ZERO + longest);
}

#[test]
fn hold_that_a_termination_overtook_ends_once_the_network_answers() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    let (worker, end) = begin_hold(&run);
    run.operate(Operation::Terminate, &id);
    end.send(()).unwrap();
    worker.join().unwrap();
    // the provider does not know the hold, and finds it by asking again
    run.link.fail("hold", Some(true));
    let lifecycle = |run: &mut Run| run.summaries()[0].states.lifecycle;
    assert_eq!(run.messages(), []);
    assert_eq!(lifecycle(&mut run), LifecycleState::Terminating);
    assert_eq!(run.link.used(), 1);
    run.link.fail("hold", None);
    let confirmed = Message::Confirmed(Operation::Terminate, id);
    assert_eq!(run.messages(), [confirmed]);
    assert_eq!(lifecycle(&mut run), LifecycleState::Terminated);
    assert_eq!(run.link.used(), 0);
}

#[test]
fn uncommitted_connection_reaches_the_state_passed_end_time() {
    let mut run = Run::new(Path::new(":memory:"));
    let end = Timestamp(run.link.now() + 100 * SECOND);
    let mut reserve = |mbps| {
        let answer = run.ask(reserve(mbps, end));
        let Message::ReserveResponse(id) = answer else {
            panic!("{answer:?}");
        };
        id
    };
    let ids = [reserve(LINK_MBPS + 1), reserve(1)];
    run.provider.work();
    run.pass(HOLD / SECOND + 1);
    run.provider.work();
    let states = |run: &mut Run| {
        let all = run.summaries();
        ids.clone().map(|id| {
            let found = all.iter().find(|one| one.connection_id == id).unwrap();
            (found.states.reservation, found.states.lifecycle)
        })
    };
    let (failed, late) = (ReservationState::Failed, ReservationState::Timeout);
    let created = LifecycleState::Created;
    assert_eq!(states(&mut run), [(failed, created), (late, created)]);
    run.pass(100);
    run.provider.work();
    let passed = LifecycleState::PassedEndTime;
    assert_eq!(states(&mut run), [(failed, passed), (late, passed)]);
    assert_eq!(run.provider.work(), Duration::from_secs(1));
    let refused = run.ask(Message::Request(Operation::Commit, ids[1].clone()));
    let Message::Fault(why) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(why.id, ErrorId::InvalidTransition);
    run.operate(Operation::Terminate, &ids[0]);
}
