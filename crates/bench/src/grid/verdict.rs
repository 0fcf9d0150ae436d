//! Comparison of `auto` with the best choice that is allowed at a point.

use super::point::{Choice, Point};
use super::table::{Column, Row};

/// Comparison at one point. Rates are in Mb/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) point: Point,
    pub(crate) auto: f64,
    /// Best fixed choice, and its goodput.
    pub(crate) best: (Choice, f64),
    /// Part of the fair share that the neighbor kept beside `auto`.
    pub(crate) kept: Option<f64>,
}

/// Part of the best choice's goodput that `auto` must reach.
pub(crate) const GOAL: f64 = 0.95;
/// Part of the fair share that a neighbor must keep.
pub(crate) const KEPT_MIN: f64 = 0.5;

impl Verdict {
    /// Compares the results of a row. Returns none if some are missing.
    ///
    /// On a shared path, a choice counts only if it left the neighbor half of its fair share, unless
    /// none did.
    pub(crate) fn of(row: &Row) -> Option<Self> {
        let point = row.point;
        let goodput = |choice| row.value(Column::Goodput(choice));
        let auto = goodput(Choice::Auto)?;
        let fixed = point.condition.choices().into_iter().skip(1);
        let fixed: Option<Vec<_>> = fixed
            .map(|choice| Some((choice, goodput(choice)?)))
            .collect();
        let fixed = fixed?;
        let fair = fixed.iter().filter(|(choice, _)| {
            let kept = kept(row, *choice);
            kept.is_none_or(|kept| kept >= KEPT_MIN)
        });
        let best = |choices: &mut dyn Iterator<Item = &(Choice, f64)>| {
            choices
                .max_by(|one, other| one.1.total_cmp(&other.1))
                .copied()
        };
        let best = best(&mut fair.into_iter()).or_else(|| best(&mut fixed.iter()))?;
        Some(Self {
            point,
            auto,
            best,
            kept: kept(row, Choice::Auto),
        })
    }

    /// Returns the goodput of `auto` as a part of the best.
    pub(crate) fn ratio(&self) -> f64 {
        self.auto / self.best.1.max(1e-9)
    }

    /// Returns true if `auto` is as good as the goal asks.
    pub(crate) fn is_reached(&self) -> bool {
        self.ratio() >= GOAL
    }

    /// Returns true if the neighbor kept too little.
    pub(crate) fn is_unfair(&self) -> bool {
        self.kept.is_some_and(|kept| kept < KEPT_MIN)
    }
}

/// Returns the part of the fair share that a neighbor kept beside a choice. The fair share is what it gets beside a
/// flow like itself.
fn kept(row: &Row, choice: Choice) -> Option<f64> {
    let fair = row.value(Column::Equals)?;
    Some(row.value(Column::Neighbor(choice))? / fair.max(1e-9))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lighthaul_base::Rate;
    use lighthaul_session::protocol::Protocol;

    use super::super::point::Condition;
    use super::*;

    const TCP: Choice = Choice::Fixed(Protocol::Tcp);
    const PTCP: Choice = Choice::Fixed(Protocol::Ptcp);
    const SWIFT: Choice = Choice::Fixed(Protocol::SabulSwift);

    /// Row beside CUBIC: the goodput of each choice, and of the neighbor beside it.
    fn row(results: [(Choice, f64, f64); 4]) -> Row {
        let mut row = Row::new(Point {
            condition: Condition::Cubic,
            rate: Rate::from_mbps(100),
            rtt: Duration::from_millis(20),
            loss_ppb: 0,
            queue_milli: 1000,
        });
        row.set(Column::Equals, 48.0);
        for (choice, goodput, neighbor) in results {
            row.set(Column::Goodput(choice), goodput);
            row.set(Column::Neighbor(choice), neighbor);
        }
        row
    }

    #[test]
    fn choice_that_starves_the_neighbor_is_not_the_best() {
        let verdict = Verdict::of(&row([
            (Choice::Auto, 40.0, 50.0),
            (TCP, 60.0, 30.0),
            (PTCP, 90.0, 5.0),
            (SWIFT, 40.0, 50.0),
        ]))
        .unwrap();
        assert_eq!(verdict.best, (TCP, 60.0));
        assert!(!verdict.is_reached());
        assert!(!verdict.is_unfair());
    }

    #[test]
    fn best_choice_is_used_if_no_choice_is_fair() {
        let results = [(TCP, 80.0, 10.0), (PTCP, 90.0, 5.0), (SWIFT, 85.0, 9.0)];
        let [tcp, ptcp, swift] = results;
        let verdict = Verdict::of(&row([(Choice::Auto, 88.0, 6.0), tcp, ptcp, swift])).unwrap();
        assert_eq!(verdict.best, (PTCP, 90.0));
        assert!(verdict.is_reached() && verdict.is_unfair());
    }

    #[test]
    fn point_without_all_results_has_no_verdict() {
        let mut row = Row::new(row([(TCP, 1.0, 1.0); 4]).point);
        row.set(Column::Goodput(Choice::Auto), 1.0);
        assert_eq!(Verdict::of(&row), None);
    }
}
