//! Topics of a session, each of which has messages of its own.
//!
//! A frame of the talk stream is the number of a topic in one octet, and a message of that topic. The session itself is topic 0
//! ([`crate::message`]); it knows no other, and hands on the messages of the topic that its user speaks of.

use lighthaul_io::control::bounded;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Code, Error};

/// The longest message that is taken.
pub const MESSAGE_MAX: usize = 1 << 20;
/// The most items of a list that is sent in parts. An object has no more pieces, and a list of them takes one or two MiB.
pub const ITEMS_MAX: usize = 1 << 14;

/// The messages of one topic.
pub trait Topic: Serialize + DeserializeOwned {
    /// The topic's number, its own among all topics.
    const NUMBER: u8;

    /// What a client asks for that begins to speak of the topic.
    type Request: Serialize + DeserializeOwned;

    /// Returns the octets of a frame with this message.
    fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![Self::NUMBER]).unwrap_or_default()
    }

    /// Returns the message in a frame with these octets.
    fn decode(octets: &[u8]) -> Result<Self, Error> {
        match octets.split_first() {
            Some((number, message)) if *number == Self::NUMBER => decode(message),
            _ => Err(senseless()),
        }
    }
}

/// Returns the octets of `message`.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(message).unwrap_or_default()
}

/// Returns the message in `octets`. The error names the bound that a part of the message exceeds, if one does.
pub fn decode<M: DeserializeOwned>(octets: &[u8]) -> Result<M, Error> {
    if octets.len() > MESSAGE_MAX {
        return Err(senseless());
    }
    match bounded::decode(|| postcard::take_from_bytes(octets)) {
        Ok((message, [])) => Ok(message),
        Err(Some(why)) => {
            let text = format!("the peer sent {why}; do both sides run the same version?");
            Err(Error::new(Code::Protocol, text))
        }
        Ok(_) | Err(None) => Err(senseless()),
    }
}

/// Returns the error of a message that does not decode.
pub(crate) fn senseless() -> Error {
    let text = "the peer sent a message that makes no sense; do both sides run the same version?";
    Error::new(Code::Protocol, text)
}
