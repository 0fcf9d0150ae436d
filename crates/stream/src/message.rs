//! What somebody wants of a stream, and what its two sides say to each other.

use lighthaul_io::control::bounded;
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::NAME_MAX;
use lighthaul_session::topic::Topic;
use serde::{Deserialize, Serialize};

use crate::frames::Frames;

/// The most objects of a payload: as many as one message can announce.
pub const OBJECTS_MAX: usize = 1 << 16;
/// The longest path of a pipe or file.
const PATH_MAX: usize = 4096;

/// A stream that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The pipe or file at the server.
    #[serde(deserialize_with = "bounded::list::<PATH_MAX, _, _>")]
    pub path: Vec<u8>,
    /// It goes to the server, rather than from there.
    pub to: bool,
    /// How both ends read and write it.
    pub frames: Frames,
    /// How it crosses.
    pub kind: Kind,
}

/// How a stream crosses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// As messages.
    Messages(Messages),
    /// As objects.
    Objects(Objects),
}

/// A stream of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// The code, as [`lighthaul_proto::fec::Code`] reads it.
    #[serde(deserialize_with = "bounded::text::<NAME_MAX, _>")]
    pub code: String,
    /// How long a block waits for more, in microseconds.
    pub linger_us: u32,
    /// How old a message may become, in microseconds.
    pub deadline_us: Option<u64>,
    /// Late messages are dropped.
    pub drop: bool,
}

/// A stream of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// Bytes of an object, or the most that one has.
    pub object_len: u64,
    /// How many come in a million seconds.
    pub micro_per_second: u64,
    /// The delay that is tolerated, in microseconds.
    pub delay_us: u64,
    /// Round trips that a payload may take, one for each blast.
    pub blasts: u8,
}

/// One message about a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The sender says how it will send.
    Begin {
        /// How objects will be sent.
        offer: Offer,
        /// The most bytes of a message of the stream.
        message_len: u32,
    },
    /// The receiver asks for the sender's time, or is told it.
    Time {
        /// Nanoseconds since the session began; zero if it is asked for.
        nanos: u64,
    },
    /// The receiver is ready.
    Ready,
    /// A payload is about to come.
    Payload(Payload),
    /// That was the last object.
    End {
        /// How many were offered.
        offered: u64,
    },
    /// What came of it, from the receiver.
    Report(Report),
}

impl Topic for Message {
    const NUMBER: u8 = 3;
    type Request = Wanted;
}

/// Objects that cross together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Its number.
    pub number: u64,
    /// The length of each object, and when it was read, in nanoseconds since the sender's session began.
    #[serde(deserialize_with = "bounded::list::<OBJECTS_MAX, _, _>")]
    pub objects: Vec<(u32, u64)>,
}

/// What came of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Messages or objects that the sender was given.
    pub messages: u64,
    /// Those that were written at the receiver, and their bytes.
    pub delivered: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that were late, whether dropped or not.
    pub late: u64,
    /// Those that did not come.
    pub lost: u64,
    /// Those that were lost and restored.
    pub repaired: u64,
    /// Those that came and that nobody took from the receiver in time.
    pub unread: u64,
    /// The latency that half of them did not exceed, in microseconds, as far as the clocks agree.
    pub latency_p50_us: u64,
    /// The latency that 99 % did not exceed.
    pub latency_p99_us: u64,
    /// The longest.
    pub latency_max_us: u64,
}
