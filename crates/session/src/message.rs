//! What two sides of a session say to each other beneath every topic: who calls, what for, and what lies between.

use lighthaul_io::control::bounded;
use serde::{Deserialize, Serialize};

use crate::credential::Credential;
use crate::error::{Code, Error};
use crate::protocol::NAME_MAX;
use crate::secrets::Join;
use crate::topic::{MESSAGE_MAX, Topic, decode, encode};
use crate::{protocol, sentence};

/// The version of the messages of all topics; both sides must speak the same.
pub const VERSION: u16 = 12;

/// The most protocols that a peer has: a few times as many as there are.
const PROTOCOLS_MAX: usize = 32;
/// The most octets of a timetable: one change an hour for a week fits.
const LIMIT_MAX: usize = 8 << 10;

/// One message of the session itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The client says what it wants.
    Hello(Hello),
    /// The server agrees.
    Welcome {
        /// The names of the protocols that it has.
        #[serde(deserialize_with = "bounded::texts::<PROTOCOLS_MAX, NAME_MAX, _>")]
        protocols: Vec<String>,
    },
    /// Before anything else, a client whose key may not be listed says why it should be let in.
    Credential(Credential),
    /// Before anything else, a client says that somebody with rights here has announced it.
    Guest,
    /// The connection belongs to a session that is there already.
    Join(Join),
    /// Further connections have joined the session.
    Joined {
        /// Their numbers, a bit for each.
        connections: u32,
    },
    /// Datagrams of the peer have arrived here, or have not.
    Reached {
        /// Octets of the longest; zero if none did.
        datagram_len: u16,
        /// The lanes that they came by, a bit for each.
        lanes: u8,
        /// The part of the time in which somebody here waits for a processor, in percent.
        waited: u8,
    },
    /// A train arrived here.
    Train {
        /// Its octets.
        bytes: u64,
        /// How long it took, in nanoseconds.
        nanos: u64,
    },
    /// This side is there, even if it has nothing else to say.
    Alive {
        /// Counter that rises while this side works on what the peer waits for.
        work: u64,
    },
    /// This side cannot go on.
    Failed {
        /// The exit code.
        code: u8,
        /// The reason.
        #[serde(deserialize_with = "sentence::read")]
        why: String,
    },
}

impl Topic for Message {
    const NUMBER: u8 = 0;
    type Request = ();
}

/// What the client wants, whatever the topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u16,
    /// Datagrams are not to be encrypted.
    pub plain: bool,
    /// The rate in bits a second, if somebody asked for one.
    pub rate_bps: Option<u64>,
    /// When the rate is limited, as [`lighthaul_base::Timetable`] reads it; empty if never.
    #[serde(deserialize_with = "bounded::text::<LIMIT_MAX, _>")]
    pub limit: String,
    /// The names of the protocols that the client has.
    #[serde(deserialize_with = "bounded::texts::<PROTOCOLS_MAX, NAME_MAX, _>")]
    pub protocols: Vec<String>,
    /// The number of the topic.
    pub topic: u8,
    /// What the server is asked to do, as the topic encodes it.
    #[serde(deserialize_with = "bounded::list::<MESSAGE_MAX, _, _>")]
    pub request: Vec<u8>,
}

impl Hello {
    /// A request of topic `M`, with encrypted datagrams and no rate.
    pub fn about<M: Topic>(request: &M::Request) -> Self {
        Self {
            version: VERSION,
            plain: false,
            rate_bps: None,
            limit: String::new(),
            protocols: protocol::names(),
            topic: M::NUMBER,
            request: encode(request),
        }
    }

    /// The same with another request, of topic `M`.
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
            let text = "the client's request makes no sense";
            Err(Error::new(Code::Protocol, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        for message in [
            Message::Welcome {
                protocols: vec!["rbudp".into()],
            },
            Message::Train { bytes: 5, nanos: 7 },
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
        let mut octets = Message::Alive { work: 1 }.encode();
        octets[0] = 1;
        assert!(Message::decode(&octets).is_err());
        assert!(Message::decode(&[]).is_err());
    }

    #[test]
    fn hello_and_welcome_are_bounded_item_by_item() {
        let spoilt: [(_, fn(&mut Hello)); 3] = [
            ("8193 octets", |hello| {
                hello.limit = "x".repeat(LIMIT_MAX + 1);
            }),
            ("33 octets", |hello| {
                hello.protocols = vec!["x".repeat(NAME_MAX + 1)];
            }),
            ("33 items", |hello| {
                hello.protocols = vec![String::new(); PROTOCOLS_MAX + 1];
            }),
        ];
        for (why, spoil) in spoilt {
            let mut hello = Hello::about::<Message>(&());
            spoil(&mut hello);
            let error = Message::decode(&Message::Hello(hello).encode()).unwrap_err();
            assert_eq!(error.code, Code::Protocol);
            assert!(error.text.contains(why), "{error}, not {why}");
        }
        let protocols = vec![String::new(); PROTOCOLS_MAX + 1];
        let error = Message::decode(&Message::Welcome { protocols }.encode()).unwrap_err();
        assert!(error.text.contains("33 items"), "{error}");
    }

    proptest! {
        #[test]
        fn any_octets_decode_to_what_encodes_the_same_or_not_at_all(
            octets in proptest::collection::vec(any::<u8>(), 0..400)
        ) {
            let octets = [vec![Message::NUMBER], octets].concat();
            if let Ok(message) = Message::decode(&octets) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }
}
