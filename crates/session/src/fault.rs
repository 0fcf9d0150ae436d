//! Faults of sessions, and of peers that break the protocol.

use lighthaul_base::trc::TrcError;

use crate::code::{Code, Coded};

/// Fault that a peer reported, or by which it breaks the protocol of a session or of a topic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerFault {
    /// A failure that the peer reported.
    #[error("{text}")]
    Reported {
        /// Kind of the failure.
        code: Code,
        /// Sentence of the peer.
        text: String,
    },
    /// A message at a point where another, which is named, is due.
    #[error("the peer sent an unexpected message instead of {0}")]
    Unexpected(&'static str),
    /// A message that does not decode.
    #[error("the peer sent a malformed message; do both sides run the same version?")]
    Malformed,
    /// A part of a message that exceeds its bound; the text names the part.
    #[error("the peer sent {0}; do both sides run the same version?")]
    Oversized(String),
    /// A value that contradicts earlier messages.
    #[error("the peer sent {0}")]
    Invalid(&'static str),
    /// An offer of packets whose length in bytes is not a multiple of 32.
    #[error("the peer sent an offer of packets of {0} bytes, which is no multiple of 32")]
    PacketLen(u32),
}

impl PeerFault {
    /// Returns the failure that the peer reported with an exit status and a sentence.
    pub fn reported(code: u8, text: impl Into<String>) -> Self {
        Self::Reported {
            code: Code::from_number(code),
            text: text.into(),
        }
    }
}

impl Coded for PeerFault {
    fn code(&self) -> Code {
        match self {
            Self::Reported { code, .. } => *code,
            Self::Unexpected(_)
            | Self::Malformed
            | Self::Oversized(_)
            | Self::Invalid(_)
            | Self::PacketLen(_) => Code::Protocol,
        }
    }
}

/// Fault of a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The path carries no datagrams.
    #[error("no UDP datagram arrived; open the port for UDP, too")]
    NoUdp,
    /// The rate to measure makes no vector.
    #[error("cannot measure at this rate: {0}")]
    MeasureRate(TrcError),
    /// The server would open a connection.
    #[error("only the client can open further connections")]
    NotClient,
    /// A further connection reaches another host.
    #[error("another host answered a further connection: its key differs from the peer's")]
    OtherHost,
    /// The peer does not answer.
    #[error("the peer did not answer before the deadline")]
    NoAnswer,
    /// The request exceeds the length of a message.
    #[error("the request is too long: use fewer paths or filter rules in one command")]
    RequestTooLong,
    /// The vector of a circuit does not parse.
    #[error("{name}: {why}")]
    Vector {
        /// Option or file with the vector.
        name: String,
        /// Fault of the text.
        why: String,
    },
    /// The protocol does not exist in this version.
    #[error("protocol {name:?} is not supported here; choose one of {all}")]
    UnknownProtocol {
        /// Name of the protocol.
        name: String,
        /// Names of all protocols.
        all: String,
    },
    /// The parameters of an object are invalid.
    #[error("cannot send the object: {0}")]
    ObjectSetup(String),
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::NoUdp => Code::Network,
            Self::MeasureRate(_) | Self::RequestTooLong | Self::Vector { .. } => Code::Usage,
            Self::NotClient | Self::UnknownProtocol { .. } | Self::ObjectSetup(_) => Code::Protocol,
            Self::OtherHost => Code::Permission,
            Self::NoAnswer => Code::TimedOut,
        }
    }
}
