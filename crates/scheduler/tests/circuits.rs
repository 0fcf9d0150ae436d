//! Circuits of reservations at devices, and events of devices in the books.
#![expect(clippy::unwrap_used, reason = "a test")]

#[expect(dead_code, reason = "used by other tests")]
#[path = "../../booking/tests/books/world.rs"]
mod world;

#[expect(dead_code, reason = "used by other tests")]
#[path = "../../booking/tests/books/shared_store.rs"]
mod shared_store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_booking::Error;
use lighthaul_booking::books::{Books, Config, Policy};
use lighthaul_booking::error::OverlapError;
use lighthaul_booking::store::Store;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::json::{FlowAt, NewReservation, Timestamp};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_calendar::{Link, Topology};
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Capabilities, Change, CountedBytes, Driver, InstalledCircuit};
use lighthaul_circuit::sim_device::{FaultModel, SimDevice, SimFault};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_scheduler::circuits::{Circuits, give_up, with_device_limits};
use lighthaul_scheduler::device_record::DeviceRecord;
use shared_store::{Fault, SharedStore};
use world::{ada, all_for, ben, link, operator};

#[test]
fn circuit_exists_as_long_as_its_reservation() {
    let (books, device) = (books(Box::new(Sqlite::in_memory().unwrap())), device());
    let circuits = circuits(&books, &device);
    let id = books.reserve(&ada(), &wanted(600, 5000), None).unwrap().id;
    assert_eq!(
        books.get(&ada(), id).unwrap().state,
        ReservationState::Provisioned,
        "a reservation with packets is active"
    );
    update_until(&circuits, || {
        books.get(&ada(), id).unwrap().state == ReservationState::Active
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
    update_until(&circuits, || device.circuits().is_empty());
    assert!(device.circuits().is_empty());
}

#[test]
fn failed_device_fails_its_reservation_and_frees_the_link() {
    let (books, device) = (books(Box::new(Sqlite::in_memory().unwrap())), device());
    let circuits = circuits(&books, &device);
    device.fail_change(Some(SimFault::Refused), 0);
    let id = books.reserve(&ada(), &wanted(600, 5000), None).unwrap().id;
    update_until(&circuits, || {
        books.get(&ada(), id).unwrap().state.is_final()
    });
    let failed = books.get(&ada(), id).unwrap();
    assert_eq!(failed.state, ReservationState::Failed);
    assert!(failed.failure.unwrap().contains("simulated fault"));
    let next = books.quote(&ben(), &all_for(1)).unwrap();
    assert!(
        next.steps[0].from <= Timestamp(unix_nanos()),
        "the link is free"
    );
}

#[test]
fn device_is_noted_before_its_first_circuit_until_it_was_read_without_any() {
    let (books, device) = (books(Box::new(Sqlite::in_memory().unwrap())), device());
    let name = format!("lighthaul-noted-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let open = || DeviceRecord::open(&path).unwrap();
    let noted = || open().names().iter().cloned().collect::<Vec<_>>();
    let circuits = circuits_with(&books, &device, open());
    circuits.update().unwrap();
    assert_eq!(noted(), [""; 0]);
    let mut later = wanted(60, 5000);
    later.start = Some(Timestamp(unix_nanos() + 3_600_000_000_000));
    let id = books.reserve(&ada(), &later, None).unwrap().id;
    circuits.update().unwrap();
    assert_eq!(noted(), ["eth1"]);
    books.terminate(&ada(), id, "done").unwrap();
    drop(circuits);
    // the next start reads the device
    let circuits = circuits_with(&books, &device, open());
    update_until(&circuits, || noted().is_empty());
    assert_eq!(noted(), [""; 0]);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn reservations_of_a_device_that_is_given_up_fail() {
    let books = books(Box::new(Sqlite::in_memory().unwrap()));
    let id = books.reserve(&ada(), &slow(5000), None).unwrap().id;
    assert_eq!(give_up(&books, "eth2").unwrap(), [0; 0]);
    assert_eq!(give_up(&books, "eth1").unwrap(), [id]);
    let failed = books.get(&ada(), id).unwrap();
    assert_eq!(failed.state, ReservationState::Failed);
    assert!(failed.failure.unwrap().contains("given up"));
    assert_eq!(give_up(&books, "eth1").unwrap(), [0; 0]);
}

#[test]
fn circuit_of_an_earlier_agent_is_reported() {
    let (books, device) = (books(Box::new(Sqlite::in_memory().unwrap())), device());
    let id = books.reserve(&ada(), &slow(5000), None).unwrap().id;
    // the scheduler was killed before it noted the change
    device.install(InstalledCircuit {
        id: CircuitId(id),
        flow: Some("udp 10.0.0.2 5000".parse().unwrap()),
        rate: Some(Rate::from_mbps(100)),
    });
    let circuits = circuits(&books, &device);
    let state = || books.get(&ada(), id).unwrap().state;
    update_until(&circuits, || state() == ReservationState::Active);
    assert_eq!(state(), ReservationState::Active);
}

#[test]
fn overlapping_packets_are_refused_with_a_remedy() {
    let (books, device) = (books(Box::new(Sqlite::in_memory().unwrap())), device());
    let circuits = circuits(&books, &device);
    let first = books.reserve(&ada(), &slow(5000), None).unwrap();
    for packets in ["udp 10.0.0.2 5000", "udp 10.0.0.2", "10.0.0.0/8"] {
        let mut second = slow(5000);
        second.flow.as_mut().unwrap().packets = packets.parse().unwrap();
        let Err(Error::Overlap(why)) = books.reserve(&ben(), &second, None) else {
            panic!("{packets} was granted");
        };
        assert!(why.to_string().contains("choose other ports"), "{why}");
        let OverlapError::Packets { free, .. } = why else {
            panic!("{why}");
        };
        assert_eq!(free, Some(first.promised_end));
        second.start = Some(first.promised_end);
        let later = books.reserve(&ben(), &second, None).unwrap();
        books.terminate(&ben(), later.id, "").unwrap();
    }
    let beside = books.reserve(&ben(), &slow(5001), None).unwrap();
    update_until(&circuits, || {
        books.get(&ben(), beside.id).unwrap().state == ReservationState::Active
    });
    for (principal, id) in [(ada(), first.id), (ben(), beside.id)] {
        assert_eq!(
            books.get(&principal, id).unwrap().state,
            ReservationState::Active
        );
    }
}

#[test]
fn interface_with_less_capacity_than_its_links_is_not_overbooked() {
    for has_flow in [true, false] {
        let books = Books::open(
            Box::new(Sqlite::in_memory().unwrap()),
            shaped(cable()),
            Config {
                policy: to_all(),
                ..Config::default()
            },
            || Timestamp(unix_nanos()),
        )
        .unwrap();
        let along = |link: &str, seconds, port| {
            let mut new = wanted(seconds, port);
            (new.from, new.to) = (None, None);
            new.path = Some(vec![link.to_owned()]);
            new.flow = new.flow.filter(|_| has_flow);
            books.reserve(&ada(), &new, None).unwrap()
        };
        let all = along("a-b", 600, 5000);
        let next = along("b-a", 1, 5001);
        assert!(next.steps[0].from >= all.promised_end, "{has_flow}");
    }
}

#[test]
fn restarted_scheduler_keeps_its_circuits_and_removes_other_circuits() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("circuits-{}", std::process::id()));
    let device = device();
    let kept = {
        let books = books(Box::new(Sqlite::open(&file).unwrap()));
        books.reserve(&ada(), &slow(5000), None).unwrap()
    };
    let stranger = InstalledCircuit {
        id: CircuitId(9999),
        flow: Some("udp 10.0.0.9 1".parse().unwrap()),
        rate: Some(Rate::from_mbps(1)),
    };
    device.install(stranger);
    let books = books(Box::new(Sqlite::open(&file).unwrap()));
    let circuits = circuits(&books, &device);
    let stands = || device.circuits().into_keys().collect::<BTreeSet<_>>();
    update_until(&circuits, || {
        stands() == BTreeSet::from([CircuitId(kept.id)])
    });
    assert_eq!(stands(), BTreeSet::from([CircuitId(kept.id)]));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn interface_without_driver_is_refused() {
    let books = books(Box::new(Sqlite::in_memory().unwrap()));
    let mut new = wanted(1, 5000);
    new.flow.as_mut().unwrap().interface = "eth7".into();
    let why = books.reserve(&ada(), &new, None).unwrap_err().to_string();
    assert!(why.contains("eth7, only at: eth1"), "{why}");
    let store = Box::new(Sqlite::in_memory().unwrap());
    let none = Books::open(store, link(1000), Config::default(), || {
        Timestamp(unix_nanos())
    });
    let why = none.unwrap().reserve(&operator(), &new, None);
    let why = why.unwrap_err().to_string();
    assert_eq!(
        why,
        "this scheduler provisions no circuits; omit flow (--interface)"
    );
}

#[test]
fn circuits_follow_the_clock_of_the_host_after_a_step() {
    let ahead = Arc::new(AtomicU64::new(0));
    let by = Arc::clone(&ahead);
    let clock = move || Timestamp(unix_nanos() + by.load(Ordering::Relaxed));
    let books = books_by(Box::new(Sqlite::in_memory().unwrap()), clock);
    let device = device();
    let circuits = circuits(&books, &device);
    let hour = 3_600_000_000_000;
    for offset in [hour, 0] {
        ahead.store(offset, Ordering::Relaxed);
        let id = books.reserve(&ada(), &wanted(60, 5000), None).unwrap().id;
        update_until(&circuits, || {
            books.get(&ada(), id).unwrap().state == ReservationState::Active
        });
        let state = books.get(&ada(), id).unwrap().state;
        assert_eq!(state, ReservationState::Active, "{offset}");
        books.release(&ada(), id, "").unwrap();
        update_until(&circuits, || device.circuits().is_empty());
    }
}

/// Both schedulers have the same device, as a switch that both can reach.
#[test]
fn standby_uses_no_device_until_it_is_the_writer() {
    let (store, device) = (SharedStore::default(), device());
    store.elect("one");
    let one = books(store.handle("one"));
    let writer = circuits(&one, &device);
    let id = one.reserve(&ada(), &wanted(600, 5000), None).unwrap().id;
    let rate = || Some(device.circuits().get(&CircuitId(id))?.rate);
    let carries = Some(Some(Rate::from_mbps(1000)));
    update_until(&writer, || {
        one.get(&ada(), id).unwrap().state == ReservationState::Active
    });
    let two = books(store.handle("two"));
    let (driver, calls) = LoggedDriver::new(&device);
    let standby = circuits_of(&two, Box::new(driver), DeviceRecord::default());
    standby.update().unwrap();
    // the end waits for the thread of the device
    drop(standby);
    assert_eq!((rate(), calls()), (carries, vec![]));

    let (driver, calls) = LoggedDriver::new(&device);
    let standby = circuits_of(&two, Box::new(driver), DeviceRecord::default());
    drop((writer, one));
    assert_eq!(rate(), carries, "the writer leaves it to the next one");
    store.elect("two");
    two.tick().unwrap();
    update_until(&standby, || !calls().is_empty());
    standby.update().unwrap();
    assert_eq!((rate(), calls()), (carries, vec!["inspect".to_owned()]));
    two.release(&ada(), id, "done").unwrap();
    update_until(&standby, || device.circuits().is_empty());
    assert_eq!(rate(), None);
}

#[test]
fn former_writer_uses_no_device() {
    for is_away in [false, true] {
        let (store, device) = (SharedStore::default(), device());
        store.elect("one");
        let one = books(store.handle("one"));
        let (driver, calls) = LoggedDriver::new(&device);
        let former = circuits_of(&one, Box::new(driver), DeviceRecord::default());
        let id = one.reserve(&ada(), &wanted(600, 5000), None).unwrap().id;
        update_until(&former, || {
            one.get(&ada(), id).unwrap().state == ReservationState::Active
        });
        let two = books(store.handle("two"));
        if is_away {
            // the instance does not know whether another one is the writer
            store.fail(Fault::Away);
            one.tick().unwrap_err();
            let _ = former.update();
            store.heal();
        }
        store.elect("two");
        one.tick().unwrap();
        let _ = former.update();
        let before = calls();
        let next = circuits(&two, &device);
        two.tick().unwrap();
        two.release(&ada(), id, "done").unwrap();
        let next_id = two.reserve(&ada(), &wanted(600, 5001), None).unwrap().id;
        let stands = || device.circuits().into_keys().collect::<Vec<_>>();
        update_until(&next, || stands() == [CircuitId(next_id)]);
        let stale = InstalledCircuit {
            id: CircuitId(9999),
            flow: Some("udp 10.0.0.9 1".parse().unwrap()),
            rate: None,
        };
        device.install(stale.clone());
        former.update().unwrap();
        drop(former);
        assert_eq!(calls(), before, "{is_away}");
        assert_eq!(stands(), [CircuitId(next_id), stale.id]);
    }
}

/// Device whose calls are noted.
#[derive(Debug)]
struct LoggedDriver {
    device: SimDevice,
    calls: Arc<Mutex<Vec<String>>>,
}

impl LoggedDriver {
    /// Returns the device, and a function that returns all calls so far.
    fn new(device: &SimDevice) -> (Self, impl Fn() -> Vec<String> + use<>) {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let driver = Self {
            device: device.clone(),
            calls: Arc::clone(&calls),
        };
        (driver, move || calls.lock().unwrap().clone())
    }

    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Driver for LoggedDriver {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn apply(&mut self, changes: &[Change<'_>]) -> Vec<lighthaul_circuit::error::Result<()>> {
        self.note(format!("apply {changes:?}"));
        self.device.apply(changes)
    }

    fn remove(&mut self, id: CircuitId) -> lighthaul_circuit::error::Result<()> {
        self.note(format!("remove {id}"));
        self.device.remove(id)
    }

    fn inspect(&mut self) -> lighthaul_circuit::error::Result<Vec<InstalledCircuit>> {
        self.note("inspect".to_owned());
        self.device.inspect()
    }
}

fn books(store: Box<dyn Store>) -> Arc<Books> {
    books_by(store, || Timestamp(unix_nanos()))
}

fn books_by(
    store: Box<dyn Store>,
    clock: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> Arc<Books> {
    let config = Config {
        policy: to_all(),
        ..Config::default()
    };
    Arc::new(Books::open(store, shaped(link(1000)), config, clock).unwrap())
}

fn to_all() -> Policy {
    Policy {
        prefixes: vec!["10.0.0.0/8".parse().unwrap()],
        ..Policy::default()
    }
}

/// Returns a link in each direction.
fn cable() -> Topology {
    let link = |from: &str, to: &str| Link {
        name: format!("{from}-{to}"),
        from: from.to_owned(),
        to: to.to_owned(),
        capacity: Rate::from_mbps(1000),
        channel: Rate::from_mbps(1),
        guard: Duration::ZERO,
        cost: 1,
    };
    let links = vec![link("a", "b"), link("b", "a")];
    Topology::new(vec!["a".to_owned(), "b".to_owned()], links).unwrap()
}

/// Returns the topology with circuits of all its links at the device.
fn shaped(mut topology: Topology) -> Topology {
    let links: Vec<_> = topology.links().map(|(id, _)| id).collect();
    topology.attach("eth1", &links).unwrap();
    let driver: Box<dyn Driver> = Box::new(device());
    with_device_limits(topology, &BTreeMap::from([("eth1".to_owned(), driver)])).unwrap()
}

fn device() -> SimDevice {
    let capabilities = Capabilities {
        rate_min: Rate::from_mbps(1),
        rate_max: Rate::from_mbps(1000),
        granularity: Rate::from_mbps(1),
        reconfiguration: Duration::ZERO,
        settling: Duration::ZERO,
        entries_max: 100,
        counted: CountedBytes::IP,
        timer_max: None,
    };
    let fault_model = FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 0,
    };
    SimDevice::new(capabilities, fault_model, 1)
}

fn circuits(books: &Arc<Books>, device: &SimDevice) -> Circuits {
    circuits_with(books, device, DeviceRecord::default())
}

fn circuits_with(books: &Arc<Books>, device: &SimDevice, record: DeviceRecord) -> Circuits {
    circuits_of(books, Box::new(device.clone()), record)
}

fn circuits_of(books: &Arc<Books>, driver: Box<dyn Driver>, record: DeviceRecord) -> Circuits {
    let drivers = BTreeMap::from([("eth1".to_owned(), driver)]);
    Circuits::start(
        Arc::clone(books),
        drivers,
        Clock::start(),
        Timestamp(unix_nanos()),
        record,
    )
    .unwrap()
}

/// Returns a request for the whole link for this many seconds, for packets to a port.
fn wanted(seconds: u64, port: u16) -> NewReservation {
    NewReservation {
        flow: Some(FlowAt {
            interface: "eth1".into(),
            packets: format!("udp 10.0.0.2 {port}").parse().unwrap(),
        }),
        ..all_for(seconds)
    }
}

/// Returns a request for a tenth of the link for a minute.
fn slow(port: u16) -> NewReservation {
    NewReservation {
        rate_max: Some(Rate::from_mbps(100).into()),
        ..wanted(6, port)
    }
}

/// Updates circuits until a condition holds, for at most ten seconds.
fn update_until(circuits: &Circuits, is_so: impl Fn() -> bool) {
    let clock = circuits.clock();
    let till = clock.now() + Duration::from_secs(10);
    while !is_so() && clock.now() < till {
        circuits.update().unwrap();
        circuits
            .wait(clock.now() + Duration::from_millis(50))
            .unwrap();
    }
}
