//! Crash trials, one after another.
//!
//! The path counts the bytes that cross, since a killed client cannot report them. It counts all
//! bytes delivered to host b while a copy runs, with headers, probes and retransmissions. The
//! count is scaled by that of the first, undisturbed copy.
//!
//! Repeated bytes may be at most 2% of the tree, plus one object per lane that was in flight.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{fs, io};

use clap::Parser;
use lighthaul_base::{Rate, Rng, Size};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::namespace::ignore_interrupts;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_lab::settings::{LinkSettings, Settings};
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::protocol::Protocol;

use super::args::Args;
use super::pair::{CopyResult, Pair};
use super::tally::{CLIENT, DAEMON, Done, Tally, Trial};
use super::{compare, cuts, tree};
use crate::demo::{Folder, release};

/// Runs the crash tests with the arguments after `crash`.
///
/// The tests run in another process, so that this one can clean up after them, even after Ctrl-C.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    let program = std::iter::once(OsString::from("crash"));
    let args = Args::parse_from(program.chain(words.iter().cloned()));
    let done = match &args.within {
        Some(folder) if args.in_sandbox => cut(&args, folder),
        Some(folder) => drill(&args, folder),
        None => start(&args, words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("crash: {why}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args, words: &[OsString]) -> Result<(), String> {
    let seed = args.seed.unwrap_or_else(unix_nanos);
    let beside = match &args.program {
        Some(program) => program.with_file_name(""),
        None => release()?,
    };
    let folder = Folder::make(&beside, "crash")?;
    ignore_interrupts();
    let killed = if args.runs > 0 {
        available()?;
        kill(words, seed, folder.path())
    } else {
        Ok(())
    };
    if args.cuts > 0 {
        cuts::start(words, seed, folder.path())?;
    }
    killed
}

/// Starts the trials with kills in another process.
fn kill(words: &[OsString], seed: u64, folder: &Path) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut trials = Command::new(own);
    trials.arg("crash").args(words).arg("--within").arg(folder);
    if !words
        .iter()
        .any(|word| word.as_encoded_bytes().starts_with(b"--seed"))
    {
        trials.arg("--seed").arg(seed.to_string());
    }
    match trials.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the trials with kills failed".to_owned()),
        Err(why) => Err(format!("cannot start the trials: {why}")),
    }
}

/// Copies the program to test, so that a build in the meantime has no effect.
fn program(args: &Args, folder: &Path) -> Result<PathBuf, String> {
    let from = match &args.program {
        Some(program) => program.clone(),
        None => release()?.join("lighthaul"),
    };
    let program = folder.join("lighthaul");
    fs::copy(from, &program).map_err(|e| format!("cannot copy the command: {e}"))?;
    Ok(program)
}

/// Runs all power cuts.
fn cut(args: &Args, folder: &Path) -> Result<(), String> {
    let program = program(args, folder)?;
    cuts::run(args, args.seed.unwrap_or_else(unix_nanos), &program, folder)
}

/// Runs all trials with kills.
fn drill(args: &Args, folder: &Path) -> Result<(), String> {
    let seed = args.seed.unwrap_or_else(unix_nanos);
    let source = folder.join("tree");
    fs::create_dir_all(&source).map_err(|e| e.to_string())?;
    let made = tree::make(&source, args.files, args.size.0, seed);
    let bytes = made.map_err(|e| format!("cannot make the tree to copy: {e}"))?;
    println!(
        "repeat with --seed {seed}: {} files, {}, over {} with {} round trip and {} lost",
        args.files,
        Size(bytes),
        args.rate,
        args.rtt,
        args.loss
    );
    let lab = lab(args, seed)?;
    let program = program(args, folder)?;
    let rate = args.rate.scaled(95, 100);
    let pair = Pair::new(&lab, &program, folder, rate)?;
    let mut drill = Drill {
        lab: &lab,
        pair,
        source: &source,
        bytes,
        again_max: bytes / 50 + in_flight(rate),
        undisturbed: 1,
        seconds: 0.0,
    };
    drill.measure()?;
    let tally = drill.trials(args, seed)?;
    println!("{tally}");
    let runs = tally.trials.len() as u64;
    let mut done = Done::default();
    done.add(runs, args.runs - runs, tally.faults());
    done.verdict("copies", "--minutes")
}

fn lab(args: &Args, seed: u64) -> Result<Lab, String> {
    let mut link = LinkSettings::default();
    link.both.rate = Some(args.rate.to_string());
    link.both.loss = Some(args.loss.clone());
    link.rtt = Some(args.rtt.clone());
    let settings = Settings::pair(link, Some(seed));
    let description = Description::new(&settings).map_err(|e| e.to_string())?;
    Lab::start(&description).map_err(|e| e.to_string())
}

/// Returns the largest number of object bytes in flight: one object in each lane.
fn in_flight(rate: Rate) -> u64 {
    let offer = Offer {
        protocol: Protocol::default(),
        packet_len: 1024,
        rate_bps: rate.as_bps(),
        settle_us: 0,
        rtt_us: 0,
        udp: true,
        lanes: offer::lanes(Some(Protocol::default()), false) as u8,
        joins: 0,
    };
    // A remainder of up to a quarter joins the last object.
    offer::object_len(&offer, rate, Duration::ZERO) * 5 / 4
        * offer::lanes(Some(Protocol::default()), false) as u64
}

