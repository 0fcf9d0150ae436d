//! Tests of grants for small requests.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_base::trc::Step;
use lighthaul_calendar::{
    Calendar, Config, Detail, Id, Limits, Link, Need, Refusal, Request, Route, Shape, Topology,
};

use super::{at, calendar, file, gbps, nanos, occupy, steps};

/// Section 3.2, Figures 1 and 2 of the paper: 5 GB from time 50 on, at most 2 of 4 channels of 10
/// Gb/s. A time unit is 100 ms.
#[test]
fn vbls_grants_the_example_of_the_paper() {
    const UNIT: u64 = 100_000_000;
    // the text says that at least 2 channels are free there; with 3 there would be no change at 70
    for free_at_60 in [2, 4] {
        let link = Link {
            name: "link".into(),
            from: "a".into(),
            to: "b".into(),
            capacity: gbps(40),
            channel: gbps(10),
            guard: Duration::ZERO,
            cost: 1,
        };
        let topology = Topology::new(vec!["a".into(), "b".into()], vec![link]).unwrap();
        let mut calendar = Calendar::new(topology, Config::default()).unwrap();
        occupy(&mut calendar, 0, 50 * UNIT, 40);
        occupy(&mut calendar, 50 * UNIT, 60 * UNIT, 30);
        if free_at_60 < 4 {
            occupy(&mut calendar, 60 * UNIT, 70 * UNIT, (4 - free_at_60) * 10);
        }
        occupy(&mut calendar, 70 * UNIT, 80 * UNIT, 10);
        let request = Request {
            from: at(50 * UNIT),
            detail: Detail::Rounds,
            ..file(&calendar, 5_000_000_000, 20)
        };
        let paper = calendar.book(at(0), Id(1), &request).unwrap().clone();
        let step = |(from, till, channels): (u64, u64, u64)| Step {
            from: at(from * UNIT),
            till: at(till * UNIT),
            rate: gbps(channels * 10),
        };
        assert_eq!(
            paper.steps(),
            [(50, 60, 1), (60, 70, 2), (70, 75, 2)].map(step)
        );
        assert_eq!(paper.joined(), [(50, 60, 1), (60, 75, 2)].map(step));
        let joined = Request {
            detail: Detail::Joined,
            ..request
        };
        calendar.release(at(0), Id(1)).unwrap();
        assert_eq!(
            calendar.quote(at(0), &joined).unwrap().steps(),
            paper.joined()
        );
        let trc = paper.trc(at(50 * UNIT)).unwrap();
        assert_eq!(trc.to_string(), "0s-1s 10Gb/s, 1s-2500ms 20Gb/s");
        assert_eq!(trc.bytes_between(trc.start(), trc.end()), 5_000_000_000);
    }
}

#[test]
fn adjacent_bookings_do_not_add_up() {
    let mut calendar = calendar(10, 0, Config::default());
    occupy(&mut calendar, 0, 100, 6);
    occupy(&mut calendar, 100, 200, 6);
    occupy(&mut calendar, 0, 200, 4);
    let next = calendar
        .book(at(0), Id(1), &file(&calendar, 10, 10))
        .unwrap();
    assert_eq!(steps(next), [(200, 208, 10)]);
}

#[test]
fn varying_rate_uses_gaps_and_fixed_rate_waits() {
    let mut calendar = calendar(4, 0, Config::default());
    occupy(&mut calendar, 10, 20, 4);
    occupy(&mut calendar, 30, 40, 2);
    let request = file(&calendar, 20, 4);
    assert_eq!(
        steps(&calendar.quote(at(0), &request).unwrap()),
        [(0, 10, 4), (20, 30, 4), (30, 40, 2), (40, 55, 4)]
    );
    let fixed = Request {
        shape: Shape::Fixed,
        ..request.clone()
    };
    assert_eq!(
        steps(&calendar.quote(at(0), &fixed).unwrap()),
        [(40, 80, 4)]
    );
    let at_least = Request {
        rate_min: Some(gbps(3)),
        ..request
    };
    assert_eq!(
        steps(&calendar.quote(at(0), &at_least).unwrap()),
        [(0, 10, 4), (20, 30, 4), (40, 60, 4)]
    );
}

