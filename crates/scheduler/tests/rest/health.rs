//! Status of a scheduler whose store fails.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;

use crate::faulty_store::{FULL, FaultyStore, Health, WORKS};
use crate::test_server::{Setup, TestServer, bytes, problem};

#[test]
fn store_that_cannot_be_written_is_shown_and_grants_nothing_until_it_recovers() {
    let health = Health::default();
    let server = TestServer::of(Setup {
        store: Some(Box::new(FaultyStore::new(&health, true))),
        ..Setup::default()
    });
    let ada = server.client("ada");
    let first = ada.reserve_once(&bytes(1_000_000), "one").unwrap();
    assert_eq!(ada.health().unwrap().fault, None);
    health.store(FULL, Ordering::Relaxed);
    let why = problem(ada.reserve_once(&bytes(1_000_000), "two"));
    assert_eq!(why.status, 503, "{why:?}");
    wait_until("the fault is shown", || {
        let fault = ada.health().unwrap().fault;
        fault.is_some_and(|fault| fault.contains("free space"))
    });
    assert_eq!(server.raw("GET", "/readyz", "", "").0, 503);
    // what was granted is still there
    assert_eq!(ada.reservation(first.id).unwrap().id, first.id);
    health.store(WORKS, Ordering::Relaxed);
    wait_until("the fault has gone", || {
        ada.health().unwrap().fault.is_none()
    });
    // the repeated request is granted once
    let granted = [(); 2].map(|()| ada.reserve_once(&bytes(1_000_000), "two").unwrap().id);
    assert_eq!(granted[0], granted[1]);
    assert_ne!(granted[0], first.id);
}

/// Waits for at most half a minute.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let clock = Clock::start();
    while !is_so() {
        assert!(
            clock.now() < Instant::ZERO + Duration::from_secs(30),
            "{what}"
        );
        thread::park_timeout(Duration::from_millis(50));
    }
}
