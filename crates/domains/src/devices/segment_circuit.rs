//! Circuits of pairs of ports.

use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::flow::Flow;
use lighthaul_stargate::{PortId, Segment};

/// Circuit of a pair of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCircuit {
    /// Interface of the device, or port of a switch.
    pub interface: String,
    /// Packets of the circuit.
    pub flow: Flow,
}

impl SegmentCircuit {
    /// Returns the circuit of a pair of ports for a driver.
    pub(super) fn circuit(self, segment: Segment) -> Circuit {
        Circuit {
            id: id_of(segment),
            interface: self.interface,
            flow: self.flow,
            // drivers receive each rate at its time, and do not read the vector
            trc: unread(),
        }
    }
}

/// Returns the identifier of a circuit, which stays the same after a restart.
pub(super) fn id_of(segment: Segment) -> CircuitId {
    CircuitId(u64::from(segment.ingress.0) << 32 | u64::from(segment.egress.0))
}

/// Returns the pair of ports of a circuit with this identifier.
pub(super) const fn segment_of(id: CircuitId) -> Segment {
    Segment {
        ingress: PortId((id.0 >> 32) as u32),
        egress: PortId(id.0 as u32),
    }
}

/// Returns a placeholder, which is never read, for the vector of a circuit whose rates are set one by one.
fn unread() -> Trc {
    let step = Step {
        from: Instant::ZERO,
        till: Instant::ZERO + Duration::from_secs(1),
        rate: Rate::from_mbps(1),
    };
    Trc::new(vec![step]).expect("one step is a valid vector")
}
