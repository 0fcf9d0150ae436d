//! Protocol violations of the peer.

use core::fmt;

/// Protocol violation by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMisbehaved {
    /// A report covers packets up to the given number, which were not all sent.
    UnsentPacket(u64),
    /// A report covers resends up to the given turn, which were not all sent.
    UnsentTurn(u64),
    /// A report acknowledges fewer packets than an earlier one.
    Shrank(u64),
    /// A report answers a question with the given number, which was not asked.
    Unasked(u32),
    /// A question names more packets than the object has.
    Beyond(u64),
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsentPacket(till) => {
                write!(
                    f,
                    "the receiver reports on packets up to {till}, which were not all sent"
                )
            }
            Self::UnsentTurn(till) => {
                write!(
                    f,
                    "the receiver reports on resends up to {till}, which were not all sent"
                )
            }
            Self::Shrank(below) => {
                write!(
                    f,
                    "the receiver acknowledges packets up to {below}, fewer than before"
                )
            }
            Self::Unasked(answered) => {
                write!(
                    f,
                    "the receiver answers question {answered}, which the sender has not asked"
                )
            }
            Self::Beyond(packets) => {
                write!(
                    f,
                    "the sender reports {packets} packets sent, more than the object has"
                )
            }
        }
    }
}

impl core::error::Error for PeerMisbehaved {}
