//! Running domains of a chain, with their sockets, TLS and `SQLite` files, all in this process.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_domains::{DeviceFault, Devices, DomainConfig, Handle, Service};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    CorrelationId, DomainId, PortId, Protection, RateChange, Request, Signaling,
};

use super::configuration::{Member, Pinned};

/// Devices that accept all rates.
#[derive(Debug)]
struct Obedient;

impl Devices for Obedient {
    fn reset(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
        Vec::new()
    }

    fn apply(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
        Vec::new()
    }
}

/// Chain of domains 1 to `count`. Port `n` leads from domain `n` to the next one and back; programs are at port
/// `100 + n`.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    /// Directory of keys and stores.
    pub(crate) folder: &'a Path,
    pub(crate) count: u32,
    /// Capacity of each port.
    pub(crate) capacity: &'a str,
    /// Time that octets take from a domain of the chain to the next one.
    pub(crate) delay: Duration,
    /// Table of the timers, or nothing for the defaults.
    pub(crate) timing: &'a str,
    /// With a tree, all domains are neighbors of each other; their links to hosts and domains stay those of the chain.
    pub(crate) signaling: Signaling,
}

impl Chain<'_> {
    /// Starts the domains with devices that have no fault.
    pub(crate) fn start(&self) -> Vec<Service> {
        self.start_with(&|_| String::new(), &|_, _| Box::new(Obedient))
    }

    /// Starts the domains with these tables and devices, and waits until all links are up.
    pub(crate) fn start_with(
        &self,
        tables: &dyn Fn(u32) -> String,
        devices: &dyn Fn(u32, &mut DomainConfig) -> Box<dyn Devices>,
    ) -> Vec<Service> {
        let Self { folder, count, .. } = *self;
        let key = |domain: u32| {
            let identity = Identity::load_or_generate(&folder.join(format!("{domain}.key")));
            Fingerprint::of_public(&identity.unwrap().public())
        };
        let mut services: Vec<Service> = Vec::new();
        for me in 1..=count {
            let is_near = |domain: u32| match self.signaling {
                Signaling::Chain => domain.abs_diff(me) == 1,
                Signaling::Tree => domain != me,
            };
            let neighbors = (1..=count).filter(|domain| is_near(*domain)).map(|domain| {
                let before = services.get(domain as usize - 1).map(Service::local);
                let delay = self.delay * domain.abs_diff(me);
                let address = before.map(|address| distant(address, delay));
                (domain, address, key(domain))
            });
            let neighbors: Vec<Pinned> = neighbors.collect();
            let member = Member {
                me,
                count,
                is_ring: false,
                listen: SocketAddr::from(([127, 0, 0, 1], 0)),
                capacity: self.capacity,
                timing: self.timing,
                policy: "reservations_max = 1000000\n",
            };
            let text = member.text(&neighbors) + &tables(me);
            let mut config = DomainConfig::parse(&text, folder).unwrap();
            let devices = devices(me, &mut config);
            services.push(Service::start(config, devices).unwrap());
        }
        let is_up = |service: &Service| {
            let links = service.handle().status().unwrap().links;
            links.values().all(|link| link.is_connected)
        };
        while !services.iter().all(is_up) {
            pause(Duration::from_millis(20));
        }
        services
    }
}

/// Returns a request for `time` at `rate` between the programs' ports of two domains, at `from` or in the minute after.
pub(crate) fn request(ends: [u32; 2], rate: Rate, from: Instant, time: Duration) -> Request {
    Request {
        id: Handle::new_id(),
        ingress: PortId(100 + ends[0]),
        to: DomainId(ends[1]),
        egress: PortId(100 + ends[1]),
        demand: Demand {
            bytes: rate.bytes_in(time),
            rate_max: rate,
            rate_min: rate,
        },
        from,
        till: from + time + Duration::from_mins(1),
        excludes: Excludes::default(),
        protection: Protection::None,
        signaling: Signaling::Chain,
    }
}

/// Returns the name of a kind of signaling.
pub(crate) const fn name(signaling: Signaling) -> &'static str {
    match signaling {
        Signaling::Chain => "chain",
        Signaling::Tree => "tree",
    }
}

/// Returns the present time.
pub(crate) fn wall_now() -> Instant {
    Instant::from_nanos(unix_nanos())
}

/// Returns an element of sorted times: the one below which this part in a hundred lies.
pub(crate) fn percentile(sorted: &[Duration], part: usize) -> Duration {
    sorted[(sorted.len() * part / 100).min(sorted.len() - 1)]
}

/// Returns milliseconds.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Requests and the domains at their ends.
pub(crate) type Ends = std::collections::BTreeMap<CorrelationId, [u32; 2]>;

/// Returns the address of a relay to `target` that delays all octets.
#[expect(clippy::disallowed_methods, reason = "it relays octets as they are")]
fn distant(target: SocketAddr, delay: Duration) -> SocketAddr {
    if delay.is_zero() {
        return target;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for here in listener.incoming().map(Result::unwrap) {
            let Ok(there) = TcpStream::connect(target) else {
                continue;
            };
            let ways = [(&here, &there), (&there, &here)];
            let clock = Clock::start();
            for (from, to) in
                ways.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
            {
                from.set_nodelay(true).unwrap();
                let (sender, due) = sync_channel(1024);
                thread::spawn(move || read(from, clock, delay, &sender));
                thread::spawn(move || write(to, clock, &due));
            }
        }
    });
    address
}

/// Reads octets, and the time when each part is due.
fn read(mut from: TcpStream, clock: Clock, delay: Duration, due: &SyncSender<(Instant, Vec<u8>)>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len) = from.read(&mut buffer) {
        if due
            .send((clock.now() + delay, buffer[..len].to_vec()))
            .is_err()
            || len == 0
        {
            return;
        }
    }
}

/// Writes each part when it is due.
fn write(mut to: TcpStream, clock: Clock, due: &Receiver<(Instant, Vec<u8>)>) {
    for (at, part) in due {
        pause(at.since(clock.now()));
        if part.is_empty() || to.write_all(&part).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
}
