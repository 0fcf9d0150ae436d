//! The paper's model against the simulation, over the paper's settings: they agree within 5 %.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_proto::rbudp::model::{self, Path};
use lighthaul_proto::rbudp::{Config, Framing, Receiver, Sender};
use lighthaul_sim::Simulation;

use crate::path::gigabit;

const PACKET_LEN: u32 = 1464;
const OVERHEAD_LEN: u32 = 28;

/// Returns the seconds until the sender has the final tally, over 1 Gb/s and 110 ms, as a mean of `seeds` runs.
fn simulate(total: u64, mbps: u64, loss_ppb: u64, seeds: u64) -> f64 {
    let wire = u64::from(PACKET_LEN + OVERHEAD_LEN + 8);
    let rate = Rate::from_bps(mbps * 1_000_000 * wire / u64::from(PACKET_LEN));
    let config = Config {
        framing: Framing {
            object_len: total,
            packet_len: PACKET_LEN,
            overhead_len: OVERHEAD_LEN,
        },
        rate: rate.expect("not zero"),
        burst: None,
        stream: 0,
        settle: Duration::from_millis(1),
        repeat: Duration::ZERO,
        feedback: None,
    };
    let mut world = gigabit(Duration::from_millis(55));
    world.there.loss_ppb = loss_ppb;
    world.stream_rate = world.there.rate;
    let run = |seed| {
        let sender = Sender::new(Instant::ZERO, config, seed);
        let receiver = Receiver::new(Instant::ZERO, config, seed);
        let mut world = Simulation::new(sender, receiver, &world, seed);
        let end = world.run(Instant::from_nanos(u64::MAX / 2), |_, _| ());
        assert_eq!(world.left().missing(), 0);
        end.as_secs_f64()
    };
    (0..seeds).map(run).sum::<f64>() / seeds as f64
}

fn path(mbps: u64, loss: f64) -> Path {
    Path {
        rate: mbps as f64 * 1e6,
        rtt: Duration::from_millis(110),
        packet_len: f64::from(PACKET_LEN),
        loss,
    }
}

fn assert_within(simulated: f64, predicted: f64, share: f64) {
    let off = (simulated / predicted - 1.0).abs();
    assert!(
        off < share,
        "simulated {simulated} s, predicted {predicted} s"
    );
}

#[test]
fn throughput_against_rate_follows_equation_4() {
    for mbps in [100, 300, 500, 700, 900] {
        let simulated = simulate(450_000_000, mbps, 0, 1);
        assert_within(simulated, model::time_total(450e6, &path(mbps, 0.0)), 0.01);
    }
}

#[test]
fn throughput_against_payload_follows_equation_4_without_loss() {
    for total in [1_000_000, 10_000_000, 100_000_000, 1_000_000_000] {
        let simulated = simulate(total, 611, 0, 1);
        assert_within(
            simulated,
            model::time_total(total as f64, &path(611, 0.0)),
            0.01,
        );
    }
}

#[test]
fn throughput_against_payload_follows_the_mean_number_of_blasts_at_12_percent() {
    let path = path(682, 0.12);
    for (total, seeds) in [
        (1_000_000, 300),
        (10_000_000, 40),
        (100_000_000, 4),
        (450_000_000, 1),
    ] {
        let simulated = simulate(total, 682, 120_000_000, seeds);
        assert_within(simulated, model::time_expected(total as f64, &path), 0.05);
    }
    // equation 6 rounds down, so it is off by up to one blast, which matters little for a large payload
    let simulated = simulate(1_000_000_000, 682, 120_000_000, 1);
    assert_within(simulated, model::time_total(1e9, &path), 0.05);
}
