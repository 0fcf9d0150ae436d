//! Topics of a session, each of which has messages of its own.
//!
//! A frame of the talk stream is the number of a topic in one octet, and a message of that topic. The session itself is topic 0
//! ([`crate::message`]); it knows no other, and hands on the messages of the topic that its user speaks of.

use lighthaul_base::Malformed;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message that is taken.
pub const MESSAGE_MAX: usize = 1 << 20;

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
    fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        match octets.split_first() {
            Some((number, message)) if *number == Self::NUMBER => decode(message),
            _ => Err(Malformed),
        }
    }
}

/// Returns the octets of `message`.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(message).unwrap_or_default()
}

/// Returns the message in `octets`.
pub fn decode<M: DeserializeOwned>(octets: &[u8]) -> Result<M, Malformed> {
    if octets.len() > MESSAGE_MAX {
        return Err(Malformed);
    }
    match postcard::take_from_bytes(octets) {
        Ok((message, [])) => Ok(message),
        _ => Err(Malformed),
    }
}
