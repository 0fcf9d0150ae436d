//! Bad days of a simulated transfer: a path, a memory or a receiver that is not what it was.
//!
//! Each test says what the transfer must still carry. All of them check that the controller does
//! not oscillate: it changes its rate at most once in ten round trips, besides taking a step back.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_sim::{HostConfig, LinkConfig, Policer, Reorder};
use lighthaul_workload::tcp::Algorithm;

use super::super::point::{Choice, Condition, Point};
use super::course::{Change, Changed};
use super::transfer::{Outcome, Simulation};

const MS: Duration = Duration::from_millis(1);
const TIME: Duration = Duration::from_secs(12);
const RATE: Rate = Rate::from_mbps(200);

/// Returns a transfer over 200 Mb/s and 20 ms, with a queue of one BDP.
fn usual(condition: Condition) -> Simulation {
    let point = Point {
        condition,
        rate: RATE,
        rtt: MS * 20,
        loss_ppb: 0,
        queue_milli: 1000,
    };
    Simulation::of(&point, Choice::Auto, TIME, 1)
}

/// Returns both transfers: one that was told that the path is dedicated, and one that was not.
fn both() -> [Simulation; 2] {
    [Condition::Alone, Condition::Untold].map(usual)
}

/// Runs a simulation, and checks its goodput in Mb/s and the changes of its rate.
fn assert_carries(what: &str, simulation: &Simulation, least: f64) -> Outcome {
    let outcome = simulation.run();
    let protocol = outcome.protocol.map_or("none", |protocol| protocol.name());
    let goodput = outcome.goodput.as_mbps_f64();
    println!("{what}: {protocol} at {goodput:.1} Mb/s, at least {least}");
    assert!(goodput >= least, "{what}: {protocol} at {goodput:.1} Mb/s");
    assert_steady(what, &outcome, simulation.rtt);
    outcome
}

/// Checks that the rate does not change more often than once in ten round trips. A reduction that
/// did not help is taken back at once, so each may count twice.
fn assert_steady(what: &str, outcome: &Outcome, rtt: Duration) {
    let begun = outcome.rates.first().map(|(at, _)| *at);
    let changes = outcome.rates.len().saturating_sub(1);
    let time = begun.map_or(Duration::ZERO, |begun| {
        (lighthaul_base::Instant::ZERO + TIME).since(begun)
    });
    let most = 1 + 2 * (time.as_nanos() / (rtt * 10).as_nanos()) as usize;
    assert!(
        changes <= most,
        "{what}: {changes} changes: {:?}",
        outcome.rates
    );
}

fn after(time: Duration, what: Changed) -> Change {
    Change { after: time, what }
}

fn remembering(simulation: Simulation, mbps: u64) -> Simulation {
    let transfer = simulation.transfer.map(|mut transfer| {
        transfer.known = Some((Rate::from_mbps(mbps), 0));
        transfer
    });
    Simulation {
        transfer,
        ..simulation
    }
}

#[test]
fn remembered_rate_that_is_too_high_falls_to_that_of_the_path() {
    for simulation in both() {
        assert_carries("too high", &remembering(simulation, 2000), 150.0);
    }
}

#[test]
fn remembered_rate_that_is_too_low_is_used_in_full() {
    // a remembered rate bounds a transfer, so a copy relies on it for ten seconds at most
    for simulation in both() {
        assert_carries("too low", &remembering(simulation, 20), 0.9 * 20.0);
    }
}

/// Reports whether the transfer uses the rules that watch the delay, since it was not told that the
/// path is its own.
fn watches_delay(simulation: &Simulation) -> bool {
    simulation
        .transfer
        .is_some_and(|transfer| !transfer.dedicated)
}

/// Host that receives at a rate.
fn host(rate: Rate) -> HostConfig {
    HostConfig {
        absorb: Some(rate),
        socket_bytes_max: 4 << 20,
        ..HostConfig::default()
    }
}

#[test]
fn receiver_that_becomes_ten_times_slower_gets_what_it_takes() {
    for simulation in both() {
        let slow = Changed::Host(host(RATE.scaled(1, 10)));
        let simulation = Simulation {
            host: host(RATE),
            changes: vec![after(TIME / 2, slow)],
            ..simulation
        };
        // half of the time at 200 Mb/s, and half at 20
        assert_carries("slower", &simulation, 0.8 * 110.0);
    }
}

#[test]
fn receiver_that_becomes_ten_times_faster_is_served_as_before() {
    for simulation in both() {
        let simulation = Simulation {
            host: host(RATE.scaled(1, 10)),
            changes: vec![after(TIME / 2, Changed::Host(host(RATE)))],
            ..simulation
        };
        // the rate does not rise above the measured one, which was that of the slow receiver
        assert_carries("faster", &simulation, 0.9 * 20.0);
    }
}

#[test]
fn route_that_becomes_ten_times_longer_is_used_on() {
    for simulation in both() {
        let longer = LinkConfig {
            delay: MS * 190,
            ..simulation.link
        };
        let simulation = Simulation {
            changes: vec![after(TIME / 3, Changed::Link(longer))],
            ..simulation
        };
        // rules that watch the delay take the longer way for a queue, until they forget the shorter one
        let least = if watches_delay(&simulation) {
            70.0
        } else {
            150.0
        };
        assert_carries("longer", &simulation, least);
    }
}

#[test]
fn policer_is_met_at_its_rate() {
    for simulation in both() {
        for burst_bytes in [64_000, 1_000_000] {
            let policer = Policer {
                rate: RATE.scaled(1, 4),
                burst_bytes,
            };
            let link = LinkConfig {
                policer: Some(policer),
                ..simulation.link
            };
            let simulation = Simulation {
                link,
                ..simulation.clone()
            };
            let outcome = assert_carries("policed", &simulation, 0.6 * 50.0);
            let resent = outcome.resent_percent;
            assert!(resent < 35.0, "{resent} % sent again");
        }
    }
}

#[test]
fn reordering_of_a_twentieth_does_not_slow_a_transfer() {
    for simulation in both() {
        let reorder = Reorder {
            ppb: 50_000_000,
            extra: MS * 3,
        };
        let link = LinkConfig {
            reorder: Some(reorder),
            ..simulation.link
        };
        let simulation = Simulation { link, ..simulation };
        assert_carries("reordered", &simulation, 0.8 * 192.0);
    }
}

/// A flow that starts again each second meets a transfer that has the whole path by then. It keeps
/// at least a quarter of what a flow like itself would leave it.
#[test]
fn neighbor_that_comes_and_goes_is_not_starved() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let simulation = Simulation {
            neighbor: Some(algorithm),
            turn: Some(Duration::from_secs(1)),
            ..usual(Condition::Cubic)
        };
        let outcome = assert_carries("beside a pulse", &simulation, 70.0);
        let beside = |outcome: &Outcome| outcome.neighbor.unwrap().as_mbps_f64();
        let fair = simulation.of_equals().run();
        let (kept, fair) = (beside(&outcome), beside(&fair));
        println!("neighbor: {kept:.1} Mb/s, {fair:.1} beside a flow like itself");
        assert!(kept >= 0.25 * fair, "{algorithm:?}: {kept:.1} of {fair:.1}");
    }
}
