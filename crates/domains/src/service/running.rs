//! Start and end of a service.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_domain_links::{Deliver, Identification, Neighbor, Panicked, Transport, text_of};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::host::clock::is_synchronized;
use lighthaul_io::host::panics;
use lighthaul_stargate::{CalendarResources, Domain, DomainId, Key, Record, StoredStage};
use tracing::{error, info, warn};

use super::callers::Callers;
use super::device_record::DeviceRecord;
use super::driver::Driver;
use super::event::Event;
use super::handle::Handle;
use super::places::Places;
use crate::config::DomainConfig;
use crate::device_thread::{DeviceOrders, DeviceReport, DeviceThread, Report};
use crate::devices::Devices;
use crate::error::Error;
use crate::random::random_seed;
use crate::store::RecordStore;
use lighthaul_io::host::wall_clock::{WallClock, wall_now};

/// Running service of one domain. It stops when this is dropped; devices then keep their rates.
#[derive(Debug)]
pub struct Service {
    handle: Handle,
    key: Fingerprint,
    local: SocketAddr,
    config: Arc<DomainConfig>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    /// Thread of the devices, which continues if the service ends by a fault.
    devices: DeviceThread,
}

impl Service {
    /// Starts the service: reads its records, sets the rates of the devices, and connects to the neighbors.
    pub fn start(config: DomainConfig, devices: Box<dyn Devices>) -> Result<Self, Error> {
        let config = Arc::new(config);
        let identity = Identity::load_or_generate(&config.key);
        let identity = identity.map_err(|why| Error::Key {
            path: config.key.clone(),
            why: why.to_string(),
        })?;
        let key = Fingerprint::of_public(&identity.public());
        let (mut store, records) = RecordStore::open(&config.store, config.me())?;
        let mut record = DeviceRecord::open(&mut store, &config.devices)?;
        record.note(&mut store, &config.devices, &records)?;
        let count = records.len();
        if !config.accepts_clock && !is_synchronized() {
            check_clock(store.last_seen()?, &records, wall_now())?;
        }
        let domain = restore(&config, &mut store, records)?;
        let clock = WallClock::start(config.machine.timing.clock_tolerance);
        let (events, received) = sync_channel(EVENTS_MAX);
        let known = Identification {
            me: config.me(),
            identity,
            key,
            neighbors: config.neighbors.clone(),
            clock_tolerance: config.machine.timing.clock_tolerance,
        };
        let receivers = (deliver(&events, &config.neighbors), panicked(&events));
        let transport = Transport::start(config.listen, known, &receivers)?;
        let inbox = Inbox {
            received,
            transport,
        };
        let local = inbox.transport.local();
        let mut driver = Driver {
            key,
            domain,
            store,
            record,
            devices: DeviceOrders::default(),
            callers: Callers::default(),
            clock: clock.clone(),
            forget_at: Duration::ZERO,
            look_at: Duration::ZERO,
            config: Arc::clone(&config),
        };
        driver.settle(&inbox.transport)?;
        driver.give_up(&inbox.transport)?;
        let orders = driver.devices.clone();
        let devices = DeviceThread::start(orders, devices, report(&events), clock)?;
        info!(
            domain = config.me().0,
            epoch = driver.store.epoch(),
            reservations = count,
            %key,
            %local,
            "the service of a domain has started"
        );
        let thread = thread::Builder::new().name("domain".into());
        let thread = thread.spawn(move || inbox.serve(driver));
        Ok(Self {
            handle: Handle {
                events,
                requests_max: config.requests_max,
            },
            key,
            local,
            config,
            thread: Some(thread.map_err(|why| Error::Resources(why.to_string()))?),
            devices,
        })
    }

    /// Returns a handle for calls.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the fingerprint of the key of this domain.
    pub const fn key(&self) -> Fingerprint {
        self.key
    }

