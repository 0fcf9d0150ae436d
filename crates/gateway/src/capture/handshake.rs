//! What a program and a gateway say to each other before the program's own octets flow.

use std::fmt::Debug;
use std::net::SocketAddr;

use crate::capture::refusal::Refusal;
use crate::target::Target;

/// One way to say where one wants to go: a machine over octets, without a socket.
pub trait Handshake: Debug + Send {
    /// Takes what came, however it was cut; not to be called again once it was more than [`Progress::More`].
    fn take(&mut self, octets: &[u8]) -> Progress;

    /// What to send when it is known what became of a target that was wanted: the address from which it was called, or
    /// why it was not. Behind a refusal the connection is closed.
    fn answer(&self, outcome: Result<SocketAddr, Refusal>) -> Vec<u8>;
}

/// What came of octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It takes more of them.
    More {
        /// What to send meanwhile.
        reply: Vec<u8>,
    },
    /// The program has said where it wants to go, and waits for an answer.
    Wants {
        /// Where.
        target: Target,
        /// What came behind the handshake and belongs to the target.
        rest: Vec<u8>,
    },
    /// It cannot be helped: the connection is closed when the reply is sent.
    Refused {
        /// What to send, perhaps nothing.
        reply: Vec<u8>,
        /// One sentence for the log.
        why: String,
    },
}

impl Progress {
    pub(crate) fn refused(reply: Vec<u8>, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Refused { reply, why }
    }
}
