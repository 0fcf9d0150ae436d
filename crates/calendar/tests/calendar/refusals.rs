//! Tests of refusals and their messages.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_calendar::{
    Calendar, Config, Id, Link, Need, Refusal, Request, Route, Shape, Topology,
};

use super::{at, calendar, file, gbps, nanos, occupy};

#[test]
fn impossible_request_is_refused_with_a_remedy() {
    let mut calendar = calendar(10, 0, Config::default());
    let now = at(1_000_000_000);
    let base = Request {
        from: now,
        ..file(&calendar, 1000, 10)
    };
    let year_9999 = at(u64::MAX);
    let half = 1 << 63;
    for (change, says) in [
        (
            &(|r: &mut Request| r.need = Need::bytes(0)) as &dyn Fn(&mut Request),
            "at least 1 byte",
        ),
        (&|r| r.need = Need::Hold(Duration::ZERO), "at least 1ns"),
        (&|r| r.need = Need::bytes(half), "ask for less"),
        (
            &|r| {
                r.need = Need::Size {
                    bytes: u64::MAX,
                    margin_ppm: u32::MAX,
                }
            },
            "ask for less",
        ),
        (&|r| r.need = Need::Hold(Duration::MAX), "ask for less"),
        (&|r| r.from = at(999_999_999), "at 1.000000000s or later"),
        (&|r| r.from = year_9999, "an earlier start"),
        (&|r| r.rate_max = gbps(11), "at most 10.000 Gb/s"),
        (&|r| r.rate_max = Rate::UNLIMITED, "at most 10.000 Gb/s"),
        (
            &|r| r.rate_min = Some(Rate::UNLIMITED),
            "lowest rate of at most",
        ),
        (
            &|r| (r.rate_min, r.rate_max) = (Some(gbps(3)), gbps(2)),
            "at most 2.000 Gb/s",
        ),
        (&|r| r.rate_max = Rate::from_mbps(1), "at least 1.000 Gb/s"),
        (
            &|r| r.deadline = Some(at(1)),
            "in time: ask for an end at 1.000000800s",
        ),
        (
            &|r| r.deadline = Some(at(now.as_nanos() + 400)),
            "for 500 bytes",
        ),
        (
            &|r| (r.rate_max, r.deadline) = (gbps(2), Some(at(now.as_nanos() + 1000))),
            "for 250 bytes, or with a highest rate of 8.000 Gb/s",
        ),
    ] {
        let mut request = base.clone();
        change(&mut request);
        let before = calendar.clone();
        let why = calendar.book(now, Id(1), &request).unwrap_err();
        assert!(why.to_string().contains(says), "{why}");
        assert_eq!(calendar, before, "{why}");
    }
    let topology = Topology::single_link(gbps(1), gbps(1)).unwrap();
    let (a, b) = (topology.node("a").unwrap(), topology.node("b").unwrap());
    let back = Request {
        route: Route::Between(b, a),
        ..base
    };
    assert_eq!(calendar.quote(now, &back), Err(Refusal::NoPath));
    assert_eq!(calendar.release(now, Id(7)), Err(Refusal::NotFound(Id(7))));
}

#[test]
fn range_without_a_channel_is_refused_and_the_next_lower_rate_is_named() {
    let calendar = calendar(10, 0, Config::default());
    let request = Request {
        rate_min: Some(Rate::from_mbps(3200)),
        rate_max: Rate::from_mbps(3800),
        ..file(&calendar, 1000, 10)
    };
    let refused = calendar.quote(at(0), &request);
    assert_eq!(refused, Err(Refusal::RateRange(gbps(4), gbps(3))));
    let lower = Request {
        rate_min: Some(gbps(3)),
        ..request
    };
    assert!(calendar.quote(at(0), &lower).is_ok());
}

#[test]
fn last_capacity_is_granted_once() {
    let mut calendar = calendar(
        1,
        0,
        Config {
            horizon: nanos(800),
            ..Config::default()
        },
    );
    let request = file(&calendar, 100, 1);
    assert_eq!(
        calendar.quote(at(0), &request),
        calendar.quote(at(0), &request)
    );
    assert!(calendar.book(at(0), Id(1), &request).is_ok());
    assert_eq!(
        calendar.book(at(0), Id(2), &request),
        Err(Refusal::BeyondHorizon(at(800)))
    );
}

#[test]
fn full_calendar_refuses_until_a_booking_has_ended() {
    let mut calendar = calendar(
        4,
        0,
        Config {
            bookings_max: 2,
            steps_max: 2,
            ..Config::default()
        },
    );
    let request = file(&calendar, 1, 1);
    for id in [1, 2] {
        calendar.book(at(0), Id(id), &request).unwrap();
    }
    assert_eq!(
        calendar.book(at(0), Id(3), &request),
        Err(Refusal::CalendarFull(2))
    );
    assert_eq!(calendar.forget(at(8)), [Id(1), Id(2)]);
    occupy(&mut calendar, 10, 20, 1);
    occupy(&mut calendar, 20, 30, 2);
    let long = Request {
        from: at(8),
        ..file(&calendar, 100, 4)
    };
    assert_eq!(calendar.quote(at(8), &long), Err(Refusal::TooManySteps(2)));
}

#[test]
fn busy_path_is_named_before_a_path_that_is_too_narrow() {
    let link = |name: &str, channels, cost| Link {
        name: name.into(),
        from: "a".into(),
        to: "b".into(),
        capacity: gbps(channels),
        channel: gbps(1),
        guard: Duration::ZERO,
        cost,
    };
    let wide = |cost| {
        let links = vec![link("narrow", 1, 2), link("link", 4, cost)];
        let topology = Topology::new(vec!["a".into(), "b".into()], links).unwrap();
        let config = Config {
            horizon: nanos(800),
            ..Config::default()
        };
        Calendar::new(topology, config).unwrap()
    };
    // whichever path is cheaper
    for cost in [1, 3] {
        let mut calendar = wide(cost);
        occupy(&mut calendar, 0, 800, 2);
        let node = |name| calendar.topology().node(name).unwrap();
        let request = Request {
            route: Route::Between(node("a"), node("b")),
            shape: Shape::Fixed,
            ..file(&calendar, 1, 3)
        };
        let refused = calendar.quote(at(0), &request);
        assert_eq!(refused, Err(Refusal::BeyondHorizon(at(800))), "{cost}");
    }
}

#[test]
fn lowest_rate_of_the_first_path_is_named_if_all_rates_are_higher() {
    let link = |name: &str, channel, cost| Link {
        name: name.into(),
        from: "a".into(),
        to: "b".into(),
        capacity: gbps(8),
        channel: gbps(channel),
        guard: Duration::ZERO,
        cost,
    };
    let links = vec![link("link", 2, 1), link("other", 4, 2)];
    let topology = Topology::new(vec!["a".into(), "b".into()], links).unwrap();
    let calendar = Calendar::new(topology, Config::default()).unwrap();
    let node = |name| calendar.topology().node(name).unwrap();
    let request = Request {
        route: Route::Between(node("a"), node("b")),
        ..file(&calendar, 1, 1)
    };
    let refused = calendar.quote(at(0), &request);
    assert_eq!(refused, Err(Refusal::RateBelowChannel(gbps(2))));
}
