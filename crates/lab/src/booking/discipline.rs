//! Completion times of files under each discipline.
//!
//! [`ends`] returns the time at which each file of a run has arrived:
//!
//! - VBLS and FBLS with booking: a [`Calendar`] books each file when it arrives
//! - FBLS at run time: [`at_run_time`], in two queue orders
//! - packet switching: [`fifo`] and [`fair`]
//!
//! All of them get the same arrivals. Only the calendar knows paths, slots, guard times and shares;
//! the other disciplines use a single link. Time is virtual.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::fbls::{QueueOrder, at_run_time};
use lighthaul_calendar::packet::{fair, fifo};
use lighthaul_calendar::{
    Arrival, Calendar, Config, Detail, Id, Link, Need, NodeId, Owner, RepackLimits, Request, Route,
    Scope, Shape, Topology,
};

use super::arrivals::{CLASSES, File};
use super::plan::{Discipline, Release, Series};

/// Computes when each file ends: on one link, or between random nodes if there are `links`.
pub fn ends(series: &Series, links: &[[String; 2]], files: &[File]) -> Vec<Instant> {
    let arrivals: Vec<Arrival> = files.iter().map(arrival).collect();
    match series.discipline {
        Discipline::Vbls | Discipline::FblsBook => Booked::new(series, links).ends(files),
        Discipline::FblsLs => at_run_time(&arrivals, LINK_BPS, QueueOrder::SkipAhead),
        Discipline::FblsFcfs => at_run_time(&arrivals, LINK_BPS, QueueOrder::FirstCome),
        Discipline::PsFifo => fifo(&arrivals, LINK_BPS),
        Discipline::PsFair => fair(&arrivals, LINK_BPS),
    }
}

fn arrival(file: &File) -> Arrival {
    Arrival {
        at: file.at,
        work: file.work(),
        most: CLASSES[file.class] * CHANNEL_BPS,
    }
}

/// Calendar on which files are booked.
struct Booked<'a> {
    series: &'a Series,
    calendar: Calendar,
    nodes: Vec<NodeId>,
    ends: Vec<Instant>,
}

impl<'a> Booked<'a> {
    fn new(series: &'a Series, links: &[[String; 2]]) -> Self {
        let owners = (0..).map(Owner).zip(series.shares);
        let config = Config {
            horizon: HORIZON,
            slot: series.slot,
            paths_max: series.paths,
            shares: owners.filter(|(_, share)| *share > 0).collect(),
            ..Config::default()
        };
        let topology = topology(links, series.guard);
        let nodes = topology.nodes().map(|(node, _)| node).collect();
        let calendar = Calendar::new(topology, config);
        Self {
            series,
            calendar: calendar.expect("a plan's slots and shares are valid"),
            nodes,
            ends: Vec::new(),
        }
    }

    fn ends(mut self, files: &[File]) -> Vec<Instant> {
        for (nth, file) in files.iter().enumerate() {
            self.release_until(files, file.at);
            if nth % FORGET_EVERY == 0 {
                self.calendar.forget(file.at);
            }
            let request = self.request(file);
            let grant = self.calendar.book(file.at, Id(nth as u64), &request);
            let grant = grant.expect("a calendar of ten years fits every file");
            self.ends.push(grant.end_of(file.work()));
        }
        self.release_until(files, Instant::NEVER);
        self.ends
    }

    fn request(&self, file: &File) -> Request {
        let nodes = self.nodes.len() as u64;
        let from = (file.chance >> 32) % nodes;
        let to = (from + 1 + (file.chance & u64::from(u32::MAX)) % (nodes - 1)) % nodes;
        // On a single link, only one direction is used.
        let (from, to) = if nodes == 2 { (0, 1) } else { (from, to) };
        let channels = |channels| Rate::from_bps(channels * CHANNEL_BPS);
        Request {
            owner: Owner(file.class as u32),
            priority: 0,
            route: Route::Between(self.nodes[from as usize], self.nodes[to as usize]),
            need: Need::Size {
                bytes: file.bytes,
                margin_ppm: self.series.margin_ppm.unwrap_or(file.resent_ppm),
            },
            rate_min: channels(self.series.least.min(CLASSES[file.class])),
            rate_max: channels(CLASSES[file.class]).unwrap_or(Rate::UNLIMITED),
            from: file.at,
            deadline: None,
            shape: if self.series.discipline == Discipline::FblsBook {
                Shape::Fixed
            } else {
                Shape::Varying
            },
            detail: Detail::Joined,
        }
    }

    /// Releases, one after the other, the bookings whose files have ended by `till`.
    fn release_until(&mut self, files: &[File], till: Instant) {
        if self.series.release == Release::Never {
            return;
        }
        loop {
            let over = self.calendar.bookings().map(|(id, booking)| {
                let work = files[id.0 as usize].work();
                (booking.grant().end_of(work), id)
            });
            let Some((end, id)) = over.min().filter(|(end, _)| *end <= till) else {
                return;
            };
            self.ends[id.0 as usize] = end;
            self.calendar.release(end, id).expect("it is booked");
            if self.series.release == Release::Repack {
                self.calendar.repack(end, Scope::All, RepackLimits::NONE);
            }
        }
    }
}

/// Creates links of a hundred channels in both directions between nodes, or a single link.
pub fn topology(links: &[[String; 2]], guard: Duration) -> Topology {
    let link = |from: &str, to: &str| Link {
        name: format!("{from}-{to}"),
        from: from.into(),
        to: to.into(),
        capacity: Rate::from_mbps(LINK_BPS / 1_000_000),
        channel: Rate::from_mbps(CHANNEL_BPS / 1_000_000),
        guard,
        cost: 1,
    };
    let ways = links.iter().flat_map(|[a, b]| [link(a, b), link(b, a)]);
    let mut all: Vec<Link> = ways.collect();
    if all.is_empty() {
        all.push(link("a", "b"));
    }
    let ends = all
        .iter()
        .flat_map(|link| [link.from.clone(), link.to.clone()]);
    let nodes: BTreeSet<String> = ends.collect();
    Topology::new(nodes.into_iter().collect(), all).expect("a plan's links connect all nodes")
}

/// Rate of a link (section 3.3.1): a hundred channels of 10 Gb/s.
pub const LINK_BPS: u64 = 100 * CHANNEL_BPS;
const CHANNEL_BPS: u64 = 10_000_000_000;
const HORIZON: Duration = Duration::from_hours(24 * 3650);
const FORGET_EVERY: usize = 256;
