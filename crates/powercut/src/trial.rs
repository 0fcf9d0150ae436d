//! Trial: a program is recorded once, and its recording is cut many times.
//!
//! A [`Scenario`] runs the program and notes each promise that the program makes. After a cut, the
//! disk must keep every promise made before it. [`fail`] does the same on a device that begins to
//! refuse writes or flushes.

use std::fmt;
use std::path::Path;

use lighthaul_base::Rng;

use crate::device::Fault;
use crate::filesystem::FileSystem;
use crate::recording::{PageOutcome, RandomOutcomes, Recording};
use crate::rig::Rig;

/// Program under test, with its promises of durability.
pub trait Scenario {
    /// Prepares the disk, which is synced afterwards.
    fn prepare(&mut self, disk: &Path) -> Result<(), String>;

    /// Runs the program until all its processes have ended. Notes each promise as soon as the
    /// program makes it.
    fn run(&mut self, disk: &Path, promises: &mut Promises<'_>) -> Result<(), String>;

    /// Checks the disk after a cut, before which the program had made `promised` promises.
    fn check(&mut self, disk: &Path, promised: usize) -> Result<(), String>;

    /// Runs the program again after a cut. Fails if its result is not complete.
    fn repeat(&mut self, disk: &Path) -> Result<(), String>;
}

/// Promises of a program, with their positions in the recording.
#[derive(Debug)]
pub struct Promises<'a> {
    rig: &'a Rig,
    places: Vec<usize>,
}

impl Promises<'_> {
    /// Notes that the program has made its next promise.
    pub fn note(&mut self) {
        self.places.push(self.rig.device().place());
    }
}

/// Number and kind of cuts of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of cuts.
    pub cuts: u64,
    /// Number of cuts after which the program is repeated.
    pub repeat_each: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Results of the cuts of recordings.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of cuts, or of devices that failed.
    pub cuts: u64,
    /// Number of cuts after which the program was repeated.
    pub repeated: u64,
    /// Numbers of events, flushes and promises.
    pub recorded: (usize, usize, usize),
    /// Faults after cuts, with the cut's position.
    pub faults: Vec<String>,
}

impl Tally {
    /// Returns the tally of a recording that was not cut yet.
    fn of(recording: &Recording, promises: &[usize]) -> Self {
        let end = recording.place();
        Self {
            recorded: (end, recording.flushes(end), promises.len()),
            ..Self::default()
        }
    }

    /// Adds the results of another recording.
    pub fn add(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.repeated += other.repeated;
        self.recorded.0 += other.recorded.0;
        self.recorded.1 += other.recorded.1;
        self.recorded.2 += other.recorded.2;
        self.faults.extend(other.faults);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (events, flushes, promises) = self.recorded;
        write!(
            f,
            "{} cuts of {events} events with {flushes} flushes and {promises} promises, {} repeated: {} faults",
            self.cuts,
            self.repeated,
            self.faults.len()
        )?;
        for fault in &self.faults {
            write!(f, "\n      FAULT: {fault}")?;
        }
        Ok(())
    }
}

/// Records `scenario` on a file system of the given kind, and cuts the recording as often as `plan` requires.
pub fn run(
    rig: &Rig,
    kind: FileSystem,
    scenario: &mut dyn Scenario,
    plan: Plan,
) -> Result<Tally, String> {
    let (recording, promises) = record(rig, kind, scenario)?;
    let mut tally = Tally::of(&recording, &promises);
    let end = recording.place();
    let mut rng = Rng::new(plan.seed);
    for nth in 1..=plan.cuts {
        let place = place(&mut rng, end, &promises);
        let seed = rng.next_u64();
        let repeats = nth % plan.repeat_each.max(1) == 0;
        let cut = Cut {
            kind,
            place,
            seed,
            promised: promises.iter().filter(|at| **at <= place).count(),
            repeats,
        };
        if let Err(why) = cut.make(rig, &recording, scenario) {
            let name = kind.name();
            tally.faults.push(format!(
                "{name}, cut {nth} at event {place} of {end}: {why}"
            ));
        }
        tally.cuts += 1;
        tally.repeated += u64::from(repeats);
    }
    Ok(tally)
}

