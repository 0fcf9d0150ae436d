//! Bookings over three domains, with their sockets, TLS and `SQLite` files:
//! `cargo run --release -p lighthaul-domains --example bookings [SECONDS] [IN_FLIGHT] [DIRECTORY]`.
//!
//! Three services run in this process and talk over loopback. A booking counts when its caller has the outcome: it is
//! then committed in all three stores, each of which has synced it to the disk. Requests start at full seconds within
//! the next hour, so that the capacity functions have realistic lengths.
//!
//! The last line has one request at a time: the time to set up a path, from the request to the outcome.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "an example")]

mod chain;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_domains::Handle;
use lighthaul_io::host::clock::{Clock, cpu_seconds, unix_nanos};
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    CorrelationId, DomainId, Outcome, PortId, Protection, Request, Signaling,
};

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().map_or(10, |text| text.parse().unwrap());
    let in_flight = args.next().map_or(64, |text| text.parse().unwrap());
    let folder = args
        .next()
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let folder = folder.join(format!("lighthaul-bookings-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    println!(
        "synced append of 4 KiB in {}: {:.2} ms\n",
        folder.display(),
        sync_time(&folder).as_secs_f64() * 1e3
    );
    let services = chain::start(&folder, (3, "400Gb/s"), Duration::ZERO, chain::recording);
    let handle = services[0].handle();
    let ids = AtomicU64::new(1);
    println!(
        "| in flight | bookings | refused | seconds | bookings/s | median ms | 99 % ms | CPU ms each |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    run(&handle, &ids, in_flight, Duration::from_secs(seconds));
    run(&handle, &ids, 1, Duration::from_secs(seconds.min(5)));
    let books = services.iter().map(|service| {
        let status = service.handle().status().unwrap();
        let stages = status.reservations.iter();
        let committed = stages.filter(|one| one.stage == lighthaul_stargate::Stage::Committed);
        (committed.count(), status.ignored)
    });
    let books: Vec<_> = books.collect();
    println!("\ncommitted and ignored in each domain: {books:?}");
    for service in services {
        service.stop().unwrap();
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Books with a number of callers at a time, and prints a line of the table.
fn run(handle: &Handle, ids: &AtomicU64, in_flight: usize, time: Duration) {
    let clock = Clock::start();
    let cpu = cpu_seconds();
    let times = Mutex::new(Vec::new());
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..in_flight {
            scope.spawn(|| {
                while clock.now() < Instant::ZERO + time {
                    let id = ids.fetch_add(1, Ordering::Relaxed);
                    let begun = clock.now();
                    let ticket = handle.request(request(id)).unwrap();
                    match ticket.wait(Duration::from_mins(1)).unwrap() {
                        Some(Outcome::Committed { .. }) => {
                            times.lock().unwrap().push(clock.now().since(begun));
                        }
                        outcome => {
                            if refused.fetch_add(1, Ordering::Relaxed) == 0 {
                                println!("{outcome:?}");
                            }
                        }
                    }
                }
            });
        }
    });
    let took = clock.now().since(Instant::ZERO).as_secs_f64();
    let cpu = cpu_seconds() - cpu;
    let mut times = times.into_inner().unwrap();
    times.sort_unstable();
    let count = times.len();
    let at = |part: usize| times[(count * part / 100).min(count - 1)].as_secs_f64() * 1e3;
    println!(
        "| {in_flight} | {count} | {} | {took:.1} | {:.0} | {:.1} | {:.1} | {:.2} |",
        refused.into_inner(),
        count as f64 / took,
        at(50),
        at(99),
        cpu * 1e3 / count as f64,
    );
}

/// Returns a request for one second at 10 Mb/s, which starts at a full second in the next hour.
fn request(id: u64) -> Request {
    let second = Duration::from_secs(1).as_nanos() as u64;
    let mut rng = Rng::new(id);
    let from = unix_nanos() / second * second + (20 + rng.below(3600)) * second;
    let from = Instant::from_nanos(from);
    let rate = Rate::from_mbps(10);
    Request {
        id: CorrelationId(id.into()),
        ingress: PortId(101),
        to: DomainId(3),
        egress: PortId(103),
        demand: Demand {
            bytes: rate.bytes_in(Duration::from_secs(1)),
            rate_max: rate,
            rate_min: rate,
        },
        from,
        till: from + Duration::from_mins(1),
        excludes: Excludes::default(),
        protection: Protection::None,
        signaling: Signaling::Chain,
    }
}

/// Returns the median time of an append that is synced to the disk.
fn sync_time(folder: &Path) -> Duration {
    let path = folder.join("probe");
    let clock = Clock::start();
    let mut file = fs::File::create(&path).unwrap();
    let times = (0..50).map(|_| {
        let begun = clock.now();
        std::io::Write::write_all(&mut file, &[7; 4096]).unwrap();
        file.sync_data().unwrap();
        clock.now().since(begun)
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    fs::remove_file(path).unwrap();
    times[times.len() / 2]
}
