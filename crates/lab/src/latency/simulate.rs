//! Simulation of a figure of latencies, in virtual time.
//!
//! [`simulate`] returns the table of a [`LatencyPlan`], and [`point`] the [`Outcome`] of one series
//! and loss rate. A latency is the age of a message when the receiver has it. Messages that are
//! lost have none, and are counted instead. RBUDP collects messages into payloads:
//!
//! ```text
//! messages  |--each--|--each--|--each--|      a payload starts when it is complete
//! payloads           |--sent--|--sent--|      and the one before has ended
//! ```

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_proto::fec::{self, Code, Late};
use lighthaul_proto::rbudp::plan::StreamDemand;
use lighthaul_proto::rbudp::wire::HEAD_LEN;
use lighthaul_proto::rbudp::{Config, Framing, Receiver, ReceiverEvent, Sender, SenderEvent};
use lighthaul_sim::{FlowEvent, LinkConfig, PathConfig, Simulation};
use lighthaul_workload::feed::Feed;

use super::plan::{Carrier, LatencyPlan, Series};
use super::tcp;
use crate::error::{Error, Result};
use crate::table::Table;

/// Result of the messages of one point.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Ages of the received messages at arrival, in ascending order.
    pub latencies: Vec<Duration>,
    /// Number of messages sent.
    pub messages: u64,
}

impl Outcome {
    /// Returns a percentile of the ages, in milliseconds. NaN if no message arrived.
    pub fn age_ms(&self, of_a_hundred: usize) -> f64 {
        let nth = self.latencies.len().saturating_sub(1) * of_a_hundred / 100;
        let age = self.latencies.get(nth);
        age.map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }

    /// Returns the messages lost, in parts per million.
    pub fn lost_ppm(&self) -> f64 {
        (self.messages - self.latencies.len() as u64) as f64 * 1e6 / self.messages as f64
    }
}

/// Simulates every point of a plan.
pub fn simulate(plan: &LatencyPlan) -> Result<Table> {
    let columns = plan
        .series
        .iter()
        .flat_map(|series| COLUMNS.map(|tail| format!("{}{tail}", series.name)));
    let mut rows = Vec::new();
    for loss_ppb in &plan.losses_ppb {
        let mut row = vec![Some(*loss_ppb as f64 / 1e7)];
        for series in &plan.series {
            let outcome = point(plan, series, *loss_ppb)?;
            row.extend([outcome.age_ms(50), outcome.age_ms(99), outcome.lost_ppm()].map(Some));
        }
        rows.push(row);
    }
    Ok(Table {
        columns: std::iter::once("loss_percent".to_owned())
            .chain(columns)
            .collect(),
        rows,
    })
}

/// Simulates one point.
pub fn point(plan: &LatencyPlan, series: &Series, loss_ppb: u64) -> Result<Outcome> {
    let mut latencies = match series.carrier {
        Carrier::Fec(code, linger) => messages(plan, code, linger, loss_ppb),
        Carrier::Rbudp(delay, blasts) => payloads(plan, delay, blasts, loss_ppb)?,
        Carrier::Tcp => tcp::latencies(plan, loss_ppb, SEED),
    };
    latencies.sort();
    Ok(Outcome {
        latencies,
        messages: plan.messages,
    })
}

fn world(plan: &LatencyPlan, loss_ppb: u64) -> PathConfig {
    let there = LinkConfig {
        rate: Some(plan.link),
        delay: plan.rtt / 2,
        queue_bytes_max: plan.queue_bytes_max,
        loss_ppb,
        ..LinkConfig::default()
    };
    PathConfig {
        there,
        stream_delay: plan.rtt / 2,
        overhead_len: OVERHEAD_LEN,
        ..PathConfig::default()
    }
}

/// Simulates a message stream. Returns the latency of each message received.
fn messages(plan: &LatencyPlan, code: Code, linger: Duration, loss_ppb: u64) -> Vec<Duration> {
    let config = fec::Config {
        message_len: LEN,
        code,
        blocks: 1024,
        linger,
        deadline: None,
        late: Late::Deliver,
        overhead_len: OVERHEAD_LEN,
        rate: plan.link,
        stream: 1,
        settle: Duration::from_millis(100),
        ahead_nanos: 0,
    };
    let len = plan.len;
    let feed = Feed::new(config, plan.every, plan.messages, len..=len);
    let receiver = fec::Receiver::new(Instant::ZERO, config, SEED);
    let mut latencies = Vec::new();
    let mut world = Simulation::new(feed, receiver, &world(plan, loss_ppb), SEED);
    world.run(FOR_EVER, |now, heard| {
        if let FlowEvent::Right(fec::ReceiverEvent::Message(arrived)) = heard {
            latencies.push(now.since(arrived.since));
        }
    });
    latencies
}

/// Simulates RBUDP, which carries messages in payloads. A payload starts when it is complete and
/// the previous one has ended.
fn payloads(
    plan: &LatencyPlan,
    delay: Duration,
    blasts: u32,
    loss_ppb: u64,
) -> Result<Vec<Duration>> {
    let demand = StreamDemand {
        object_len: plan.len.into(),
        objects_per_second: 1.0 / plan.every.as_secs_f64(),
        delay,
        rtt: plan.rtt * blasts,
    };
    let planned = demand
        .plan()
        .map_err(|why| Error::Misuse(format!("{}: {why}", plan.name)))?;
    let wire_len = PACKET_LEN + OVERHEAD_LEN + HEAD_LEN as u32;
    let config = Config {
        framing: Framing {
            object_len: planned.payload_len,
            packet_len: PACKET_LEN,
            overhead_len: OVERHEAD_LEN,
        },
        rate: planned.rate.scaled(wire_len, PACKET_LEN),
        burst: None,
        stream: 1,
        settle: Duration::from_millis(2),
        repeat: Duration::ZERO,
        feedback: None,
    };
    let each = plan.every * planned.objects;
    let payloads = plan.messages / u64::from(planned.objects);
    let mut free = Duration::ZERO;
    let mut latencies = Vec::new();
    for payload in 0..payloads {
        let first = each * payload as u32;
        let begin = free.max(first + each);
        let sender = Sender::new(Instant::ZERO, config, payload);
        let receiver = Receiver::new(Instant::ZERO, config, payload);
        let mut world = Simulation::new(sender, receiver, &world(plan, loss_ppb), SEED + payload);
        let (mut came, mut done) = (Duration::ZERO, Duration::ZERO);
        world.run(FOR_EVER, |now, heard| match heard {
            FlowEvent::Right(ReceiverEvent::Complete) => came = now.since(Instant::ZERO),
            FlowEvent::Left(SenderEvent::Complete) => done = now.since(Instant::ZERO),
            FlowEvent::Left(_) | FlowEvent::Right(_) => {}
        });
        free = begin + done;
        latencies.extend(
            (0..planned.objects).map(|nth| (begin + came).saturating_sub(first + plan.every * nth)),
        );
    }
    Ok(latencies)
}

/// Suffixes of a series' columns in the table.
pub const COLUMNS: [&str; 3] = ["_p50_ms", "_p99_ms", "_lost_ppm"];

const SEED: u64 = 20_261_121;
const FOR_EVER: Instant = Instant::from_nanos(u64::MAX / 2);
/// Length of IP, UDP, the connection number and the authentication tag, in bytes.
const OVERHEAD_LEN: u32 = 52;
const PACKET_LEN: u32 = 1408;
const LEN: u32 = 1400;
