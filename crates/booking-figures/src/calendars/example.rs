//! Figures 1 and 2 of the VBLS paper: free capacity of a link, and the grant for a file of 5 GB.
//!
//! An [`Example`] is a plan file with the steps of the free capacity and one file. `simulate` books
//! the missing capacity, then the file, and returns a table with a row for each unit of 100 ms.
//! `plot` draws it as steps. Capacity is in channels of 10 Gb/s, since the paper counts so.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::{
    Calendar, Config, Detail, Id, Link, Need, Owner, Request, Route, Shape, Topology,
};
use lighthaul_plot::curve::{Curve, Mark};
use lighthaul_plot::panel::{Axis, Panel};
use lighthaul_plot::sheet::Sheet;
use serde::Deserialize;

use lighthaul_lab::error::Result;
use lighthaul_lab::file;
use lighthaul_lab::plot::misuse;
use lighthaul_lab::table::{SIMULATION, Table};

/// Example of a booking: a link with its free capacity, and a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// Title of the figure.
    pub title: String,
    /// Number of the link's channels, each of 10 Gb/s.
    channels: u64,
    /// Steps of the free capacity: start in units of 100 ms, and number of free channels.
    free: Vec<[u64; 2]>,
    bytes: u64,
    most: u64,
    from: u64,
    /// Grant of the paper: begin and end of each step in units of 100 ms, and its channels.
    paper: Vec<[f64; 3]>,
}

impl Example {
    /// Reads a plan's file.
    pub fn read(file: &Path) -> Result<Self> {
        file::read(file, |_, text| {
            let example: Self = file::settings(text)?;
            let in_order = example.free.windows(2).all(|pair| pair[0][0] < pair[1][0]);
            let fits = example.free.iter().all(|step| step[1] <= example.channels);
            if !in_order || !fits || example.most > example.channels {
                return Err("`free` needs ascending times, and neither `free` nor `most` may exceed `channels`".into());
            }
            Ok(example)
        })
    }

    /// Books the file. Returns a table of free and granted channels per unit of time.
    pub fn simulate(&self) -> Table {
        let mut calendar = self.calendar();
        let before = self.channels_free(&calendar);
        let request = Request {
            need: Need::bytes(self.bytes),
            rate_max: gbps(self.most * 10),
            detail: Detail::Rounds,
            shape: Shape::Varying,
            ..Self::hold(self.from, self.from + 1, 1)
        };
        calendar
            .book(Instant::ZERO, Id(0), &request)
            .expect("the example is granted");
        let after = self.channels_free(&calendar);
        let rows = before
            .iter()
            .zip(&after)
            .enumerate()
            .map(|(unit, (before, after))| {
                [unit as f64, *before, before - after, *after]
                    .map(Some)
                    .to_vec()
            });
        let columns = ["free", "granted", "left"].map(|name| format!("{name}{SIMULATION}"));
        Table {
            columns: std::iter::once("unit".into()).chain(columns).collect(),
            rows: rows.collect(),
        }
    }

    /// Draws the table: the free capacity, and the grant beside that of the paper. Returns a PNG image.
    pub fn plot(&self, table: &Table) -> Result<Vec<u8>> {
        let curve = |nth, label: &str, name: &str| {
            let points = table.points(&format!("{name}{SIMULATION}"));
            let seconds = points
                .iter()
                .map(|(unit, channels)| (unit / 10.0, *channels));
            let curve = Curve::new(nth, label, seconds.collect());
            curve.mark(Mark::None).steps(UNIT.as_secs_f64())
        };
        let panel = |title: &str, curves| Panel {
            title: title.to_owned(),
            x: Axis::new("time, s"),
            y: Axis::new("channels of 10 Gb/s").till(self.channels as f64 + 0.3),
            curves,
            levels: Vec::new(),
        };
        let free = vec![
            curve(0, "before the booking", "free"),
            curve(1, "after it", "left"),
        ];
        // the middle of each step of the paper's vector
        let steps = self.paper.iter();
        let steps = steps.map(|[from, till, channels]| ((from + till) / 20.0, *channels));
        let granted = vec![
            curve(2, "granted", "granted"),
            Curve::of_paper("paper: steps of the grant", steps.collect()),
        ];
        let panels = vec![panel("free capacity", free), panel("the file", granted)];
        let sheet = Sheet::new(&self.title, panels);
        sheet.png().map_err(misuse("vbls-example"))
    }

    /// Creates a calendar with the plan's free capacity.
    fn calendar(&self) -> Calendar {
        let link = Link {
            name: "link".into(),
            from: "a".into(),
            to: "b".into(),
            capacity: gbps(self.channels * 10),
            channel: gbps(10),
            guard: Duration::ZERO,
            cost: 1,
        };
        let topology = Topology::new(vec!["a".into(), "b".into()], vec![link])
            .expect("the topology has one link");
        let mut calendar =
            Calendar::new(topology, Config::default()).expect("the default configuration is valid");
        for (nth, pair) in (1..).zip(self.free.windows(2)) {
            let [[from, free], [till, _]] = [pair[0], pair[1]];
            if free < self.channels {
                let request = Self::hold(from, till, self.channels - free);
                calendar
                    .book(Instant::ZERO, Id(nth), &request)
                    .expect("the steps do not overlap");
            }
        }
        calendar
    }

    fn hold(from: u64, till: u64, channels: u64) -> Request {
        let topology = Topology::single_link(gbps(1), gbps(1)).expect("the topology has one link");
        let node = |name| topology.node(name).expect("the link has two ends");
        Request {
            owner: Owner(0),
            priority: 0,
            route: Route::Between(node("a"), node("b")),
            need: Need::Hold(UNIT * (till - from) as u32),
            rate_min: None,
            rate_max: gbps(channels * 10),
            from: Instant::ZERO + UNIT * from as u32,
            deadline: None,
            shape: Shape::Fixed,
            detail: Detail::Joined,
        }
    }

    fn channels_free(&self, calendar: &Calendar) -> Vec<f64> {
        let last = self.free.last().map_or(0, |step| step[0]) + 10;
        let link = calendar
            .topology()
            .link("link")
            .expect("the topology has one link");
        let at = |unit: u64| Instant::ZERO + UNIT * unit as u32;
        let free = |unit| {
            calendar
                .free(link, Owner(0), at(unit), at(unit + 1))
                .map(|step| step.bps)
                .min()
        };
        (0..last)
            .map(|unit| free(unit).unwrap_or(0) as f64 / 1e10)
            .collect()
    }
}

fn gbps(gbps: u64) -> Rate {
    Rate::from_mbps(gbps * 1000)
}

const UNIT: Duration = Duration::from_millis(100);
