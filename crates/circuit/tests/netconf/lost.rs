//! Connections that are lost at each request of a change, and what the device has then.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::conformance::State;
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::error::Cause;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;

use crate::client::Client;
use crate::conformance::found;
use crate::proxy::{Loss, Proxy};
use crate::testbed::{Testbed, circuit, set};

fn state(driver: &mut dyn Driver) -> State {
    let circuits = driver.inspect().unwrap();
    circuits.iter().map(|one| (one.id, one.rate)).collect()
}

fn mbps(pairs: &[(u64, u64)]) -> State {
    let rate = |(id, mbps): &(u64, u64)| (CircuitId(*id), Rate::from_bps(mbps * 1_000_000));
    pairs.iter().map(rate).collect()
}

/// Waits until the device has had these states.
fn await_states(client: &mut Client, states: &[State]) {
    let clock = Clock::start();
    let mut seen = Vec::new();
    // the driver waits longer than the device
    while seen != states {
        let state = found(&client.running()).unwrap();
        if seen.last() != Some(&state) {
            seen.push(state);
        }
        let time = clock.now().since(Instant::ZERO);
        assert!(time < Duration::from_mins(1), "{seen:?} after {time:?}");
        // this server looks at its timers in a second without requests
        pause(Duration::from_millis(1500));
    }
}

#[test]
fn connection_that_is_lost_at_any_request_leaves_the_old_or_the_new_circuits() {
    let test = "connection_that_is_lost_at_any_request_leaves_the_old_or_the_new_circuits";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    let proxy = Proxy::start(&testbed.path(""));
    let mut client = testbed.client();
    let mut driver = testbed.driver("proxy", "").unwrap();
    let (first, second) = (circuit(1, "udp 10.0.0.1 1"), circuit(2, "tcp 10.0.0.2 2"));
    let (before, after) = (mbps(&[(1, 100)]), mbps(&[(1, 50), (2, 200)]));
    for loss in [Loss::Request, Loss::Reply] {
        let (mut old, mut new) = (0, 0);
        for nth in 0..40 {
            driver.remove(CircuitId(2)).unwrap();
            set(&mut driver, &first, 100).unwrap();
            assert_eq!(state(&mut driver), before);
            proxy.lose(loss, nth);
            let changes = [(&first, 50), (&second, 200)].map(|(circuit, mbps)| Change {
                circuit,
                rate: Some(Rate::from_mbps(mbps)),
                timer: None,
            });
            let results = driver.apply(&changes);
            if !proxy.has_struck() {
                assert!(nth >= 8, "a change has only {nth} requests");
                break;
            }
            let is_done = results.iter().all(Result::is_ok);
            for why in results.into_iter().filter_map(Result::err) {
                assert_eq!(why.cause(), Cause::NoAnswer, "{loss:?} {nth}: {why}");
            }
            let seen = state(&mut driver);
            assert_eq!(found(&client.running()).unwrap(), seen, "{loss:?} {nth}");
            assert!(
                seen == after || (seen == before && !is_done),
                "{loss:?} {nth}: {seen:?}, {is_done}"
            );
            *(if seen == after { &mut new } else { &mut old }) += 1;
        }
        println!("{loss:?}: {old} times the old circuits, {new} times the new ones");
        // the first request finds a session that has ended, and is made again
        assert!(old >= 4 && new >= 2, "{loss:?}: {old}, {new}");
    }
}

#[test]
fn device_takes_a_commit_back_that_nobody_confirms() {
    let test = "device_takes_a_commit_back_that_nobody_confirms";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    let proxy = Proxy::start(&testbed.path(""));
    let mut client = testbed.client();
    let mut driver = testbed
        .driver("proxy", "--confirm 12 --timeout 30")
        .unwrap();
    let wanted = circuit(1, "udp 10.0.0.1 1");
    set(&mut driver, &wanted, 100).unwrap();
    proxy.lose(Loss::Silence, TILL_COMMIT);
    let (before, after) = (mbps(&[(1, 100)]), mbps(&[(1, 700)]));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            await_states(
                &mut client,
                &[before.clone(), after.clone(), before.clone()],
            );
        });
        let why = set(&mut driver, &wanted, 700).unwrap_err();
        assert_eq!(why.cause(), Cause::NoAnswer, "{why}");
    });
    assert!(proxy.has_struck());
    assert_eq!(state(&mut driver), before);
    set(&mut driver, &wanted, 700).unwrap();
    assert_eq!(state(&mut driver), after);
}

#[test]
fn check_that_ends_after_the_time_to_confirm_is_no_success() {
    let test = "check_that_ends_after_the_time_to_confirm_is_no_success";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    let proxy = Proxy::start(&testbed.path(""));
    let mut client = testbed.client();
    let mut driver = testbed
        .driver("proxy", "--confirm 12 --timeout 40")
        .unwrap();
    let wanted = circuit(1, "udp 10.0.0.1 1");
    set(&mut driver, &wanted, 100).unwrap();
    // the device reads its configuration in time, and the driver receives it after the device took the commit back
    proxy.lose(Loss::Late, TILL_COMMIT);
    let (before, after) = (mbps(&[(1, 100)]), mbps(&[(1, 700)]));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            await_states(&mut client, &[before.clone(), after, before.clone()]);
            proxy.release();
        });
        let why = set(&mut driver, &wanted, 700).unwrap_err();
        assert_eq!(why.cause(), Cause::NoAnswer, "{why}");
    });
    assert!(proxy.has_struck());
    assert_eq!(state(&mut driver), before);
}

#[test]
fn driver_that_is_killed_between_commit_and_confirmation_leaves_the_old_circuits() {
    let test = "driver_that_is_killed_between_commit_and_confirmation_leaves_the_old_circuits";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    let proxy = Proxy::start(&testbed.path(""));
    let mut driver = testbed
        .driver("proxy", "--confirm 15 --timeout 30")
        .unwrap();
    let wanted = circuit(1, "udp 10.0.0.1 1");
    set(&mut driver, &wanted, 100).unwrap();
    proxy.lose(Loss::Silence, TILL_COMMIT);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = testbed.client();
            let clock = Clock::start();
            while found(&client.running()).unwrap() != mbps(&[(1, 700)]) {
                let time = clock.now().since(Instant::ZERO);
                assert!(time < Duration::from_mins(1), "no commit after {time:?}");
                pause(Duration::from_millis(5));
            }
            proxy.kill_driver();
        });
        let why = set(&mut driver, &wanted, 700).unwrap_err();
        assert_eq!(why.cause(), Cause::NoAnswer, "{why}");
    });
    // the next driver may start before the device has taken the commit back
    assert_eq!(state(&mut driver), mbps(&[(1, 100)]));
}

/// Requests of a change until its commit: a look at the session, the lock, the configuration, an edit, the commit. Then
/// the driver hangs.
const TILL_COMMIT: usize = 5;
