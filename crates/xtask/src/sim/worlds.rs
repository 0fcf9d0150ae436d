//! Random scene from a seed.

use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng};
use lighthaul_sim::{BurstLoss, HostConfig, LinkConfig, PathConfig, Reorder};

/// Transfer, with its simulated network and hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    /// Size of the object, in bytes.
    pub(super) object_len: u64,
    /// Bytes of the object in a packet.
    pub(super) packet_len: u32,
    /// Limit of the sender's rate.
    pub(super) rate: Rate,
    /// Network between the machines.
    pub(super) world: PathConfig,
    /// Probability that the receiving host stalls at a check, in parts per thousand.
    pub(super) stalls: u64,
    /// Time at which both hosts crash, if any. New machines then transfer the missing bytes.
    pub(super) crash_at: Option<Instant>,
    /// Seed of random events during the transfer.
    pub(super) seed: u64,
}

impl Scene {
    /// Creates the scene of a seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rate = log_uniform(&mut rng, 1_000_000, 2_000_000_000);
        let line = log_uniform(&mut rng, 1_000_000, 2_000_000_000);
        // Above this rate, RBUDP's rounds end too early, and its owner would divert it to the stream.
        let rate = Rate::from_bps(rate.min(line * 100));
        let rtt = Duration::from_micros(log_uniform(&mut rng, 10, 300_000));
        let packet_len = log_uniform(&mut rng, 100, 8900) as u32;
        let there = LinkConfig {
            rate: Rate::from_bps(line),
            delay: rtt / 2,
            queue_bytes_max: log_uniform(&mut rng, 20_000, 4_000_000),
            loss_ppb: sometimes(&mut rng, 300_000_000),
            burst: (rng.below(4) == 0).then(|| BurstLoss {
                enter_ppb: rng.below(10_000_000),
                len_mean: 1 + rng.below(60) as u32,
            }),
            reorder: (rng.below(3) == 0).then(|| Reorder {
                ppb: rng.below(200_000_000),
                extra: Duration::from_micros(log_uniform(&mut rng, 1, 50_000)),
            }),
            duplicate_ppb: sometimes(&mut rng, 100_000_000),
            policer: None,
        };
        let host = HostConfig {
            absorb: (rng.below(4) == 0)
                .then(|| Rate::from_bps(log_uniform(&mut rng, 1_000_000, 2_000_000_000)))
                .flatten(),
            socket_bytes_max: log_uniform(&mut rng, 20_000, 4_000_000),
            competitors: rng.below(3) as u32,
            ..HostConfig::default()
        };
        // Long enough for feedback to act, short enough for many simulations.
        let packets = rng.below(20_000);
        Self {
            object_len: packets * u64::from(packet_len) + rng.below(u64::from(packet_len)),
            packet_len,
            rate: rate.unwrap_or(Rate::UNLIMITED),
            world: PathConfig {
                there,
                stream_delay: rtt / 2,
                overhead_len: 28,
                host,
                ..PathConfig::default()
            },
            stalls: if rng.below(3) == 0 { rng.below(100) } else { 0 },
            crash_at: (rng.below(3) == 0)
                .then(|| Instant::from_nanos(log_uniform(&mut rng, 1_000_000, 100_000_000_000))),
            seed: rng.next_u64(),
        }
    }
}

/// Draws a number whose logarithm is uniformly distributed.
pub(super) fn log_uniform(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let share = rng.below(1 << 32) as f64 / 2_f64.powi(32);
    let ratio = most as f64 / least as f64;
    ((least as f64 * ratio.powf(share)) as i64)
        .unsigned_abs()
        .clamp(least, most)
}

/// Returns a number below `most` in one of three cases, else zero.
fn sometimes(rng: &mut Rng, most: u64) -> u64 {
    if rng.below(3) == 0 {
        rng.below(most)
    } else {
        0
    }
}
