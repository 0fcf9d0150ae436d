//! Handshake of a program and a gateway before the program's own octets.

use std::fmt::Debug;
use std::net::SocketAddr;

use crate::capture::refusal::Refusal;
use crate::target::Target;

/// Protocol by which a program names its target: a machine over octets, without a socket.
pub trait Handshake: Debug + Send {
    /// Handles received octets, in pieces of any length. Must not be called again after a result other than
    /// [`Progress::More`].
    fn take(&mut self, octets: &[u8]) -> Progress;

    /// Returns the reply to the program: the local address of the connection to its target, or the reason of the refusal.
    /// After a refusal, the connection is closed.
    fn answer(&self, outcome: Result<SocketAddr, Refusal>) -> Vec<u8>;
}

/// Result of received octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The handshake needs more octets.
    More {
        /// Reply to send now.
        reply: Vec<u8>,
    },
    /// The program has named its target, and waits for the reply.
    Wants {
        /// Target.
        target: Target,
        /// Octets after the handshake, which belong to the target.
        rest: Vec<u8>,
    },
    /// The handshake failed. The connection is closed after the reply.
    Refused {
        /// Reply to send; may be empty.
        reply: Vec<u8>,
        /// Reason for the log.
        why: String,
    },
}

impl Progress {
    pub(crate) fn refused(reply: Vec<u8>, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Refused { reply, why }
    }
}
