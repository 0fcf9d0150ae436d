//! Driver's program as subject of the suite.
//!
//! A program like the skeletons keeps its device in a file, which is its last argument. The suite compares that file
//! with what it expects, and puts the configuration of others and faults there:
//!
//! ```text
//! {"circuits":{"7":{"flow":"all","rate_bps":1000000}},"others":{"9":"..."},"faults":["","refuse"]}
//! ```
//!
//! Each change takes the first fault: `refuse`, `unreachable`, `silent`, `lost` or `die`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lighthaul_base::Rate;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::durable;
use serde::{Deserialize, Serialize};

use crate::circuit::CircuitId;
use crate::conformance::subject::{Fault, State, Subject};
use crate::driver::Driver;
use crate::error::Result;
use crate::exec::Exec;
use crate::exec::config::Config;

/// Program, and the file of its device if it has one.
#[derive(Clone, Debug)]
pub struct ProgramSubject {
    clock: Clock,
    config: Config,
    file: Option<PathBuf>,
}

/// Device in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Device {
    circuits: BTreeMap<String, Circuit>,
    others: BTreeMap<String, String>,
    faults: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Circuit {
    flow: String,
    rate_bps: u64,
    #[serde(default)]
    closes_at: Option<f64>,
}

impl ProgramSubject {
    /// Tests the program of `config`. With a file, that is its last argument.
    pub fn new(clock: Clock, mut config: Config, file: Option<PathBuf>) -> Self {
        let argument = file.as_ref().map(|file| file.display().to_string());
        config.arguments.extend(argument);
        Self {
            clock,
            config,
            file,
        }
    }

    /// Changes the device. Returns nothing without a file.
    fn edit<T>(&self, edit: impl FnOnce(&mut Device) -> T) -> Option<T> {
        let file = self.file.as_deref()?;
        let mut device = load(file).ok()?;
        let found = edit(&mut device);
        let text = serde_json::to_vec(&device).ok()?;
        durable::replace(file, &text).ok().map(|()| found)
    }
}

impl Subject for ProgramSubject {
    fn open(&mut self) -> Result<Box<dyn Driver>> {
        let driver = Exec::open(self.clock, self.config.clone())?;
        Ok(Box::new(driver))
    }

    fn interface(&self) -> String {
        "1".to_owned()
    }

    fn compare(&mut self, expected: &State) -> std::result::Result<bool, String> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let device = load(file)?;
        let circuit = |(id, circuit): (&String, &Circuit)| {
            let id = id.parse().ok()?;
            Some((CircuitId(id), Rate::from_bps(circuit.rate_bps)))
        };
        let found: Option<State> = device.circuits.iter().map(circuit).collect();
        if found.as_ref() == Some(expected) {
            return Ok(true);
        }
        let circuits = device.circuits;
        Err(format!("{} has {circuits:?}", file.display()))
    }

    fn make_foreign(&mut self) -> bool {
        let other = |device: &mut Device| device.others.insert(OTHER.0.into(), OTHER.1.into());
        self.edit(other).is_some()
    }

    fn take_foreign(&mut self) -> bool {
        let taken = self.edit(|device| std::mem::take(&mut device.others));
        taken == Some(BTreeMap::from([(OTHER.0.into(), OTHER.1.into())]))
    }

    fn inject(&mut self, fault: Fault, after: usize) -> bool {
        let name = match fault {
            Fault::Refuse => "refuse",
            Fault::Unreachable => "unreachable",
            Fault::Silence => "silent",
            Fault::AnswerLost => "lost",
            Fault::Death => "die",
        };
        let mut faults = vec![String::new(); after];
        faults.push(name.to_owned());
        self.edit(|device| device.faults = faults).is_some()
    }

    fn calm(&mut self) {
        self.edit(|device| device.faults.clear());
    }
}

/// Reads the device; a missing file is one without circuits.
fn load(file: &Path) -> std::result::Result<Device, String> {
    let octets = durable::read(file, BYTES_MAX).map_err(|why| why.to_string())?;
    let Some(octets) = octets else {
        return Ok(Device::default());
    };
    serde_json::from_slice(&octets).map_err(|why| format!("{}: {why}", file.display()))
}

/// Configuration of another client.
const OTHER: (&str, &str) = ("9", "made by another client");
const BYTES_MAX: u64 = 16 << 20;
