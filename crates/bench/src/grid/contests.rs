//! The command `bench --contests`: the shares of `auto` and of TCP on shared paths, simulated.
//!
//! A change of the rate control helps one contest and may hurt another. So each change is judged by all of them, before
//! and after it. Each contest has several phases, which differ in the time at which the transfer begins.

use std::fmt;
use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_session::protocol::Protocol;
use lighthaul_sim::LinkConfig;

use super::super::args::GridArgs;
use super::point::{Choice, Condition, Point};
use super::simulated::{Change, Changed, Simulation};

/// Contest: a path, the flows on it, and what happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    event: Event,
    point: Point,
}

/// Special event of a contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Nothing special happens.
    Steady,
    /// The transfer remembers the path's rate.
    Remembered,
    /// The transfer remembers a tenth of the path's rate.
    RememberedTenth,
    /// The TCP flow sends and rests for a second each.
    Pulsing,
    /// The round-trip time of the path becomes this long after a third of the time.
    Longer(Duration),
}

/// Results of one phase. Rates are in Mb/s.
#[derive(Clone, Copy, Debug)]
struct Shares {
    own: f64,
    /// Goodput of the TCP flow, unless the transfer is alone.
    beside: Option<f64>,
}

/// Results of one contest.
#[derive(Clone, Debug)]
struct Scores {
    /// Own goodput in each phase, as a part of the fair share, or of the path's rate if the transfer is alone.
    own: Vec<f64>,
    /// Goodput of the TCP flow in each phase, as a part of what it gets beside a flow like itself.
    kept: Vec<f64>,
    /// Jain's fairness index in each phase, of the two goodputs.
    jain: Vec<f64>,
}

/// Runs all contests, and prints their shares.
pub(crate) fn run(args: &GridArgs, quick: bool) -> io::Result<()> {
    let contests: Vec<Contest> = contests()
        .into_iter()
        .filter(|contest| !quick || contest.point.rate < Rate::from_mbps(1000))
        .collect();
    let scores: Mutex<Vec<Option<Scores>>> = Mutex::new(vec![None; contests.len()]);
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let nth = next.fetch_add(1, Relaxed);
            let Some(contest) = contests.get(nth) else {
                return;
            };
            let found = contest.scores(args.phases);
            scores.lock().unwrap_or_else(PoisonError::into_inner)[nth] = Some(found);
        }
    };
    thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(work);
        }
    });
    let scores = scores.into_inner().unwrap_or_else(PoisonError::into_inner);
    let scores: Vec<Scores> = scores.into_iter().flatten().collect();
    write(&mut io::stdout().lock(), &contests, &scores)
}

/// Writes a line for each contest, and a summary.
fn write(out: &mut impl io::Write, contests: &[Contest], scores: &[Scores]) -> io::Result<()> {
    writeln!(
        out,
        "contest: own share, kept share, Jain's index; the lowest and the mean of all phases"
    )?;
    for (contest, scores) in contests.iter().zip(scores) {
        writeln!(out, "{contest}: {scores}")?;
    }
    let shared = || scores.iter().filter(|scores| !scores.kept.is_empty());
    let all = |values: fn(&Scores) -> &Vec<f64>| -> Vec<f64> {
        shared().flat_map(|scores| values(scores).clone()).collect()
    };
    let [own, kept, jain] = [
        all(|scores| &scores.own),
        all(|scores| &scores.kept),
        all(|scores| &scores.jain),
    ];
    let below = |values: &[f64], bound: f64| values.iter().filter(|value| **value < bound).count();
    let alone = scores.iter().filter(|scores| scores.kept.is_empty());
    let alone: Vec<f64> = alone.flat_map(|scores| scores.own.clone()).collect();
    writeln!(
        out,
        "{} phases beside TCP: TCP kept less than half in {}, own share less than half in {}, Jain's index {:.3}, \
         below 0.8 in {} of {}; alone {:.3} of the path's rate",
        kept.len(),
        below(&kept, 0.5),
        below(&own, 0.5),
        mean(&jain),
        below(&jain, 0.8),
        jain.len(),
        mean(&alone),
    )
}

