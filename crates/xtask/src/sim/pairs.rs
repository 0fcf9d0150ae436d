//! Sender and receiver of each protocol, with their checks.
//!
//! A `Protocol` is a function that runs one scene: it makes both machines with parameters from the
//! seed, and `check` drives them to the end. The checks of a pair say when it is complete, how many
//! bytes it may send in a time, and which states are wrong. Protocols without a pair in this file
//! have files of their own.

use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_proto::{rbudp, sabul, vbtp};
use lighthaul_sim::FlowEvent;
use lighthaul_workload::circuit::{
    CircuitCopy, CircuitEvent, CircuitReceiver, CircuitSender, TAG_LEN,
};

use super::checks::{MachineChecks, as_policed, check, in_trains};
use super::messages::run_fec;
use super::slabs::run_slabs;
use super::streams::run_stripe;
use super::token::run_token;
use super::worlds::Scene;

/// Function that runs a protocol in a scene. Returns the datagrams sent, or the check that failed.
pub(super) type Protocol = fn(&Scene) -> Result<u64, String>;

/// All protocols that run in random simulations.
pub(super) const PROTOCOLS: [(&str, Protocol); 10] = [
    ("rbudp", |scene| run_rbudp(scene, false)),
    ("rbudp+", |scene| run_rbudp(scene, true)),
    ("sabul", |scene| run_sabul(scene, sabul::Mode::Paper)),
    ("sabul-swift", |scene| run_sabul(scene, sabul::Mode::Swift)),
    ("vbtp", run_vbtp),
    ("circuit", run_circuit),
    ("stripe", run_stripe),
    ("fec", run_fec),
    ("slabs", run_slabs),
    ("token", run_token),
];

fn run_rbudp(scene: &Scene, pauses: bool) -> Result<u64, String> {
    let feedback = rbudp::FeedbackConfig {
        rtt: scene.world.stream_delay * 2,
        pause_max: Duration::from_secs(1),
    };
    let config = rbudp::Config {
        framing: rbudp::Framing {
            object_len: scene.object_len,
            packet_len: scene.packet_len,
            overhead_len: scene.world.overhead_len,
        },
        rate: scene.rate,
        burst: None,
        stream: 0,
        settle: Duration::from_millis(2),
        repeat: Duration::from_millis(scene.seed % 3),
        feedback: pauses.then_some(feedback),
    };
    let make = |scene: &Scene| {
        let config = rbudp::Config {
            framing: rbudp::Framing {
                object_len: scene.object_len,
                ..config.framing
            },
            ..config
        };
        let left = rbudp::Sender::new(Instant::ZERO, config, scene.seed);
        (
            left,
            rbudp::Receiver::new(Instant::ZERO, config, scene.seed),
        )
    };
    let checks = MachineChecks {
        is_complete: |heard| match heard {
            FlowEvent::Left(event) => *event == rbudp::SenderEvent::Complete,
            FlowEvent::Right(event) => *event == rbudp::ReceiverEvent::Complete,
        },
        most: in_trains,
        wrong: |left: &rbudp::Sender, right: &rbudp::Receiver| {
            let ignored = left.ignored() + right.arrivals().ignored;
            (ignored > 0).then(|| format!("{ignored} messages were invalid"))
        },
    };
    check(scene, make, &checks)
}

/// Runs VBTP on a circuit of the scene's rate. The circuit ends at a random time, so that the rest
/// uses the stream.
fn run_vbtp(scene: &Scene) -> Result<u64, String> {
    let trc = circuit(scene)?;
    let config = vbtp_config(scene);
    let make = |scene: &Scene| {
        let config = vbtp::Config {
            framing: vbtp::Framing {
                object_len: scene.object_len,
                ..config.framing
            },
            ..config
        };
        let left = vbtp::Sender::new(Instant::ZERO, config, trc.clone(), scene.seed);
        (left, vbtp::Receiver::new(Instant::ZERO, config, scene.seed))
    };
    let checks = MachineChecks {
        is_complete: |heard| match heard {
            FlowEvent::Left(event) => *event == vbtp::SenderEvent::Complete,
            FlowEvent::Right(event) => *event == vbtp::ReceiverEvent::Complete,
        },
        most: as_policed,
        wrong: |left: &vbtp::Sender, _: &vbtp::Receiver| {
            (left.ignored() > 0).then(|| format!("{} messages were invalid", left.ignored()))
        },
    };
    check(scene, make, &checks)
}

