//! Tests of the public interface of a calendar.
#![expect(clippy::unwrap_used, reason = "a test")]

mod changes;
mod counted;
mod grants;
mod properties;
mod refusals;
mod repacking;
mod shares;
mod trails;

use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::{
    Calendar, Config, Detail, Grant, Id, Link, LinkId, Need, Owner, Path, Request, Route, Shape,
    Topology,
};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn gbps(gbps: u64) -> Rate {
    Rate::from_mbps(gbps * 1000)
}

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// Returns a calendar of one link with this many channels of 1 Gb/s.
fn calendar(channels: u64, guard: u64, config: Config) -> Calendar {
    let link = Link {
        name: "link".into(),
        from: "a".into(),
        to: "b".into(),
        capacity: gbps(channels),
        channel: gbps(1),
        guard: nanos(guard),
        cost: 1,
    };
    let topology = Topology::new(vec!["a".into(), "b".into()], vec![link]).unwrap();
    Calendar::new(topology, config).unwrap()
}

fn link(calendar: &Calendar) -> LinkId {
    calendar.topology().link("link").unwrap()
}

fn path(calendar: &Calendar) -> Arc<Path> {
    Path::new(calendar.topology(), vec![link(calendar)]).unwrap()
}

/// Returns a request for this many bytes from time zero on, at up to this many channels.
fn file(calendar: &Calendar, bytes: u64, channels: u64) -> Request {
    Request {
        owner: Owner(0),
        priority: 0,
        route: Route::Along(path(calendar)),
        need: Need::bytes(bytes),
        rate_min: None,
        rate_max: gbps(channels),
        from: Instant::ZERO,
        deadline: None,
        shape: Shape::Varying,
        detail: Detail::Joined,
    }
}

/// Books channels in `from..till`.
fn occupy(calendar: &mut Calendar, from: u64, till: u64, channels: u64) -> Id {
    let id = Id(1_000_000 + calendar.bookings().count() as u64);
    let about = calendar.topology().about(link(calendar)).unwrap();
    let guard = about.guard.as_nanos() as u64;
    let request = Request {
        need: Need::Hold(nanos(till - from - guard)),
        from: at(from),
        shape: Shape::Fixed,
        ..file(calendar, 1, channels)
    };
    let grant = calendar.book(at(0), id, &request).unwrap();
    assert_eq!((grant.start(), grant.end()), (at(from), at(till)));
    id
}

fn steps(grant: &Grant) -> Vec<(u64, u64, u64)> {
    let step = |step: &Step| {
        (
            step.from.as_nanos(),
            step.till.as_nanos(),
            step.rate.as_bps() / 1_000_000_000,
        )
    };
    grant.steps().iter().map(step).collect()
}
