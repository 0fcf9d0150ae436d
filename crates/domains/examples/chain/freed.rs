//! Time until the capacity of a path is free in all domains: after a release by its caller, after a fault of a device,
//! and after its source domain has disappeared between hold and commit.
//!
//! Each path takes the whole capacity. So the next one shows that nothing of the last one is left.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Rate};
use lighthaul_domain_links::{Deliver, Identification, Neighbor, Panicked, Transport};
use lighthaul_domains::{DeviceFault, Devices, Handle, Service};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{
    Body, DomainId, Hop, Key, Message, Outcome, PortId, RateChange, Request, Segment, Signaling,
    Stage,
};

use super::books;
use super::running::{Chain, Ends, ms, name, request, wall_now};

/// Times until the capacity of paths over three domains was free everywhere.
pub(crate) struct Freed {
    pub(crate) signaling: Signaling,
    /// After the caller has released a path that carries data.
    pub(crate) released: Duration,
    /// After a device has refused the rate at the start of a path.
    pub(crate) failed: Duration,
    /// After the source domain has disappeared, while all other domains held a path for it.
    pub(crate) abandoned: Duration,
}

impl Freed {
    /// Ends paths in each of these ways, and compares the books of all domains.
    pub(crate) fn measure(folder: &Path, signaling: Signaling) -> Self {
        let devices = [(); 3].map(|()| Refusing::default());
        let chain = Chain {
            folder,
            count: 3,
            capacity: "10Gb/s",
            delay: Duration::from_millis(20),
            timing: "[timing]\nquery = \"1s\"\nhold = \"1s\"\ndecide = \"1s\"\n",
            signaling,
        };
        let mut services = chain.start_with(&|_| String::new(), &|me, _| {
            Box::new(devices[me as usize - 1].clone())
        });
        let book = |services: &[Service]| {
            let wanted = Request {
                signaling,
                ..request([1, 3], RATE, wall_now(), Duration::from_mins(1))
            };
            let ticket = services[0].handle().request(wanted).unwrap();
            match ticket.wait(Duration::from_mins(1)).unwrap() {
                Some(Outcome::Committed { vector, .. }) => {
                    let paths: Ends = [(ticket.id, [1, 3])].into();
                    books::assert_agree(services, &paths, RATE.as_bps());
                    (ticket.id, vector.start())
                }
                outcome => panic!("{outcome:?}"),
            }
        };
        let (id, start) = book(&services);
        pause(start.since(wall_now()));
        while !devices.iter().all(Refusing::is_used) {
            pause(POLL);
        }
        let clock = Clock::start();
        services[0].handle().release(id).unwrap();
        wait_until_free(&services, &devices);
        let released = clock.now().since(Instant::ZERO);
        devices[1].refuses.store(true, Ordering::Relaxed);
        let (_, start) = book(&services);
        pause(start.since(wall_now()));
        wait_until_free(&services, &devices);
        let failed = wall_now().since(start);
        devices[1].refuses.store(false, Ordering::Relaxed);
        services.remove(0).stop().unwrap();
        let source = Source::start(folder, &services);
        let abandoned = source.abandon(signaling, || wait_until_free(&services, &devices));
        // the whole capacity can be held again
        source.abandon(signaling, || wait_until_free(&services, &devices));
        for one in services {
            one.stop().unwrap();
        }
        Self {
            signaling,
            released,
            failed,
            abandoned,
        }
    }
}

impl fmt::Display for Freed {
    /// Writes a line of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "| {} | {:.0} ms | {:.0} ms | {:.0} ms | {:.0} ms |",
            name(self.signaling),
            ms(self.released),
            ms(self.failed),
            ms(self.abandoned),
            ms(LONGEST_TIMEOUT),
        )
    }
}

/// Waits until no domain holds capacity, and no device has a rate. The books are empty then.
fn wait_until_free(services: &[Service], devices: &[Refusing; 3]) {
    let is_free = |service: &Service| {
        let mut reservations = service.handle().status().unwrap().reservations.into_iter();
        reservations.all(|one| matches!(one.stage, Stage::Closing | Stage::Closed))
    };
    let clock = Clock::start();
    while !services.iter().all(is_free) || devices.iter().any(Refusing::is_used) {
        let waited = clock.now().since(Instant::ZERO);
        assert!(waited < Duration::from_mins(1), "capacity is not free");
        pause(POLL);
    }
    books::assert_agree(services, &Ends::new(), RATE.as_bps());
}

/// Devices that can refuse all rates. Clones share their state.
#[derive(Clone, Debug, Default)]
struct Refusing {
    refuses: Arc<AtomicBool>,
    rates: Arc<Mutex<BTreeMap<(Key, u8), Rate>>>,
}

