//! Messages about a copy between two daemons, which a client starts and observes.
//!
//! The source creates a key for this copy and sends its fingerprint. The client asks the target to
//! expect the holder of that key, which gets the client's rights. Then the source connects to the
//! target.

use lighthaul_files::list::{NAMES_MAX, Page};
use lighthaul_files::manifest::{PATH_MAX, PLACES_MAX};
use lighthaul_files::options::Options;
use lighthaul_io::control::bounded;
use lighthaul_session::message::Hello;
use lighthaul_session::peer_text;
use lighthaul_session::topic::Topic;
use serde::{Deserialize, Serialize};

use crate::message::{self, Target, Way};
use crate::watch::{CopyEvent, Failed, Summary};

/// Copy that the source sends, and its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Host name of the target.
    #[serde(deserialize_with = "peer_text::read")]
    pub host: String,
    /// Port of the target.
    pub port: u16,
    /// Fingerprint of the target's key.
    pub key: [u8; 32],
    /// True if datagrams may carry the data.
    pub udp: bool,
    /// Paths to send.
    #[serde(deserialize_with = "bounded::rows::<PLACES_MAX, PATH_MAX, _>")]
    pub paths: Vec<Vec<u8>>,
    /// Place of the copy at the target.
    pub target: Target,
}

/// Request of a client for a copy between two daemons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Asks the source to send files to another daemon, and to report events.
    Send {
        /// Paths and target.
        relay: Relay,
        /// Options of the copy.
        options: Options,
    },
    /// Asks the target to admit the holder of a key once, for one copy.
    Expect {
        /// Fingerprint of the key.
        key: [u8; 32],
        /// Place of the copy.
        target: Target,
        /// Options of the copy.
        options: Options,
    },
}

/// Message between the client and one of the two daemons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The key that the source will use for its connection to the target.
    SourceKey {
        /// Fingerprint of the key.
        key: [u8; 32],
    },
    /// The target expects the source now.
    Expected,
    /// Event at the source.
    Event(CopyEvent),
    /// Entry that failed.
    Failed(Failed),
    /// End of the copy, after reports of all failures.
    Done(Summary),
    /// The next error was reported by the target.
    TargetFailed,
    /// Request of the source for a page of the list of paths.
    RequestPaths,
    /// Page of paths; an empty page ends the list.
    Paths {
        /// Paths of the page.
        #[serde(deserialize_with = "bounded::list::<NAMES_MAX, _, _>")]
        page: Page,
    },
}

impl Topic for Message {
    const NUMBER: u8 = 4;
    type Request = Request;
}

/// Returns the request that the source sends to the target, from the client's request. The target
/// expects the same.
pub fn copy_request(hello: &Hello, target: Target, options: Options) -> Hello {
    hello.with::<message::Message>(&message::Request {
        way: Way::Receive(target),
        options,
    })
}
