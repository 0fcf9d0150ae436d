//! Tests that the rig detects faults: a program that does not sync loses data, and one that syncs
//! does not.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use lighthaul_powercut::filesystem::FileSystem;
use lighthaul_powercut::rig::Rig;
use lighthaul_powercut::sandbox;
use lighthaul_powercut::trial::{self, Plan, Promises, Scenario};
use lighthaul_testkit::lacks;

/// Program that replaces a file many times, with or without syncs of the file and its directory.
struct Writer {
    syncs_file: bool,
    syncs_folder: bool,
}

const ROUNDS: usize = 12;

fn content(round: usize) -> Vec<u8> {
    vec![b'a' + round as u8; 20_000]
}

impl Writer {
    fn replace(&self, disk: &Path, round: usize) -> io::Result<()> {
        let mut file = File::create(disk.join("new"))?;
        file.write_all(&content(round))?;
        if self.syncs_file {
            file.sync_all()?;
        }
        fs::rename(disk.join("new"), disk.join("file"))?;
        if self.syncs_folder {
            File::options().read(true).open(disk)?.sync_all()?;
        }
        Ok(())
    }
}

impl Scenario for Writer {
    fn prepare(&mut self, disk: &Path) -> Result<(), String> {
        fs::write(disk.join("file"), content(0)).map_err(|why| why.to_string())
    }

    fn run(&mut self, disk: &Path, promises: &mut Promises<'_>) -> Result<(), String> {
        for round in 1..=ROUNDS {
            self.replace(disk, round).map_err(|why| why.to_string())?;
            promises.note();
        }
        // The kernel would do this by itself eventually.
        rustix::fs::sync();
        Ok(())
    }

    fn check(&mut self, disk: &Path, promised: usize) -> Result<(), String> {
        let found = fs::read(disk.join("file")).map_err(|why| format!("file: {why}"))?;
        let round = (0..=ROUNDS).find(|round| content(*round) == found);
        match round {
            None => Err(format!("a torn file of {} bytes", found.len())),
            Some(round) if round < promised => Err(format!("round {round}, promised {promised}")),
            Some(_) => Ok(()),
        }
    }

    fn repeat(&mut self, disk: &Path) -> Result<(), String> {
        self.replace(disk, ROUNDS).map_err(|why| why.to_string())?;
        self.check(disk, ROUNDS)
    }
}

#[test]
fn only_a_program_that_syncs_survives_cuts() {
    let test = "only_a_program_that_syncs_survives_cuts";
    if lacks(test, sandbox::available()) {
        return;
    }
    let mut inside = sandbox::command(&std::env::current_exe().unwrap(), 120);
    inside.args([
        "child_runs_in_a_sandbox",
        "--exact",
        "--ignored",
        "--nocapture",
    ]);
    assert!(inside.status().unwrap().success());
}

/// Body of the test above, in its sandbox.
#[test]
#[ignore = "started by another test"]
fn child_runs_in_a_sandbox() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("control-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for kind in FileSystem::ALL {
        let empty = kind.make(&folder).unwrap();
        let mut faults = Vec::new();
        for (syncs_file, syncs_folder) in [(false, false), (true, false), (true, true)] {
            let rig = Rig::start(&folder, kind.name(), empty.clone()).unwrap();
            let mut writer = Writer {
                syncs_file,
                syncs_folder,
            };
            let plan = Plan {
                cuts: 20,
                repeat_each: 5,
                seed: 7,
            };
            let tally = trial::run(&rig, kind, &mut writer, plan).unwrap();
            println!("{} {syncs_file} {syncs_folder}: {tally}", kind.name());
            faults.push(tally.faults.len());
        }
        assert!(
            faults[0] > 0 && faults[1] > 0,
            "the rig lost no data on {}",
            kind.name()
        );
        assert_eq!(faults[2], 0, "{}", kind.name());
    }
    fs::remove_dir_all(&folder).ok();
}
