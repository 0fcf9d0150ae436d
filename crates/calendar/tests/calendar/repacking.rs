//! Tests of repacking over two parallel links.

use lighthaul_calendar::{
    Calendar, Capacity, Config, Grant, Id, Link, MoveRules, Need, NoRules, Path, RateLimit,
    Refusal, RepackLimits, Request, Route, Scope, Shape, Topology,
};

use super::{at, calendar, file, gbps, nanos, occupy, steps};

/// Rules that refuse other paths, or other grants.
#[derive(Clone, Copy, Debug, Default)]
struct Strict {
    paths: bool,
    grants: bool,
}

impl MoveRules for Strict {
    fn may_take(&self, _id: Id, _path: &Path, _topology: &Topology) -> bool {
        !self.paths
    }

    fn check(&mut self, id: Id, _was: &Grant, _new: &Grant) -> Result<(), Refusal> {
        if self.grants {
            return Err(Refusal::NotFound(id));
        }
        Ok(())
    }
}

/// Rules that limit the rate of a booking.
struct Limited {
    left: Capacity,
    less: u64,
}

impl MoveRules for Limited {
    fn may_take(&self, _id: Id, _path: &Path, _topology: &Topology) -> bool {
        true
    }

    fn rate_limit(&self, _id: Id) -> Option<RateLimit<'_>> {
        let (left, less) = (&self.left, self.less);
        Some(RateLimit { left, less })
    }

    fn check(&mut self, _id: Id, _was: &Grant, _new: &Grant) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Returns a calendar of a link and a detour from `a` to `b`, each of one channel of 1 Gb/s.
fn two_links() -> Calendar {
    let link = |name: &str, cost| Link {
        name: name.into(),
        from: "a".into(),
        to: "b".into(),
        capacity: gbps(1),
        channel: gbps(1),
        guard: nanos(0),
        cost,
    };
    let nodes = vec!["a".into(), "b".into()];
    let topology = Topology::new(nodes, vec![link("link", 1), link("detour", 2)]).unwrap();
    Calendar::new(topology, Config::default()).unwrap()
}

/// Returns a request for either link.
fn either(calendar: &Calendar, need: Need) -> Request {
    let node = |name| calendar.topology().node(name).unwrap();
    Request {
        need,
        route: Route::Between(node("a"), node("b")),
        ..file(calendar, 1, 1)
    }
}

/// Returns a request for one link.
fn over(calendar: &Calendar, name: &str, need: Need) -> Request {
    let link = calendar.topology().link(name).unwrap();
    let path = Path::new(calendar.topology(), vec![link]).unwrap();
    Request {
        need,
        route: Route::Along(path),
        ..file(calendar, 1, 1)
    }
}

/// Books a link for this time, from time zero on.
fn hold(calendar: &mut Calendar, id: u64, name: &str, time: u64) {
    let request = Request {
        shape: Shape::Fixed,
        ..over(calendar, name, Need::Hold(nanos(time)))
    };
    calendar.book(at(0), Id(id), &request).unwrap();
}

/// Returns the link, the start and the end of a booking.
fn place(calendar: &Calendar, id: u64) -> (String, u64, u64) {
    let grant = calendar.booking(Id(id)).unwrap().grant();
    let link = grant.path().links()[0];
    let name = calendar.topology().about(link).unwrap().name.clone();
    (name, grant.start().as_nanos(), grant.end().as_nanos())
}

fn repack(calendar: &mut Calendar, rules: &mut impl MoveRules) -> usize {
    let mut limits = RepackLimits::NONE;
    let moved = calendar.repack_by(at(0), Scope::Waiting, &mut limits, rules);
    moved.len()
}

