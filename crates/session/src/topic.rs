//! Topics of a session. Each has its own messages.
//!
//! A frame of stream 0 is the number of a topic in one octet, and a message of that topic. The
//! session's own messages ([`crate::message`]) are topic 0. The user of a session chooses the type of
//! messages to receive.

use lighthaul_io::control::bounded;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::fault::PeerFault;

/// Maximum number of octets of a message.
pub const MESSAGE_MAX: usize = 1 << 20;
/// Maximum number of items in one part of a list. An object has at most as many pieces, and their list takes one
/// or two MiB.
pub const ITEMS_MAX: usize = 1 << 14;

/// Message type of one topic.
pub trait Topic: Serialize + DeserializeOwned {
    /// Number of the topic, unique among all topics.
    const NUMBER: u8;

    /// Type of the client's request for the topic.
    type Request: Serialize + DeserializeOwned;

    /// Returns the octets of a frame with this message.
    fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![Self::NUMBER]).unwrap_or_default()
    }

    /// Decodes the message in the octets of a frame.
    fn decode(octets: &[u8]) -> Result<Self, Error> {
        match octets.split_first() {
            Some((number, message)) if *number == Self::NUMBER => decode(message),
            _ => Err(malformed()),
        }
    }
}

/// Returns the octets of `message`.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(message).unwrap_or_default()
}

/// Returns the message in `octets`. The error names the bound that a part of the message exceeds,
/// if one does.
pub fn decode<M: DeserializeOwned>(octets: &[u8]) -> Result<M, Error> {
    if octets.len() > MESSAGE_MAX {
        return Err(malformed());
    }
    match bounded::decode(|| postcard::take_from_bytes(octets)) {
        Ok((message, [])) => Ok(message),
        Err(Some(why)) => Err(PeerFault::Oversized(why).into()),
        Ok(_) | Err(None) => Err(malformed()),
    }
}

/// Returns the error of a message that does not decode.
pub(crate) fn malformed() -> Error {
    PeerFault::Malformed.into()
}
