//! Start and end of a service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use lighthaul_base::Instant;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::host::panics;
use lighthaul_stargate::Domain;
use tracing::{error, info, warn};

use super::callers::Callers;
use super::driver::Driver;
use super::event::Event;
use super::handle::Handle;
use crate::config::DomainConfig;
use crate::device_thread::{DeviceOrders, DeviceThread};
use crate::devices::{DeviceFault, Devices};
use crate::error::Error;
use crate::random::random_seed;
use crate::store::RecordStore;
use crate::transport::{Deliver, Identification, Transport};
use crate::wall_clock::wall_now;

/// Running service of one domain. It stops when this is dropped; devices then keep their rates.
#[derive(Debug)]
pub struct Service {
    handle: Handle,
    key: Fingerprint,
    local: SocketAddr,
    thread: Option<JoinHandle<Result<(), Error>>>,
    /// Thread of the devices, which continues if the service ends by a fault.
    _devices: DeviceThread,
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
        let (store, records) = RecordStore::open(&config.store, config.me())?;
        let count = records.len();
        let parts = (
            config.machine.clone(),
            config.topology.clone(),
            config.resources(),
        );
        let domain = Domain::restore(parts, random_seed(), records, wall_now());
        let (events, received) = sync_channel(EVENTS_MAX);
        let known = Identification {
            me: config.me(),
            identity,
            key,
            neighbors: config.neighbors.clone(),
        };
        let transport = Transport::start(config.listen, known, &deliver(&events))?;
        let local = transport.local();
        let mut driver = Driver {
            key,
            domain,
            store,
            devices: DeviceOrders::default(),
            callers: Callers::default(),
            forget_at: Instant::ZERO,
            config: Arc::clone(&config),
        };
        driver.settle(&transport)?;
        let orders = driver.devices.clone();
        let devices = DeviceThread::start(orders, devices, report(&events))?;
        info!(
            domain = config.me().0,
            epoch = driver.store.epoch(),
            reservations = count,
            %key,
            %local,
            "the service of a domain has started"
        );
        let thread = thread::Builder::new().name("domain".into());
        let thread = thread.spawn(move || {
            let ended = panics::catch("domain", || driver.run(&received, &transport));
            let ended = ended.unwrap_or_else(|panic| {
                Err(Error::Internal(
                    lighthaul_io::error::Error::from(panic).to_string(),
                ))
            });
            if let Err(error) = &ended {
                error!("{error}");
            }
            // threads of the links may wait for room in the queue
            drop(received);
            drop(transport);
            ended
        });
        Ok(Self {
            handle: Handle {
                events,
                requests_max: config.requests_max,
            },
            key,
            local,
            thread: Some(thread.map_err(|why| Error::Resources(why.to_string()))?),
            _devices: devices,
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

    /// Returns the address on which it listens.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Reports whether the service has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the service, and returns its fault if it has ended by itself.
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

impl Drop for Service {
    fn drop(&mut self) {
        self.end().ok();
    }
}

/// Returns the receiver of messages, which waits while the queue is full.
fn deliver(events: &SyncSender<Event>) -> Deliver {
    let events = events.clone();
    Arc::new(move |from, message| events.send(Event::Message(from, message)).is_ok())
}

/// Returns the receiver of faults of devices.
fn report(events: &SyncSender<Event>) -> Box<dyn Fn(DeviceFault) + Send> {
    let events = events.clone();
    Box::new(move |fault| {
        let (key, nth) = fault.circuit;
        warn!(
            id = key.id.0,
            nth,
            why = fault.why,
            "a device refused a rate; the path is released in all domains"
        );
        // the service may have ended
        events.send(Event::DeviceFault(key)).ok();
    })
}

/// Maximum number of events that wait.
const EVENTS_MAX: usize = 1024;
