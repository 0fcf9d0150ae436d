//! Copies of several objects on one circuit, in virtual time: the part of the reserved capacity that they use.
//!
//! A [`CircuitPlan`] reserves a vector for each size of a copy: the bytes with their headers and a margin, at one rate.
//! The copy is simulated with VBTP machines. The table has, for each curve, the part of the vector that carried
//! datagrams, in percent, and the megabytes that were sent on the stream.

use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_plot::curve::Curve;
use lighthaul_plot::panel::{Axis, Panel};
use lighthaul_plot::sheet::Sheet;
use lighthaul_proto::vbtp::{Config, Framing};
use lighthaul_sim::{LinkConfig, PathConfig, Simulation};
use lighthaul_workload::circuit::{CircuitCopy, CircuitReceiver, CircuitSender, TAG_LEN};
use serde::Deserialize;

use crate::error::Result;
use crate::file::{self, PacketSettings, PathSettings};
use crate::plot::misuse;
use crate::quantity;
use crate::table::{SIMULATION, Table};

/// Plan of a figure: use of a circuit by copies of several sizes.
#[derive(Clone, Debug)]
pub struct CircuitPlan {
    /// Name of the figure's files.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// Sizes of the copies, in bytes.
    pub sizes: Vec<u64>,
    margin_percent: u32,
    rate: Rate,
    config: Config,
    path: PathConfig,
    series: Vec<Series>,
}

/// Curve of a figure.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    label: String,
    lanes: usize,
    loss_ppb: u64,
}

impl CircuitPlan {
    /// Parses a plan.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, String> {
        let settings: Settings = file::settings(text)?;
        settings.check(name)
    }

    /// Simulates every copy.
    pub fn simulate(&self) -> Table {
        let mut columns = vec!["gigabytes".to_owned()];
        for Series { name, .. } in &self.series {
            columns.push(format!("{name}_used{SIMULATION}"));
            columns.push(format!("{name}_tail_mb{SIMULATION}"));
        }
        let row = |bytes: &u64| {
            let curves = self
                .series
                .iter()
                .flat_map(|series| self.run(series, *bytes));
            std::iter::once(*bytes as f64 / 1e9)
                .chain(curves)
                .map(Some)
                .collect()
        };
        Table {
            columns,
            rows: self.sizes.iter().map(row).collect(),
        }
    }

    /// Draws the table. Returns a PNG image.
    pub fn plot(&self, table: &Table) -> Result<Vec<u8>> {
        let curve = |(nth, series): (usize, &Series)| {
            let points = table.points(&format!("{}_used{SIMULATION}", series.name));
            Curve::new(nth, &series.label, points)
        };
        let panel = Panel {
            title: String::new(),
            x: Axis::log("size of the copy, GB"),
            y: Axis::new("use of the vector, %"),
            curves: self.series.iter().enumerate().map(curve).collect(),
            levels: Vec::new(),
        };
        Sheet::new(&self.title, vec![panel])
            .png()
            .map_err(misuse(&self.name))
    }

    /// Simulates a copy. Returns the use of the vector in percent, and the megabytes on the stream.
    fn run(&self, series: &Series, bytes: u64) -> [f64; 2] {
        let copy = CircuitCopy {
            each: self.config,
            bytes,
            lanes: series.lanes,
        };
        let reserved = copy.wire_bytes() / 100 * u64::from(100 + self.margin_percent);
        let step = Step {
            from: Instant::ZERO,
            till: Instant::ZERO + self.rate.time_for(reserved),
            rate: self.rate,
        };
        let trc = Trc::new(vec![step]).expect("a rate above zero gives a vector of one step");
        let mut path = self.path;
        path.there.loss_ppb = series.loss_ppb;
        let sender = CircuitSender::new(Instant::ZERO, copy, trc.clone());
        let mut world = Simulation::new(sender, CircuitReceiver::new(copy), &path, SEED);
        world.run(Instant::from_nanos(u64::MAX / 2), |_, _| ());
        assert!(world.left().is_complete(), "a simulated copy completes");
        let carried = trc.bytes_between(trc.start(), trc.end());
        let sent = world.there().counters().offered.bytes;
        let tail = world.left().tail() * u64::from(self.config.framing.packet_len);
        [100.0 * sent as f64 / carried as f64, tail as f64 / 1e6]
    }
}

