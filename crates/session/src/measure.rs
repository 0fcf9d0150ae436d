//! Messages of measurements of a path and its hosts.

use serde::{Deserialize, Serialize};

use crate::offer::Offer;
use crate::protocol::Protocol;
use crate::topic::Topic;

/// One message of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Parameters of the object that follows.
    Offer(Offer),
    /// The receiver is ready for the object.
    Ready,
    /// Result, from the receiver.
    Result(MeasureResult),
}

impl Topic for Message {
    const NUMBER: u8 = 6;
    type Request = MeasureRequest;
}

/// Request for one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasureRequest {
    /// Kind of the measurement.
    pub mode: MeasureMode,
    /// Bytes of the object, for protocols.
    pub bytes: u64,
    /// Duration of raw measurements, in milliseconds.
    pub millis: u32,
    /// Rate on the wire in bits a second; if absent, as fast as possible.
    pub rate_bps: Option<u64>,
}

/// Kinds of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MeasureMode {
    /// Network alone: trains of datagrams, which are dropped.
    Network,
    /// Network, and a copy of each datagram into memory.
    Copy,
    /// RBUDP whose receiver drops the bytes.
    Fake,
    /// RBUDP whose receiver copies each packet to its place.
    Place,
    /// RBUDP whose receiver predicts the place of each packet.
    Scatter,
    /// RBUDP with encryption, whose receiver copies each packet to its place.
    Sealed,
    /// RBUDP with encryption, whose receiver predicts the place of each packet.
    SealedScatter,
    /// RBUDP+ whose receiver copies each packet to its place.
    Plus,
    /// Any protocol whose receiver copies each packet to its place, with datagrams in plain text
    /// and streams encrypted.
    By(Protocol),
}

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureResult {
    /// Bits a second: of UDP payload for raw measurements, of the object for protocols.
    pub bps: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Duration, in nanoseconds.
    pub nanos: u64,
    /// Datagrams that were sent and did not arrive.
    pub lost: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub buffer_drops: u64,
    /// Passes of RBUDP.
    pub rounds: u16,
    /// CPU time of both sides, in microseconds.
    pub cpu_us: u64,
}

impl MeasureMode {
    /// Returns true for trains of datagrams without a protocol.
    pub const fn is_raw(self) -> bool {
        matches!(self, Self::Network | Self::Copy)
    }

    /// Returns true if packets are encrypted.
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
