//! What a driver's program answers, which is believed no further than it makes sense.

use std::time::Duration;

use lighthaul_base::Rate;
use serde::Deserialize;

use crate::driver::{Capabilities, InstalledCircuit};
use crate::error::{Error, Result};

/// An answer, whatever was asked.
#[derive(Debug, Deserialize)]
pub struct Answer {
    capabilities: Option<JsonCapabilities>,
    answers: Option<Vec<Option<String>>>,
    circuits: Option<Vec<InstalledCircuit>>,
}

impl Answer {
    /// Reads an answer; the error says what is wrong with its JSON.
    pub fn parse(octets: &[u8]) -> std::result::Result<Self, serde_json::Error> {
        serde_json::from_slice(octets)
    }

    /// What the device can do, if that is said, and no rate is zero.
    pub fn capabilities(&self) -> Option<Capabilities> {
        self.capabilities.as_ref()?.read()
    }

    /// What became of so many changes, if just that is said.
    pub fn results(&self, count: usize) -> Option<Vec<Result<()>>> {
        let answers = self.answers.as_ref()?;
        let result = |why: &Option<String>| match why {
            None => Ok(()),
            Some(why) => Err(Error::Device(why.clone())),
        };
        (answers.len() == count).then(|| answers.iter().map(result).collect())
    }

    /// Which circuits stand, if that is said, and they are no more than there may be.
    pub fn circuits(&self, most: usize) -> Option<Vec<InstalledCircuit>> {
        let circuits = self.circuits.as_ref()?;
        (circuits.len() <= most).then(|| circuits.clone())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonCapabilities {
    rate_min_bps: u64,
    rate_max_bps: u64,
    granularity_bps: u64,
    guard_nanos: u64,
    entries_max: usize,
    is_hitless: bool,
    overhead_bytes: u16,
}

impl JsonCapabilities {
    fn read(&self) -> Option<Capabilities> {
        Some(Capabilities {
            rate_min: Rate::from_bps(self.rate_min_bps)?,
            rate_max: Rate::from_bps(self.rate_max_bps)?,
            granularity: Rate::from_bps(self.granularity_bps)?,
            guard: Duration::from_nanos(self.guard_nanos),
            entries_max: self.entries_max,
            is_hitless: self.is_hitless,
            overhead_bytes: self.overhead_bytes,
        })
    }
}
