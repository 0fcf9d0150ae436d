//! Interface of a provider to the network of its scheduler.

use std::fmt;

use lighthaul_booking_client::json::Timestamp;
use serde::{Deserialize, Serialize};

use crate::message::ErrorId;

/// Network that makes circuits. Calls may repeat after a crash, so each must be idempotent.
pub trait Resources: fmt::Debug + Send + Sync {
    /// Holds a circuit. The same `key` returns the same hold.
    fn hold(&self, owner: &str, key: &str, circuit: &Circuit) -> Result<Hold, Refusal>;
    /// Promises a circuit that is held.
    fn commit(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal>;
    /// Makes the devices create the circuit at its start and remove it at its end.
    fn provision(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal>;
    /// Makes the devices remove the circuit, and keeps its capacity.
    fn release(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal>;
    /// Releases the circuit and its capacity.
    fn end(&self, owner: &str, reservations: &[u64]) -> Result<(), Refusal>;
    /// Returns the status of a circuit.
    fn status(&self, owner: &str, reservations: &[u64]) -> Result<Status, Refusal>;
    /// Returns the reservations that were committed for this provider and have not ended.
    fn committed(&self) -> Result<Vec<Committed>, Refusal>;
    /// Returns which reservations the network does not have, or has for another circuit.
    fn missing(
        &self,
        owner: &str,
        reservations: &[u64],
        circuit: &Circuit,
    ) -> Result<Vec<u64>, Refusal>;
}

/// Reservation that was committed for a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Owner.
    pub owner: String,
    /// Number of the reservation.
    pub id: u64,
}

/// Circuit with a constant rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circuit {
    /// Source.
    pub from: Port,
    /// Destination.
    pub to: Port,
    /// Rate in each direction, in megabits a second.
    pub rate_mbps: u64,
    /// Start.
    pub start: Timestamp,
    /// End, exclusive.
    pub end: Timestamp,
    /// True if the circuit carries packets in both directions.
    pub is_bidirectional: bool,
    /// True if both directions must use the same nodes.
    pub is_symmetric: bool,
    /// Nodes between the ends of the circuit, in order; the other direction uses them in reverse.
    #[serde(default)]
    pub via: Vec<String>,
}

/// End of a circuit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Node of the topology.
    pub node: String,
    /// Interface at which the direction that leaves the node starts.
    pub interface: Option<String>,
    /// Packets of that direction.
    pub packets: Option<String>,
}

/// Circuit that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Reservations of the circuit's directions.
    pub reservations: Vec<u64>,
    /// Time at which the hold expires.
    pub till: Timestamp,
}

/// Status of a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// No packets are carried.
    Idle,
    /// Packets are carried.
    Active,
    /// End as planned.
    Ended,
    /// A reservation is unknown to the network.
    Missing,
    /// Failure, with the reason.
    Failed(String),
}

/// Reason why the network refuses an action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// Code.
    pub id: ErrorId,
    /// Reason and remedy.
    pub text: String,
    /// True if the same call may succeed in a moment.
    pub is_temporary: bool,
}