#[test]
fn repack_changes_the_path_only_if_rules_allow_path_and_grant() {
    let mut calendar = two_links();
    hold(&mut calendar, 1, "link", 100);
    hold(&mut calendar, 2, "detour", 200);
    let request = either(&calendar, Need::bytes(10));
    calendar.book(at(0), Id(3), &request).unwrap();
    let before = ("link".to_owned(), 100, 180);
    assert_eq!(place(&calendar, 3), before);
    calendar.release(at(0), Id(2)).unwrap();
    for (paths, grants) in [(true, false), (false, true)] {
        assert_eq!(repack(&mut calendar, &mut Strict { paths, grants }), 0);
        assert_eq!(place(&calendar, 3), before);
    }
    assert_eq!(repack(&mut calendar, &mut NoRules), 1);
    assert_eq!(place(&calendar, 3), ("detour".to_owned(), 0, 80));
}

#[test]
fn repack_may_always_use_the_current_path() {
    let mut calendar = two_links();
    hold(&mut calendar, 1, "link", 100);
    hold(&mut calendar, 2, "detour", 200);
    let request = either(&calendar, Need::bytes(10));
    calendar.book(at(0), Id(3), &request).unwrap();
    calendar.release(at(0), Id(1)).unwrap();
    let mut rules = Strict {
        paths: true,
        grants: false,
    };
    assert_eq!(repack(&mut calendar, &mut rules), 1);
    assert_eq!(place(&calendar, 3), ("link".to_owned(), 0, 80));
}

#[test]
fn repack_prefers_the_cheaper_path_at_equal_ends() {
    let mut calendar = two_links();
    hold(&mut calendar, 1, "link", 100);
    let request = either(&calendar, Need::bytes(10));
    calendar.book(at(0), Id(2), &request).unwrap();
    assert_eq!(place(&calendar, 2), ("detour".to_owned(), 0, 80));
    calendar.release(at(0), Id(1)).unwrap();
    assert_eq!(repack(&mut calendar, &mut NoRules), 1);
    assert_eq!(place(&calendar, 2), ("link".to_owned(), 0, 80));
}

#[test]
fn repack_respects_the_rate_limit_of_rules() {
    let mut calendar = calendar(4, 0, Config::default());
    let before = occupy(&mut calendar, 0, 100, 4);
    let request = file(&calendar, 20, 4);
    calendar.book(at(0), Id(1), &request).unwrap();
    let now = |calendar: &Calendar| steps(calendar.booking(Id(1)).unwrap().grant());
    assert_eq!(now(&calendar), [(100, 140, 4)]);
    calendar.release(at(0), before).unwrap();
    let (left, less) = (Capacity::new(3_000_000_000), 1_000_000_000);
    assert_eq!(repack(&mut calendar, &mut Limited { left, less }), 1);
    assert_eq!(now(&calendar), [(0, 80, 2)]);
    assert_eq!(repack(&mut calendar, &mut NoRules), 1);
    assert_eq!(now(&calendar), [(0, 40, 4)]);
}

#[test]
fn extended_booking_may_change_its_path_before_its_start() {
    let mut calendar = two_links();
    hold(&mut calendar, 1, "link", 100);
    hold(&mut calendar, 2, "detour", 120);
    let request = either(&calendar, Need::bytes(10));
    calendar.book(at(0), Id(3), &request).unwrap();
    let next = over(&calendar, "link", Need::bytes(10));
    calendar.book(at(0), Id(4), &next).unwrap();
    assert_eq!(place(&calendar, 3), ("link".to_owned(), 100, 180));
    calendar.extend(at(0), Id(3), Need::bytes(20)).unwrap();
    assert_eq!(place(&calendar, 3), ("detour".to_owned(), 120, 280));
}

#[test]
fn extended_hold_keeps_its_path_and_its_start() {
    for shape in [Shape::Fixed, Shape::Varying] {
        let mut calendar = two_links();
        hold(&mut calendar, 1, "link", 100);
        let request = Request {
            shape,
            from: at(50),
            ..either(&calendar, Need::Hold(nanos(20)))
        };
        calendar.book(at(0), Id(2), &request).unwrap();
        assert_eq!(place(&calendar, 2), ("detour".to_owned(), 50, 70));
        calendar.release(at(0), Id(1)).unwrap();
        let longer = Need::Hold(nanos(40));
        calendar.extend(at(0), Id(2), longer).unwrap();
        assert_eq!(place(&calendar, 2), ("detour".to_owned(), 50, 90));
    }
}

