//! Reservations and changes for the tests of devices.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_stargate::{CorrelationId, DomainId, Key, PortId, RateChange, Segment};

pub(crate) const fn key(id: u128) -> Key {
    Key {
        source: DomainId(1),
        id: CorrelationId(id),
        attempt: 0,
        leg: 0,
    }
}

pub(super) const fn segment(ingress: u32, egress: u32) -> Segment {
    Segment {
        ingress: PortId(ingress),
        egress: PortId(egress),
    }
}

/// Returns the change of a reservation to a rate, or to no rate.
pub(super) fn change(id: u128, segment: Segment, mbps: u64) -> RateChange {
    RateChange {
        circuit: (key(id), 0),
        segment,
        route: 0,
        rate: Rate::from_bps(mbps * 1_000_000),
        left: Duration::from_hours(1),
    }
}
