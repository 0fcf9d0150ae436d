//! Offer of a sender in a test.

use lighthaul_base::Rate;
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::Protocol;

/// Returns an offer for objects on the stream, where no datagram passes.
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
