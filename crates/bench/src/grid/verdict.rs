//! Comparison of `auto` with the best choice that is allowed at a point.
//!
//! On a shared path, a choice is allowed if it is fair: the neighbor keeps half of its fair share, and Jain's index of
//! both flows is at least 0.8. The index is that of the shares, as in Jain's paper, and not of the rates. A flow of
//! CUBIC that random losses slow down leaves capacity that another flow may use.

use super::contests::{PAYLOAD, jain};
use super::point::{Choice, Point};
use super::table::{Column, Row};

/// Comparison at one point. Rates are in Mb/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) point: Point,
    pub(crate) auto: f64,
    /// Best fixed choice, and its goodput.
    pub(crate) best: (Choice, f64),
    /// Shares of `auto` and of its neighbor.
    pub(crate) shares: Option<Shares>,
}

/// Goodput of a transfer and of its neighbor, as parts of the fair share of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shares {
    own: f64,
    kept: f64,
}

/// Part of the best choice's goodput that `auto` must reach.
pub(crate) const GOAL: f64 = 0.95;
/// Part of the fair share that a neighbor must keep.
const KEPT_MIN: f64 = 0.5;
/// Minimum of Jain's index on a shared path.
const JAIN_MIN: f64 = 0.8;

impl Verdict {
    /// Compares the results of a row. Returns none if some are missing.
    ///
    /// On a shared path, only fair choices count. If none is fair, the fairest one counts.
    pub(crate) fn of(row: &Row) -> Option<Self> {
        let point = row.point;
        let goodput = |choice| row.value(Column::Goodput(choice));
        let auto = goodput(Choice::Auto)?;
        let fixed = point.condition.choices().into_iter().skip(1);
        let fixed: Option<Vec<_>> = fixed
            .map(|choice| Some((choice, goodput(choice)?)))
            .collect();
        let fixed = fixed?;
        let shares = |choice| Shares::of(row, choice);
        let fair = fixed
            .iter()
            .filter(|(choice, _)| shares(*choice).is_none_or(Shares::is_fair));
        let best = fair.max_by(|one, other| one.1.total_cmp(&other.1));
        let index = |choice| shares(choice).map_or(1.0, Shares::jain);
        let fairest = || {
            fixed
                .iter()
                .max_by(|one, other| index(one.0).total_cmp(&index(other.0)))
        };
        Some(Self {
            point,
            auto,
            best: *best.or_else(fairest)?,
            shares: shares(Choice::Auto),
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

    /// Returns true if `auto` is not fair to its neighbor.
    pub(crate) fn is_unfair(&self) -> bool {
        self.shares.is_some_and(|shares| !shares.is_fair())
    }

    /// Returns true if the neighbor kept too little.
    pub(crate) fn has_starved(&self) -> bool {
        self.shares.is_some_and(|shares| shares.kept < KEPT_MIN)
    }
}

impl Shares {
    /// Returns the shares beside a choice; none on a path without a neighbor.
    ///
    /// The fair share of a neighbor is what it gets beside a flow like itself. That of the transfer is half of the path,
    /// and what a neighbor cannot use of the other half.
    fn of(row: &Row, choice: Choice) -> Option<Self> {
        let fair = row.value(Column::Equals)?;
        let beside = row.value(Column::Neighbor(choice))?;
        let capacity = row.point.rate.as_mbps_f64() * PAYLOAD;
        let own = (capacity - fair).max(capacity / 2.0);
        Some(Self {
            own: row.value(Column::Goodput(choice))? / own,
            kept: beside / fair.max(1e-9),
        })
    }

    fn jain(self) -> f64 {
        jain(self.own, self.kept)
    }

    fn is_fair(self) -> bool {
        self.kept >= KEPT_MIN && self.jain() >= JAIN_MIN
    }
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
        assert!(!verdict.is_unfair() && !verdict.has_starved());
    }

    #[test]
    fn choice_with_a_low_fairness_index_is_not_the_best() {
        // half of the fair share is left, but the index of 70 and 24 is 0.81, and that of 75 and 24 is 0.79
        let auto = (Choice::Auto, 70.0, 24.0);
        let [tcp, ptcp] = [(TCP, 70.0, 24.0), (PTCP, 75.0, 24.0)];
        let verdict = Verdict::of(&row([auto, tcp, ptcp, (SWIFT, 40.0, 50.0)])).unwrap();
        assert_eq!(verdict.best, (TCP, 70.0));
        assert!(!verdict.is_unfair());
        let greedy = (Choice::Auto, 75.0, 24.0);
        let verdict = Verdict::of(&row([greedy, tcp, ptcp, (SWIFT, 40.0, 50.0)])).unwrap();
        assert!(verdict.is_unfair() && !verdict.has_starved());
    }

    #[test]
    fn capacity_that_a_neighbor_cannot_use_is_no_unfair_share() {
        let mut row = row([
            (Choice::Auto, 80.0, 5.0),
            (TCP, 85.0, 5.0),
            (PTCP, 88.0, 2.0),
            (SWIFT, 80.0, 5.0),
        ]);
        // losses of the line slow CUBIC down, whatever it competes with
        row.set(Column::Equals, 6.0);
        let verdict = Verdict::of(&row).unwrap();
        assert_eq!(verdict.best, (TCP, 85.0));
        assert!(!verdict.is_unfair());
    }

    #[test]
    fn fairest_choice_is_used_if_no_choice_is_fair() {
        let results = [(TCP, 80.0, 10.0), (PTCP, 90.0, 5.0), (SWIFT, 85.0, 9.0)];
        let [tcp, ptcp, swift] = results;
        let verdict = Verdict::of(&row([(Choice::Auto, 88.0, 6.0), tcp, ptcp, swift])).unwrap();
        assert_eq!(verdict.best, (TCP, 80.0));
        assert!(verdict.is_reached() && verdict.is_unfair() && verdict.has_starved());
    }

    #[test]
    fn point_without_all_results_has_no_verdict() {
        let mut row = Row::new(row([(TCP, 1.0, 1.0); 4]).point);
        row.set(Column::Goodput(Choice::Auto), 1.0);
        assert_eq!(Verdict::of(&row), None);
    }
}
