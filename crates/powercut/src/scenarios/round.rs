//! A round of cuts: scenarios, each on every file system.

use std::path::Path;

use lighthaul_base::Rng;

use super::all::named;
use super::program::Program;
use crate::filesystem::FileSystem;
use crate::image::Image;
use crate::rig::Rig;
use crate::trial::{self, Plan, Scenario, Tally};

/// What a round does, and where.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// The command `lighthaul`.
    pub program: &'a Path,
    /// Folder for mount points and for what the command keeps off the disk.
    pub folder: &'a Path,
    /// Source of all chance.
    pub seed: u64,
    /// Cuts, or faults, of each scenario, spread over the file systems.
    pub cuts: u64,
    /// Most cuts of one recording: from then on, another one is cut.
    pub cuts_each: u64,
    /// After every so many cuts the command runs again.
    pub repeat_each: u64,
    /// The device fails in the middle instead of losing power.
    pub fails: bool,
}

impl Round<'_> {
    /// Tries the scenarios of these names for as long as `goes_on`, and hands what came of each to `say`; answers the
    /// number of faults.
    pub fn run(
        &self,
        names: &[&str],
        goes_on: &dyn Fn() -> bool,
        say: &mut dyn FnMut(&str, &Tally),
    ) -> Result<usize, String> {
        let empty = self.empty()?;
        let mut faults = 0;
        for name in names {
            let mut tally = Tally::default();
            for (kind, image) in &empty {
                self.on(name, *kind, image, (goes_on, &mut tally))?;
            }
            say(name, &tally);
            faults += tally.faults.len();
        }
        Ok(faults)
    }

    /// An empty file system of each kind.
    fn empty(&self) -> Result<Vec<(FileSystem, Image)>, String> {
        let make = |kind: FileSystem| Ok((kind, kind.make(self.folder)?));
        FileSystem::ALL.into_iter().map(make).collect()
    }

    /// The cuts of one scenario on one file system.
    fn on(
        &self,
        name: &str,
        kind: FileSystem,
        empty: &Image,
        (goes_on, tally): (&dyn Fn() -> bool, &mut Tally),
    ) -> Result<(), String> {
        // of two cuts that three file systems share, the first two have one each
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
        Ok(())
    }

    fn scenario(&self, name: &str, rng: &mut Rng) -> Result<Box<dyn Scenario>, String> {
        let program = Program::new(self.program, &self.folder.join("aside"));
        named(name, &program, rng.next_u64()).ok_or_else(|| format!("no scenario is called {name}"))
    }
}