/// Runs a copy of one to eight objects on the circuit of [`run_vbtp`], with one to three lanes.
fn run_circuit(scene: &Scene) -> Result<u64, String> {
    let trc = circuit(scene)?;
    let config = vbtp_config(scene);
    let object_len = scene.object_len / (1 + scene.seed % 8) + 1;
    let make = |scene: &Scene| {
        let copy = CircuitCopy {
            each: vbtp::Config {
                framing: vbtp::Framing {
                    object_len,
                    overhead_len: scene.world.overhead_len + TAG_LEN,
                    ..config.framing
                },
                ..config
            },
            bytes: scene.object_len,
            lanes: 1 + (scene.seed >> 16) as usize % 3,
        };
        let left = CircuitSender::new(Instant::ZERO, copy, trc.clone());
        (left, CircuitReceiver::new(copy))
    };
    let checks = MachineChecks {
        is_complete: |heard| match heard {
            FlowEvent::Left(event) | FlowEvent::Right(event) => *event == CircuitEvent::Complete,
        },
        most: as_policed,
        wrong: |left: &CircuitSender, _: &CircuitReceiver| {
            (left.ignored() > 0).then(|| format!("{} messages were invalid", left.ignored()))
        },
    };
    check(scene, make, &checks)
}

/// Returns a circuit that ends at a random time.
fn circuit(scene: &Scene) -> Result<Trc, String> {
    let till = Instant::ZERO + Duration::from_millis(1 + scene.seed % 60_000);
    let step = Step {
        from: Instant::ZERO,
        till,
        rate: scene.rate,
    };
    Trc::new(vec![step]).map_err(|why| why.to_string())
}

fn vbtp_config(scene: &Scene) -> vbtp::Config {
    let rtt = scene.world.stream_delay * 2;
    vbtp::Config {
        framing: vbtp::Framing {
            object_len: scene.object_len,
            packet_len: scene.packet_len,
            overhead_len: scene.world.overhead_len,
        },
        stream: 0,
        burst: None,
        share: (1, 1),
        rtt,
        settle: Duration::from_millis(2),
        ack_every: Duration::from_millis(10),
        window: vbtp::Config::window_for(scene.rate, rtt, scene.packet_len),
        block: 1 + (scene.seed >> 8) as u32 % 128,
        losses_max: 16 << ((scene.seed >> 32) % 12),
    }
}

fn run_sabul(scene: &Scene, mode: sabul::Mode) -> Result<u64, String> {
    let start = Rate::from_mbps(1 + scene.seed % 100);
    let rtt = scene.world.stream_delay * 2;
    let config = sabul::Config {
        framing: sabul::Framing {
            object_len: scene.object_len,
            packet_len: scene.packet_len,
            overhead_len: scene.world.overhead_len,
        },
        mode,
        memory: sabul::Memory::new(start, rtt),
        rate_max: scene.rate,
        burst: None,
        stream: 0,
        window_max: 1 + (scene.seed >> 8) as u32 % 50_000,
        // With fewer ranges, heavy loss is repaired packet by packet.
        ranges_max: 16 << ((scene.seed >> 32) % 12),
    };
    let make = |scene: &Scene| {
        let config = sabul::Config {
            framing: sabul::Framing {
                object_len: scene.object_len,
                ..config.framing
            },
            ..config
        };
        let left = sabul::Sender::new(Instant::ZERO, config, scene.seed);
        (
            left,
            sabul::Receiver::new(Instant::ZERO, config, scene.seed),
        )
    };
    let checks = MachineChecks {
        is_complete: |heard| match heard {
            FlowEvent::Left(event) => *event == sabul::SenderEvent::Complete,
            FlowEvent::Right(event) => *event == sabul::ReceiverEvent::Complete,
        },
        most: in_trains,
        wrong: |left: &sabul::Sender, right: &sabul::Receiver| {
            if left.ignored() > 0 {
                return Some(format!("{} messages were invalid", left.ignored()));
            }
            let lists = [left.losses(), right.losses()];
            let full = lists.into_iter().find(|list| list.len() > list.len_max());
            full.map(|list| format!("a loss list exceeds its limit with {} ranges", list.len()))
        },
    };
    check(scene, make, &checks)
}
