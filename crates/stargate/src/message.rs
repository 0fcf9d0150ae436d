//! Messages between neighbors.

use alloc::vec::Vec;

use lighthaul_base::Instant;
use lighthaul_base::trc::Trc;

use crate::key::{DomainId, Hop, Key, QueryId};
use crate::offer::Offer;
use crate::refusal::Refusal;

/// Message to a neighbor. All times are wall-clock time, in nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Time at which the sender created the message.
    pub sent: Instant,
    /// Contents.
    pub body: Body,
}

/// Contents of a message. Parents send the first kind of each pair, children answer with the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Asks for the capacity function of a path in `from..till`.
    Query {
        /// Number of the query.
        query: QueryId,
        /// Remaining path, beginning with the receiver.
        hops: Vec<Hop>,
        /// Domains that the query has crossed, ending with the sender.
        trace: Vec<DomainId>,
        /// Start of the window.
        from: Instant,
        /// End of the window.
        till: Instant,
        /// True if a second leg of the path ends at the same port.
        is_protected: bool,
    },
    /// Capacity function of the path from here on, over all of its domains.
    Offer {
        /// Number of the query.
        query: QueryId,
        /// Free rate over time.
        offer: Offer,
    },
    /// Refusal of a query.
    NoOffer {
        /// Number of the query.
        query: QueryId,
        /// Reason of the refusal.
        refusal: Refusal,
    },
    /// Holds capacity on the path.
    Hold {
        /// Number of the reservation.
        key: Key,
        /// Remaining path, beginning with the receiver.
        hops: Vec<Hop>,
        /// Domains that the hold has crossed, ending with the sender.
        trace: Vec<DomainId>,
        /// Rates over time: the whole TRC vector.
        vector: Trc,
        /// End of the hold. It is released then unless it is committed.
        hold_till: Instant,
        /// Time by which all domains must have committed. The vector starts no earlier.
        decide_till: Instant,
    },
    /// The path from here on is held.
    Held {
        /// Number of the reservation.
        key: Key,
    },
    /// The path from here on cannot be held.
    Refused {
        /// Number of the reservation.
        key: Key,
        /// Reason of the refusal.
        refusal: Refusal,
    },
    /// Commits the held path; also asks if the path is still committed.
    Commit {
        /// Number of the reservation.
        key: Key,
    },
    /// The path from here on is committed.
    Committed {
        /// Number of the reservation.
        key: Key,
    },
    /// Gives up a path that was not decided.
    Abort {
        /// Number of the reservation.
        key: Key,
    },
    /// The path from here on is not reserved: the answer to `Abort`, and to a `Commit` that came too late.
    Aborted {
        /// Number of the reservation.
        key: Key,
        /// Reason of the refusal.
        refusal: Refusal,
    },
    /// Gives up a path that was committed.
    Release {
        /// Number of the reservation.
        key: Key,
    },
    /// The path from here on is released.
    Released {
        /// Number of the reservation.
        key: Key,
    },
    /// Child asks its parent if the path is still committed; the answer is `Commit` or `Release`.
    Ask {
        /// Number of the reservation.
        key: Key,
    },
    /// A range of the vector has ended.
    RangeDone {
        /// Number of the reservation.
        key: Key,
        /// Index of the range, from zero.
        range: u16,
    },
    /// The reservation has failed at the sender, which has released its part.
    Notify {
        /// Number of the reservation.
        key: Key,
        /// Reason of the refusal.
        refusal: Refusal,
    },
}

impl Body {
    /// Returns the answer to `Abort`.
    pub(crate) const fn aborted(key: Key) -> Self {
        Self::Aborted {
            key,
            refusal: Refusal::Aborted,
        }
    }
}
