//! Books with a clock that the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_booking::books::{Books, Config, Principal};
use lighthaul_booking::store::Store;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::json::{
    Bps, Bytes, NewOutage, NewReservation, Reservation, Shape, Timestamp,
};
use lighthaul_booking_client::role::Role;
use lighthaul_calendar::{Calendar, Link, Topology};

/// Start time of the tests, in 2027.
pub(crate) const BEGIN: u64 = 1_800_000_000 * SECOND;
pub(crate) const SECOND: u64 = 1_000_000_000;
/// Bytes that the link carries in a second.
pub(crate) const SECONDS_WORTH: u64 = 125_000_000;

/// Books over one link of 1 Gb/s from `a` to `b`.
pub(crate) struct World {
    pub(crate) books: Books,
    pub(crate) now: Arc<AtomicU64>,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self::on(Box::new(Sqlite::in_memory().unwrap()), config)
    }

    pub(crate) fn on(store: Box<dyn Store>, config: Config) -> Self {
        let now = Arc::new(AtomicU64::new(BEGIN));
        let books = open(store, config, &now).unwrap();
        Self { books, now }
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, seconds: u64) {
        self.now.fetch_add(seconds * SECOND, Ordering::Relaxed);
        self.books.tick().unwrap();
    }

    /// Returns the time this many seconds after the start.
    pub(crate) const fn at(seconds: u64) -> Timestamp {
        Timestamp(BEGIN + seconds * SECOND)
    }

    /// Returns the bookings from now on.
    pub(crate) fn calendar(&self) -> Calendar {
        let mut calendar = self.books.snapshot().unwrap();
        calendar.forget(Timestamp(self.now.load(Ordering::Relaxed)).instant());
        calendar
    }
}

/// Opens books with a clock.
pub(crate) fn open(
    store: Box<dyn Store>,
    config: Config,
    now: &Arc<AtomicU64>,
) -> lighthaul_booking::Result<Books> {
    let now = Arc::clone(now);
    Books::open(store, link(1000), config, move || {
        Timestamp(now.load(Ordering::Relaxed))
    })
}

/// Returns a link of this many megabits a second, with channels of 1 Mb/s.
pub(crate) fn link(mbps: u64) -> Topology {
    Topology::single_link(Rate::from_mbps(mbps), Rate::from_mbps(1)).unwrap()
}

/// Returns a request for the whole link for this many seconds, as early as possible.
pub(crate) fn all_for(seconds: u64) -> NewReservation {
    NewReservation {
        from: Some("a".into()),
        to: Some("b".into()),
        size: Some(Bytes(seconds * SECONDS_WORTH)),
        rate_max: Some(Bps(1_000_000_000)),
        margin_percent: Some(0),
        commit: true,
        ..NewReservation::default()
    }
}

/// Returns the same request with a fixed rate.
pub(crate) fn fixed_for(seconds: u64) -> NewReservation {
    NewReservation {
        shape: Shape::Fixed,
        ..all_for(seconds)
    }
}

/// Returns the same request without a commit.
pub(crate) fn held_for(seconds: u64) -> NewReservation {
    NewReservation {
        commit: false,
        ..all_for(seconds)
    }
}

/// Returns the highest total rate of reservations.
pub(crate) fn most_at_once(all: &[Reservation]) -> u64 {
    let steps = all.iter().flat_map(|reservation| &reservation.steps);
    let ends =
        steps.flat_map(|step| [(step.from, 1, step.rate_bps), (step.till, 0, step.rate_bps)]);
    let mut ends: Vec<_> = ends.collect();
    // at equal times, ends come before starts
    ends.sort_unstable();
    let sums = ends.iter().scan(0, |sum, (_, begins, bps)| {
        *sum = if *begins == 1 { *sum + bps } else { *sum - bps };
        Some(*sum)
    });
    sums.max().unwrap_or(0)
}

pub(crate) fn ada() -> Principal {
    Principal::new("ada", Role::User)
}

pub(crate) fn ben() -> Principal {
    Principal::new("ben", Role::User)
}

pub(crate) fn operator() -> Principal {
    Principal::new("olga", Role::Operator)
}

pub(crate) fn device() -> Principal {
    Principal::new("eth1", Role::Device)
}

/// Plans an outage of `link`, in seconds after the start.
pub(crate) fn plan_outage(books: &Books, link: &str, from: u64, till: u64) {
    let outage = NewOutage {
        link: link.to_owned(),
        from: Some(World::at(from)),
        till: World::at(till),
        why: String::new(),
    };
    books.outage(&operator(), &outage).unwrap();
}

/// Returns links of 1 Gb/s from `a` to `b` with these names and costs.
pub(crate) fn parallel_links(links: &[(&str, u32)]) -> Topology {
    let link = |(name, cost): &(&str, u32)| Link {
        name: (*name).to_owned(),
        from: "a".to_owned(),
        to: "b".to_owned(),
        capacity: Rate::from_mbps(1000),
        channel: Rate::from_mbps(1),
        guard: Duration::ZERO,
        cost: *cost,
    };
    let nodes = ["a", "b"].map(str::to_owned).to_vec();
    Topology::new(nodes, links.iter().map(link).collect()).unwrap()
}
