//! Round of cuts: several scenarios, each on every file system.

use std::path::Path;

use lighthaul_base::Rng;

use super::all::named;
use super::program::Program;
use crate::filesystem::FileSystem;
use crate::image::Image;
use crate::rig::Rig;
use crate::trial::{self, Plan, Scenario, Tally};

/// Parameters of a round.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// Path of the `lighthaul` command.
    pub program: &'a Path,
    /// Directory for mount points, and for the command's files outside of the disk.
    pub folder: &'a Path,
    /// Seed of all random choices.
    pub seed: u64,
    /// Cuts or faults per scenario, divided among the file systems.
    pub cuts: u64,
    /// Limit of cuts of one recording, after which a new one is made.
    pub cuts_each: u64,
    /// Number of cuts after which the command is repeated.
    pub repeat_each: u64,
    /// True if the device fails during a run, instead of a cut afterwards.
    pub fails: bool,
}

/// Results of all scenarios of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Cuts that were made.
    pub cuts: u64,
    /// Cuts that were asked for and not made.
    pub skipped: u64,
    /// Faults found.
    pub faults: usize,
}

impl Round<'_> {
    /// Runs the scenarios with the given names while `goes_on` returns true. Passes the results of each to `say`.
    pub fn run(
        &self,
        names: &[&str],
        goes_on: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str, &Tally),
    ) -> Result<Total, String> {
        let empty = self.empty()?;
        let mut total = Total::default();
        for name in names {
            let mut tally = Tally::default();
            for (kind, image) in &empty {
                total.skipped += self.on(name, *kind, image, (goes_on, &mut tally))?;
            }
            say(name, &tally);
            total.faults += tally.faults.len();
        }
        let asked = self.cuts * names.len() as u64;
        total.cuts = asked - total.skipped;
        Ok(total)
    }

    /// Creates an empty file system of each kind.
    fn empty(&self) -> Result<Vec<(FileSystem, Image)>, String> {
        let make = |kind: FileSystem| Ok((kind, kind.make(self.folder)?));
        FileSystem::ALL.into_iter().map(make).collect()
    }

    /// Runs the cuts of one scenario on one file system. Returns the number of cuts that were skipped for lack of time.
    fn on(
        &self,
        name: &str,
        kind: FileSystem,
        empty: &Image,
        (goes_on, tally): (&dyn Fn() -> bool, &mut Tally),
    ) -> Result<u64, String> {
        // The first file systems get the remainder of the division.
        let nth = FileSystem::ALL.iter().position(|other| *other == kind);
        let kinds = FileSystem::ALL.len() as u64;
        let mut left = (self.cuts + kinds - 1 - nth.unwrap_or(0) as u64) / kinds;
        let letters = name.bytes().chain(kind.name().bytes());
        let sum = letters.fold(self.seed, |sum, byte| sum.rotate_left(7) ^ u64::from(byte));
        let mut rng = Rng::new(sum);
        while left > 0 && goes_on() {
            let cuts = left.min(self.cuts_each);
            let plan = Plan {
                cuts,
                repeat_each: self.repeat_each,
                seed: rng.next_u64(),
            };
            let mut scenario = self.scenario(name, &mut rng)?;
            let rig = Rig::start(self.folder, kind.name(), empty.clone())?;
            let run = if self.fails { trial::fail } else { trial::run };
            let one = run(&rig, kind, scenario.as_mut(), plan);
            tally.add(one.map_err(|why| format!("{name} on {}: {why}", kind.name()))?);
            left -= cuts;
        }
        Ok(left)
    }

    fn scenario(&self, name: &str, rng: &mut Rng) -> Result<Box<dyn Scenario>, String> {
        let program = Program::new(self.program, &self.folder.join("aside"));
        named(name, &program, rng.next_u64()).ok_or_else(|| format!("unknown scenario {name}"))
    }
}
