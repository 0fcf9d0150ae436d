//! Time axis of a chart, from left to right.

use lighthaul_booking_client::json::Timestamp;

use crate::label::written;

/// Interval of time, divided into columns.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    from: u64,
    till: u64,
    columns: usize,
}

impl Axis {
    /// Returns the axis between two times, with at least one column.
    pub fn new(from: Timestamp, till: Timestamp, columns: usize) -> Self {
        Self {
            from: from.0,
            till: till.0.max(from.0.saturating_add(1)),
            columns: columns.max(1),
        }
    }

    /// Returns the number of columns.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Returns its start.
    pub const fn from(&self) -> Timestamp {
        Timestamp(self.from)
    }

    /// Returns its end.
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
        let first = self.from.next_multiple_of(step);
        let ticks = (0..most as u64).map(|nth| first.saturating_add(nth.saturating_mul(step)));
        let ticks = ticks.take_while(|at| *at < self.till);
        ticks
            .map(|at| (Timestamp(at), written(Timestamp(at), form)))
            .collect()
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

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn ticks_are_round_and_few() {
        let axis = Axis::new(at("2031-05-01T05:50:07Z"), at("2031-05-01T11:50:07Z"), 60);
        let names: Vec<String> = axis.ticks(6).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["06:00", "08:00", "10:00"]);
        let short = Axis::new(at("2031-05-01T05:50:07Z"), at("2031-05-01T05:50:19.5Z"), 60);
        assert_eq!(short.ticks(4)[0].1, "05:50:10");
        let long = Axis::new(at("2031-05-01T05:50:07Z"), at("2031-05-06T00:00:00Z"), 60);
        assert_eq!(long.ticks(8)[0].1, "05-02");
    }

    #[test]
    fn columns_cover_the_axis_without_gaps() {
        let axis = Axis::new(Timestamp(7), Timestamp(1007), 3);
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