/// Returns all contests.
fn contests() -> Vec<Contest> {
    let mut all = Vec::new();
    let beside = [Condition::Cubic, Condition::Bbr];
    let mut add = |event, condition, mbps, millis, queue_milli| {
        let point = Point {
            condition,
            rate: Rate::from_mbps(mbps),
            rtt: Duration::from_millis(millis),
            loss_ppb: 0,
            queue_milli,
        };
        let is_same = |other: &Contest| {
            let [queue, others] = [&point, &other.point].map(Point::queue_bytes);
            let same = (
                other.event,
                other.point.condition,
                other.point.rate,
                other.point.rtt,
            );
            queue == others && same == (event, condition, point.rate, point.rtt)
        };
        if !all.iter().any(is_same) {
            all.push(Contest { event, point });
        }
    };
    for condition in [Condition::Cubic, Condition::Bbr, Condition::Untold] {
        for mbps in [20, 200, 1000] {
            for millis in [1, 20, 70, 100, 300] {
                for queue_milli in [50, 250, 1000] {
                    add(Event::Steady, condition, mbps, millis, queue_milli);
                }
            }
        }
    }
    for condition in beside {
        for millis in [20, 70, 100] {
            for queue_milli in [250, 1000] {
                add(Event::Remembered, condition, 200, millis, queue_milli);
                add(Event::RememberedTenth, condition, 200, millis, queue_milli);
                add(Event::Pulsing, condition, 200, millis, queue_milli);
            }
        }
        for longer in [40, 80, 200] {
            let event = Event::Longer(Duration::from_millis(longer));
            for mbps in [50, 200] {
                add(event, condition, mbps, 20, 1000);
            }
        }
    }
    all
}

impl Contest {
    /// Simulates all phases. The fair share is what a flow of TCP gets beside a flow like itself.
    fn scores(&self, phases: u32) -> Scores {
        let results: Vec<Shares> = (0..phases).map(|phase| self.shares(phase, false)).collect();
        let capacity = self.point.rate.as_mbps_f64() * PAYLOAD;
        let is_shared = self.point.condition.is_shared();
        let whole = if is_shared { capacity / 2.0 } else { capacity };
        let own = results.iter().map(|shares| shares.own / whole).collect();
        if !is_shared {
            let (kept, jain) = (Vec::new(), Vec::new());
            return Scores { own, kept, jain };
        }
        let equals: Vec<Shares> = (0..phases.min(EQUALS))
            .map(|phase| self.shares(phase, true))
            .collect();
        let fair = |shares: &Shares| match (self.event, shares.beside) {
            (Event::Pulsing, Some(beside)) => beside,
            (_, beside) => f64::midpoint(shares.own, beside.unwrap_or_default()),
        };
        let fair = mean(&equals.iter().map(fair).collect::<Vec<_>>());
        let beside = |shares: &Shares| shares.beside.unwrap_or_default();
        let kept = results.iter().map(|shares| beside(shares) / fair).collect();
        let jain = |shares: &Shares| jain(shares.own, beside(shares));
        let jain = if self.event == Event::Pulsing {
            Vec::new()
        } else {
            results.iter().map(jain).collect()
        };
        Scores { own, kept, jain }
    }

    /// Simulates one phase of the transfer, or of a TCP flow instead of it.
    fn shares(&self, phase: u32, is_equal: bool) -> Shares {
        let simulation = self.simulation(phase);
        let simulation = if is_equal {
            simulation.of_equals()
        } else {
            simulation
        };
        let outcome = simulation.run();
        Shares {
            own: outcome.goodput.as_mbps_f64(),
            beside: outcome.neighbor.map(Rate::as_mbps_f64),
        }
    }