    /// Returns the address on which the service listens.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Reports whether the service has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Reports whether the devices have no circuit to change any more. They follow the vectors that they have even if
    /// the service has ended by a fault.
    pub fn has_idle_devices(&self) -> bool {
        self.devices.is_idle()
    }

    /// Opens and closes the store, as the next start does. Call it once the service has ended.
    pub fn check_store(&self) -> Result<(), Error> {
        RecordStore::open(&self.config.store, self.config.me())?;
        Ok(())
    }

    /// Stops the service, and returns the fault of a service that has failed.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        // it may have ended already
        self.handle.send(Event::Stop).ok();
        let ended = thread.join();
        ended.unwrap_or_else(|_| Err(Error::Internal("thread of the domain".to_owned())))
    }
}

/// Queue of events, and the links that fill it.
///
/// The queue is dropped first: threads of the links may wait for room in it.
struct Inbox {
    received: Receiver<Event>,
    transport: Transport,
}

impl Inbox {
    /// Runs the machine until the service stops.
    fn serve(self, mut driver: Driver) -> Result<(), Error> {
        let (received, transport) = (&self.received, &self.transport);
        let ended = panics::catch("domain", || driver.run(received, transport));
        let ended = ended.unwrap_or_else(|panic| Err(Error::Internal(text_of(panic))));
        if let Err(error) = &ended {
            error!("{error}");
        }
        ended
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end().ok();
    }
}

/// Refuses a clock that is far beyond the last run of the service, if paths would be forgotten. The clock of a host may
/// be wrong after its boot, until it is synchronized.
fn check_clock(last: Option<Instant>, records: &[Record], now: Instant) -> Result<(), Error> {
    let Some(last) = last.filter(|last| now.since(*last) > ABSENCE_MAX) else {
        return Ok(());
    };
    let is_lost = |record: &&Record| match record {
        Record::Put(stored) => {
            let end = stored.vector.end();
            stored.stage == StoredStage::Committed && last < end && end <= now
        }
        Record::Forget(_) => false,
    };
    let lost = records.iter().filter(is_lost).count();
    if lost == 0 {
        return Ok(());
    }
    let days = now.since(last).as_secs() / (24 * 3600);
    Err(Error::ClockBeyond { days, lost })
}

/// Continues the paths of the store.
fn restore(
    config: &DomainConfig,
    store: &mut RecordStore,
    records: Vec<Record>,
) -> Result<Domain<CalendarResources>, Error> {
    let mut resources = config.resources();
    resources.set_routes(store.routes(&records)?);
    let parts = (config.machine.clone(), config.topology.clone(), resources);
    let domain = Domain::restore(parts, random_seed(), records, wall_now());
    for key in domain.resources().unguarded() {
        warn!(
            id = key.id.0,
            "a path from before the start has no room for the guard times of its devices; it is kept, and may lose \
             data where its rate increases"
        );
    }
    store.append(&[], &routes_of(&domain))?;
    Ok(domain)
}

/// Returns the routes of all paths. An earlier version has stored none.
fn routes_of(domain: &Domain<CalendarResources>) -> BTreeMap<Key, Vec<u8>> {
    let keys = domain.reservations().map(|one| one.stored().key);
    let routes = keys.map(|key| (key, domain.resources().routes(key)));
    routes.filter(|(_, routes)| !routes.is_empty()).collect()
}

/// Returns the receiver of messages of these neighbors. It waits while all places of the sender are taken, or the queue is
/// full.
fn deliver(events: &SyncSender<Event>, neighbors: &BTreeMap<DomainId, Neighbor>) -> Deliver {
    let events = events.clone();
    let places = neighbors.keys().map(|id| (*id, Places::new(PLACES)));
    let places: BTreeMap<DomainId, Places> = places.collect();
    Arc::new(move |from, message| {
        let place = places.get(&from).map(Places::take);
        place.is_some_and(|place| events.send(Event::Message(from, message, place)).is_ok())
    })
}

