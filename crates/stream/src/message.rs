//! Request for a stream, and messages about it.

use lighthaul_io::control::bounded;
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::NAME_MAX;
use lighthaul_session::topic::Topic;
use serde::{Deserialize, Serialize};

use crate::frames::Frames;

/// Maximum number of objects of a payload: as many as one message can announce.
pub const OBJECTS_MAX: usize = 1 << 16;
/// Maximum number of octets of the path of a pipe or file.
const PATH_MAX: usize = 4096;

/// Stream that a client requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRequest {
    /// Path of the pipe or file at the server.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// True if the client sends, false if the server sends.
    pub to: bool,
    /// Framing at both ends.
    pub frames: Frames,
    /// Kind of the stream.
    pub kind: StreamKind,
}

/// Kinds of streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// Stream of messages.
    Messages(Messages),
    /// Stream of objects.
    Objects(Objects),
}

/// Parameters of a stream of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// Code, in the format of [`lighthaul_proto::fec::Code`].
    #[serde(deserialize_with = "bounded::text::<NAME_MAX, _>")]
    pub code: String,
    /// Longest wait of an incomplete block for more messages, in microseconds.
    pub linger_us: u32,
    /// Age at which a message is late, in microseconds.
    pub deadline_us: Option<u64>,
    /// True if late messages are dropped.
    pub drop: bool,
}

/// Parameters of a stream of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// Length of an object, or of the longest, in bytes.
    pub object_len: u64,
    /// Objects per million seconds.
    pub micro_per_second: u64,
    /// Tolerated delay, in microseconds.
    pub delay_us: u64,
    /// Blasts that a payload may take, each with one round trip.
    pub blasts: u8,
}

/// Message about a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Parameters of the sender.
    Begin {
        /// Parameters for objects.
        offer: Offer,
        /// Maximum number of bytes of a message of the stream.
        message_len: u32,
    },
    /// Request of the receiver for the sender's clock, or the answer.
    Time {
        /// Nanoseconds since the session began; zero in a request.
        nanos: u64,
    },
    /// The receiver is ready.
    Ready,
    /// Announcement of the next payload.
    Payload(Payload),
    /// End of the stream.
    End {
        /// Number of messages or objects that were read.
        offered: u64,
    },
    /// Result, from the receiver.
    Report(Report),
}

impl Topic for Message {
    const NUMBER: u8 = 3;
    type Request = StreamRequest;
}

/// Objects that are sent together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Number of the payload.
    pub number: u64,
    /// Length of each object, and the time at which it was read, in nanoseconds since the sender's
    /// session began.
    #[serde(deserialize_with = "bounded::list::<OBJECTS_MAX, _, _>")]
    pub objects: Vec<(u32, u64)>,
}

/// Result of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Messages or objects that the sender read.
    pub messages: u64,
    /// Messages or objects that the receiver wrote.
    pub delivered: u64,
    /// Bytes of the delivered messages or objects.
    pub bytes: u64,
    /// Messages or objects that were late, whether dropped or not.
    pub late: u64,
    /// Messages or objects that did not arrive.
    pub lost: u64,
    /// Messages that were lost and restored.
    pub repaired: u64,
    /// Messages that arrived and were dropped because the pipe's reader was too slow.
    pub unread: u64,
    /// Median latency in microseconds, by synchronized clocks.
    pub latency_p50_us: u64,
    /// 99th percentile of the latency, in microseconds.
    pub latency_p99_us: u64,
    /// Largest latency, in microseconds.
    pub latency_max_us: u64,
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use lighthaul_session::message::Hello;

    use super::*;

    #[test]
    fn request_for_frames_without_octets_is_refused() {
        let request = |len| {
            let request = StreamRequest {
                path: b"pipe".to_vec(),
                to: true,
                frames: Frames::Fixed(NonZeroU32::new(7).unwrap()),
                kind: StreamKind::Objects(Objects {
                    object_len: 7,
                    micro_per_second: 1,
                    delay_us: 1,
                    blasts: 1,
                }),
            };
            let mut hello = Hello::about::<Message>(&request);
            // length and octets of the path, direction, kind of the frames, and their length
            assert_eq!(hello.request[..8], *b"\x04pipe\x01\x02\x07");
            hello.request[7] = len;
            hello.request::<Message>()
        };
        assert!(request(7).is_ok() && request(1).is_ok());
        assert!(request(0).is_err());
    }
}
