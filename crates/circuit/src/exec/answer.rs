//! Answers of a driver's program, which are checked before use.

use std::collections::BTreeSet;
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
    /// Parses a line. It has one kind of content, and lists each circuit once.
    pub fn parse(line: &[u8]) -> std::result::Result<Self, serde_json::Error> {
        let answer: Self = serde_json::from_slice(line)?;
        let kinds = [
            answer.version.is_some(),
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
        // one of them would hide the capacity of the other one
        let mut seen = BTreeSet::new();
        let mut circuits = answer.circuits.iter().flatten();
        if let Some(twice) = circuits.find(|one| !seen.insert(one.id)) {
            let why = format!("it lists {} twice", twice.id);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cause;

    const CAPABILITIES: &str = r#""capabilities":{"rate_min_bps":1000,"rate_max_bps":2000,"granularity_bps":500,"reconfiguration_ns":7,"settling_ns":3,"circuits_max":9,"counted":{"layer":"link","overhead_bytes":24},"timer_max_ms":4000}"#;

    fn parse(content: &str) -> Option<Answer> {
        Answer::parse(format!("{{\"seq\":7{content}}}").as_bytes()).ok()
    }

    #[test]
    fn answer_has_one_kind_of_content() {
        let kinds = [
            format!(",\"version\":1,{CAPABILITIES}"),
            ",\"results\":[null]".to_owned(),
            ",\"circuits\":[]".to_owned(),
            ",\"error\":\"no\"".to_owned(),
        ];
        for (nth, one) in kinds.iter().enumerate() {
            let answer = parse(one).unwrap();
            assert_eq!(answer.seq, 7);
            assert_eq!(answer.version(), (nth == 0).then_some(1));
            assert_eq!(answer.capabilities().is_some(), nth == 0);
            assert_eq!(answer.results(1).is_some(), nth == 1);
            assert_eq!(answer.circuits(0).is_some(), nth == 2);
            assert_eq!(answer.refusal().is_some(), nth == 3);
            for other in kinds.iter().skip(nth + 1) {
                assert!(parse(&format!("{one}{other}")).is_none(), "{one} {other}");
            }
        }
        let half = format!(",{CAPABILITIES}");
        for content in [
            "",
            ",\"version\":1",
            half.as_str(),
            ",\"version\":1,\"error\":\"no\"",
            ",\"results\":[],\"version\":1",
            ",\"results\":null",
            ",\"circuits\":null",
            ",\"error\":null",
            ",\"error\":\"no\",\"results\":null",
            ",\"error\":\"no\",\"more\":1",
            ",\"results\":[{\"fault\":\"lost\",\"reason\":\"x\"}]",
            ",\"results\":[{\"fault\":\"refused\"}]",
        ] {
            assert!(parse(content).is_none(), "{content}");
        }
    }

    #[test]
    fn capabilities_have_their_units_and_no_zero() {
        let expected = Capabilities {
            rate_min: Rate::from_bps(1000).unwrap(),
            rate_max: Rate::from_bps(2000).unwrap(),
            granularity: Rate::from_bps(500).unwrap(),
            reconfiguration: Duration::from_nanos(7),
            settling: Duration::from_nanos(3),
            entries_max: 9,
            counted: CountedBytes {
                layer: crate::driver::Layer::Link,
                overhead_bytes: 24,
            },
            timer_max: Some(Duration::from_secs(4)),
        };
        let read = |capabilities: &str| parse(&format!(",\"version\":1,{capabilities}"));
        assert_eq!(read(CAPABILITIES).unwrap().capabilities(), Some(expected));
        let without = CAPABILITIES.replace(",\"timer_max_ms\":4000", "");
        let without = read(&without).unwrap().capabilities().unwrap();
        assert_eq!(without.timer_max, None);
        for (from, to) in [
            ("1000", "0"),
            ("2000", "0"),
            ("500", "0"),
            (":9", ":0"),
            ("4000", "null"),
        ] {
            assert!(
                read(&CAPABILITIES.replacen(from, to, 1)).is_none(),
                "{from}"
            );
        }
    }

    #[test]
    fn results_and_circuits_have_their_numbers() {
        let refused = r#"{"fault":"refused","reason":"dark"}"#;
        let away = r#"{"fault":"unreachable","reason":"off"}"#;
        let answer = parse(&format!(",\"results\":[null,{refused},{away}]")).unwrap();
        let results = answer.results(3).unwrap();
        assert!(results[0].is_ok());
        let causes = results[1..]
            .iter()
            .map(|one| one.as_ref().unwrap_err().cause());
        assert!(causes.eq([Cause::Refused, Cause::NoAnswer]));
        assert!(answer.results(2).is_none() && answer.results(4).is_none());
        let one = r#"{"id":1,"flow":null,"rate_bps":0}"#;
        assert!(parse(&format!(",\"circuits\":[{one},{one}]")).is_none());
        let two = one.replace(":1,", ":2,");
        let answer = parse(&format!(",\"circuits\":[{one},{two}]")).unwrap();
        let counts = [1, 2, 3].map(|most| answer.circuits(most).map(|all| all.len()));
        assert_eq!(counts, [None, Some(2), Some(2)]);
    }
}
