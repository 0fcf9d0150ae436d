//! Times of set-ups, with the sockets, TLS and `SQLite` files of all domains:
//! `cargo run --release -p lighthaul-domains --example set_ups [ROUNDS] [DIRECTORY]`.
//!
//! - One path at a time over three domains, with a delay between neighbors.
//! - 1,000 requests at one moment between random ends of ten domains, for more than the links carry.
//! - Paths that begin and end while packets cross three interfaces that Linux shapes: how far apart the interfaces get
//!   each change, and how many packets are lost. This needs root.
//!
//! The books of all domains are compared after each of them.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::unwrap_used, reason = "an example")]

#[expect(dead_code, reason = "the other example uses the rest")]
mod chain;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::namespace;

use chain::boundaries::Boundaries;
use chain::burst::Burst;
use chain::set_ups::SetUps;

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds = args.next().map_or(21, |text| text.parse().unwrap());
    let folder = args
        .next()
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let folder = folder.join(format!("lighthaul-set-ups-{}", std::process::id()));
    println!(
        "| one way between neighbors | 3 RTT from end to end | median set-up | longest | median beyond 3 RTT |"
    );
    println!("|---|---|---|---|---|");
    for delay in [0, 10, 20, 50] {
        let delay = Duration::from_millis(delay);
        let times = in_folder(&folder, |folder| SetUps::measure(folder, delay, rounds));
        println!("{times}");
    }
    let burst = in_folder(&folder, |folder| Burst::measure(folder, unix_nanos()));
    println!("\n{burst}");
    match namespace::check() {
        Ok(()) => {
            let found = in_folder(&folder, |folder| Boundaries::measure(folder, 20));
            println!("\n{found}");
        }
        Err(why) => println!("\nboundaries need namespaces: {why}"),
    }
}

/// Runs a measurement in a new directory, and removes that.
fn in_folder<T>(folder: &Path, measure: impl Fn(&Path) -> T) -> T {
    fs::create_dir_all(folder).unwrap();
    let found = measure(folder);
    fs::remove_dir_all(folder).unwrap();
    found
}
