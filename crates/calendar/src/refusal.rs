//! Reasons for which a request is refused, and counter-offers.
//!
//! A [`Refusal`] is a value with the numbers that its message needs. Only a missed deadline has a
//! [`CounterOffer`]: a later end, a smaller amount or a higher rate. Messages show times since the
//! zero of the calendar. [`Refusal::with_times`] takes another format, which must round to the
//! permitted side, so that a client may copy the printed time.

use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use lighthaul_base::{Instant, Rate};

use crate::booking::Id;
use crate::request::Need;

/// Reason for which a request is refused. A refused call leaves the calendar unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request is for zero bytes or a holding time of zero.
    Empty,
    /// The start is before the current time, given here.
    StartPassed(Instant),
    /// The transfer would end after the horizon of the calendar, given here.
    BeyondHorizon(Instant),
    /// The requested rate exceeds the capacity of the best path, given here.
    RateTooHigh(Rate),
    /// The lowest requested rate exceeds the highest one.
    RateRange(Rate, Rate),
    /// The highest requested rate is below the channel of the path, given here.
    RateBelowChannel(Rate),
    /// The request names a node or a link that is not in the topology.
    UnknownLink,
    /// No path leads from the source node to the target node.
    NoPath,
    /// No path between the two nodes crosses the requested interface.
    InterfaceOffPath,
    /// The grant would have more steps than this maximum.
    TooManySteps(usize),
    /// The transfer would end after its deadline.
    MissesDeadline(CounterOffer),
    /// The number belongs to an existing booking or outage.
    IdInUse(Id),
    /// No booking or outage has this number.
    NotFound(Id),
    /// The calendar has its maximum of bookings or outages, which is given here.
    CalendarFull(usize),
    /// The booking has ended.
    Ended(Id),
    /// Other bookings use the capacity from the given time on.
    FollowingBooked(Instant),
    /// The new amount does not exceed the current one (extend), or is not between the amount
    /// carried and the current one (shrink).
    AmountOutOfRange(Id),
}

/// Message of a refusal, with times in a given format.
#[derive(Clone, Copy, Debug)]
pub struct WithTimes<'a> {
    refusal: &'a Refusal,
    time: FormatTime,
}

/// Function that formats a time, and may round it only in the given direction.
pub type FormatTime = fn(Instant, Rounding) -> String;

/// Direction in which a time in a message may be rounded, so that a request with the rounded time succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To an earlier time.
    Earlier,
    /// To a later time.
    Later,
}

/// Requests that would be granted instead of a refused request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterOffer {
    /// Earliest deadline that can be met, if it is before the horizon.
    pub end: Option<Instant>,
    /// Largest amount that can be carried by the deadline.
    pub most: Option<Need>,
    /// Lowest `R_max` with which the deadline can be met.
    pub rate_max: Option<Rate>,
}

impl Refusal {
    /// Returns true if no time would help, since the path does not have the requested rate.
    pub(crate) const fn is_of_rate(&self) -> bool {
        matches!(
            self,
            Self::RateTooHigh(_) | Self::RateRange(..) | Self::RateBelowChannel(_)
        )
    }

    /// Returns the message with times in another format, such as dates.
    pub const fn with_times(&self, time: FormatTime) -> WithTimes<'_> {
        WithTimes {
            refusal: self,
            time,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_times(|at, _| at.to_string()).fmt(f)
    }
}

impl fmt::Display for WithTimes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time;
        match self.refusal {
            Refusal::Empty => write!(
                f,
                "the request is for nothing: ask for at least 1 byte, or a holding time of at least 1ns"
            ),
            Refusal::StartPassed(now) => {
                write!(
                    f,
                    "the start has passed: ask for a start at {} or later",
                    time(*now, Rounding::Later)
                )
            }
            Refusal::BeyondHorizon(till) => write!(
                f,
                "the transfer would end after {}, the horizon of the calendar: ask for less, for a higher rate, or for an earlier start",
                time(*till, Rounding::Earlier)
            ),
            Refusal::RateTooHigh(most) => write!(
                f,
                "no path has that much capacity: ask for a rate of at most {most}"
            ),
            Refusal::RateRange(least, most) => write!(
                f,
                "the lowest rate, {least}, exceeds the highest, {most}: ask for a lowest rate of at most {most}"
            ),
            Refusal::RateBelowChannel(channel) => write!(
                f,
                "the highest rate is below one channel: ask for a rate of at least {channel}"
            ),
            Refusal::UnknownLink => write!(
                f,
                "the request names a node or a link that is not in the topology: name one that is"
            ),
            Refusal::NoPath => write!(
                f,
                "no path leads from the source to the target: name two connected nodes"
            ),
            Refusal::InterfaceOffPath => write!(
                f,
                "no path between the two nodes crosses that interface: name an interface of a link on the path"
            ),
            Refusal::TooManySteps(most) => write!(
                f,
                "the grant would have more than {most} steps: ask for a later start, or for a lowest rate that skips slow steps"
            ),
            Refusal::MissesDeadline(counter) => counter.write(f, time),
            Refusal::IdInUse(id) => write!(f, "number {} is in use: choose another", id.0),
            Refusal::NotFound(id) => write!(
                f,
                "no booking or outage has number {}: list the existing ones",
                id.0
            ),
            Refusal::CalendarFull(most) => write!(
                f,
                "the calendar holds {most} entries, its maximum: try again when one has ended"
            ),
            Refusal::Ended(id) => write!(f, "booking {} has ended: book again", id.0),
            Refusal::FollowingBooked(till) => write!(
                f,
                "another booking follows: extend to {} at most, or book again",
                time(*till, Rounding::Earlier)
            ),
            Refusal::AmountOutOfRange(id) => write!(
                f,
                "booking {} cannot have that amount: extend it beyond its present amount, or shrink it to between the carried and the present amount",
                id.0
            ),
        }
    }
}

impl CounterOffer {
    fn write(&self, f: &mut fmt::Formatter<'_>, time: FormatTime) -> fmt::Result {
        write!(f, "the transfer cannot end in time: ")?;
        match self.end {
            Some(end) => write!(
                f,
                "ask for an end at {} or later",
                time(end, Rounding::Later)
            )?,
            None => write!(f, "ask for less")?,
        }
        match self.most {
            Some(Need::Size { bytes, .. }) => write!(f, ", or for {bytes} bytes")?,
            Some(Need::Hold(hold)) => write!(f, ", or for {:?}", whole(hold))?,
            None => {}
        }
        match self.rate_max {
            Some(rate) => write!(f, ", or with a highest rate of {rate}"),
            None => Ok(()),
        }
    }
}

/// Returns the whole seconds of a holding time, unless it is shorter than a second.
const fn whole(hold: Duration) -> Duration {
    match hold.as_secs() {
        0 => hold,
        seconds => Duration::from_secs(seconds),
    }
}

impl core::error::Error for Refusal {}
