//! Requests at one moment between random ends of ten domains, for more than the links carry.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_domains::{Handle, Service};
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::{Outcome, Request, Signaling};

use super::books;
use super::running::{Chain, Ends, name, request, wall_now};

/// Outcomes of requests at one moment.
pub(crate) struct Burst {
    signaling: Signaling,
    pub(crate) seed: u64,
    /// Time until the last request had ended.
    pub(crate) took: Duration,
    pub(crate) committed: usize,
    pub(crate) refused: usize,
    /// Rate of the fullest port, in b/s.
    pub(crate) fullest: u64,
}

impl Burst {
    /// Requests 1,000 paths, waits for all outcomes, and compares the books of all domains.
    pub(crate) fn measure(folder: &Path, signaling: Signaling, seed: u64) -> Self {
        let chain = Chain {
            folder,
            count: DOMAINS,
            capacity: "10Gb/s",
            delay: Duration::ZERO,
            timing: "",
            signaling,
        };
        let services = chain.start();
        let handles: Vec<Handle> = services.iter().map(Service::handle).collect();
        let mut rng = Rng::new(seed);
        let from = wall_now() + Duration::from_secs(30);
        let clock = Clock::start();
        let tickets = (0..REQUESTS).map(|_| {
            let ends = ends(&mut rng);
            let rate = Rate::from_mbps(1000 + rng.below(4000));
            let wanted = Request {
                signaling,
                ..request(ends, rate, from, Duration::from_secs(1))
            };
            let ticket = handles[ends[0] as usize - 1].request(wanted).unwrap();
            (ticket, ends)
        });
        let tickets: Vec<_> = tickets.collect();
        let mut paths = Ends::new();
        for (ticket, ends) in &tickets {
            match ticket.wait(Duration::from_mins(2)).unwrap() {
                Some(Outcome::Committed { .. }) => drop(paths.insert(ticket.id, *ends)),
                Some(Outcome::Refused(_)) => {}
                outcome => panic!("seed {seed}: {outcome:?}"),
            }
        }
        let took = clock.now().since(Instant::ZERO);
        let fullest = books::assert_agree(&services, &paths, CAPACITY);
        for one in services {
            one.stop().unwrap();
        }
        Self {
            signaling,
            seed,
            took,
            committed: paths.len(),
            refused: REQUESTS - paths.len(),
            fullest,
        }
    }
}

/// Returns two different domains.
fn ends(rng: &mut Rng) -> [u32; 2] {
    let from = 1 + rng.below(u64::from(DOMAINS)) as u32;
    let to = (from + rng.below(u64::from(DOMAINS) - 1) as u32) % DOMAINS + 1;
    [from, to]
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            committed,
            refused,
            fullest,
            ..
        } = self;
        write!(
            f,
            "{}, seed {seed}: {REQUESTS} requests over {DOMAINS} domains ended in {:.2} s: {committed} committed, {refused} refused; \
             all books agree, and the fullest port carries {fullest} of {CAPACITY} b/s",
            name(self.signaling),
            self.took.as_secs_f64(),
        )
    }
}

pub(crate) const REQUESTS: usize = 1000;
const DOMAINS: u32 = 10;
/// Capacity of each port in b/s.
pub(crate) const CAPACITY: u64 = 10_000_000_000;
