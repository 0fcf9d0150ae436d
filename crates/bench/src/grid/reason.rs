//! Reason why `auto` falls behind the best choice at a point, from the numbers of its row.

use std::time::Duration;

use super::point::Choice;
use super::table::{Column, Row};
use super::verdict::Verdict;

/// Main reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// The measurement before the data took most of the missing time.
    LateStart,
    /// The trains measured less than the path carries.
    LowMeasurement,
    /// Many packets were sent again.
    SentAgain,
    /// Another protocol carries more at this point.
    OtherProtocol,
    /// The same protocol did better when the user asked for it.
    SameProtocol,
}

impl Reason {
    /// Finds the main reason for a verdict after a transfer of `time`.
    pub(crate) fn of(row: &Row, verdict: &Verdict, time: Duration) -> Self {
        let missing = 1.0 - verdict.ratio();
        let before = row.value(Column::BeforeData).unwrap_or(0.0) / 1e3 / time.as_secs_f64();
        let resent = row.value(Column::Resent).unwrap_or(0.0) - verdict.point.loss_percent();
        let measured = row.value(Column::Measured);
        let is_low = measured.is_some_and(|mbps| mbps < verdict.point.rate.as_mbps_f64() * LOW);
        if before >= missing / 2.0 {
            Self::LateStart
        } else if is_low && !verdict.point.condition.is_shared() {
            Self::LowMeasurement
        } else if resent / 100.0 >= missing / 2.0 {
            Self::SentAgain
        } else if row.protocol.map(Choice::Fixed) == Some(verdict.best.0) {
            Self::SameProtocol
        } else {
            Self::OtherProtocol
        }
    }

    /// Returns the title for points with this reason.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::LateStart => "The measurement before the first data takes too long",
            Self::LowMeasurement => "The trains measure less than the path carries",
            Self::SentAgain => "Too many packets are sent again",
            Self::OtherProtocol => "Another protocol carries more",
            Self::SameProtocol => "The same protocol is faster when it is asked for",
        }
    }

    /// Returns the numbers of a row that show the reason.
    pub(crate) fn evidence(self, row: &Row, verdict: &Verdict) -> String {
        let number = |column| row.value(column).unwrap_or(0.0);
        let protocol = row.protocol.map_or("nothing", |protocol| protocol.name());
        match self {
            Self::LateStart => format!("{:.0} ms", number(Column::BeforeData)),
            Self::LowMeasurement => format!("measured {:.0} Mb/s", number(Column::Measured)),
            Self::SentAgain => format!("{:.1} % sent again", number(Column::Resent)),
            Self::OtherProtocol | Self::SameProtocol => {
                format!("{protocol} chosen, {} is best", verdict.best.0.name())
            }
        }
    }
}

/// Part of the rate below which a measurement counts as low.
const LOW: f64 = 0.95;
