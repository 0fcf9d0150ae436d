//! Domains in a chain, all in this process, with their sockets, TLS and `SQLite` files.

mod configuration;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_domains::{Devices, DomainConfig, RecordingDevices, Service};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;

use configuration::{Member, Pinned};

/// Starts domains 1 to `count`, each with its devices. Port `n` leads from domain `n` to the next one and back;
/// programs are at port `100 + n`. Octets between neighbors take `delay` in each direction.
pub(crate) fn start(
    folder: &Path,
    (count, capacity): (u32, &str),
    delay: Duration,
    devices: impl Fn() -> Box<dyn Devices>,
) -> Vec<Service> {
    let key = |domain: u32| {
        let identity = Identity::load_or_generate(&folder.join(format!("{domain}.key")));
        Fingerprint::of_public(&identity.unwrap().public())
    };
    let mut services: Vec<Service> = Vec::new();
    for me in 1..=count {
        let neighbors = [me - 1, me + 1];
        let neighbors = neighbors
            .into_iter()
            .filter(|domain| (1..=count).contains(domain))
            .map(|domain| {
                let before = services.get(domain as usize - 1).map(Service::local);
                let address = before.map(|address| distant(address, delay));
                (domain, address, key(domain))
            });
        let neighbors: Vec<Pinned> = neighbors.collect();
        let member = Member {
            me,
            count,
            is_ring: false,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            capacity,
            timing: "",
            policy: "reservations_max = 1000000\n",
        };
        let text = member.text(&neighbors);
        let config = DomainConfig::parse(&text, folder).unwrap();
        services.push(Service::start(config, devices()).unwrap());
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

/// Returns devices that only record.
pub(crate) fn recording() -> Box<dyn Devices> {
    Box::new(RecordingDevices::default())
}

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