struct Drill<'a> {
    lab: &'a Lab,
    pair: Pair<'a>,
    source: &'a Path,
    /// Size of the tree, in bytes.
    bytes: u64,
    /// Bytes that an undisturbed copy delivers on the path.
    undisturbed: u64,
    /// Limit of bytes that may cross twice.
    again_max: u64,
    /// Duration of an undisturbed copy, in seconds.
    seconds: f64,
}

impl Drill<'_> {
    /// Returns the number of bytes that the path has delivered to host b.
    fn delivered(&self) -> u64 {
        let counters = self.lab.counters();
        counters
            .link("a", "b")
            .map_or(0, |link| link.seen.delivered.bytes)
    }

    /// Measures an undisturbed copy.
    fn measure(&mut self) -> Result<(), String> {
        let before = self.delivered();
        let ended = self.pair.copy()?.wait(PATIENCE_S);
        let ended = ended.ok_or("the first copy did not end")?;
        if ended.code != Some(0) {
            return Err(format!("the first copy failed: {}", ended.said.trim()));
        }
        self.undisturbed = (self.delivered() - before).max(1);
        self.seconds = ended.seconds;
        println!(
            "undisturbed copy: {:.1} s, {:.3} bytes on the path per byte of a file",
            self.seconds,
            self.undisturbed as f64 / self.bytes as f64
        );
        let mut trial = Trial::default();
        self.look(&mut trial);
        match trial.faults.first() {
            Some(fault) => Err(format!("the first copy: {fault}")),
            None => self.clear(),
        }
    }

    fn trials(&mut self, args: &Args, seed: u64) -> Result<Tally, String> {
        let (clock, mut rng) = (Clock::start(), Rng::new(seed ^ 1));
        let mut tally = Tally::default();
        for number in 1..=args.runs {
            if clock.now().as_secs_f64() > args.minutes * 60.0 {
                println!("stopping: the time limit has passed");
                break;
            }
            let victim = if rng.below(2) == 0 { CLIENT } else { DAEMON };
            let at = self.seconds * rng.below(1000) as f64 / 1000.0;
            let trial = self.trial(number, victim, at)?;
            println!("{trial}");
            tally.trials.push(trial);
            self.clear()?;
        }
        Ok(tally)
    }

    fn trial(&mut self, number: u64, victim: &'static str, at: f64) -> Result<Trial, String> {
        let mut trial = Trial {
            number,
            ..Trial::default()
        };
        let before = self.delivered();
        let mut copy = self.pair.copy()?;
        if let Some(ended) = copy.wait(at) {
            trial.expect(&ended, 0);
        } else {
            trial.killed = Some((victim, at));
            if victim == DAEMON {
                self.pair.kill_daemon();
                match copy.wait(at + PATIENCE_S) {
                    Some(ended) => trial.expect(&ended, 10),
                    None => trial.fault("the client did not notice the end of its daemon"),
                }
                self.pair.serve()?;
            }
        }
        drop(copy);
        if trial.killed.is_some() {
            trial.compared(compare::interrupted(self.source, &self.pair.target()));
            self.again(&mut trial)?;
        }
        let more = (self.delivered() - before).saturating_sub(self.undisturbed);
        trial.again =
            (u128::from(more) * u128::from(self.bytes) / u128::from(self.undisturbed)) as u64;
        trial.check(
            trial.again <= self.again_max,
            "too many bytes were sent twice",
        );
        self.look(&mut trial);
        Ok(trial)
    }

    /// Repeats the command, which must succeed.
    fn again(&self, trial: &mut Trial) -> Result<(), String> {
        let Some(ended) = self.pair.copy()?.wait(PATIENCE_S) else {
            trial.fault("the second copy did not end");
            return Ok(());
        };
        trial.expect(&ended, 0);
        let summary = ended.summary.as_ref();
        let verified = summary.is_some_and(|summary| summary["verified"] == true);
        trial.check(verified, "the second copy is not verified");
        Ok(())
    }

    /// Checks that the copy is complete and that no other file is left.
    fn look(&self, trial: &mut Trial) {
        trial.compared(compare::complete(self.source, &self.pair.target()));
        let beside = fs::read_dir(self.pair.target().with_file_name(""));
        let beside = beside.map_or(0, Iterator::count);
        trial.check(beside == 1, "a file is left beside the copy");
    }

    fn clear(&self) -> Result<(), String> {
        let cleared = fs::remove_dir_all(self.pair.target());
        cleared.map_err(|e| format!("cannot remove the copy: {e}"))
    }
}

impl Trial {
    fn fault(&mut self, what: &str) {
        self.faults.push(what.to_owned());
    }

    fn check(&mut self, is: bool, otherwise: &str) {
        if !is {
            self.fault(otherwise);
        }
    }

    /// Records the first difference of a comparison, and the number of others.
    fn compared(&mut self, found: io::Result<Vec<String>>) {
        match found {
            Ok(faults) => {
                if let Some(first) = faults.first() {
                    self.fault(&format!("{first} and {} more", faults.len() - 1));
                }
            }
            Err(why) => self.fault(&format!("cannot compare: {why}")),
        }
    }

    /// Checks the exit status, and that a failure printed exactly one line.
    fn expect(&mut self, ended: &CopyResult, code: i32) {
        let told = ended.said.lines().count();
        let is = ended.code == Some(code) && told == usize::from(code != 0);
        self.check(is, &format!("{:?}: {}", ended.code, ended.said.trim()));
    }
}

const PATIENCE_S: f64 = 120.0;
