//! Why something was not done, by whose fault.

use std::io;

use lighthaul_calendar::{CounterOffer, Need, Refusal};
use lighthaul_circuit::reservation::{BrokenJournal, Illegal};

use crate::word::Moment;

/// Why something was not done; nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be.
    #[error("{0}")]
    Misuse(String),
    /// The calendar has no room for it, or another than was asked for.
    #[error("{}", in_words(.0))]
    Refused(#[from] Refusal),
    /// It does not come after what is.
    #[error("{0}")]
    Illegal(#[from] Illegal),
    /// An owner has as much as one may have.
    #[error("{0}")]
    Quota(String),
    /// The policy of who asks does not allow it.
    #[error("{0}")]
    Policy(String),
    /// Another circuit carries the same packets at the same time, or all circuits of an interface are taken.
    #[error("{0}")]
    Overlap(String),
    /// There is no such thing, or it is somebody else's.
    #[error("there is no {what} {id} that is yours: ask which there are")]
    Missing {
        /// What was asked for.
        what: &'static str,
        /// Its number or name.
        id: String,
    },
    /// There is no link of this name.
    #[error("there is no link {0}: ask for links of the topology")]
    NoLink(String),
    /// It takes another role.
    #[error("{who} may not {what}: ask an operator")]
    Forbidden {
        /// Who asked.
        who: String,
        /// For what.
        what: &'static str,
    },
    /// A key that was used for something else.
    #[error(
        "the idempotency key {0} came with another request before: give each request a key of its own"
    )]
    Conflict(String),
    /// Another instance writes.
    #[error("another instance keeps the books: ask {url}")]
    Elsewhere {
        /// Where it is asked.
        url: String,
    },
    /// The books cannot be written or read.
    #[error("{0}")]
    Store(String),
}

/// What goes wrong here comes back as this.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// There is no reservation of this number for who asks.
    pub(crate) fn missing(id: u64) -> Self {
        Self::Missing {
            what: "reservation",
            id: id.to_string(),
        }
    }
}

impl From<BrokenJournal> for Error {
    fn from(why: BrokenJournal) -> Self {
        Self::Store(why.to_string())
    }
}

impl From<serde_json::Error> for Error {
    fn from(why: serde_json::Error) -> Self {
        Self::Store(format!(
            "the store has a line that is not the books': {why}; restore it from a copy"
        ))
    }
}

impl From<io::Error> for Error {
    fn from(why: io::Error) -> Self {
        Self::Store(why.to_string())
    }
}

/// A refusal with the times of the world.
fn in_words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::StartPassed(now) => format!(
            "the start is over: ask for one at {} or later",
            Moment::from(*now)
        ),
        Refusal::BeyondHorizon(till) => format!(
            "it would not be over at {}, till when bookings are taken: ask for less, for a higher rate, or for an earlier start",
            Moment::from(*till)
        ),
        Refusal::FollowingBooked(till) => format!(
            "what follows is booked by others: extend it till {} at most, or make a new reservation",
            Moment::from(*till)
        ),
        Refusal::MissesDeadline(CounterOffer {
            end: Some(end),
            most,
            rate_max,
        }) => {
            let most = match most {
                Some(Need::Size { bytes, .. }) => format!(", or for {bytes} bytes"),
                Some(Need::Hold(time)) => format!(", or for {time:?}"),
                None => String::new(),
            };
            let rate = rate_max.map(|rate| format!(", or with a highest rate of {rate}"));
            format!(
                "it would not be over in time: ask for it by {}{most}{}",
                Moment::from(*end),
                rate.unwrap_or_default()
            )
        }
        Refusal::Empty
        | Refusal::RateTooHigh(_)
        | Refusal::RateRange(..)
        | Refusal::RateBelowChannel(_)
        | Refusal::UnknownLink
        | Refusal::NoPath
        | Refusal::InterfaceOffPath
        | Refusal::TooManySteps(_)
        | Refusal::MissesDeadline(_)
        | Refusal::IdInUse(_)
        | Refusal::NotFound(_)
        | Refusal::CalendarFull(_)
        | Refusal::Ended(_)
        | Refusal::AmountOutOfRange(_) => refusal.to_string(),
    }
}