/// Runs `scenario` as often as `plan` requires, on a device that starts to fail at a random event.
/// Then cuts its power.
pub fn fail(
    rig: &Rig,
    kind: FileSystem,
    scenario: &mut dyn Scenario,
    plan: Plan,
) -> Result<Tally, String> {
    let (recording, promises) = record(rig, kind, scenario)?;
    let base = recording.cut(0, &mut || PageOutcome::Lost);
    let mut tally = Tally::of(&recording, &promises);
    let end = recording.place();
    let mut rng = Rng::new(plan.seed);
    for nth in 1..=plan.cuts {
        let at = rng.below(end as u64) as usize;
        let fault = [Fault::Writes(at), Fault::Flushes(at), Fault::Full(at)][rng.below(3) as usize];
        rig.device().insert(base.clone());
        let repeats = nth % plan.repeat_each.max(1) == 0;
        let failed = FailingRun {
            kind,
            fault,
            seed: rng.next_u64(),
            repeats,
        }
        .make(rig, scenario);
        if let Err(why) = failed {
            let name = kind.name();
            tally
                .faults
                .push(format!("{name}, {nth}: {fault:?} of {end}: {why}"));
        }
        tally.cuts += 1;
        tally.repeated += u64::from(repeats);
    }
    Ok(tally)
}

/// Run on a failing device.
#[derive(Clone, Copy, Debug)]
struct FailingRun {
    kind: FileSystem,
    fault: Fault,
    seed: u64,
    repeats: bool,
}

impl FailingRun {
    fn make(self, rig: &Rig, scenario: &mut dyn Scenario) -> Result<(), String> {
        let mounted = rig.mount(self.kind)?;
        rig.device().fail(self.fault);
        let mut promises = Promises {
            rig,
            places: Vec::new(),
        };
        let said = scenario.run(mounted.path(), &mut promises);
        let recording = rig.device().recording();
        let promised = promises.places.len();
        // A failed file system may refuse to unmount cleanly.
        drop(mounted);
        if let Err(said) = said {
            is_clear(&said)?;
        }
        let cut = Cut {
            kind: self.kind,
            place: recording.place(),
            seed: self.seed,
            promised,
            repeats: self.repeats,
        };
        cut.make(rig, &recording, scenario)
    }
}

/// Checks that a program's error message names the cause.
fn is_clear(said: &str) -> Result<(), String> {
    let lower = said.to_lowercase();
    if CAUSES.iter().any(|cause| lower.contains(cause)) {
        return Ok(());
    }
    Err(format!("the message does not name the cause: {said}"))
}

/// Error messages of the kernel and `SQLite` for a failing device. XFS reports "structure needs
/// cleaning".
const CAUSES: [&str; 7] = [
    "input/output error",
    "no space left",
    "disk full",
    "disk is full",
    "read-only file",
    "structure needs cleaning",
    "disk i/o error",
];

/// Records a run. Returns the recording, with the positions of the promises.
fn record(
    rig: &Rig,
    kind: FileSystem,
    scenario: &mut dyn Scenario,
) -> Result<(Recording, Vec<usize>), String> {
    let mounted = rig.mount(kind)?;
    scenario.prepare(mounted.path())?;
    mounted.sync()?;
    mounted.unmount()?;
    rig.device().insert(rig.device().recording().now().clone());
    let mounted = rig.mount(kind)?;
    let mut promises = Promises {
        rig,
        places: Vec::new(),
    };
    scenario.run(mounted.path(), &mut promises)?;
    let recording = rig.device().recording();
    Ok((recording, promises.places))
}

/// Chooses the position of a cut: a random event, or in one of four cases the end of a promise.
fn place(rng: &mut Rng, end: usize, promises: &[usize]) -> usize {
    if !promises.is_empty() && rng.below(4) == 0 {
        return promises[rng.below(promises.len() as u64) as usize];
    }
    rng.below(end as u64 + 1) as usize
}

/// Cut of a recording.
#[derive(Clone, Copy, Debug)]
struct Cut {
    kind: FileSystem,
    place: usize,
    seed: u64,
    promised: usize,
    repeats: bool,
}

impl Cut {
    fn make(
        self,
        rig: &Rig,
        recording: &Recording,
        scenario: &mut dyn Scenario,
    ) -> Result<(), String> {
        let mut outcomes = RandomOutcomes::new(self.seed, self.kind.survives_torn_pages());
        rig.device()
            .insert(recording.cut(self.place, &mut || outcomes.outcome()));
        let mounted = rig.mount(self.kind)?;
        scenario.check(mounted.path(), self.promised)?;
        if self.repeats {
            let repeated = scenario.repeat(mounted.path());
            repeated.map_err(|why| format!("repeated command: {why}"))?;
        }
        mounted.unmount()
    }
}
