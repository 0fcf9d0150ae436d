//! Guard times of devices after a restart of the scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_booking::books::{Books, Config, Policy};
use lighthaul_booking_client::json::{FlowAt, NewReservation, Timestamp};
use lighthaul_calendar::{Limits, Topology};

use crate::shared_store::SharedStore;
use crate::world::{BEGIN, SECOND, World, ada, all_for, link};

/// Returns a link of 1 Gb/s at a device with a guard time of five seconds.
fn slow_device() -> Topology {
    let mut topology = link(1000);
    let links: Vec<_> = topology.links().map(|(id, _)| id).collect();
    topology.attach("eth1", &links).unwrap();
    let limits = Limits {
        capacity: Rate::from_mbps(1000),
        channel: Rate::from_mbps(1),
        least: Rate::from_mbps(1),
        guard: Duration::from_secs(5),
        packet_bytes: 0,
        circuits_max: 9,
    };
    topology.set_limits("eth1", limits).unwrap();
    topology
}

/// Returns a request for a circuit with the whole link.
fn circuit(seconds: u64, port: u16) -> NewReservation {
    NewReservation {
        flow: Some(FlowAt {
            interface: "eth1".into(),
            packets: format!("udp 10.0.0.2 {port}").parse().unwrap(),
        }),
        ..all_for(seconds)
    }
}

#[test]
fn circuit_released_before_a_restart_keeps_its_guard_time() {
    let shared_store = SharedStore::default();
    let now = Arc::new(AtomicU64::new(BEGIN));
    let open = |name| {
        shared_store.elect(name);
        let config = Config {
            policy: Policy {
                prefixes: vec!["10.0.0.0/8".parse().unwrap()],
                ..Policy::default()
            },
            ..Config::default()
        };
        let now = Arc::clone(&now);
        let clock = move || Timestamp(now.load(Ordering::Relaxed));
        Books::open(shared_store.handle(name), slow_device(), config, clock).unwrap()
    };
    let pass = |seconds: u64| now.fetch_add(seconds * SECOND, Ordering::Relaxed);
    let first = |books: &Books| books.quote(&ada(), &circuit(1, 5001)).unwrap().steps[0].from;
    let books = open("one");
    let begun = books.reserve(&ada(), &circuit(600, 5000), None).unwrap();
    // it holds nothing, so it leaves no guard time
    let ahead = NewReservation {
        start: Some(World::at(2000)),
        ..circuit(600, 5002)
    };
    let ahead = books.reserve(&ada(), &ahead, None).unwrap();
    pass(30);
    books.release(&ada(), begun.id, "").unwrap();
    books.terminate(&ada(), ahead.id, "").unwrap();
    assert_eq!(first(&books), World::at(35));
    pass(2);
    drop(books);
    let books = open("two");
    assert_eq!(first(&books), World::at(35));
    // what is promised in that time stays
    pass(2);
    let next = books.reserve(&ada(), &circuit(1, 5001), None).unwrap();
    drop(books);
    let books = open("three");
    let same = books.get(&ada(), next.id).unwrap();
    assert_eq!((same.state, &same.steps), (next.state, &next.steps));
    pass(100);
    drop(books);
    let books = open("four");
    assert_eq!(first(&books), World::at(134));
}