#[test]
fn rate_between_two_channels_is_rounded_down() {
    let mut calendar = calendar(4, 0, Config::default());
    occupy(&mut calendar, 0, 10, 1);
    let request = Request {
        rate_max: Rate::from_mbps(3500),
        ..file(&calendar, 30, 4)
    };
    let rounded = Step {
        from: at(0),
        till: at(80),
        rate: gbps(3),
    };
    for shape in [Shape::Varying, Shape::Fixed] {
        let request = Request {
            shape,
            ..request.clone()
        };
        let grant = calendar.quote(at(0), &request).unwrap();
        assert_eq!(grant.steps(), [rounded], "{shape:?}");
    }
}

#[test]
fn rate_up_from_the_lowest_of_an_interface_is_granted() {
    let link = Link {
        name: "link".into(),
        from: "a".into(),
        to: "b".into(),
        capacity: gbps(4),
        channel: gbps(1),
        guard: Duration::ZERO,
        cost: 1,
    };
    let mut topology = Topology::new(vec!["a".into(), "b".into()], vec![link]).unwrap();
    let node = |name| topology.node(name).unwrap();
    let (a, b, link) = (node("a"), node("b"), topology.link("link").unwrap());
    topology.attach("port", &[link]).unwrap();
    let limits = Limits {
        capacity: gbps(4),
        channel: gbps(1),
        least: gbps(2),
        guard: Duration::ZERO,
        packet_bytes: 0,
        circuits_max: 8,
    };
    topology.set_limits("port", limits).unwrap();
    let (port, _) = topology.interface("port").unwrap();
    let calendar = Calendar::new(topology, Config::default()).unwrap();
    let at_most = |channels| {
        let request = Request {
            route: Route::Through(port, a, b),
            ..file(&calendar, 20, channels)
        };
        calendar.quote(at(0), &request)
    };
    assert_eq!(steps(&at_most(2).unwrap()), [(0, 80, 2)]);
    assert_eq!(at_most(1), Err(Refusal::RateBelowChannel(gbps(2))));
}

#[test]
fn holding_time_never_falls_below_its_lowest_rate() {
    let mut calendar = calendar(4, 0, Config::default());
    occupy(&mut calendar, 10, 20, 3);
    occupy(&mut calendar, 40, 50, 1);
    let request = Request {
        need: Need::Hold(nanos(30)),
        rate_min: Some(gbps(2)),
        ..file(&calendar, 1, 4)
    };
    assert_eq!(
        steps(&calendar.quote(at(0), &request).unwrap()),
        [(20, 40, 4), (40, 50, 3)]
    );
}

#[test]
fn increase_costs_a_guard_time_and_short_gaps_are_skipped() {
    let mut calendar = calendar(4, 10, Config::default());
    occupy(&mut calendar, 5, 40, 4);
    occupy(&mut calendar, 60, 100, 2);
    // the gap from 0 to 5 is shorter than the guard time; at 100 two more channels pay off, with 40
    // bits left
    let grant = calendar
        .book(at(0), Id(1), &file(&calendar, 20, 4))
        .unwrap();
    assert_eq!(steps(grant), [(40, 60, 4), (60, 100, 2), (100, 115, 4)]);
    let lit = grant.carrying_steps();
    let times: Vec<_> = lit
        .iter()
        .map(|step| (step.from.as_nanos(), step.till.as_nanos()))
        .collect();
    assert_eq!(times, [(50, 60), (60, 110), (110, 115)]);
    let carried: u64 = times
        .iter()
        .zip([4, 2, 4])
        .map(|((from, till), rate)| (till - from) * rate)
        .sum();
    assert_eq!(carried, 20 * 8);
}

#[test]
fn last_slot_has_only_the_needed_channels() {
    let config = Config {
        slot: nanos(100),
        ..Config::default()
    };
    let mut calendar = calendar(10, 0, config);
    let request = Request {
        from: at(30),
        ..file(&calendar, 300, 10)
    };
    // 2400 bits: two slots of ten channels, one of four
    assert_eq!(
        steps(calendar.book(at(0), Id(1), &request).unwrap()),
        [(100, 300, 10), (300, 400, 4)]
    );
    // 1 byte takes one channel for one slot, next to the first booking
    assert_eq!(
        steps(
            &calendar
                .quote(
                    at(0),
                    &Request {
                        need: Need::bytes(1),
                        ..request
                    }
                )
                .unwrap()
        ),
        [(300, 400, 1)]
    );
}
