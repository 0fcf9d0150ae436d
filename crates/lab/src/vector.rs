//! Transfers that follow a TRC vector, in virtual time: the rate sent on the circuit, compared with
//! the vector.
//!
//! A [`VectorPlan`] simulates a VBTP sender for each curve and counts its bytes in bins of time.
//! Bytes on the circuit and on the stream are counted apart. A bin above the vector's rate would be
//! a fault of the sender.

use std::time::Duration;

use lighthaul_base::{Body, Deadline, Endpoint, Instant, Load, Message, Span, Transmit, Trc, Via};
use lighthaul_plot::curve::{Curve, Mark};
use lighthaul_plot::panel::{Axis, Panel};
use lighthaul_plot::sheet::Sheet;
use lighthaul_proto::vbtp::wire::HEAD_LEN;
use lighthaul_proto::vbtp::{Config, Framing, Receiver, Sender};
use lighthaul_sim::{LinkConfig, PathConfig, Simulation};
use serde::Deserialize;

use crate::error::Result;
use crate::file::{self, PacketSettings, PathSettings};
use crate::plot::misuse;
use crate::quantity;
use crate::table::{MODEL, SIMULATION, Table};

/// Plan of a figure: send rates over time.
#[derive(Clone, Debug)]
pub struct VectorPlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    trc: Trc,
    /// Time span of a point.
    bin: Duration,
    config: Config,
    path: PathConfig,
    series: Vec<Series>,
}

/// Curve of a figure.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    label: String,
    loss_ppb: u64,
}

impl VectorPlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        settings.check(name)
    }

    /// Simulates every curve.
    pub fn simulate(&self) -> Table {
        let mut columns = vec!["time_s".into(), format!("allocation{MODEL}")];
        let count = self.trc.end().as_nanos().div_ceil(self.bin_nanos()) + BINS_BEHIND;
        let mut rows: Vec<Vec<Option<f64>>> = (0..count).map(|nth| self.begin_row(nth)).collect();
        for series in &self.series {
            columns.push(format!("{}{SIMULATION}", series.name));
            columns.push(format!("{}_tail{SIMULATION}", series.name));
            let sent = self.run(series, count as usize);
            for (row, [circuit, stream]) in rows.iter_mut().zip(sent) {
                row.extend([circuit, stream].map(|bytes| Some(self.mbps(bytes))));
            }
        }
        Table { columns, rows }
    }

    /// Draws the table: a panel for each curve, beside the vector. Returns a PNG image.
    pub fn plot(&self, table: &Table) -> Result<Vec<u8>> {
        let panel = |series: &Series| {
            let curve = |nth, label, column: &str| {
                Curve::new(nth, label, table.points(column)).mark(Mark::None)
            };
            let sent = format!("{}{SIMULATION}", series.name);
            let tail = format!("{}_tail{SIMULATION}", series.name);
            let allocation = format!("allocation{MODEL}");
            Panel {
                title: series.label.clone(),
                x: Axis::new("time, s"),
                y: Axis::new("Mb/s"),
                curves: vec![
                    curve(0, "allocation", &allocation).color(ALLOCATION),
                    curve(0, "sent on the circuit", &sent),
                    curve(1, "sent on the stream", &tail),
                ],
                levels: Vec::new(),
            }
        };
        let sheet = Sheet::new(&self.title, self.series.iter().map(panel).collect());
        sheet.png().map_err(misuse(&self.name))
    }

    /// Creates the row of a bin, with its middle and the vector's rate.
    fn begin_row(&self, nth: u64) -> Vec<Option<f64>> {
        let [from, till] = [nth, nth + 1].map(|nth| Instant::from_nanos(nth * self.bin_nanos()));
        let middle = (from.as_nanos() + till.as_nanos()) as f64 / 2e9;
        let carried = self.trc.bytes_between(from, till);
        vec![Some(middle), Some(self.mbps(carried))]
    }

    /// Simulates a curve. Returns the bytes sent on the circuit and on the stream in each bin.
    fn run(&self, series: &Series, count: usize) -> Vec<[u64; 2]> {
        let mut path = self.path;
        path.there.loss_ppb = series.loss_ppb;
        let sender = Meter {
            sender: Sender::new(Instant::ZERO, self.config, self.trc.clone(), SEED),
            overhead_len: self.config.framing.wire_bytes(0) - HEAD_LEN as u32,
            bin_nanos: self.bin_nanos(),
            sent: vec![[0; 2]; count],
        };
        let receiver = Receiver::new(Instant::ZERO, self.config, SEED);
        let mut world = Simulation::new(sender, receiver, &path, SEED);
        world.run(Instant::from_nanos(u64::MAX / 2), |_, _| ());
        assert_eq!(
            world.left().sender.missing(),
            0,
            "a simulated transfer completes"
        );
        world.left().sent.clone()
    }

    fn bin_nanos(&self) -> u64 {
        u64::try_from(self.bin.as_nanos()).unwrap_or(u64::MAX)
    }

    fn mbps(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.bin.as_secs_f64() / 1e6
    }
}

