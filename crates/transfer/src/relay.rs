//! What is said where somebody has one daemon send to another, and only looks on.
//!
//! The source makes a key for this one copy and says its fingerprint; the target is told to expect the
//! holder of that key, with the rights of who tells it; then the source calls.

use serde::{Deserialize, Serialize};

use crate::list::Page;
use crate::message::{Hello, Request, Target};
use crate::sentence;
use crate::watch::{Failed, Sight, Summary};

/// What the source is to send, and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Where the target listens.
    #[serde(deserialize_with = "sentence::read")]
    pub host: String,
    /// On which port.
    pub port: u16,
    /// The fingerprint of the key that it must show.
    pub key: [u8; 32],
    /// Datagrams may carry the data.
    pub udp: bool,
    /// What is to be sent.
    pub paths: Vec<Vec<u8>>,
    /// Where it is to go.
    pub target: Target,
}

/// What who looks on and the two daemons say to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Relayed {
    /// The source will call with the key of this fingerprint.
    Caller([u8; 32]),
    /// The target expects the source now.
    Expected,
    /// The source sees this.
    Seen(Sight),
    /// This is not in place.
    Failed(Failed),
    /// All is over; what failed was said before.
    Done(Summary),
    /// What goes wrong now was said by the target.
    Theirs,
    /// Who says so is still there.
    Waiting,
    /// The source is ready to hear which paths it is to send, seen from its one folder.
    Which,
    /// These; none after the last.
    Take(Page),
    /// Before anything else, the source says to the target that it is expected.
    Guest,
}

impl Hello {
    /// What the source says to the target, if this is what it was asked for; the same as what the target
    /// is told to expect.
    #[must_use]
    pub fn relayed(&self, target: Target) -> Self {
        Self {
            request: Request::Receive(target),
            ..self.clone()
        }
    }
}
