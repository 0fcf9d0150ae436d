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

use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::fbls::{QueueOrder, at_run_time};
use lighthaul_calendar::packet::{fair, fifo};
use lighthaul_calendar::{
    Arrival, Calendar, Detail, Id, Need, NodeId, Owner, RepackLimits, Request, Route, Scope, Shape,
};

use super::arrivals::{CLASSES, File};
use super::network::{CHANNEL_BPS, LINK_BPS, calendar};
use super::plan::{Discipline, Release, Series};

/// Computes the end of each file: on one link, or between random nodes if there are `links`.
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
        let times = (series.slot, series.guard);
        let calendar = calendar(links, times, series.shares, series.paths);
        let calendar = calendar.expect("a parsed plan has a valid calendar");
        let nodes = calendar.topology().nodes().map(|(node, _)| node);
        Self {
            series,
            nodes: nodes.collect(),
            calendar,
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

    /// Releases the bookings of files that have ended by `till`, one by one.
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

const FORGET_EVERY: usize = 256;