/// Sender with counters of the bytes sent in each bin.
#[derive(Debug)]
struct Meter {
    sender: Sender,
    overhead_len: u32,
    bin_nanos: u64,
    sent: Vec<[u64; 2]>,
}

impl Endpoint for Meter {
    type Event = <Sender as Endpoint>::Event;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        self.sender.handle_message(now, message)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
    }

    fn handle_load(&mut self, now: Instant, load: Load) {
        self.sender.handle_load(now, load);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = self.sender.poll_transmit(now)?;
        let bin = self
            .sent
            .get_mut((now.as_nanos() / self.bin_nanos) as usize);
        if let (Some(bin), Body::Object(span)) = (bin, &transmit.body) {
            let wire = self.overhead_len + HEAD_LEN as u32 + span.len;
            bin[usize::from(transmit.via != Via::Datagram)] += u64::from(wire);
        }
        Some(transmit)
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.sender.poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.sender.poll_timeout()
    }
}

/// Keys of the file of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    /// Vector, as text.
    trc: String,
    /// Capacity of the vector beyond the object, in percent of the object.
    margin: u32,
    bin: String,
    path: PathSettings,
    packet: PacketSettings,
    series: Vec<SeriesSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesSettings {
    name: String,
    label: String,
    loss: Option<String>,
}

impl Settings {
    fn check(self, name: &str) -> std::result::Result<VectorPlan, String> {
        let trc: Trc = self.trc.parse().map_err(|why| format!("trc: {why}"))?;
        let bin = quantity::duration(&self.bin)?;
        if bin.is_zero() {
            return Err("`bin` must be above zero".into());
        }
        let (rate, rtt, queue_bytes_max) = self.path.check()?;
        let config = config(
            &self.packet,
            rtt,
            object_len(&trc, self.margin, &self.packet),
        )?;
        let path = PathConfig {
            there: LinkConfig {
                rate: Some(rate),
                delay: rtt / 2,
                queue_bytes_max,
                ..LinkConfig::default()
            },
            stream_delay: rtt / 2,
            stream_rate: Some(rate),
            overhead_len: self.packet.overhead,
            ..PathConfig::default()
        };
        let series = self.series.into_iter().map(|series| {
            Ok(Series {
                loss_ppb: series.loss.as_deref().map_or(Ok(0), quantity::chance_ppb)?,
                name: series.name,
                label: series.label,
            })
        });
        Ok(VectorPlan {
            name: name.into(),
            title: self.title,
            bin,
            config,
            path,
            series: series.collect::<std::result::Result<_, String>>()?,
            trc,
        })
    }
}

/// Returns the size of the object for which the vector was requested with the given margin.
fn object_len(trc: &Trc, margin_percent: u32, packet: &PacketSettings) -> u64 {
    let wire = trc.bytes_between(trc.start(), trc.end()) * 100 / u64::from(100 + margin_percent);
    let len = u64::from(packet.len);
    wire / (len + u64::from(packet.overhead) + HEAD_LEN as u64) * len
}

fn config(
    packet: &PacketSettings,
    rtt: Duration,
    object_len: u64,
) -> std::result::Result<Config, String> {
    let config = Config {
        framing: Framing {
            object_len,
            packet_len: packet.len,
            overhead_len: packet.overhead,
        },
        stream: 0,
        burst: None,
        share: (1, 1),
        rtt,
        settle: quantity::duration(&packet.settle)?,
        ack_every: Duration::from_millis(10),
        window: 1 << 18,
        block: 128,
        losses_max: 1 << 14,
    };
    config.check().map_err(|why| why.to_string())?;
    Ok(config)
}

/// Number of bins that the figure shows after the vector's end.
const BINS_BEHIND: u64 = 10;
const SEED: u64 = 1;
/// Color of the vector, drawn behind the sent rate.
const ALLOCATION: [u8; 3] = [190, 190, 190];

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        trc = "0s-100ms 100Mb/s, 100ms-200ms 200Mb/s"
        margin = 10
        bin = "20ms"
        path = { rate = "1Gb/s", rtt = "10ms", queue = "1MiB" }
        packet = { len = 1464, overhead = 28, settle = "1ms" }
        series = [{ name = "a", label = "A", loss = "1%" }]
    "#;

    #[test]
    fn simulation_follows_the_vector() {
        let table = VectorPlan::parse("p", PLAN).unwrap().simulate();
        assert_eq!(table.columns.len(), 4);
        assert_eq!(table.number(0.05, "allocation_model"), Some(100.0));
        assert_eq!(table.number(0.15, "allocation_model"), Some(200.0));
        let sent = table.number(0.15, "a_simulation").unwrap();
        assert!((195.0..205.0).contains(&sent), "{sent}");
    }

    #[test]
    fn invalid_plan_is_rejected() {
        for (from, to) in [
            ("200Mb/s", "0Mb/s"),
            ("20ms", "0"),
            ("len = 1464", "len = 0"),
            ("1%", "much"),
            ("label", "lable"),
        ] {
            assert!(
                VectorPlan::parse("p", &PLAN.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
