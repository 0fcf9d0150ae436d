//! Simulations one after another, until the time has passed or one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lighthaul_io::host::clock::{Clock, unix_nanos};

use super::pairs::PROTOCOLS;
use super::worlds::Scene;

/// Runs simulations with the arguments `[SECONDS [SEED]]`, or a single one with `one SEED
/// PROTOCOL`. Without a seed, chooses a new one.
pub(crate) fn main(words: &[&str]) -> Result<(), String> {
    let number = |word: &str| word.parse::<u64>().map_err(|_| USAGE.to_owned());
    match words {
        [] => run(Duration::from_secs(SECONDS), unix_nanos()),
        [seconds] => run(Duration::from_secs(number(seconds)?), unix_nanos()),
        ["one", seed, protocol] => one(number(seed)?, protocol).map(|sent| {
            println!("{protocol} in world {seed}: {sent} datagrams, all checks passed");
        }),
        [seconds, seed] => run(Duration::from_secs(number(seconds)?), number(seed)?),
        _ => Err(USAGE.to_owned()),
    }
}

fn run(time: Duration, first: u64) -> Result<(), String> {
    println!("simulating worlds from seed {first} on");
    let clock = Clock::start();
    let till = clock.now() + time;
    let (mut worlds, mut datagrams, mut seed) = (0_u64, 0_u64, first);
    while clock.now() < till {
        for (protocol, _) in PROTOCOLS {
            datagrams += one(seed, protocol)?;
        }
        worlds += 1;
        seed = seed.wrapping_add(1);
    }
    println!(
        "all checks passed in {worlds} worlds from seed {first} on, with {datagrams} datagrams"
    );
    Ok(())
}

/// Runs one protocol in one world.
fn one(seed: u64, protocol: &str) -> Result<u64, String> {
    let found = PROTOCOLS.iter().find(|(name, _)| *name == protocol);
    let (_, run) = found.ok_or_else(|| format!("unknown protocol {protocol}"))?;
    let scene = Scene::new(seed);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&scene)));
    let outcome = outcome.unwrap_or_else(|_| Err("a machine panicked".into()));
    outcome.map_err(|why| {
        format!(
            "{protocol} in world {seed}: {why}\n{scene:?}\nto repeat, run cargo xtask sim one {seed} {protocol}"
        )
    })
}

const USAGE: &str = "usage: cargo xtask sim [SECONDS [SEED]] | sim one SEED PROTOCOL";
/// Default duration in seconds, suited to continuous integration.
const SECONDS: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_pass_in_the_first_worlds() {
        for seed in 1..=8 {
            for (protocol, _) in PROTOCOLS {
                let outcome = one(seed, protocol);
                assert!(outcome.is_ok(), "{outcome:?}");
            }
        }
    }

    #[test]
    fn unknown_protocol_and_invalid_arguments_are_rejected() {
        assert!(
            one(1, "carrier-pigeon")
                .unwrap_err()
                .contains("carrier-pigeon")
        );
        assert_eq!(main(&["one", "x", "rbudp"]), Err(USAGE.to_owned()));
    }
}
