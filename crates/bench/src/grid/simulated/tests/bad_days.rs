//! Transfers in bad conditions, simulated: the path, the memory or the receiver differs from the expected one.
//!
//! Each test says what the transfer must still carry. All of them check that the controller does
//! not oscillate: it changes the rate at most once in ten round trips, by its own count and by the
//! rates that it set. `tests/bad_days.rs` lists all bad days with their tests, here and elsewhere.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_session::protocol::Protocol;
use lighthaul_sim::{HostConfig, LinkConfig, Policer, Reorder};
use lighthaul_workload::tcp::Algorithm;

use crate::grid::contests::jain;
use crate::grid::point::{Choice, Condition, Point};
use crate::grid::simulated::agreement::TransferConfig;
use crate::grid::simulated::scheduled_changes::{Change, Changed};
use crate::grid::simulated::transfer::{Outcome, Simulation};

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

/// Returns both transfers: one that knows that the path is dedicated, and one that does not.
fn both() -> [Simulation; 2] {
    [Condition::Alone, Condition::Untold].map(usual)
}

/// Runs a simulation, and checks its goodput in Mb/s and its rate changes.
fn assert_carries(what: &str, simulation: &Simulation, least: f64) -> Outcome {
    let outcome = simulation.run();
    let protocol = outcome.protocol.map_or("none", |protocol| protocol.name());
    let goodput = outcome.goodput.as_mbps_f64();
    let (resent, changes) = (outcome.resent_percent, outcome.courses.len());
    println!(
        "{what}: {protocol} at {goodput:.1} Mb/s, at least {least:.1}; \
         {resent:.1} % sent again, {changes} rate changes"
    );
    assert!(goodput >= least, "{what}: {protocol} at {goodput:.1} Mb/s");
    assert_steady(what, &outcome, simulation.rtt);
    outcome
}

/// Checks that each rate change follows the last by ten round trips. The rates must agree. A
/// search rises in steps, and falls to what it found. So a second rise is another change.
fn assert_steady(what: &str, outcome: &Outcome, rtt: Duration) {
    for two in outcome.courses.windows(2) {
        let courses = &outcome.courses;
        assert!(two[1].since(two[0]) >= rtt * 10, "{what}: {courses:?}");
    }
    let rises = rises(&outcome.rates);
    for two in rises.windows(2) {
        let rates = &outcome.rates;
        assert!(two[1].since(two[0]) >= rtt * 10, "{what}: {rates:?}");
    }
}

/// Returns the times at which the rate rises by a tenth or more after a fall.
fn rises(rates: &[(Instant, Rate)]) -> Vec<Instant> {
    let mut begun = Vec::new();
    let mut falls = true;
    let mut turning = rates.first().map_or(Rate::UNLIMITED, |(_, rate)| *rate);
    for (at, rate) in rates {
        let is_turn = if falls {
            *rate > turning.scaled(11, 10)
        } else {
            *rate < turning.scaled(10, 11)
        };
        if is_turn {
            falls = !falls;
            begun.extend((!falls).then_some(*at));
        }
        let goes_on = (falls && *rate < turning) || (!falls && *rate > turning);
        if is_turn || goes_on {
            turning = *rate;
        }
    }
    begun
}

