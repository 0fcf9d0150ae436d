//! What an honest peer never says.

use core::fmt;

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMisbehaved {
    /// A report about a packet below this number, which was not sent.
    UnsentPacket(u64),
    /// A report about a resend below this number, which was not sent.
    UnsentTurn(u64),
    /// A report by which less came than by an earlier one.
    Shrank(u64),
    /// An answer without a question.
    Unasked(u32),
    /// A question about more packets than there are.
    Beyond(u64),
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsentPacket(till) => {
                write!(
                    f,
                    "the peer speaks of packets up to {till}, which were not all sent"
                )
            }
            Self::UnsentTurn(till) => {
                write!(
                    f,
                    "the peer speaks of resends up to {till}, which were not all sent"
                )
            }
            Self::Shrank(below) => {
                write!(
                    f,
                    "the peer says that packets up to {below} came, fewer than it said before"
                )
            }
            Self::Unasked(answered) => {
                write!(
                    f,
                    "the peer answers question {answered}, which it was not asked"
                )
            }
            Self::Beyond(packets) => {
                write!(
                    f,
                    "the peer claims to have sent {packets} packets, more than the object has"
                )
            }
        }
    }
}

impl core::error::Error for PeerMisbehaved {}
