//! Random worlds of 2 to 30 domains in virtual time, with faults of network, domains and clocks.
//!
//! `LIGHTHAUL_STARGATE_WORLDS` sets the number of worlds, `LIGHTHAUL_STARGATE_SEED` the seed of the first one.
#![expect(clippy::unwrap_used, reason = "a test")]

mod checks;
mod detours;
mod devices;
mod greedy;
mod limits;
mod lost_contact;
mod misbehavior;
mod network;
mod node;
mod offers;
mod plan;
mod protected;
mod silent_child;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use network::{Counts, World};

#[test]
fn paths_of_random_worlds_are_committed_everywhere_or_nowhere() {
    #[expect(clippy::disallowed_methods, reason = "sets the duration")]
    let wanted = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    #[expect(clippy::disallowed_methods, reason = "a new seed for each run")]
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH);
    let worlds: u64 = wanted("LIGHTHAUL_STARGATE_WORLDS").unwrap_or(10_000);
    let first = wanted("LIGHTHAUL_STARGATE_SEED")
        .unwrap_or_else(|| fresh().map_or(0, |since| since.as_nanos() as u64));
    println!("LIGHTHAUL_STARGATE_SEED={first} LIGHTHAUL_STARGATE_WORLDS={worlds}");
    let next = AtomicU64::new(0);
    let all = thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| run_some(first, worlds, &next)))
            .collect();
        let counts = threads.into_iter().map(|thread| thread.join().unwrap());
        counts.fold(Counts::default(), Counts::plus)
    });
    println!("{all:#?}");
    assert_eq!(all.worlds, worlds);
    for (count, least) in [
        (all.committed, worlds),
        (all.refused, worlds),
        (all.crashes, worlds / 2),
        (all.lost, worlds),
        (all.tree, worlds / 10),
        (all.protected, worlds / 100),
        (all.undecided, worlds / 200),
        (all.released, worlds / 10),
        (all.failed, worlds / 100),
        (all.lost_legs, worlds / 500),
        (all.leavers, worlds / 50),
    ] {
        assert!(count >= least.min(worlds.saturating_sub(99)), "{all:#?}");
    }
}

fn run_some(first: u64, worlds: u64, next: &AtomicU64) -> Counts {
    let mut counts = Counts::default();
    loop {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if nth >= worlds {
            return counts;
        }
        let seed = first.wrapping_add(nth);
        let run = catch_unwind(AssertUnwindSafe(|| World::new(seed).run()));
        let run = run.unwrap_or_else(|_| Err("the machine panicked".to_owned()));
        counts = counts.plus(run.unwrap_or_else(|fault| panic!("{fault}; {}", repeat(seed))));
    }
}

fn repeat(seed: u64) -> String {
    format!(
        "repeat with LIGHTHAUL_STARGATE_SEED={seed} LIGHTHAUL_STARGATE_WORLDS=1 \
         cargo test -p lighthaul-stargate --test world random"
    )
}