/// Keys of the file of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    title: String,
    /// Sizes of the copies.
    sizes: Vec<String>,
    /// Size of each object except the last.
    object: String,
    /// Capacity of the vector in excess of the copy and its headers, in percent.
    margin: u32,
    path: PathSettings,
    packet: PacketSettings,
    series: Vec<SeriesSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesSettings {
    name: String,
    label: String,
    /// Objects in transfer at the same time.
    lanes: usize,
    loss: Option<String>,
}

impl Settings {
    fn check(self, name: &str) -> std::result::Result<CircuitPlan, String> {
        let (rate, rtt, queue_bytes_max) = self.path.check()?;
        let sizes = self.sizes.iter().map(|size| quantity::bytes(size));
        let sizes: Vec<u64> = sizes.collect::<std::result::Result<_, _>>()?;
        if sizes.contains(&0) || sizes.is_empty() {
            return Err("`sizes` must have sizes above zero".into());
        }
        let series = self.series.into_iter().map(|series| {
            if series.lanes == 0 {
                return Err("`lanes` must be above zero".to_owned());
            }
            Ok(Series {
                loss_ppb: series.loss.as_deref().map_or(Ok(0), quantity::chance_ppb)?,
                name: series.name,
                label: series.label,
                lanes: series.lanes,
            })
        });
        let config = Config {
            framing: Framing {
                object_len: quantity::bytes(&self.object)?,
                packet_len: self.packet.len,
                overhead_len: self.packet.overhead,
            },
            stream: 0,
            burst: None,
            share: (1, 1),
            rtt,
            settle: quantity::duration(&self.packet.settle)?,
            ack_every: Duration::from_millis(10),
            window: Config::window_for(rate, rtt, self.packet.len),
            block: 128,
            losses_max: 1 << 14,
        };
        config.check().map_err(|why| why.to_string())?;
        if self.packet.overhead < TAG_LEN || config.framing.object_len == 0 {
            return Err(format!(
                "`overhead` must be at least {TAG_LEN}, and `object` above zero"
            ));
        }
        let path = PathConfig {
            there: LinkConfig {
                rate: Some(rate),
                delay: rtt / 2,
                queue_bytes_max,
                ..LinkConfig::default()
            },
            stream_delay: rtt / 2,
            stream_rate: Some(rate),
            overhead_len: self.packet.overhead - TAG_LEN,
            ..PathConfig::default()
        };
        Ok(CircuitPlan {
            name: name.into(),
            title: self.title,
            sizes,
            margin_percent: self.margin,
            rate,
            config,
            path,
            series: series.collect::<std::result::Result<_, _>>()?,
        })
    }
}

const SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        title = "t"
        sizes = ["40MB"]
        object = "10MB"
        margin = 2
        path = { rate = "1Gb/s", rtt = "20ms", queue = "1MiB" }
        packet = { len = 1440, overhead = 52, settle = "1ms" }
        series = [
            { name = "one", label = "A", lanes = 1 },
            { name = "two", label = "B", lanes = 2, loss = "1%" },
        ]
    "#;

    #[test]
    fn two_lanes_use_the_vector() {
        let table = CircuitPlan::parse("p", PLAN).unwrap().simulate();
        assert_eq!(table.columns.len(), 5);
        let one = table.number(0.04, "one_used_simulation").unwrap();
        let two = table.number(0.04, "two_used_simulation").unwrap();
        assert!(one < 90.0 && two > 97.0 && two <= 100.0, "{one} {two}");
        // what does not fit in the vector is sent on the stream
        let rest = table.number(0.04, "one_tail_mb_simulation").unwrap();
        assert!((3.0..10.0).contains(&rest), "{rest}");
    }

    #[test]
    fn invalid_plan_is_rejected() {
        for (from, to) in [
            ("40MB", "0"),
            ("\"10MB\"", "\"0\""),
            ("len = 1440", "len = 0"),
            ("overhead = 52", "overhead = 1"),
            ("lanes = 1", "lanes = 0"),
            ("1%", "much"),
            ("label", "lable"),
        ] {
            let plan = CircuitPlan::parse("p", &PLAN.replace(from, to));
            assert!(plan.is_err(), "{to}");
        }
    }
}
