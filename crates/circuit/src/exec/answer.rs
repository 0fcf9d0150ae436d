//! Answers of a driver's program, which are checked before use.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::escape::escape;
use serde::{Deserialize, Deserializer, de};

use crate::driver::{Capabilities, CountedBytes, InstalledCircuit};
use crate::error::{Error, Result};

/// Answer to any request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Number of the request.
    pub seq: u64,
    #[serde(default, deserialize_with = "not_null")]
    version: Option<u32>,
    #[serde(default, deserialize_with = "not_null")]
    capabilities: Option<JsonCapabilities>,
    #[serde(default, deserialize_with = "not_null")]
    results: Option<Vec<Option<JsonFault>>>,
    #[serde(default, deserialize_with = "not_null")]
    circuits: Option<Vec<InstalledCircuit>>,
    #[serde(default, deserialize_with = "not_null")]
    error: Option<String>,
}

impl Answer {
    /// Parses a line. It has one kind of content.
    pub fn parse(line: &[u8]) -> std::result::Result<Self, serde_json::Error> {
        let answer: Self = serde_json::from_slice(line)?;
        let kinds = [
            answer.version.is_some() && answer.capabilities.is_some(),
            answer.results.is_some(),
            answer.circuits.is_some(),
            answer.error.is_some(),
        ];
        let is_half = answer.version.is_some() != answer.capabilities.is_some();
        if is_half || kinds.iter().filter(|is_it| **is_it).count() != 1 {
            let why =
                "it must have either version and capabilities, or results, or circuits, or error";
            return Err(de::Error::custom(why));
        }
        Ok(answer)
    }

    /// Returns the version of the protocol that the program chose.
    pub const fn version(&self) -> Option<u32> {
        self.version
    }

    /// Returns the program's reason for doing nothing, if the answer has one.
    pub fn refusal(&self) -> Option<String> {
        self.error.as_deref().map(shown)
    }

    /// Returns the capabilities, if the answer has them.
    pub fn capabilities(&self) -> Option<Capabilities> {
        self.capabilities.as_ref()?.read()
    }

    /// Returns the results, if the answer has `count` of them.
    pub fn results(&self, count: usize) -> Option<Vec<Result<()>>> {
        let results = self.results.as_ref()?;
        let result = |fault: &Option<JsonFault>| fault.as_ref().map_or(Ok(()), JsonFault::read);
        (results.len() == count).then(|| results.iter().map(result).collect())
    }

    /// Returns the circuits at the device, if the answer has at most `most` of them.
    pub fn circuits(&self, most: usize) -> Option<Vec<InstalledCircuit>> {
        let circuits = self.circuits.as_ref()?;
        (circuits.len() <= most).then(|| circuits.clone())
    }
}

/// Fault of one change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonFault {
    fault: FaultName,
    reason: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FaultName {
    Refused,
    Unreachable,
}

impl JsonFault {
    fn read(&self) -> Result<()> {
        let reason = shown(&self.reason);
        Err(match self.fault {
            FaultName::Refused => Error::Device(reason),
            FaultName::Unreachable => Error::Unreachable(reason),
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonCapabilities {
    rate_min_bps: NonZeroU64,
    rate_max_bps: NonZeroU64,
    granularity_bps: NonZeroU64,
    reconfiguration_ns: u64,
    settling_ns: u64,
    circuits_max: NonZeroUsize,
    counted: CountedBytes,
    #[serde(default, deserialize_with = "not_null")]
    timer_max_ms: Option<u64>,
}

impl JsonCapabilities {
    fn read(&self) -> Option<Capabilities> {
        Some(Capabilities {
            rate_min: Rate::from_bps(self.rate_min_bps.get())?,
            rate_max: Rate::from_bps(self.rate_max_bps.get())?,
            granularity: Rate::from_bps(self.granularity_bps.get())?,
            reconfiguration: Duration::from_nanos(self.reconfiguration_ns),
            settling: Duration::from_nanos(self.settling_ns),
            entries_max: self.circuits_max.get(),
            counted: self.counted,
            timer_max: self.timer_max_ms.map(Duration::from_millis),
        })
    }
}

/// Reads a field that may be absent, but not null.
fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Returns foreign text in a form that a message can show.
fn shown(text: &str) -> String {
    escape(text, SHOWN).into_owned()
}

/// Maximum length of a reason in a message.
const SHOWN: usize = 300;
