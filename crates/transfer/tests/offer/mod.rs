//! What a sender offers that a test plays.

use lighthaul_base::Rate;
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::Protocol;

/// Objects that cross on the stream, where no datagram passes.
pub(crate) fn offer() -> Offer {
    Offer {
        protocol: Protocol::Rbudp,
        packet_len: 32 << 10,
        rate_bps: Rate::UNLIMITED.as_bps(),
        settle_us: 2000,
        rtt_us: 0,
        udp: false,
        lanes: 1,
        joins: 0,
    }
}
