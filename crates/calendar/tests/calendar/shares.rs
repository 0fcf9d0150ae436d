//! Tests of shares and priorities.

use lighthaul_base::Rng;
use lighthaul_calendar::{Calendar, Config, Id, Owner, RepackLimits, Request, Scope};

use super::{at, calendar, file, occupy, steps};

/// A share is available to its owner at all times, regardless of the bookings of others.
#[test]
fn owner_of_a_share_is_not_delayed_by_other_owners() {
    let (small, greedy) = (Owner(1), Owner(2));
    let shares = [(small, 100)].into();
    let mut calendar = calendar(
        100,
        0,
        Config {
            shares,
            ..Config::default()
        },
    );
    for (id, from) in (0..200).zip((0..).step_by(1000)) {
        // each of these fills the link for a long time
        let wish = Request {
            owner: greedy,
            priority: 255,
            from: at(from),
            ..file(&calendar, 1_000_000, 100)
        };
        calendar.book(at(0), Id(id), &wish).unwrap();
    }
    let other = Request {
        owner: Owner(3),
        ..file(&calendar, 1000, 10)
    };
    assert!(
        calendar.quote(at(0), &other).unwrap().start() > at(10_000_000),
        "an owner without a share waits"
    );
    let mut rng = Rng::new(1);
    for id in 1000..1100 {
        let from = rng.below(10_000_000) / 1000 * 1000;
        let wish = Request {
            owner: small,
            from: at(from),
            ..file(&calendar, 1000, 10)
        };
        let grant = calendar.quote(at(0), &wish).unwrap();
        // 10 of 100 channels are its share, so that it always gets the requested start and rate
        assert_eq!(steps(&grant), [(from, from + 800, 10)], "{id}");
    }
}

#[test]
fn repack_moves_by_priority_and_delays_no_booking() {
    let mut calendar = calendar(1, 0, Config::default());
    let first = occupy(&mut calendar, 0, 1000, 1);
    for (id, priority) in [(1, 0), (2, 7)] {
        let request = Request {
            priority,
            ..file(&calendar, 100, 1)
        };
        calendar.book(at(0), Id(id), &request).unwrap();
    }
    let ends = |calendar: &Calendar| {
        [1, 2].map(|id| calendar.booking(Id(id)).unwrap().grant().end().as_nanos())
    };
    assert_eq!(ends(&calendar), [1800, 2600]);
    calendar.release(at(0), first).unwrap();
    let moved = calendar.repack(at(0), Scope::Waiting, RepackLimits::NONE);
    assert_eq!(moved.len(), 2);
    assert_eq!(ends(&calendar), [1600, 800]);
}
