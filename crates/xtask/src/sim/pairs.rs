//! The machines of each protocol, and what is asked of them.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_proto::{rbudp, sabul};
use lighthaul_sim::Heard;

use super::checks::{Questions, check};
use super::worlds::Scene;

/// Runs a protocol in a scene; answers datagrams sent, or what did not hold.
pub(super) type Protocol = fn(&Scene) -> Result<u64, String>;

/// Every protocol that runs in random worlds.
pub(super) const PROTOCOLS: [(&str, Protocol); 3] = [
    ("rbudp", run_rbudp),
    ("sabul", |scene| run_sabul(scene, sabul::Mode::Paper)),
    ("sabul-swift", |scene| run_sabul(scene, sabul::Mode::Swift)),
];

fn run_rbudp(scene: &Scene) -> Result<u64, String> {
    let config = rbudp::Config {
        object_len: scene.object_len,
        packet_len: scene.packet_len,
        overhead_len: scene.world.overhead_len,
        rate: scene.rate,
        burst: None,
        stream: 0,
        settle: Duration::from_millis(2),
        repeat: Duration::from_millis(scene.seed % 3),
        feedback: None,
    };
    let left = rbudp::Sender::new(Instant::ZERO, config, scene.seed);
    let right = rbudp::Receiver::new(Instant::ZERO, config, scene.seed);
    let questions = Questions {
        is_complete: |heard| match heard {
            Heard::Left(event) => *event == rbudp::SenderEvent::Complete,
            Heard::Right(event) => *event == rbudp::ReceiverEvent::Complete,
        },
        wrong: |left: &rbudp::Sender, right: &rbudp::Receiver| {
            let ignored = left.ignored() + right.ignored();
            (ignored > 0).then(|| format!("{ignored} messages made no sense"))
        },
    };
    check(scene, left, right, &questions)
}

fn run_sabul(scene: &Scene, mode: sabul::Mode) -> Result<u64, String> {
    let start = Rate::from_mbps(1 + scene.seed % 100);
    let rtt = scene.world.stream_delay * 2;
    let config = sabul::Config {
        object_len: scene.object_len,
        packet_len: scene.packet_len,
        overhead_len: scene.world.overhead_len,
        mode,
        memory: sabul::Memory::new(start, rtt),
        rate_max: scene.rate,
        burst: None,
        stream: 0,
        window_max: 1 + (scene.seed >> 8) as u32 % 50_000,
        // with fewer, heavy losses are repaired packet by packet
        ranges_max: 16 << ((scene.seed >> 32) % 12),
    };
    let left = sabul::Sender::new(Instant::ZERO, config, scene.seed);
    let right = sabul::Receiver::new(Instant::ZERO, config, scene.seed);
    let questions = Questions {
        is_complete: |heard| match heard {
            Heard::Left(event) => *event == sabul::SenderEvent::Complete,
            Heard::Right(event) => *event == sabul::ReceiverEvent::Complete,
        },
        wrong: |left: &sabul::Sender, right: &sabul::Receiver| {
            if left.ignored() > 0 {
                return Some(format!("{} messages made no sense", left.ignored()));
            }
            let lists = [left.losses(), right.losses()];
            let full = lists.into_iter().find(|list| list.len() > list.len_max());
            full.map(|list| format!("a loss list has {} ranges", list.len()))
        },
    };
    check(scene, left, right, &questions)
}
