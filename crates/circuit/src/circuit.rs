//! Circuit: flow, interface and rates over time that a device enforces.

use std::fmt;

use lighthaul_base::Trc;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::flow::Flow;

/// Circuit at one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circuit {
    /// Identifier, chosen by the owner and unique among the current circuits.
    pub id: CircuitId,
    /// Outgoing interface, or port of a switch.
    pub interface: String,
    /// Packets of the circuit.
    pub flow: Flow,
    /// Rates over time. Successive steps of equal rate cause no change at the device.
    #[serde(serialize_with = "write_trc", deserialize_with = "read_trc")]
    pub trc: Trc,
}

/// Identifier of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CircuitId(pub u64);

impl fmt::Display for CircuitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circuit {}", self.0)
    }
}

fn write_trc<S: Serializer>(trc: &Trc, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(trc)
}

fn read_trc<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Trc, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuit_round_trips() {
        let circuit = Circuit {
            id: CircuitId(u64::MAX),
            interface: "eth0".to_owned(),
            flow: "udp 10.0.0.2 5000".parse().unwrap(),
            trc: "0s-2s 400Mb/s, 3s-5s 900Mb/s".parse().unwrap(),
        };
        let json = serde_json::to_string(&circuit).unwrap();
        assert_eq!(serde_json::from_str::<Circuit>(&json).unwrap(), circuit);
        let broken = json.replace("400Mb/s", "0Mb/s");
        let why = serde_json::from_str::<Circuit>(&broken)
            .unwrap_err()
            .to_string();
        assert!(why.contains("step 1"), "{why}");
    }
}
