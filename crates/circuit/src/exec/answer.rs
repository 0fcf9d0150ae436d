//! Answers of a driver's program, which are checked before use.

use std::time::Duration;

use lighthaul_base::Rate;
use serde::Deserialize;

use crate::driver::{Capabilities, InstalledCircuit};
use crate::error::{Error, Result};

/// Answer to any request.
#[derive(Debug, Deserialize)]
pub struct Answer {
    capabilities: Option<JsonCapabilities>,
    answers: Option<Vec<Option<String>>>,
    circuits: Option<Vec<InstalledCircuit>>,
}

impl Answer {
    /// Parses an answer.
    pub fn parse(octets: &[u8]) -> std::result::Result<Self, serde_json::Error> {
        serde_json::from_slice(octets)
    }

    /// Returns the capabilities, if the answer has them and no rate is zero.
    pub fn capabilities(&self) -> Option<Capabilities> {
        self.capabilities.as_ref()?.read()
    }

    /// Returns the results of `count` changes, if the answer has that number of them.
    pub fn results(&self, count: usize) -> Option<Vec<Result<()>>> {
        let answers = self.answers.as_ref()?;
        let result = |why: &Option<String>| match why {
            None => Ok(()),
            Some(why) => Err(Error::Device(why.clone())),
        };
        (answers.len() == count).then(|| answers.iter().map(result).collect())
    }

    /// Returns the circuits at the device, if the answer has at most `most` of them.
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
