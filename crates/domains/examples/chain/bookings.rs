//! Bookings over three domains. A booking counts when its caller has the outcome: it is then committed in all three
//! stores, each of which has synced it to the disk.

use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_domains::{RecordStore, Service};
use lighthaul_io::host::clock::{Clock, cpu_seconds, unix_nanos};
use lighthaul_stargate::{DomainId, Outcome, Signaling};

use super::books;
use super::running::{Chain, Ends, ms, percentile, request};

/// Three domains that book.
pub(crate) struct Booker<'a> {
    folder: &'a Path,
    services: Vec<Service>,
    /// Number of requests so far.
    asked: AtomicU64,
    committed: Mutex<Ends>,
}

/// Bookings with a number of callers at a time.
pub(crate) struct Bookings {
    in_flight: usize,
    /// Time of each booking, in ascending order.
    times: Vec<Duration>,
    pub(crate) refused: u64,
    seconds: f64,
    cpu_seconds: f64,
}

impl<'a> Booker<'a> {
    /// Starts the domains.
    pub(crate) fn start(folder: &'a Path) -> Self {
        let chain = Chain {
            folder,
            count: 3,
            capacity: "400Gb/s",
            delay: Duration::ZERO,
            timing: "",
            signaling: Signaling::Chain,
        };
        Self {
            folder,
            services: chain.start(),
            asked: AtomicU64::new(0),
            committed: Mutex::default(),
        }
    }

    /// Books for this time with a number of callers.
    pub(crate) fn run(&self, in_flight: usize, time: Duration) -> Bookings {
        let clock = Clock::start();
        let cpu = cpu_seconds();
        let times = Mutex::new(Vec::new());
        let refused = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..in_flight {
                scope.spawn(|| {
                    while clock.now() < Instant::ZERO + time {
                        let begun = clock.now();
                        if self.book() {
                            times.lock().unwrap().push(clock.now().since(begun));
                        } else {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let mut times = times.into_inner().unwrap();
        times.sort_unstable();
        Bookings {
            in_flight,
            times,
            refused: refused.into_inner(),
            seconds: clock.now().since(Instant::ZERO).as_secs_f64(),
            cpu_seconds: cpu_seconds() - cpu,
        }
    }

    /// Books a second at 10 Mb/s, which starts at a full second in the next hour: so capacity functions have realistic
    /// lengths.
    fn book(&self) -> bool {
        let second = Duration::from_secs(1).as_nanos() as u64;
        let mut rng = Rng::new(self.asked.fetch_add(1, Ordering::Relaxed));
        let from = unix_nanos() / second * second + (20 + rng.below(3600)) * second;
        let from = Instant::from_nanos(from);
        let wanted = request([1, 3], Rate::from_mbps(10), from, Duration::from_secs(1));
        let ticket = self.services[0].handle().request(wanted).unwrap();
        let outcome = ticket.wait(Duration::from_mins(1)).unwrap();
        let is_committed = matches!(outcome, Some(Outcome::Committed { .. }));
        if is_committed {
            self.committed.lock().unwrap().insert(ticket.id, [1, 3]);
        }
        is_committed
    }

    /// Compares the books, stops the domains and reads their stores again. Returns the number of bookings, each of
    /// which all three stores have.
    pub(crate) fn finish(self) -> usize {
        let committed = self.committed.into_inner().unwrap();
        books::assert_agree(&self.services, &committed, 400_000_000_000);
        for one in self.services {
            one.stop().unwrap();
        }
        for me in 1..=3 {
            let path = self.folder.join(format!("{me}.db"));
            let (_, records) = RecordStore::open(&path, DomainId(me)).unwrap();
            assert_eq!(records.len(), committed.len(), "records of domain {me}");
        }
        committed.len()
    }
}

impl Bookings {
    /// Returns the number of bookings a second.
    pub(crate) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.seconds
    }
}

impl fmt::Display for Bookings {
    /// Writes a line of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.times.len();
        write!(
            f,
            "| {} | {count} | {} | {:.1} | {:.0} | {:.1} | {:.1} | {:.2} |",
            self.in_flight,
            self.refused,
            self.seconds,
            self.rate(),
            ms(percentile(&self.times, 50)),
            ms(percentile(&self.times, 99)),
            self.cpu_seconds * 1e3 / count as f64,
        )
    }
}