    fn simulation(&self, phase: u32) -> Simulation {
        let point = &self.point;
        // a path of 1 ms has TCP by default, whose contests are those of TCP
        let choice = if point.rtt < NEAR {
            Choice::Fixed(Protocol::SabulSwift)
        } else {
            Choice::Auto
        };
        let time = TIME + point.rtt * TIME_TRIPS;
        let mut simulation = Simulation::of(point, choice, time, u64::from(phase) + 1);
        simulation.warm_up += PHASE * phase;
        let mut remember = |rate| {
            if let Some(transfer) = &mut simulation.transfer {
                transfer.known = Some((rate, 0));
            }
        };
        match self.event {
            Event::Steady => {}
            Event::Remembered => remember(point.rate),
            Event::RememberedTenth => remember(point.rate.scaled(1, 10)),
            Event::Pulsing => simulation.turn = Some(TURN),
            Event::Longer(rtt) => {
                simulation.time = time * 2;
                let link = LinkConfig {
                    delay: rtt.saturating_sub(point.rtt / 2),
                    ..simulation.link
                };
                simulation.changes.push(Change {
                    after: time * 2 / 3,
                    what: Changed::Link(link),
                });
            }
        }
        simulation
    }
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Event::Steady => write!(f, "steady"),
            Event::Remembered => write!(f, "remembered"),
            Event::RememberedTenth => write!(f, "remembered-tenth"),
            Event::Pulsing => write!(f, "pulsing"),
            Event::Longer(rtt) => write!(f, "longer-{}", rtt.as_millis()),
        }?;
        let Point {
            condition,
            rate,
            rtt,
            ..
        } = self.point;
        let (mbps, millis) = (rate.as_mbps_f64(), rtt.as_millis());
        write!(
            f,
            " {} {mbps} Mb/s {millis} ms {} BDP",
            condition.name(),
            self.point.queue()
        )
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, values) in [
            ("own", &self.own),
            ("kept", &self.kept),
            ("jain", &self.jain),
        ] {
            if !values.is_empty() {
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                write!(f, " {name} {least:.2} {:.2}", mean(values))?;
            }
        }
        Ok(())
    }
}

/// Returns Jain's fairness index of two rates: one if they are equal, a half if one of them is zero.
pub(crate) fn jain(one: f64, other: f64) -> f64 {
    (one + other).powi(2) / 2.0 / one.mul_add(one, other * other).max(1e-9)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Part of the link's rate that is payload.
pub(crate) const PAYLOAD: f64 = 0.96;
/// Duration of a contest, without [`TIME_TRIPS`].
const TIME: Duration = Duration::from_secs(10);
/// Duration of a contest in round trips, in addition to [`TIME`].
const TIME_TRIPS: u32 = 40;
/// Difference of the start between two phases.
const PHASE: Duration = Duration::from_millis(137);
/// Time for which a TCP flow sends, and rests.
const TURN: Duration = Duration::from_secs(1);
/// Round-trip time below which `auto` uses TCP.
const NEAR: Duration = Duration::from_millis(5);
/// Number of phases in which the fair share is measured.
const EQUALS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_index_is_one_for_equal_rates_and_half_for_a_starved_flow() {
        for (one, other, expected) in [(3.0, 3.0, 1.0), (3.0, 0.0, 0.5), (3.0, 1.0, 0.8)] {
            assert!((jain(one, other) - expected).abs() < 1e-9);
            assert!((jain(other, one) - expected).abs() < 1e-9);
        }
    }

    /// Returns the contests of a kind at 200 Mb/s and 70 ms with queues that a flow notices.
    fn contests_of(event: Event) -> Vec<Contest> {
        let all = contests().into_iter();
        let is_usual = |point: &Point| {
            let rtt = point.rtt.as_millis();
            (point.rate.as_mbps_f64(), rtt) == (200.0, 70) && point.queue_milli >= 250
        };
        all.filter(|contest| contest.event == event && is_usual(&contest.point))
            .filter(|contest| contest.point.condition.is_shared())
            .collect()
    }

    #[test]
    fn flows_of_tcp_keep_half_of_their_fair_share_and_a_new_transfer_gets_it() {
        for event in [Event::Steady, Event::Pulsing] {
            for contest in contests_of(event) {
                let scores = contest.scores(3);
                println!("{contest}, phases 0 to 2: {scores}");
                assert!(scores.kept.iter().all(|kept| *kept >= 0.5), "{contest}");
                assert!(scores.own.iter().all(|own| *own >= 0.4), "{contest}");
                assert!(scores.jain.iter().all(|jain| *jain >= 0.77), "{contest}");
            }
        }
    }
}
