//! Requests to a driver's program, each one line of JSON.

use serde::Serialize;

use crate::circuit::CircuitId;
use crate::flow::Flow;

/// Request with the number that its answer repeats.
#[derive(Debug, Serialize)]
pub struct Message<'a> {
    /// Number of the request, from one on for each start of the program.
    pub seq: u64,
    /// The request.
    #[serde(flatten)]
    pub request: &'a Request<'a>,
}

/// Request to a driver's program.
#[derive(Debug, Serialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Request<'a> {
    /// Choose a version of the protocol from the list, and return the capabilities.
    Hello {
        /// Versions that Lighthaul speaks.
        versions: &'a [u32],
    },
    /// Set the rates of circuits, in the given order.
    Apply {
        /// Changes.
        changes: Vec<JsonChange<'a>>,
    },
    /// Remove a circuit.
    Remove {
        /// Number of the circuit.
        id: CircuitId,
    },
    /// List the circuits that the driver made, in their state at the device.
    Inspect,
}

/// Change of the rate of a circuit.
#[derive(Debug, Serialize)]
pub struct JsonChange<'a> {
    /// Number of the circuit.
    pub id: CircuitId,
    /// Interface or port of the device.
    pub interface: &'a str,
    /// Packets of the circuit.
    pub flow: Flow,
    /// Rate in bits a second; zero for a circuit that takes no packets.
    pub rate_bps: u64,
    /// Time in milliseconds after which the device closes the circuit by itself; only for devices with timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_ms: Option<u64>,
}

impl Message<'_> {
    /// Returns the message as a line, with its line feed.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        let mut line = serde_json::to_string(self)?;
        line.push('\n');
        Ok(line)
    }
}
