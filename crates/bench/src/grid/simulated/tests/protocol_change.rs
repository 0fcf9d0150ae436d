//! Changes of the protocol in the middle of a transfer, simulated.
//!
//! On a near path, a transfer starts with TCP. If TCP begins to lose packets, and carries less than half of the measured
//! rate, another protocol sends the next objects. The place of each byte is checked: no byte may be placed twice.

use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_session::protocol::Protocol;
use lighthaul_sim::LinkConfig;
use lighthaul_workload::tcp::Algorithm;

use crate::grid::point::{Choice, Condition, Point};
use crate::grid::simulated::scheduled_changes::{Change, Changed};
use crate::grid::simulated::transfer::{Outcome, Simulation};

const RATE: Rate = Rate::from_mbps(200);
const RTT: Duration = Duration::from_millis(4);
const TIME: Duration = Duration::from_secs(14);
/// Loss at which CUBIC carries a fifth of the rate.
const LOSS_PPB: u64 = 10_000_000;

/// Returns a transfer over a path without loss. `losses` has the times at which the loss changes, and the new losses.
fn near(losses: &[(Duration, u64)], seed: u64) -> Simulation {
    let point = Point {
        condition: Condition::Untold,
        rate: RATE,
        rtt: RTT,
        loss_ppb: 0,
        // the trains of the measurement fit
        queue_milli: 8000,
    };
    let mut simulation = Simulation::of(&point, Choice::Auto, TIME, seed);
    if let Some(transfer) = &mut simulation.transfer {
        // near peers are not paced, so their TCP uses CUBIC
        transfer.algorithm = Algorithm::Cubic;
        transfer.is_checked = true;
    }
    let change = |(after, loss_ppb): &(Duration, u64)| Change {
        after: *after,
        what: Changed::Link(LinkConfig {
            loss_ppb: *loss_ppb,
            ..simulation.link
        }),
    };
    simulation.changes = losses.iter().map(change).collect();
    simulation
}

/// Runs a transfer. Checks that each object that was sent long ago is complete, and that packets arrive once. Changes of
/// the protocol and of the rate must be ten round trips apart.
fn run(losses: &[(Duration, u64)], seed: u64) -> Outcome {
    let outcome = near(losses, seed).run();
    let ledger = outcome.ledger.as_ref().expect("bytes are checked");
    println!(
        "seed {seed}: {:.1} Mb/s, changes {:?}, {:.3} % arrived twice, {:.1} % sent again",
        outcome.goodput.as_mbps_f64(),
        outcome.switches,
        outcome.duplicate_percent,
        outcome.resent_percent,
    );
    for (position, len) in &outcome.complete {
        let range = *position..position + len;
        assert!(
            ledger.has(range.clone()),
            "seed {seed}: {range:?} is incomplete"
        );
    }
    assert!(outcome.duplicate_percent < 0.1, "seed {seed}");
    let switches = outcome.switches.iter().map(|(at, _)| *at);
    let mut changes: Vec<Instant> = switches.chain(outcome.courses.iter().copied()).collect();
    changes.sort();
    for two in changes.windows(2) {
        assert!(two[1].since(two[0]) >= RTT * 10, "seed {seed}: {changes:?}");
    }
    outcome
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn tcp_that_begins_to_lose_packets_is_replaced_without_loss_of_data() {
    let outcome = run(&[(seconds(3), LOSS_PPB)], 1);
    assert_eq!(outcome.protocol, Some(Protocol::Tcp));
    let protocols: Vec<_> = outcome.switches.iter().map(|(_, to)| *to).collect();
    assert_eq!(protocols, [Protocol::SabulSwift]);
    assert!(outcome.complete.len() > 2, "{:?}", outcome.complete);
    // TCP for half of the time, without loss for three seconds; then the other protocol
    let goodput = outcome.goodput.as_mbps_f64();
    assert!(goodput >= 100.0, "{goodput}");
}

#[test]
fn protocol_is_not_changed_back_when_the_loss_ends() {
    let outcome = run(&[(seconds(2), LOSS_PPB), (seconds(8), 0)], 2);
    assert_eq!(outcome.switches.len(), 1, "{:?}", outcome.switches);
}

#[test]
fn transfer_without_loss_keeps_tcp() {
    let outcome = run(&[], 3);
    assert_eq!(outcome.switches, []);
    assert!(
        outcome.goodput.as_mbps_f64() >= 170.0,
        "{}",
        outcome.goodput
    );
}

#[test]
fn loss_that_comes_and_goes_changes_the_protocol_at_most_once() {
    for seed in 10..16 {
        let mut rng = Rng::new(seed);
        let mut losses = Vec::new();
        let mut at = Duration::ZERO;
        while at < TIME {
            at += Duration::from_millis(200 + rng.below(3000));
            let loss_ppb = rng.below(3) * LOSS_PPB / 2;
            losses.push((at, loss_ppb));
        }
        let outcome = run(&losses, seed);
        assert!(outcome.switches.len() <= 1, "seed {seed}");
    }
}
