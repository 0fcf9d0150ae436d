//! Why something is not booked, and what would be.

use core::fmt;

use lighthaul_base::{Instant, Rate};

use crate::booking::Id;
use crate::request::Need;

/// Why something is not booked; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It asks for nothing.
    Nothing,
    /// It asks for a moment before this one, which is now.
    Past(Instant),
    /// It would not be over at this moment, till when the calendar reaches.
    Far(Instant),
    /// It asks for more than this, which the best path has.
    Rate(Rate),
    /// The least that it asks for is more than the most.
    Least(Rate, Rate),
    /// The most that it asks for is less than a channel of this.
    Channel(Rate),
    /// A node or a link that there is not.
    Unknown,
    /// No path leads from the one node to the other.
    NoPath,
    /// No path from the one node to the other crosses the interface.
    Interface,
    /// It would have more steps than this.
    Steps(usize),
    /// It would not be over when it must be.
    Late(Counter),
    /// There is a booking or an outage of this number.
    Taken(Id),
    /// There is none of this number.
    Missing(Id),
    /// There are so many bookings.
    Full(usize),
    /// The booking is over.
    Over(Id),
    /// What follows the booking is taken from this moment on.
    Blocked(Instant),
    /// It is not more than the booking has; to shrink it, not less.
    Size(Id),
}

/// What could be had instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// When all would be over, if the calendar reaches so far.
    pub end: Option<Instant>,
    /// The most that would be over by then, if anything would.
    pub most: Option<Need>,
    /// The lowest `R_max` with which all would be over by then, if any would do.
    pub rate_max: Option<Rate>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(
                f,
                "nothing is asked for: ask for at least a byte, or a nanosecond"
            ),
            Self::Past(now) => write!(f, "the start is over: ask for one at {now} or later"),
            Self::Far(till) => write!(
                f,
                "it would not be over at {till}, till when bookings are taken: ask for less, for a higher rate, or for an earlier start"
            ),
            Self::Rate(most) => write!(f, "no path carries so high a rate: ask for at most {most}"),
            Self::Least(least, most) => write!(
                f,
                "the lowest rate, {least}, is above the highest, {most}: ask for a lowest rate of at most {most}"
            ),
            Self::Channel(channel) => write!(
                f,
                "the highest rate is below a channel: ask for at least {channel}"
            ),
            Self::Unknown => write!(
                f,
                "it names a node or a link that there is not: ask for those of the topology"
            ),
            Self::NoPath => write!(
                f,
                "no path leads from the one node to the other: ask for two that links join"
            ),
            Self::Interface => write!(
                f,
                "no path from the one node to the other crosses that interface: name an interface of one of its links"
            ),
            Self::Steps(most) => write!(
                f,
                "it would have more than {most} steps: ask for a later start, or a lowest rate so that slow ones are left out"
            ),
            Self::Late(counter) => counter.fmt(f),
            Self::Taken(id) => write!(f, "number {} is taken: give it another", id.0),
            Self::Missing(id) => write!(f, "there is no booking {}: ask which there are", id.0),
            Self::Full(most) => write!(
                f,
                "there are {most} bookings, as many as may be: try again when one is over"
            ),
            Self::Over(id) => write!(f, "booking {} is over: make a new one", id.0),
            Self::Blocked(till) => write!(
                f,
                "what follows is booked by others: extend it till {till} at most, or make a new booking"
            ),
            Self::Size(id) => write!(
                f,
                "booking {} is extended to more than it has, and shrunk to less than that and more than it has carried: ask for that",
                id.0
            ),
        }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it would not be over in time: ")?;
        match self.end {
            Some(end) => write!(f, "ask for it by {end}")?,
            None => write!(f, "ask for less")?,
        }
        match self.most {
            Some(Need::Size { bytes, .. }) => write!(f, ", or for {bytes} bytes")?,
            Some(Need::Hold(time)) => write!(f, ", or for {time:?}")?,
            None => {}
        }
        match self.rate_max {
            Some(rate) => write!(f, ", or with a highest rate of {rate}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Refusal {}
