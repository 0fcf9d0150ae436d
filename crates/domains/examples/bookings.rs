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

#[expect(dead_code, reason = "the other example uses the rest")]
mod chain;
#[expect(
    dead_code,
    clippy::disallowed_methods,
    reason = "tests of the driver use the rest; it is a server"
)]
#[path = "../../circuit/tests/tl1/emulator.rs"]
mod emulator;
#[expect(
    dead_code,
    clippy::disallowed_methods,
    reason = "tests of the driver use the rest; it is a server"
)]
#[path = "../../circuit/tests/tl1/replies.rs"]
mod replies;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_io::host::clock::Clock;

use chain::bookings::Booker;

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
    let booker = Booker::start(&folder);
    println!(
        "| in flight | bookings | refused | seconds | bookings/s | median ms | 99 % ms | CPU ms each |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    println!("{}", booker.run(in_flight, Duration::from_secs(seconds)));
    println!("{}", booker.run(1, Duration::from_secs(seconds.min(5))));
    let stored = booker.finish();
    println!("\nall books agree, and each of the three stores has {stored} committed paths");
    fs::remove_dir_all(folder).unwrap();
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
