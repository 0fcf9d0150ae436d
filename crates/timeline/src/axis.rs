//! Time axis of a chart, from left to right.
//!
//! An [`Axis`] divides an interval into columns, for charts in a terminal, and converts times to
//! positions from 0 to 1 for pictures. Columns cover the interval without gaps. Ticks are at round
//! times in the zone of the reader. One offset from UTC holds for the whole axis, even if it
//! changes within, so ticks are equally far apart. Charts such as `blocks` draw the axis.

use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::zone::{Zone, offset, written};

/// Interval of time, divided into columns.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    from: u64,
    till: u64,
    columns: usize,
    zone: Zone,
    /// Offset of the zone from UTC at the start, in seconds. The whole axis has that offset.
    ahead: i32,
}

impl Axis {
    /// Returns the axis between two times, with at least one column, labeled in the time of `zone`.
    pub fn new((from, till): (Timestamp, Timestamp), columns: usize, zone: Zone) -> Self {
        Self {
            from: from.0,
            till: till.0.max(from.0.saturating_add(1)),
            columns: columns.max(1),
            zone,
            ahead: zone.ahead(from),
        }
    }

    /// Returns the zone of times beside the axis.
    pub const fn zone(&self) -> Zone {
        self.zone
    }

    /// Returns the name of the time zone of the ticks, as in `UTC` or `UTC+02:00`.
    pub fn zone_name(&self) -> String {
        match self.ahead {
            0 => "UTC".to_owned(),
            ahead => format!("UTC{}", offset(ahead)),
        }
    }

    /// Returns the number of columns.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the start of the axis.
    pub const fn from(&self) -> Timestamp {
        Timestamp(self.from)
    }

    /// Returns the end of the axis.
    pub const fn till(&self) -> Timestamp {
        Timestamp(self.till)
    }

    /// Returns the start of a column. For the column after the last one, this is the end of the axis.
    pub fn begins(&self, column: usize) -> Timestamp {
        let part = u128::from(self.till - self.from) * column as u128 / self.columns as u128;
        Timestamp(self.from + u64::try_from(part).unwrap_or(0))
    }

    /// Returns the column of a time, or the last column for later times.
    pub fn column(&self, at: Timestamp) -> usize {
        let since = at.0.clamp(self.from, self.till) - self.from;
        let column = u128::from(since) * self.columns as u128 / u128::from(self.till - self.from);
        usize::try_from(column).unwrap_or(0).min(self.columns - 1)
    }

    /// Returns the position of a time, from 0 to 1.
    pub fn part(&self, at: Timestamp) -> f64 {
        let since = at.0.clamp(self.from, self.till) - self.from;
        since as f64 / (self.till - self.from) as f64
    }

    /// Returns ticks at round times, at most `most`, with their labels.
    pub fn ticks(&self, most: usize) -> Vec<(Timestamp, String)> {
        let span = (self.till - self.from) / SECOND;
        let fits = |step: &&u64| span / **step < most as u64;
        let step = STEPS
            .iter()
            .find(fits)
            .copied()
            .unwrap_or_else(|| span.max(1));
        let form = match step {
            86_400.. => "%m-%d",
            60.. => "%H:%M",
            _ => "%H:%M:%S",
        };
        let step = step.saturating_mul(SECOND);
        // round in the time of the labels
        let ahead = i64::from(self.ahead) * SECOND.cast_signed();
        let first = self.from.saturating_add_signed(ahead);
        let first = first.next_multiple_of(step).saturating_add_signed(-ahead);
        let ticks = (0..most as u64).map(|nth| first.saturating_add(nth.saturating_mul(step)));
        let ticks = ticks.take_while(|at| *at < self.till);
        let label = |at| (Timestamp(at), written(Timestamp(at), self.ahead, form));
        ticks.map(label).collect()
    }
}

const SECOND: u64 = 1_000_000_000;
/// Possible distances of ticks, in seconds.
const STEPS: [u64; 19] = [
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    604_800,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(from: &str, till: &str, zone: Zone) -> Axis {
        let at = |text: &str| text.parse().unwrap();
        Axis::new((at(from), at(till)), 60, zone)
    }

    fn names(axis: &Axis, most: usize) -> Vec<String> {
        axis.ticks(most).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let day = axis("2031-05-01T05:50:07Z", "2031-05-01T11:50:07Z", Zone::UTC);
        assert_eq!(names(&day, 6), ["06:00", "08:00", "10:00"]);
        assert_eq!(day.zone_name(), "UTC");
        let short = axis("2031-05-01T05:50:07Z", "2031-05-01T05:50:19.5Z", Zone::UTC);
        assert_eq!(names(&short, 4)[0], "05:50:10");
        let long = axis("2031-05-01T05:50:07Z", "2031-05-06T00:00:00Z", Zone::UTC);
        assert_eq!(names(&long, 8)[0], "05-02");
    }

    #[test]
    fn ticks_are_round_in_the_time_of_the_zone() {
        let kolkata = Zone::new(|_| 19_800);
        let day = axis("2031-05-01T05:50:07Z", "2031-05-01T11:50:07Z", kolkata);
        assert_eq!(names(&day, 6), ["12:00", "14:00", "16:00"]);
        assert_eq!(day.zone_name(), "UTC+05:30");
        let far = Zone::new(|_| -36_000);
        let days = axis("2031-05-01T05:50:07Z", "2031-05-04T05:50:07Z", far);
        let (first, name) = &days.ticks(8)[0];
        assert_eq!(
            (first.to_string().as_str(), name.as_str()),
            ("2031-05-01T10:00:00Z", "00:00")
        );
        assert_eq!(days.zone_name(), "UTC-10:00");
    }

    #[test]
    fn columns_cover_the_axis_without_gaps() {
        let axis = Axis::new((Timestamp(7), Timestamp(1007)), 3, Zone::UTC);
        assert_eq!(
            [0, 1, 2, 3].map(|column| axis.begins(column).0),
            [7, 340, 673, 1007]
        );
        assert!((axis.part(Timestamp(507)) - 0.5).abs() < 1e-9);
        assert_eq!(
            [0, 7, 339, 340, 9000].map(|at| axis.column(Timestamp(at))),
            [0, 0, 0, 0, 2]
        );
    }
}
