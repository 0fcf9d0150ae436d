//! Times of set-ups, with the sockets, TLS and `SQLite` files of all domains:
//! `cargo run --release -p lighthaul-domains --example set_ups [ROUNDS] [DIRECTORY]`.
//!
//! - One path at a time over three domains, with a delay between neighbors.
//! - 1,000 requests at one moment between random ends of ten domains, for more than the links carry.
//! - Time until the capacity of a path is free in all domains. The path is released, or a device fails, or the source
//!   abandons the request.
//! - Paths that begin and end while packets cross three interfaces that Linux shapes: how far apart the interfaces get
//!   each change, and how many packets are lost. This needs root.
//! - The same at an interface, a switch that speaks TL1 and a driver program: when the last command of each change
//!   reaches them. The switch answers at once, or takes 5 ms for a command.
//!
//! The first three are measured for a chain and for a tree. The books of all domains are compared after each of them.
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

use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::namespace;
use lighthaul_stargate::Signaling;

use chain::boundaries::Boundaries;
use chain::burst::Burst;
use chain::freed::Freed;
use chain::mixed_boundaries::MixedBoundaries;
use chain::set_ups::SetUps;

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds = args.next().map_or(21, |text| text.parse().unwrap());
    let folder = args
        .next()
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let folder = folder.join(format!("lighthaul-set-ups-{}", std::process::id()));
    let both = [Signaling::Chain, Signaling::Tree];
    println!(
        "| signaling | one way between neighbors | 3 RTT from end to end | median set-up | longest | median beyond 3 RTT |"
    );
    println!("|---|---|---|---|---|---|");
    for (signaling, delay) in both
        .into_iter()
        .flat_map(|one| DELAYS.map(|delay| (one, delay)))
    {
        let delay = Duration::from_millis(delay);
        let times = in_folder(&folder, |folder| {
            SetUps::measure(folder, signaling, (delay, rounds))
        });
        println!("{times}");
    }
    println!();
    for signaling in both {
        let burst = in_folder(&folder, |folder| {
            Burst::measure(folder, signaling, unix_nanos())
        });
        println!("{burst}");
    }
    println!(
        "\n| time until all is free | released | device failed | abandoned | longest timeout |"
    );
    println!("|---|---|---|---|---|");
    for signaling in both {
        println!(
            "{}",
            in_folder(&folder, |folder| Freed::measure(folder, signaling))
        );
    }
    match namespace::check() {
        Ok(()) => {
            let found = in_folder(&folder, |folder| Boundaries::measure(folder, 20));
            println!("\n{found}");
            for pace in [0, 5] {
                let pace = Duration::from_millis(pace);
                let found = in_folder(&folder, |folder| MixedBoundaries::measure(folder, 20, pace));
                println!("\n{found}");
            }
        }
        Err(why) => println!("\nboundaries need namespaces: {why}"),
    }
}

/// Times of octets from a neighbor to the next one, in milliseconds.
const DELAYS: [u64; 4] = [0, 10, 20, 50];

/// Runs a measurement in a new directory, and removes that.
fn in_folder<T>(folder: &Path, measure: impl Fn(&Path) -> T) -> T {
    fs::create_dir_all(folder).unwrap();
    let found = measure(folder);
    fs::remove_dir_all(folder).unwrap();
    found
}
