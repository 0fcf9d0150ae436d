//! Power cuts and failing disks, repeated many times.

use std::ffi::OsString;
use std::path::Path;

use lighthaul_io::host::clock::Clock;
use lighthaul_powercut::sandbox;
use lighthaul_powercut::scenarios::all::{BOOKS, NAMES};
use lighthaul_powercut::scenarios::round::Round;

use super::args::Args;
use super::tally::Done;

/// Starts the power cuts in another process, whose mounts end with it.
pub(crate) fn start(words: &[OsString], seed: u64, folder: &Path) -> Result<(), String> {
    sandbox::available()?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut inside = sandbox::command(&own, SECONDS_MAX);
    inside.arg("crash").args(words).arg("--in-sandbox");
    inside.arg("--within").arg(folder);
    // Pass the seed unless the user gave one.
    if !words
        .iter()
        .any(|word| word.as_encoded_bytes().starts_with(b"--seed"))
    {
        inside.arg("--seed").arg(seed.to_string());
    }
    match inside.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the power cuts failed".to_owned()),
        Err(why) => Err(format!("cannot start the power cuts: {why}")),
    }
}

/// Cuts power, and prints the results of each scenario.
pub(crate) fn run(args: &Args, seed: u64, program: &Path, folder: &Path) -> Result<(), String> {
    let clock = Clock::start();
    let goes_on = || clock.now().as_secs_f64() < args.cut_minutes * 60.0;
    let asked = |name: &&str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let all = NAMES.into_iter().chain([BOOKS]);
    println!(
        "power cuts: repeat with --runs 0 --cuts {} --seed {seed}",
        args.cuts
    );
    let mut done = Done::default();
    for (fails, names) in [(false, all.collect::<Vec<_>>()), (true, FAILING.to_vec())] {
        let names: Vec<&str> = names.into_iter().filter(asked).collect();
        let round = Round {
            program,
            folder,
            seed,
            cuts: args.cuts,
            cuts_each: 20,
            repeat_each: 4,
            fails,
        };
        let what = if fails { "failing disk" } else { "power cut" };
        let total = round.run(&names, &goes_on, &mut |name, tally| {
            println!(
                "{:6.1} s  {what}, {name}: {tally}",
                clock.now().as_secs_f64()
            );
        })?;
        done.add(total.cuts, total.skipped, total.faults);
    }
    done.verdict("power cuts and disk failures", "--cut-minutes")
}

/// Scenarios for failing disks, whose content is the same in every run.
const FAILING: [&str; 4] = ["allowed", "replace", "small", "delete"];
const SECONDS_MAX: u64 = 3 * 3600;