#[test]
fn extension_is_limited_by_the_deadline() {
    let mut calendar = calendar(1, 0, Config::default());
    let request = Request {
        deadline: Some(at(160)),
        ..file(&calendar, 10, 1)
    };
    calendar.book(at(0), Id(1), &request).unwrap();
    let late = calendar.extend(at(0), Id(1), Need::bytes(21));
    assert!(matches!(late, Err(Refusal::MissesDeadline(counter)) if counter.end == Some(at(168))));
    let grown = calendar.extend(at(0), Id(1), Need::bytes(20)).unwrap();
    assert_eq!(steps(grown), [(0, 160, 1)]);
}

#[test]
fn repack_skips_ended_bookings_and_active_bookings_out_of_scope() {
    let mut calendar = calendar(1, 0, Config::default());
    let between = occupy(&mut calendar, 40, 60, 1);
    let request = file(&calendar, 10, 1);
    calendar.book(at(0), Id(1), &request).unwrap();
    assert_eq!(steps(calendar.booking(Id(1)).unwrap().grant()).len(), 2);
    calendar.release(at(0), between).unwrap();
    for (now, scope, looked_at, moved) in [
        (100, Scope::All, 0, 0),
        (99, Scope::Waiting, 0, 0),
        (20, Scope::Waiting, 0, 0),
        (20, Scope::All, 1, 1),
    ] {
        let mut limits = RepackLimits {
            bookings: 9,
            steps: 9,
        };
        let moves = calendar.repack_by(at(now), scope, &mut limits, &mut NoRules);
        assert_eq!((9 - limits.bookings, moves.len()), (looked_at, moved));
    }
    assert_eq!(
        steps(calendar.booking(Id(1)).unwrap().grant()),
        [(0, 80, 1)]
    );
}

#[test]
fn extension_is_limited_by_the_maximum_of_steps() {
    let config = Config {
        steps_max: 2,
        ..Config::default()
    };
    let mut calendar = calendar(1, 0, config);
    occupy(&mut calendar, 8, 16, 1);
    occupy(&mut calendar, 32, 40, 1);
    let request = file(&calendar, 2, 1);
    calendar.book(at(0), Id(1), &request).unwrap();
    let more = |calendar: &mut Calendar, bytes| {
        let grown = calendar.extend(at(20), Id(1), Need::bytes(bytes));
        grown.map(steps)
    };
    assert_eq!(more(&mut calendar, 3), Ok(vec![(0, 8, 1), (16, 32, 1)]));
    assert_eq!(more(&mut calendar, 4), Err(Refusal::TooManySteps(2)));
}

#[test]
fn extension_of_an_active_booking_costs_no_second_guard_time() {
    let mut calendar = calendar(1, 10, Config::default());
    let request = file(&calendar, 10, 1);
    calendar.book(at(0), Id(1), &request).unwrap();
    assert_eq!(
        steps(calendar.booking(Id(1)).unwrap().grant()),
        [(0, 90, 1)]
    );
    let longer = calendar.extend(at(50), Id(1), Need::bytes(20)).unwrap();
    assert_eq!(steps(longer), [(0, 170, 1)]);
}

#[test]
fn extended_booking_has_a_guard_time_after_a_gap() {
    let mut calendar = calendar(1, 10, Config::default());
    occupy(&mut calendar, 40, 60, 1);
    let request = file(&calendar, 10, 1);
    calendar.book(at(0), Id(1), &request).unwrap();
    let expected = [(0, 40, 1), (60, 120, 1)];
    assert_eq!(steps(calendar.booking(Id(1)).unwrap().grant()), expected);
    let longer = calendar.extend(at(50), Id(1), Need::bytes(15)).unwrap();
    assert_eq!(steps(longer), [(0, 40, 1), (60, 160, 1)]);
}