/// Returns the receiver of panics of the transport.
fn panicked(events: &SyncSender<Event>) -> Panicked {
    let events = events.clone();
    // the service may have ended
    Arc::new(move |why| drop(events.send(Event::Panicked(why))))
}

/// Returns the receiver of faults of devices.
fn report(events: &SyncSender<Event>) -> Report {
    let events = events.clone();
    Box::new(move |reported| {
        let fault = match reported {
            DeviceReport::Fault(fault) => fault,
            DeviceReport::Panicked(why) => {
                events.send(Event::Panicked(why)).ok();
                return;
            }
        };
        let (key, nth) = fault.circuit;
        warn!(
            id = key.id.0,
            nth,
            why = fault.why,
            "a device does not carry a path; the path, or this leg of a protected one, is released in all domains"
        );
        // the service may have ended
        events.send(Event::DeviceFault(key, nth)).ok();
    })
}

/// Longest time without the service after which its clock is not doubted.
const ABSENCE_MAX: Duration = Duration::from_hours(24);
/// Maximum number of events that wait.
const EVENTS_MAX: usize = 1024;
/// Maximum number of messages of one neighbor that wait.
const PLACES: usize = 32;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use lighthaul_io::host::wait::pause;
    use lighthaul_stargate::{Body, CorrelationId, Message};

    use super::*;

    /// Returns the numbers and keys of a domain with one neighbor, which may have an address.
    fn known(
        (me, identity): (u32, &Identity),
        (other, key, address): (u32, &Identity, Option<SocketAddr>),
    ) -> Identification {
        let neighbor = Neighbor {
            name: "neighbor".to_owned(),
            address: address.map(|address| address.to_string().parse().unwrap()),
            key: Fingerprint::of_public(&key.public()),
            expires: Instant::NEVER,
        };
        Identification {
            me: DomainId(me),
            key: Fingerprint::of_public(&identity.public()),
            identity: identity.clone(),
            neighbors: BTreeMap::from([(DomainId(other), neighbor)]),
            clock_tolerance: Duration::from_secs(3),
        }
    }

    #[test]
    fn flood_of_a_neighbor_leaves_room_for_others() {
        let neighbor = |id: u32| {
            (
                DomainId(id),
                known(
                    (1, &Identity::generate()),
                    (id, &Identity::generate(), None),
                ),
            )
        };
        let neighbors =
            [neighbor(2), neighbor(3)].map(|(id, known)| (id, known.neighbors[&id].clone()));
        let (events, received) = sync_channel(EVENTS_MAX);
        let deliver = deliver(&events, &BTreeMap::from(neighbors));
        let message = Message {
            sent: wall_now(),
            body: Body::Ask {
                key: Key {
                    source: DomainId(2),
                    id: CorrelationId(1),
                    attempt: 0,
                    leg: 0,
                },
            },
        };
        let (flooding, flood) = (Arc::clone(&deliver), message.clone());
        let (done, ends) = channel();
        thread::spawn(move || {
            for nth in 0..10 * PLACES {
                flooding(DomainId(2), flood.clone());
                done.send(nth).ok();
            }
        });
        for nth in 0..PLACES {
            assert_eq!(ends.recv_timeout(Duration::from_secs(20)), Ok(nth));
        }
        assert!(deliver(DomainId(3), message.clone()));
        let mut waiting = received.try_iter().take(PLACES + 1);
        assert!(waiting.any(|event| matches!(event, Event::Message(DomainId(3), ..))));
        // places are free again once messages are handled, and a stranger has none
        drop(waiting);
        let rest = (PLACES..10 * PLACES).map(|_| received.recv_timeout(Duration::from_secs(20)));
        assert!(rest.flatten().count() >= 9 * PLACES);
        assert!(!deliver(DomainId(4), message));
    }

    #[test]
    fn link_with_a_full_queue_does_not_delay_the_end_of_the_service() {
        let (one, two) = (Identity::generate(), Identity::generate());
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let (events, received) = sync_channel(1);
        let here = known((1, &one), (2, &two, None));
        let receivers = (deliver(&events, &here.neighbors), panicked(&events));
        let transport = Transport::start(listen, here, &receivers).unwrap();
        let there = known((2, &two), (1, &one, Some(transport.local())));
        let nothing: (Deliver, Panicked) = (Arc::new(|_, _| true), Arc::new(|_| ()));
        let sender = Transport::start(listen, there, &nothing).unwrap();
        let key = Key {
            source: DomainId(2),
            id: CorrelationId(1),
            attempt: 0,
            leg: 0,
        };
        let is_up = || sender.status().values().all(|link| link.is_connected);
        while !is_up() {
            pause(Duration::from_millis(10));
        }
        for _ in 0..20 {
            let sent = wall_now();
            let body = Body::Ask { key };
            sender.send(DomainId(1), &Message { sent, body });
        }
        // the queue is full after the first message
        pause(Duration::from_millis(500));
        let inbox = Inbox {
            received,
            transport,
        };
        let (done, ends) = channel();
        thread::spawn(move || {
            drop(inbox);
            done.send(()).ok();
        });
        assert_eq!(ends.recv_timeout(Duration::from_secs(20)), Ok(()));
    }

    /// Returns a time some hours after the last run.
    fn at(hours: u64) -> Instant {
        Instant::ZERO + Duration::from_hours(1000 + hours)
    }

    /// Returns a path that begins and ends these hours after the last run.
    fn path(from: u64, till: u64) -> Record {
        let step = lighthaul_base::trc::Step {
            from: at(from),
            till: at(till),
            rate: lighthaul_base::Rate::from_mbps(1),
        };
        Record::Put(lighthaul_stargate::StoredReservation {
            key: Key {
                source: DomainId(1),
                id: CorrelationId(1),
                attempt: 0,
                leg: 0,
            },
            upstream: None,
            segments: Vec::new(),
            children: Vec::new(),
            trace: Vec::new(),
            vector: lighthaul_base::Trc::new(vec![step]).unwrap(),
            guard: Duration::ZERO,
            hold_till: Instant::ZERO,
            decide_till: Instant::ZERO,
            stage: StoredStage::Committed,
            lost: None,
        })
    }

    #[test]
    fn clock_that_is_far_beyond_the_last_run_forgets_no_path() {
        let year = 365 * 24;
        let paths = [path(1, 20), path(2, 2 * year)];
        let check = |last, now| check_clock(last, &paths, at(now));
        let why = check(Some(at(0)), year).unwrap_err();
        let is_expected = matches!(why, Error::ClockBeyond { days: 365, lost: 1 });
        assert!(
            is_expected && why.to_string().contains("--accept-clock"),
            "{why}"
        );
        assert!(check(Some(at(0)), 25).is_err());
        // a short absence, paths that have not ended, paths that had ended before, and a store without a time
        assert!(check(Some(at(0)), 24).is_ok());
        assert!(check_clock(Some(at(0)), &paths[1..], at(year)).is_ok());
        assert!(check(Some(at(20)), year).is_ok());
        assert!(check(None, year).is_ok());
        // a clock that was set back
        assert!(check(Some(at(year)), 0).is_ok());
    }

    #[test]
    fn store_knows_when_the_service_has_run() {
        let name = format!("lighthaul-seen-{}", std::process::id());
        let path = std::env::temp_dir().join(name).join("store.db");
        let open = || RecordStore::open(&path, DomainId(1)).unwrap().0;
        assert_eq!(open().last_seen().unwrap(), None);
        for hours in [1, 5, 2] {
            open().note_seen(at(hours)).unwrap();
            assert_eq!(open().last_seen().unwrap(), Some(at(hours)));
        }
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
