//! What is promised stands at the devices, and what a device does is in the books.
#![expect(clippy::unwrap_used, reason = "a test")]

#[expect(dead_code, reason = "other tests need the rest")]
#[path = "books/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Capabilities, Driver, Standing};
use lighthaul_circuit::reservation::State;
use lighthaul_circuit::sim::{Sim, Temper};
use lighthaul_io::clock::{Clock, unix_nanos};
use lighthaul_scheduler::books::{Books, Config};
use lighthaul_scheduler::circuits::Circuits;
use lighthaul_scheduler::store::Store;
use lighthaul_scheduler::store::sqlite::Sqlite;
use lighthaul_scheduler::word::{FlowAt, Moment, NewReservation};
use world::{ada, all_for, ben, link};

#[test]
fn a_circuit_stands_while_its_reservation_does() {
    let (books, device) = (books(Box::new(Sqlite::in_memory().unwrap())), device());
    let circuits = circuits(&books, &device);
    let id = books.reserve(&ada(), &wanted(600, 5000), None).unwrap().id;
    assert_eq!(
        books.get(&ada(), id).unwrap().state,
        State::Provisioned,
        "active is what carries packets"
    );
    tend_until(&circuits, || {
        books.get(&ada(), id).unwrap().state == State::Active
    });
    assert_eq!(
        device.circuits()[&CircuitId(id)].rate,
        Some(Rate::from_mbps(1000))
    );
    let line = books.get(&ada(), id).unwrap().journal.pop().unwrap();
    assert_eq!(
        (line.who.as_str(), line.why.as_str()),
        ("eth1", "its circuit carries 1.000 Gb/s")
    );
    books.release(&ada(), id, "done").unwrap();
    tend_until(&circuits, || device.circuits().is_empty());
    assert!(device.circuits().is_empty());
}

#[test]
fn a_device_that_stumbles_fails_its_reservation_which_frees_the_link() {
    let (books, device) = (books(Box::new(Sqlite::in_memory().unwrap())), device());
    let circuits = circuits(&books, &device);
    device.set_temper(Temper {
        latency_max: Duration::ZERO,
        fail_ppb: 1_000_000_000,
    });
    let id = books.reserve(&ada(), &wanted(600, 5000), None).unwrap().id;
    tend_until(&circuits, || {
        books.get(&ada(), id).unwrap().state.is_final()
    });
    let failed = books.get(&ada(), id).unwrap();
    assert_eq!(failed.state, State::Failed);
    assert!(failed.failure.unwrap().contains("stumbled"));
    let next = books.quote(&ben(), &all_for(1)).unwrap();
    assert!(
        next.steps[0].from <= Moment(unix_nanos()),
        "the link is free at once"
    );
}

#[test]
fn what_the_device_cannot_keep_fails_with_its_reason() {
    let (books, device) = (books(Box::new(Sqlite::in_memory().unwrap())), device());
    let circuits = circuits(&books, &device);
    let first = books.reserve(&ada(), &slow(5000), None).unwrap().id;
    let second = books.reserve(&ada(), &slow(5000), None).unwrap().id;
    circuits.tend().unwrap();
    assert!(!books.get(&ada(), first).unwrap().state.is_final());
    let why = books.get(&ada(), second).unwrap().failure.unwrap();
    assert!(why.contains("other ports"), "{why}");
}

#[test]
fn who_comes_back_finds_its_circuits_and_clears_what_is_not_wanted() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("circuits-{}", std::process::id()));
    let device = device();
    let kept = {
        let books = books(Box::new(Sqlite::open(&file).unwrap()));
        books.reserve(&ada(), &slow(5000), None).unwrap()
    };
    let stranger = Standing {
        id: CircuitId(9999),
        flow: Some("udp 10.0.0.9 1".parse().unwrap()),
        rate: Some(Rate::from_mbps(1)),
    };
    device.tamper(stranger);
    let books = books(Box::new(Sqlite::open(&file).unwrap()));
    let circuits = circuits(&books, &device);
    let stands = || device.circuits().into_keys().collect::<BTreeSet<_>>();
    tend_until(&circuits, || {
        stands() == BTreeSet::from([CircuitId(kept.id)])
    });
    assert_eq!(stands(), BTreeSet::from([CircuitId(kept.id)]));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_circuit_at_an_interface_without_a_driver_is_refused_by_name() {
    let books = books(Box::new(Sqlite::in_memory().unwrap()));
    let mut new = wanted(1, 5000);
    new.flow.as_mut().unwrap().interface = "eth7".into();
    let why = books.reserve(&ada(), &new, None).unwrap_err().to_string();
    assert!(why.contains("eth7, only at: eth1"), "{why}");
}

fn books(store: Box<dyn Store>) -> Arc<Books> {
    let config = Config {
        interfaces: ["eth1".to_owned()].into(),
        ..Config::default()
    };
    Arc::new(Books::open(store, link(1000), config, || Moment(unix_nanos())).unwrap())
}

fn device() -> Sim {
    let capabilities = Capabilities {
        rate_min: Rate::from_mbps(1),
        rate_max: Rate::from_mbps(1000),
        granularity: Rate::from_mbps(1),
        guard: Duration::ZERO,
        entries_max: 100,
        is_hitless: true,
        overhead_bytes: 0,
    };
    let temper = Temper {
        latency_max: Duration::ZERO,
        fail_ppb: 0,
    };
    Sim::new(capabilities, temper, 1)
}

fn circuits(books: &Arc<Books>, device: &Sim) -> Circuits {
    let driver: Box<dyn Driver> = Box::new(device.clone());
    let drivers = BTreeMap::from([("eth1".to_owned(), driver)]);
    Circuits::start(
        Arc::clone(books),
        drivers,
        Clock::start(),
        Moment(unix_nanos()),
    )
    .unwrap()
}

/// All of the link for so many seconds, for packets to a port.
fn wanted(seconds: u64, port: u16) -> NewReservation {
    NewReservation {
        flow: Some(FlowAt {
            interface: "eth1".into(),
            packets: format!("udp 10.0.0.2 {port}").parse().unwrap(),
        }),
        ..all_for(seconds)
    }
}

/// A tenth of the link for a minute.
fn slow(port: u16) -> NewReservation {
    NewReservation {
        rate_max: Some(Rate::from_mbps(100).into()),
        ..wanted(6, port)
    }
}

/// Tends circuits till something is so, for ten seconds at most.
fn tend_until(circuits: &Circuits, is_so: impl Fn() -> bool) {
    let clock = circuits.clock();
    let till = clock.now() + Duration::from_secs(10);
    while !is_so() && clock.now() < till {
        circuits.tend().unwrap();
        circuits
            .wait(clock.now() + Duration::from_millis(50))
            .unwrap();
    }
}