impl Refusing {
    /// Returns true if a circuit has a rate.
    fn is_used(&self) -> bool {
        !self.rates.lock().unwrap().is_empty()
    }
}

impl Devices for Refusing {
    fn reset(&mut self, now: Instant, rates: &[RateChange]) -> Vec<DeviceFault> {
        self.apply(now, rates)
    }

    fn apply(&mut self, _: Instant, changes: &[RateChange]) -> Vec<DeviceFault> {
        let mut faults = Vec::new();
        let mut rates = self.rates.lock().unwrap();
        for change in changes {
            let circuit = change.circuit;
            match change.rate {
                Some(_) if self.refuses.load(Ordering::Relaxed) => faults.push(DeviceFault {
                    circuit,
                    why: "it refuses all rates".to_owned(),
                }),
                Some(rate) => _ = rates.insert(circuit, rate),
                None => _ = rates.remove(&circuit),
            }
        }
        faults
    }
}

/// Domain 1 without a machine: it holds paths, and never commits them.
struct Source {
    transport: Transport,
    messages: Receiver<(DomainId, Message)>,
}

impl Source {
    /// Connects to the domains 2 and 3.
    fn start(folder: &Path, others: &[Service]) -> Self {
        let identity = |domain: u32| {
            Identity::load_or_generate(&folder.join(format!("{domain}.key"))).unwrap()
        };
        let key = |domain: u32| Fingerprint::of_public(&identity(domain).public());
        let neighbors = (2..).zip(others).map(|(domain, service)| {
            let neighbor = Neighbor {
                name: format!("n{domain}"),
                address: Some(service.local().to_string().parse().unwrap()),
                key: key(domain),
                expires: Instant::NEVER,
            };
            (DomainId(domain), neighbor)
        });
        let known = Identification {
            me: DomainId(1),
            key: key(1),
            identity: identity(1),
            neighbors: neighbors.collect(),
            clock_tolerance: Duration::from_secs(3),
        };
        let (sender, messages) = channel();
        let deliver: Deliver = Arc::new(move |from, message| sender.send((from, message)).is_ok());
        let panicked: Panicked = Arc::new(|why| panic!("{why}"));
        let listen = ([127, 0, 0, 1], 0).into();
        Self {
            transport: Transport::start(listen, known, &(deliver, panicked)).unwrap(),
            messages,
        }
    }

    /// Holds the whole capacity everywhere, and sends nothing more. Returns the time until `wait` returns.
    fn abandon(&self, signaling: Signaling, wait: impl FnOnce()) -> Duration {
        let hop = |domain, ingress, egress| Hop {
            domain: DomainId(domain),
            segment: Segment {
                ingress: PortId(ingress),
                egress: PortId(egress),
            },
        };
        let hops = [hop(2, 1, 2), hop(3, 2, 103)];
        let holds: Vec<(u32, Vec<Hop>)> = match signaling {
            Signaling::Chain => vec![(2, hops.to_vec())],
            Signaling::Tree => (2..).zip(hops).map(|(to, hop)| (to, vec![hop])).collect(),
        };
        let key = Key {
            source: DomainId(1),
            id: Handle::new_id(),
            attempt: 0,
            leg: 0,
        };
        let hold_till = wall_now() + LONGEST_TIMEOUT / 2;
        let decide_till = wall_now() + LONGEST_TIMEOUT;
        let vector = Trc::new(vec![Step {
            from: decide_till,
            till: decide_till + Duration::from_mins(1),
            rate: RATE,
        }])
        .unwrap();
        let begun = wall_now();
        let mut missing: Vec<u32> = holds.iter().map(|(to, _)| *to).collect();
        while !missing.is_empty() {
            assert!(wall_now() < hold_till, "no answer of {missing:?}");
            for (to, hops) in holds.iter().filter(|(to, _)| missing.contains(to)) {
                let body = Body::Hold {
                    key,
                    hops: hops.clone(),
                    trace: vec![DomainId(1)],
                    vector: vector.clone(),
                    hold_till,
                    decide_till,
                };
                let sent = wall_now();
                self.transport.send(DomainId(*to), &Message { sent, body });
            }
            while let Ok((from, message)) = self.messages.recv_timeout(Duration::from_millis(100)) {
                if message.body == (Body::Held { key }) {
                    missing.retain(|to| *to != from.0);
                }
            }
        }
        wait();
        wall_now().since(begun)
    }
}

/// Rate of each path, which is the capacity of each port.
const RATE: Rate = Rate::from_mbps(10_000);
/// Time from the request of a hold to its end, if it is not committed: `hold` and `decide` together.
pub(crate) const LONGEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two looks at the books.
const POLL: Duration = Duration::from_millis(2);
