//! The session's own messages, beneath all topics.
//!
//! ```text
//! client                                                    server
//!   | Credential (if its key may not be listed), Hello ------> |
//!   | <------------------------------------ Welcome, or Failed |
//!   | <----- Exploring, Reached, Train, Keepalive, Failed ---> |
//! ```
//!
//! [`Hello`] has the number of its topic, and the request as the topic encodes it. A further
//! connection begins with [`Join`]. Both sides must have the same [`VERSION`].

use lighthaul_io::control::bounded;
use lighthaul_io::net::probe::{Challenge, LANES_MAX};
use serde::{Deserialize, Serialize};

use crate::credential::Credential;
use crate::error::Error;
use crate::fault::PeerFault;
use crate::peer_text;
use crate::secrets::Join;
use crate::topic::{MESSAGE_MAX, Topic, decode, encode};

/// Version of the messages of all topics. Both sides must have the same.
pub const VERSION: u16 = 29;

/// Maximum number of octets of a timetable: one change an hour for a week fits.
const LIMIT_MAX: usize = 8 << 10;

/// One message of the session itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Request of the client.
    Hello(Hello),
    /// The server accepts the request.
    Welcome,
    /// Credential of a client whose key may be unlisted. It precedes all other messages.
    Credential(Credential),
    /// Notice that a client with rights has announced the connection. It precedes all other messages.
    Guest,
    /// Proof that the connection belongs to an existing session.
    Join(Join),
    /// Further connections have joined the session.
    Joined {
        /// Numbers of the connections, one bit each.
        connections: u32,
    },
    /// This side starts to explore the path.
    Exploring,
    /// Report about the peer's datagrams that arrived.
    Reached {
        /// Length of the longest datagram that arrived; zero if none arrived.
        datagram_len: u16,
        /// Lanes on which datagrams arrived, one bit each.
        lanes: u8,
        /// Percentage of time in which processes of this host wait for a processor.
        waited: u8,
        /// Challenges of a server that arrived on the lanes, one for each lane that has a bit.
        #[serde(deserialize_with = "bounded::list::<LANES_MAX, _, _>")]
        proofs: Vec<Challenge>,
    },
    /// A train of the peer's datagrams arrived.
    Train {
        /// Octets of the train.
        bytes: u64,
        /// Duration of the train, in nanoseconds.
        nanos: u64,
    },
    /// Keepalive of a side that has no other message to send.
    Keepalive {
        /// Counter that rises while this side works on the answer that the peer waits for.
        work: u64,
    },
    /// This side stops because of an error.
    Failed {
        /// Exit status.
        code: u8,
        /// Reason of the failure.
        #[serde(deserialize_with = "peer_text::read")]
        why: String,
    },
}

impl Topic for Message {
    const NUMBER: u8 = 0;
    type Request = ();
}

/// Request of the client, for any topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol ([`VERSION`]).
    pub version: u16,
    /// True if datagrams are not encrypted.
    pub plain: bool,
    /// Rate in bits a second, if the user asked for one.
    pub rate_bps: Option<u64>,
    /// Round-trip time measured by the client, in microseconds; zero without a measurement.
    pub rtt_us: u32,
    /// Timetable of rate limits, in the format of [`lighthaul_base::Timetable`]; empty without limits.
    #[serde(deserialize_with = "bounded::text::<LIMIT_MAX, _>")]
    pub limit: String,
    /// Number of the topic.
    pub topic: u8,
    /// Request in the encoding of the topic.
    #[serde(deserialize_with = "bounded::list::<MESSAGE_MAX, _, _>")]
    pub request: Vec<u8>,
}

impl Hello {
    /// Creates a request of topic `M`, with encrypted datagrams and no rate.
    pub fn about<M: Topic>(request: &M::Request) -> Self {
        Self {
            version: VERSION,
            plain: false,
            rate_bps: None,
            rtt_us: 0,
            limit: String::new(),
            topic: M::NUMBER,
            request: encode(request),
        }
    }

    /// Returns the same with another request, of topic `M`.
    #[must_use]
    pub fn with<M: Topic>(&self, request: &M::Request) -> Self {
        Self {
            topic: M::NUMBER,
            request: encode(request),
            ..self.clone()
        }
    }

    /// Decodes the request, which must be of topic `M`.
    pub fn request<M: Topic>(&self) -> Result<M::Request, Error> {
        if self.topic == M::NUMBER {
            decode(&self.request)
        } else {
            Err(PeerFault::Malformed.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Code;

    #[test]
    fn documents_name_this_version() {
        let pages = [
            include_str!("../../../docs/src/wire.md"),
            include_str!("../../../docs/src/install.md"),
        ];
        let printed = format!("\"protocol\":{VERSION},");
        for page in pages {
            let lines = page.lines().filter(|line| line.contains("\"protocol\":"));
            assert!(lines.clone().count() > 0);
            assert!(
                lines.clone().all(|line| line.contains(&printed)),
                "{printed}"
            );
        }
        assert!(pages[0].contains(&format!("protocol version {VERSION},")));
        assert!(pages[0].contains(&format!("| version | `u16` | {VERSION} |")));
    }

    #[test]
    fn messages_round_trip() {
        for message in [
            Message::Welcome,
            Message::Train { bytes: 5, nanos: 7 },
            Message::Reached {
                datagram_len: 1472,
                lanes: 3,
                waited: 1,
                proofs: vec![[7; 16], [8; 16]],
            },
            Message::Failed {
                code: 24,
                why: "why".into(),
            },
        ] {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    #[test]
    fn messages_of_other_topics_do_not_decode() {
        let mut octets = Message::Keepalive { work: 1 }.encode();
        octets[0] = 1;
        assert!(Message::decode(&octets).is_err());
        assert!(Message::decode(&[]).is_err());
    }

    #[test]
    fn each_list_and_text_of_a_request_is_bounded() {
        let mut hello = Hello::about::<Message>(&());
        hello.limit = "x".repeat(LIMIT_MAX + 1);
        let error = Message::decode(&Message::Hello(hello).encode()).unwrap_err();
        assert_eq!(error.code(), Code::Protocol);
        assert!(error.text().contains("8193 octets"), "{error}");
    }

    proptest! {
        #[test]
        fn decoded_messages_encode_to_the_same_value(
            octets in proptest::collection::vec(any::<u8>(), 0..400)
        ) {
            let octets = [vec![Message::NUMBER], octets].concat();
            if let Ok(message) = Message::decode(&octets) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }
}
