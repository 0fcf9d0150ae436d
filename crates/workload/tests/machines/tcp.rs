//! Flows of the simulated TCP: they use a path as the real ones do.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_sim::{FlowConfig, LinkConfig, Network, RouteConfig};
use lighthaul_workload::tcp::{Algorithm, Config, HEAD_LEN, Receiver, Sender};

const PACKET_LEN: u32 = 1448;
const RTT: Duration = Duration::from_millis(40);
const RATE: Rate = Rate::from_mbps(100);

/// Runs flows over a link with this loss and this queue, as a multiple of the BDP in percent.
/// Returns the goodput of each in Mb/s, from 5 to 25 s.
fn run(algorithms: &[Algorithm], loss_ppb: u64, queue_percent: u64) -> Vec<f64> {
    let link = LinkConfig {
        rate: Some(RATE),
        delay: RTT / 2,
        queue_bytes_max: RATE.bytes_in(RTT) * queue_percent / 100,
        loss_ppb,
        ..LinkConfig::default()
    };
    let mut network = Network::new([link], 7);
    for (nth, algorithm) in algorithms.iter().enumerate() {
        let config = Config {
            algorithm: *algorithm,
            packet_len: PACKET_LEN,
        };
        let flow = FlowConfig {
            there: RouteConfig {
                access: Duration::ZERO,
                links: vec![0],
            },
            back: RouteConfig {
                access: RTT / 2,
                links: Vec::new(),
            },
            overhead_len: 52 - HEAD_LEN as u32,
            ..FlowConfig::default()
        };
        let sender = Sender::new(Instant::ZERO, config, nth as u64);
        network.add(sender, Receiver::new(PACKET_LEN), &flow);
    }
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    network.run(at(5), |_, _, _| ());
    let placed = |network: &Network<Sender, Receiver>| -> Vec<u64> {
        let flows = network.flows().iter();
        flows.map(lighthaul_sim::Flow::placed_bytes).collect()
    };
    let before = placed(&network);
    network.run(at(25), |_, _, _| ());
    let pairs = placed(&network).into_iter().zip(before);
    pairs
        .map(|(now, before)| Rate::of(now - before, Duration::from_secs(20)).as_mbps_f64())
        .collect()
}

#[test]
fn single_flow_fills_a_path_without_loss() {
    for (algorithm, queue, least) in [
        (Algorithm::Reno, 100, 90.0),
        (Algorithm::Reno, 25, 70.0),
        (Algorithm::Cubic, 100, 90.0),
        (Algorithm::Cubic, 25, 80.0),
        (Algorithm::Bbr, 100, 90.0),
        (Algorithm::Bbr, 25, 85.0),
    ] {
        let goodput = run(&[algorithm], 0, queue)[0];
        assert!(
            (least..97.0).contains(&goodput),
            "{algorithm:?}, {queue} %: {goodput}"
        );
    }
}

#[test]
fn random_loss_limits_cubic_but_not_bbr() {
    let bbr = run(&[Algorithm::Bbr], 10_000_000, 100)[0];
    assert!(bbr > 80.0, "{bbr}");
    // RFC 9438, section 4.3: windows of a few dozen packets, as Reno has
    let cubic = run(&[Algorithm::Cubic], 10_000_000, 100)[0];
    assert!((2.5..8.0).contains(&cubic), "{cubic}");
}

#[test]
fn equal_flows_share_a_path() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let shares = run(&[algorithm; 2], 0, 100);
        let sum: f64 = shares.iter().sum();
        assert!(sum > 85.0, "{algorithm:?}: {shares:?}");
        for share in &shares {
            assert!(
                (0.3..0.7).contains(&(share / sum)),
                "{algorithm:?}: {shares:?}"
            );
        }
    }
}

#[test]
fn bbr_takes_most_of_a_short_queue_from_cubic() {
    // Hock et al., "Experimental evaluation of BBR congestion control", 2017
    let shares = run(&[Algorithm::Bbr, Algorithm::Cubic], 0, 25);
    assert!(shares[0] > 3.0 * shares[1], "{shares:?}");
    // and CUBIC keeps its part of a long one
    let shares = run(&[Algorithm::Bbr, Algorithm::Cubic], 0, 400);
    assert!(shares[1] > shares[0] * 0.5, "{shares:?}");
}

#[test]
fn same_seed_gives_the_same_run() {
    let both = [Algorithm::Bbr, Algorithm::Cubic];
    assert_eq!(run(&both, 100_000, 50), run(&both, 100_000, 50));
}
