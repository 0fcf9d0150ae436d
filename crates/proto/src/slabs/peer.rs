//! What an honest peer never says.

use core::fmt;

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMisbehaved {
    /// A message that is none.
    Malformed,
    /// A report about a turn below this one, which has not been.
    UnsentTurn(u64),
    /// A verdict on a slab that does not wait for one.
    UnsentSlab(u64),
    /// Complaints about a slab that is still being sent again.
    Complaints(u64),
    /// A slab that does not follow the one before, or has more pages than there is room for.
    Slab(u64),
    /// A session sent more than it may, or not where it was.
    Overrun,
    /// It claims to have heard this many messages, which it was not told.
    Unheard(u64),
    /// It does not say that it hears anything, and too much waits for that.
    Deaf,
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => write!(f, "the other gateway sent a message that makes no sense"),
            Self::UnsentTurn(turn) => write!(
                f,
                "the other gateway speaks of datagrams up to {turn}, which were not all sent"
            ),
            Self::UnsentSlab(slab) => write!(
                f,
                "the other gateway speaks of slab {slab}, of which nothing is under way"
            ),
            Self::Complaints(slab) => write!(
                f,
                "the other gateway complains of slab {slab} faster than it is sent again"
            ),
            Self::Slab(slab) => write!(
                f,
                "the other gateway announced slab {slab}, for which there is no place"
            ),
            Self::Overrun => write!(
                f,
                "the other gateway sent more of a session than it may, or not where it had got to"
            ),
            Self::Unheard(count) => write!(
                f,
                "the other gateway claims to have heard {count} messages, more than it was told"
            ),
            Self::Deaf => write!(f, "the other gateway does not hear what it is told"),
        }
    }
}

impl core::error::Error for PeerMisbehaved {}
