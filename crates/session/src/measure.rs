//! What can be asked of a path and its hosts, and what is answered.

use serde::{Deserialize, Serialize};

use crate::offer::Offer;
use crate::protocol::Protocol;
use crate::topic::Topic;

/// One message of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// How the object will be sent.
    Offer(Offer),
    /// The receiver is ready for it.
    Ready,
    /// What came of it, from the receiver.
    Measured(Measured),
}

impl Topic for Message {
    const NUMBER: u8 = 6;
    type Request = Ask;
}

/// One measurement that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// What to measure.
    pub what: What,
    /// Bytes that RBUDP moves.
    pub bytes: u64,
    /// Milliseconds that the raw measurements last.
    pub millis: u32,
    /// The rate on the wire; as fast as the hosts can if nothing is said.
    pub rate_bps: Option<u64>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// The network alone.
    Network,
    /// The network and a copy into memory.
    Copy,
    /// RBUDP whose receiver drops what it gets.
    Fake,
    /// RBUDP whose receiver copies each packet to its place.
    Place,
    /// RBUDP whose receiver predicts where packets land.
    Scatter,
    /// RBUDP, encrypted, copied to its place.
    Sealed,
    /// RBUDP, encrypted, predicted.
    SealedScatter,
    /// RBUDP+ whose receiver copies each packet to its place.
    Plus,
    /// Any protocol, whose receiver copies each packet to its place: datagrams plain, streams encrypted.
    By(Protocol),
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Bits a second: of UDP payload for the raw measurements, of the object for RBUDP.
    pub bps: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// How long it took.
    pub nanos: u64,
    /// Datagrams that were sent and did not arrive.
    pub lost: u64,
    /// Receptions that the receiver's full buffer dropped.
    pub buffer_drops: u64,
    /// Rounds of RBUDP.
    pub rounds: u16,
    /// CPU time of both sides, in microseconds.
    pub cpu_us: u64,
}

impl What {
    /// Whether it is trains alone, without a protocol.
    pub const fn is_raw(self) -> bool {
        matches!(self, Self::Network | Self::Copy)
    }

    /// Whether packets are encrypted.
    pub const fn is_sealed(self) -> bool {
        match self {
            Self::By(protocol) => !protocol.is_datagrams(),
            Self::Sealed | Self::SealedScatter => true,
            Self::Network | Self::Copy | Self::Fake | Self::Place | Self::Scatter | Self::Plus => {
                false
            }
        }
    }
}