#[test]
fn rate_increases_after_decreases_are_found() {
    let rates = [100, 105, 150, 200, 190, 90, 95, 80, 100, 99, 120];
    let at = |nth: u32| Instant::ZERO + MS * nth;
    let rates: Vec<_> = (0..)
        .zip(rates)
        .map(|(nth, mbps)| (at(nth), Rate::from_mbps(mbps)))
        .collect();
    assert_eq!(rises(&rates), [at(2), at(8)]);
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
fn high_remembered_rate_falls_to_the_rate_of_the_path() {
    for simulation in both() {
        let least = of(&simulation, 180.0, 150.0);
        assert_carries("too high", &remembering(simulation, 2000), least);
    }
}

#[test]
fn low_remembered_rate_rises_to_the_rate_of_the_path() {
    for simulation in both() {
        let least = of(&simulation, 170.0, 160.0);
        assert_carries("too low", &remembering(simulation, 20), least);
    }
}

/// An object that begins after the rate was found takes as long at that rate as the first object at the remembered
/// rate.
#[test]
fn objects_grow_with_a_rate_that_was_found() {
    for simulation in both() {
        let low = remembering(simulation, 20);
        let outcome = assert_carries("objects", &low, 160.0);
        let expected = outcome.goodput.bytes_in(Duration::from_millis(400));
        let half = TIME / 2;
        let later = outcome
            .lens
            .iter()
            .filter(|(at, _)| *at >= Instant::ZERO + half);
        let least = later.map(|(_, len)| *len).min();
        assert!(
            least >= Some(expected),
            "{least:?} of {expected} bytes: {:?}",
            outcome.lens
        );
    }
}

/// Returns the bound `own` for a dedicated path, or `watching` for protocols that react to delay. Transfers use the
/// latter unless they know that the path is dedicated.
fn of(simulation: &Simulation, own: f64, watching: f64) -> f64 {
    let is_own = simulation
        .transfer
        .is_some_and(|transfer| transfer.dedicated);
    if is_own { own } else { watching }
}

/// A short copy over a far path must exceed half of the remembered rate.
#[test]
fn short_copy_rises_above_half_of_the_rate() {
    let rate = Rate::from_mbps(1000);
    let point = Point {
        condition: Condition::Untold,
        rate,
        rtt: MS * 100,
        loss_ppb: 0,
        queue_milli: 1000,
    };
    let simulation = Simulation::of(&point, Choice::Auto, MS * 1400, 1);
    let outcome = assert_carries("half", &remembering(simulation, 524), 700.0);
    assert_eq!(outcome.protocol, Some(Protocol::SabulSwift));
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
fn rate_follows_a_receiver_that_becomes_ten_times_slower() {
    for simulation in both() {
        let slow = Changed::Host(host(RATE.scaled(1, 10)));
        let simulation = Simulation {
            host: host(RATE),
            changes: vec![after(TIME / 2, slow)],
            ..simulation
        };
        // half of the time at 200 Mb/s, and half at 20
        let part = of(&simulation, 0.88, 0.8);
        assert_carries("slower", &simulation, part * 110.0);
    }
}

#[test]
fn rate_follows_a_receiver_that_becomes_ten_times_faster_within_two_seconds() {
    for simulation in both() {
        let simulation = Simulation {
            host: host(RATE.scaled(1, 10)),
            changes: vec![after(TIME / 2, Changed::Host(host(RATE)))],
            ..simulation
        };
        // 8 s at 20 Mb/s, and 4 at 200; the measured rate was that of the slow receiver
        let least = of(&simulation, 0.8 * 80.0, 0.6 * 80.0);
        assert_carries("faster", &simulation, least);
    }
}

/// Returns the rate in use at a fraction of the total time, as a multiple of the rate of the path.
fn rate_at(outcome: &Outcome, part: f64) -> f64 {
    rate_after(outcome, TIME.mul_f64(part))
}

/// Returns the rate in use at a time after the first rate, as a multiple of the rate of the path.
fn rate_after(outcome: &Outcome, time: Duration) -> f64 {
    let measured = outcome.rates.first().map_or(Instant::ZERO, |(at, _)| *at);
    let at = measured + time;
    let before = outcome.rates.iter().take_while(|(set, _)| *set <= at);
    let last = before.last().expect("a rate is set at the start");
    last.1.as_mbps_f64() / RATE.as_mbps_f64()
}

/// Returns a transfer to a host that changes to the second configuration in the middle third of the time.
fn changing_host(simulation: &Simulation, [usual, slow]: [HostConfig; 2]) -> Simulation {
    let third = simulation.time / 3;
    Simulation {
        host: usual,
        changes: vec![
            after(third, Changed::Host(slow)),
            after(third * 2, Changed::Host(usual)),
        ],
        ..simulation.clone()
    }
}

/// Mean goodput in Mb/s of a host that is ten times slower for a third of the time.
const TAKEN: f64 = 200.0 * (1.0 + 0.1 + 1.0) / 3.0;

#[test]
fn rate_follows_a_receiver_that_is_slow_for_some_time() {
    for simulation in both() {
        let hosts = [host(RATE.scaled(2, 1)), host(RATE.scaled(1, 10))];
        let simulation = changing_host(&simulation, hosts);
        let outcome = assert_carries("slow host", &simulation, of(&simulation, 0.72, 0.6) * TAKEN);
        let [slow, end] = [0.65, 0.99].map(|part| rate_at(&outcome, part));
        println!("rate {slow:.2} of the path while the host is slow, {end:.2} at the end");
        assert!(
            slow <= of(&simulation, 0.2, 2.0) && end >= 0.75,
            "{slow}, {end}"
        );
        // packets that a buffer drops before the host's report are sent again
        assert!(outcome.resent_percent < 9.0, "{}", outcome.resent_percent);
    }
}

/// Host with a disk that takes a rate.
fn disk(rate: Rate) -> HostConfig {
    HostConfig {
        disk: Some(rate),
        backlog_bytes_max: 16 << 20,
        ..HostConfig::default()
    }
}

/// The receiver pauses the sender, so the disk stays busy, and nothing is lost.
#[test]
fn disk_that_is_slow_for_some_time_costs_no_packets() {
    for simulation in both() {
        let hosts = [disk(RATE.scaled(2, 1)), disk(RATE.scaled(1, 10))];
        let simulation = changing_host(&simulation, hosts);
        let outcome = assert_carries("slow disk", &simulation, 0.85 * TAKEN);
        assert!(outcome.resent_percent < 2.0, "{}", outcome.resent_percent);
    }
}

/// One lane sends slightly faster than a disk that is slow for long. The rate and the lanes return with the speed of
/// the disk. Nothing is lost, and nothing that has arrived is sent again.
#[test]
fn rate_and_lanes_follow_a_disk_that_is_slow_for_long() {
    for simulation in both() {
        let time = TIME * 3;
        let simulation = Simulation {
            time,
            transfer: simulation.transfer.map(|transfer| TransferConfig {
                is_checked: true,
                ..transfer
            }),
            ..simulation
        };
        let hosts = [disk(RATE.scaled(2, 1)), disk(RATE.scaled(1, 10))];
        let simulation = changing_host(&simulation, hosts);
        let outcome = assert_carries("slow disk for long", &simulation, 0.9 * TAKEN);
        let [before, slow, end] =
            [0.3, 0.65, 0.8].map(|part| rate_after(&outcome, time.mul_f64(part)));
        println!("rate {before:.2} of the path, {slow:.2} while the disk is slow, then {end:.2}");
        assert!((0.1..=0.2).contains(&slow), "{slow}");
        assert!(end >= before * 0.9, "{end} after {before}");
        let lanes = |from: f64, till: f64| {
            let [from, till] = [from, till].map(|part| Instant::ZERO + time.mul_f64(part));
            let busy = outcome.busy.iter();
            let within = busy.filter(|(at, _)| (from..till).contains(at));
            within.map(|(_, lanes)| *lanes).max()
        };
        let busy = [(0.0, 0.3), (0.55, 0.66), (0.8, 1.0)].map(|(from, till)| lanes(from, till));
        assert_eq!(busy, [Some(2), Some(1), Some(2)], "{:?}", outcome.busy);
        assert!(
            outcome.duplicate_percent <= 0.0,
            "{}",
            outcome.duplicate_percent
        );
        assert!(outcome.resent_percent < 2.0, "{}", outcome.resent_percent);
    }
}

#[test]
fn transfer_continues_on_a_route_ten_times_longer() {
    for simulation in both() {
        let longer = LinkConfig {
            delay: MS * 190,
            ..simulation.link
        };
        let simulation = Simulation {
            changes: vec![after(TIME / 3, Changed::Link(longer))],
            ..simulation
        };
        // rules that watch the delay must not take the longer route for a queue
        let least = of(&simulation, 165.0, 160.0);
        assert_carries("longer", &simulation, least);
    }
}

#[test]
fn transfer_settles_at_the_rate_of_a_policer() {
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
            let outcome = assert_carries("policed", &simulation, 0.92 * 50.0);
            let (resent, most) = (outcome.resent_percent, of(&simulation, 16.0, 20.0));
            assert!(resent < most, "{resent} % sent again");
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

/// Returns a simulation that starts later beside its neighbor, in another phase of it.
fn in_phase(simulation: &Simulation, phase: u32) -> Simulation {
    Simulation {
        warm_up: simulation.warm_up + MS * 137 * phase,
        seed: u64::from(phase) + 1,
        ..simulation.clone()
    }
}

/// A flow that starts again each second competes with a transfer that uses the path in between. It keeps at least half
/// of what a flow like itself would leave it.
#[test]
fn neighbor_that_comes_and_goes_is_not_starved() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let pulsing = Simulation {
            neighbor: Some(algorithm),
            turn: Some(Duration::from_secs(1)),
            ..usual(Condition::Cubic)
        };
        for phase in 0..4 {
            let simulation = in_phase(&pulsing, phase);
            let outcome = assert_carries("beside a pulse", &simulation, 70.0);
            let beside = |outcome: &Outcome| outcome.neighbor.unwrap().as_mbps_f64();
            let fair = simulation.of_equals().run();
            let (kept, fair) = (beside(&outcome), beside(&fair));
            println!(
                "phase {phase}: {kept:.1} Mb/s of {algorithm:?}, {fair:.1} beside a flow like itself"
            );
            assert!(kept >= 0.5 * fair, "{algorithm:?}: {kept:.1} of {fair:.1}");
        }
    }
}

/// Goodput of a transfer and of a TCP flow beside it, as parts of the fair share.
fn shares(simulation: &Simulation) -> (f64, f64) {
    let outcome = simulation.run();
    let fair = RATE.as_mbps_f64() * 0.96 / 2.0;
    let beside = outcome.neighbor.unwrap().as_mbps_f64();
    (outcome.goodput.as_mbps_f64() / fair, beside / fair)
}

/// A remembered rate that is too low is searched for beside other flows, too. These keep what they
/// keep beside a transfer that has measured the path, or at least 0.8 of their fair share.
#[test]
fn search_for_a_rate_does_not_displace_other_flows() {
    for algorithm in [Algorithm::Cubic, Algorithm::Reno, Algorithm::Bbr] {
        let measured = Simulation {
            neighbor: Some(algorithm),
            ..usual(Condition::Cubic)
        };
        let (own, kept) = shares(&remembering(measured.clone(), 20));
        let (_, before) = shares(&measured);
        println!("{algorithm:?} keeps {kept:.2}, {before:.2} beside a measured rate; own {own:.2}");
        assert!(
            kept >= (0.9 * before).min(0.8),
            "{algorithm:?}: {kept:.2} of {before:.2}"
        );
    }
}

/// A route that becomes longer for both flows must not let the transfer displace the TCP flow, in whatever phase the
/// route changes. Both keep at least half of their fair share, and the fairness index is at least 0.8.
#[test]
fn longer_route_does_not_let_a_transfer_displace_other_flows() {
    // over 200 ms, BBR keeps the shorter round-trip time of before for ten seconds, and sends little
    for (algorithm, rtts) in [(Algorithm::Cubic, &[70, 200][..]), (Algorithm::Bbr, &[70])] {
        for rtt in rtts {
            let shared = Simulation {
                neighbor: Some(algorithm),
                time: TIME * 2,
                ..usual(Condition::Cubic)
            };
            let longer = LinkConfig {
                delay: MS * (*rtt - 10),
                ..shared.link
            };
            let changing = Simulation {
                changes: vec![after(TIME / 3, Changed::Link(longer))],
                ..shared
            };
            // over 200 ms, two flows of CUBIC do not fill the path again within the time
            let equals = changing.clone().of_equals().run();
            let both = equals.goodput.as_mbps_f64() + equals.neighbor.unwrap().as_mbps_f64();
            let fair = both / (RATE.as_mbps_f64() * 0.96);
            for phase in 0..6 {
                let (own, kept) = shares(&in_phase(&changing, phase));
                let fairness = jain(own, kept);
                let kept = kept / fair;
                println!(
                    "{rtt} ms, phase {phase}: TCP {algorithm:?} {kept:.2}, transfer {own:.2}, fairness {fairness:.2}"
                );
                assert!(own.min(kept) >= 0.5 && fairness >= 0.8, "{algorithm:?}");
            }
        }
    }
}
