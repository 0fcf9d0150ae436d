//! Circuits while the store of the books fails, by a virtual clock.
#![expect(clippy::unwrap_used, reason = "a test")]

#[expect(dead_code, reason = "used by other tests")]
#[path = "../../booking/tests/books/world.rs"]
mod world;

#[path = "rest/faulty_store.rs"]
mod faulty_store;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use faulty_store::{AWAY, FULL, FaultyStore, Health, WORKS};
use lighthaul_base::{Instant, Rate};
use lighthaul_booking::books::{Books, Config};
use lighthaul_booking_client::json::{FlowAt, NewReservation, Timestamp};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_calendar::Limits;
use lighthaul_circuit::agent::LeasedCircuit;
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::Event;
use lighthaul_scheduler::circuits::{CircuitDevices, CircuitUpdater};
use world::{BEGIN, SECOND, ada, all_for, link, operator};

/// Device that does what it is asked, with the ends of the leases.
#[derive(Debug)]
struct Device {
    now: Arc<AtomicU64>,
    circuits: RefCell<BTreeMap<CircuitId, (Circuit, Instant)>>,
    events: RefCell<VecDeque<Event>>,
    enabled_till: Cell<Instant>,
}

impl CircuitDevices for Device {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.load(Ordering::Relaxed) - BEGIN)
    }

    fn names(&self) -> BTreeSet<String> {
        BTreeSet::from(["eth1".to_owned()])
    }

    fn circuits(&self) -> Vec<Circuit> {
        let circuits = self.circuits.borrow();
        circuits
            .values()
            .map(|(circuit, _)| circuit.clone())
            .collect()
    }

    fn take(&self, circuit: Circuit, till: Instant) -> lighthaul_circuit::error::Result<()> {
        self.circuits
            .borrow_mut()
            .insert(circuit.id, (circuit, till));
        Ok(())
    }

    fn renew(&self, circuit: &Circuit, till: Instant) -> lighthaul_circuit::error::Result<()> {
        self.take(circuit.clone(), till)
    }

    fn release(&self, circuit: &Circuit) -> lighthaul_circuit::error::Result<()> {
        self.circuits.borrow_mut().remove(&circuit.id);
        Ok(())
    }

    fn poll_event(&self) -> Option<(String, Event)> {
        let event = self.events.borrow_mut().pop_front()?;
        Some(("eth1".to_owned(), event))
    }

    fn extend(&self, till: Instant) -> bool {
        let is_enabled = self.now() < self.enabled_till.get();
        if is_enabled {
            self.enabled_till.set(till);
        }
        is_enabled
    }

    fn enable(
        &self,
        wanted: Vec<LeasedCircuit>,
        till: Instant,
    ) -> Vec<(CircuitId, lighthaul_circuit::error::Error)> {
        self.enabled_till.set(till);
        for one in wanted {
            self.take(one.circuit, one.lease_till).unwrap();
        }
        Vec::new()
    }

    fn disable(&self) {
        self.enabled_till.set(Instant::ZERO);
        self.circuits.borrow_mut().clear();
    }
}

/// Scheduler with a device, whose store can fail.
struct Site {
    now: Arc<AtomicU64>,
    health: Health,
    books: Arc<Books>,
    updater: CircuitUpdater<Device>,
}

impl Site {
    fn new(is_exclusive: bool) -> Self {
        let (now, health) = (Arc::new(AtomicU64::new(BEGIN)), Health::default());
        let store = FaultyStore::new(&health, is_exclusive);
        let mut topology = link(1000);
        let links: Vec<_> = topology.links().map(|(id, _)| id).collect();
        topology.attach("eth1", &links).unwrap();
        let limits = Limits {
            capacity: Rate::from_mbps(1000),
            channel: Rate::from_mbps(1),
            least: Rate::from_mbps(1),
            guard: Duration::ZERO,
            packet_bytes: 0,
            circuits_max: 8,
        };
        topology.set_limits("eth1", limits).unwrap();
        let clock = Arc::clone(&now);
        let clock = move || Timestamp(clock.load(Ordering::Relaxed));
        let books = Books::open(Box::new(store), topology, Config::default(), clock);
        let books = Arc::new(books.unwrap());
        let device = Device {
            now: Arc::clone(&now),
            circuits: RefCell::default(),
            events: RefCell::default(),
            enabled_till: Cell::new(Instant::ZERO),
        };
        let updater = CircuitUpdater::new(Arc::clone(&books), device, Timestamp(BEGIN));
        Self {
            now,
            health,
            books,
            updater,
        }
    }

