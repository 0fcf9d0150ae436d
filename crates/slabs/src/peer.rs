//! Protocol violations of the peer.

use core::fmt;

/// Protocol violation by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMisbehaved {
    /// A message does not decode.
    Malformed,
    /// A report covers datagrams up to the given turn, which were not all sent.
    UnsentTurn(u64),
    /// A verdict names a slab that does not wait for one.
    UnsentSlab(u64),
    /// A verdict rejects records of a slab that is still being resent.
    Complaints(u64),
    /// A slab announcement is out of sequence, or exceeds the credit for pages.
    Slab(u64),
    /// A session exceeds its window, or its bytes are out of sequence.
    Overrun,
    /// The peer acknowledges the given number of messages, which were not all sent.
    Unheard(u64),
    /// The peer acknowledges no messages, and too many are waiting for it.
    Deaf,
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => write!(f, "the other gateway sent a malformed message"),
            Self::UnsentTurn(turn) => write!(
                f,
                "the other gateway reports on datagrams up to {turn}, which were not all sent"
            ),
            Self::UnsentSlab(slab) => write!(
                f,
                "the other gateway answers for slab {slab}, which is not in flight"
            ),
            Self::Complaints(slab) => write!(
                f,
                "the other gateway rejects slab {slab} faster than it can be resent"
            ),
            Self::Slab(slab) => write!(
                f,
                "the other gateway announced slab {slab} out of sequence or beyond its credit"
            ),
            Self::Overrun => write!(
                f,
                "the other gateway exceeded the window of a session or sent its bytes out of sequence"
            ),
            Self::Unheard(count) => write!(
                f,
                "the other gateway acknowledges {count} messages, more than were sent"
            ),
            Self::Deaf => write!(f, "the other gateway does not acknowledge any messages"),
        }
    }
}

impl core::error::Error for PeerMisbehaved {}
