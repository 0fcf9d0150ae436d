//! Simulation of SABUL flows beside TCP on one link, and of one flow into a slow disk.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_proto::sabul::{self, Framing, Memory, Mode};
use lighthaul_sim::{FlowConfig, HostConfig, LinkConfig, Mixed, Network, RouteConfig, Trace};
use lighthaul_workload::tcp;

use super::plan::{BesidePlan, Series, Variable};
use crate::table::{SIMULATION, Table};

/// Machines at the ends of the link: one of SABUL or of TCP.
type Left = Mixed<sabul::Sender, tcp::Sender>;
type Right = Mixed<sabul::Receiver, tcp::Receiver>;

/// Simulates every point of a plan.
pub fn simulate(plan: &BesidePlan) -> Table {
    let columns = plan.series.iter().flat_map(columns);
    let row = |value: &u64| {
        let key = match plan.vary {
            Variable::Queue => *value as f64,
            Variable::Rtt | Variable::Disk => *value as f64 / 1e6,
        };
        let cells = plan.series.iter().flat_map(|one| point(plan, one, *value));
        std::iter::once(key).chain(cells).map(Some).collect()
    };
    let first = match plan.vary {
        Variable::Queue => "queue_packets",
        Variable::Rtt => "rtt_ms",
        Variable::Disk => "disk_mbps",
    };
    Table {
        columns: std::iter::once(first.to_owned()).chain(columns).collect(),
        rows: plan.values.iter().map(row).collect(),
    }
}

/// Returns the columns of a series: the mean shares of TCP and SABUL in percent of the fair share, or the goodput into
/// a disk.
pub fn columns(series: &Series) -> Vec<String> {
    let tails: &[&str] = if series.tcp.is_some() {
        &["_tcp", "_sabul"]
    } else {
        &[""]
    };
    let tails = tails.iter();
    tails
        .map(|tail| format!("{}{tail}{SIMULATION}", series.name))
        .collect()
}

fn point(plan: &BesidePlan, series: &Series, value: u64) -> Vec<f64> {
    let rtt = match plan.vary {
        Variable::Rtt => Duration::from_nanos(value),
        Variable::Queue | Variable::Disk => series.rtt,
    };
    let product = series.link.bytes_in(rtt);
    let queue_bytes_max = match plan.vary {
        Variable::Queue => value * u64::from(WIRE_LEN),
        Variable::Rtt | Variable::Disk => product.max(QUEUE_PACKETS_MIN * u64::from(WIRE_LEN)),
    };
    let link = LinkConfig {
        rate: Some(series.link),
        queue_bytes_max,
        ..LinkConfig::default()
    };
    let mut network = Network::new([link], SEED);
    let host = match plan.vary {
        Variable::Disk => HostConfig {
            absorb: Rate::from_bps(value),
            socket_bytes_max: series.socket_bytes_max,
            ..HostConfig::default()
        },
        Variable::Queue | Variable::Rtt => HostConfig::default(),
    };
    let count = series.tcp.map_or(1, |(_, count)| count);
    for nth in 0..count {
        let (left, right) = sabul(series, rtt, u64::from(nth));
        network.add(
            left,
            right,
            &FlowConfig {
                host,
                ..place(rtt, OVERHEAD_LEN)
            },
        );
    }
    if let Some((algorithm, _)) = series.tcp {
        for nth in 0..count {
            let config = tcp::Config {
                algorithm,
                packet_len: SEGMENT_LEN,
            };
            let sender = tcp::Sender::new(Instant::ZERO, config, u64::from(nth));
            let receiver = tcp::Receiver::new(SEGMENT_LEN);
            let (left, right) = (
                Left::Second(Box::new(sender)),
                Right::Second(Box::new(receiver)),
            );
            network.add(left, right, &place(rtt, TCP_OVERHEAD_LEN));
        }
    }
    let [from, till] = plan.measured.map(|time| Instant::ZERO + time);
    let trace = Trace::run(&mut network, INTERVAL, till);
    let mean = |first: u32| {
        let flows = first..first + count;
        let rates = flows.map(|nth| trace.goodput(nth as usize, from, till).as_mbps_f64());
        rates.sum::<f64>() / f64::from(count)
    };
    if series.tcp.is_none() {
        return vec![mean(0)];
    }
    let fair = |payload: u32| {
        let all = series.link.scaled(payload, WIRE_LEN).as_mbps_f64();
        all / f64::from(2 * count) / 100.0
    };
    vec![mean(count) / fair(SEGMENT_LEN), mean(0) / fair(PACKET_LEN)]
}

/// Creates the machines of a SABUL flow, which begins at half of the rate, like a copy.
fn sabul(series: &Series, rtt: Duration, seed: u64) -> (Left, Right) {
    let good = series.link.bytes_in(rtt + sabul::config::SYN) / u64::from(WIRE_LEN);
    let factor = match series.mode {
        Mode::Paper | Mode::Fixed => 1,
        Mode::Swift => 2,
    };
    let config = sabul::Config {
        framing: Framing {
            object_len: u64::from(PACKET_LEN) << 30,
            packet_len: PACKET_LEN,
            overhead_len: OVERHEAD_LEN,
        },
        mode: series.mode,
        memory: Memory::new(series.rate_max.scaled(1, 2), rtt),
        rate_max: series.rate_max.scaled(factor, 1),
        burst: None,
        stream: 0,
        window_max: (good as u32).max(10).saturating_mul(2),
        ranges_max: 1 << 20,
    };
    let sender = sabul::Sender::new(Instant::ZERO, config, seed);
    let receiver = sabul::Receiver::new(Instant::ZERO, config, seed);
    (
        Left::First(Box::new(sender)),
        Right::First(Box::new(receiver)),
    )
}

fn place(rtt: Duration, overhead_len: u32) -> FlowConfig {
    FlowConfig {
        there: RouteConfig {
            access: rtt / 2,
            links: vec![0],
        },
        back: RouteConfig {
            access: rtt / 2,
            links: Vec::new(),
        },
        stream_delay: rtt / 2,
        overhead_len,
        ..FlowConfig::default()
    }
}

/// Length of a packet on the wire, in bytes. SABUL has 28 of IP and UDP and 12 of its head, TCP has 52 of both.
const WIRE_LEN: u32 = 1500;
const OVERHEAD_LEN: u32 = 28;
const PACKET_LEN: u32 = 1460;
const SEGMENT_LEN: u32 = 1448;
/// Bytes that IP and TCP add to a segment, less the simulated head.
const TCP_OVERHEAD_LEN: u32 = 52 - tcp::HEAD_LEN as u32;
/// Minimum length of a queue that holds the bandwidth-delay product.
const QUEUE_PACKETS_MIN: u64 = 50;
const INTERVAL: Duration = Duration::from_millis(500);
const SEED: u64 = 1;