    /// Reserves a circuit for this many seconds, which is active at once.
    fn reserve(&self, seconds: u64, port: u16) -> u64 {
        let new = NewReservation {
            flow: Some(FlowAt {
                interface: "eth1".into(),
                packets: format!("udp 10.0.0.2 {port}").parse().unwrap(),
            }),
            ..all_for(seconds)
        };
        let id = self.books.reserve(&operator(), &new, None).unwrap().id;
        self.updater.update().unwrap();
        id
    }

    fn become_health(&self, health: u8) {
        self.health.store(health, Ordering::Relaxed);
    }

    /// Advances the clock, and lets the scheduler do what it does every second. Returns true if all of it worked.
    fn pass(&self, seconds: u64) -> bool {
        let mut works = true;
        for _ in 0..seconds {
            self.now.fetch_add(SECOND, Ordering::Relaxed);
            let ticked = self.books.tick().is_ok();
            works &= self.updater.update().is_ok() && ticked;
        }
        works
    }

    /// Returns true if a circuit has a lease.
    fn carries(&self, id: u64) -> bool {
        let circuits = self.updater.devices().circuits.borrow();
        let now = self.updater.devices().now();
        circuits
            .get(&CircuitId(id))
            .is_some_and(|(_, till)| *till > now)
    }

    fn state(&self, id: u64) -> ReservationState {
        self.books.get(&operator(), id).unwrap().state
    }
}

#[test]
fn circuits_outlive_a_store_that_fails_longer_than_their_leases() {
    for health in [FULL, AWAY] {
        let site = Site::new(true);
        let id = site.reserve(1000, 5000);
        // a change that is due meanwhile cannot be written
        let held = NewReservation {
            commit: false,
            start: Some(Timestamp(BEGIN + 2000 * SECOND)),
            ..all_for(1)
        };
        site.books.reserve(&ada(), &held, None).unwrap();
        site.become_health(health);
        assert!(!site.pass(300));
        assert!(site.carries(id), "health {health}");
        assert!(site.books.status().why.is_some());
        assert!(site.books.reserve(&ada(), &all_for(1), None).is_err());
        site.become_health(WORKS);
        assert!(site.pass(3));
        assert!(site.carries(id));
        assert_eq!(site.books.status().why, None);
        site.books.reserve(&ada(), &all_for(1), None).unwrap();
    }
}

#[test]
fn devices_of_a_shared_store_are_left_alone_while_it_fails() {
    let site = Site::new(false);
    let id = site.reserve(1000, 5000);
    let is_enabled = || {
        let device = site.updater.devices();
        device.now() < device.enabled_till.get()
    };
    assert!(is_enabled());
    for health in [AWAY, FULL] {
        site.become_health(WORKS);
        assert!(site.pass(2));
        assert!(is_enabled() && site.carries(id));
        site.become_health(health);
        // a change of the books shows that the store cannot be written
        let _ = site.books.reserve(&ada(), &all_for(1), None);
        site.pass(1);
        assert!(!is_enabled(), "another instance may be the writer");
    }
    site.become_health(WORKS);
    // without a look at the books, as while a server hangs
    assert!(site.pass(1));
    site.now.fetch_add(11 * SECOND, Ordering::Relaxed);
    assert!(!is_enabled());
}

#[test]
fn event_of_a_device_waits_for_the_store_and_delays_no_circuit() {
    let site = Site::new(true);
    let (one, two) = (site.reserve(100, 5000), site.reserve(100, 5001));
    let events = &site.updater.devices().events;
    site.become_health(FULL);
    let failed = Event::Failed(CircuitId(one), "no light".to_owned());
    events.borrow_mut().push_back(failed);
    assert!(!site.pass(70));
    assert!(site.carries(two));
    assert_eq!(site.state(one), ReservationState::Provisioned);
    // a report that was lost would not be repeated
    assert!(events.borrow().is_empty());
    site.become_health(WORKS);
    assert!(site.pass(2));
    assert_eq!(site.state(one), ReservationState::Failed);
    let why = site.books.get(&operator(), one).unwrap().failure.unwrap();
    assert!(why.contains("no light"), "{why}");
    assert_eq!(site.state(two), ReservationState::Provisioned);
}
