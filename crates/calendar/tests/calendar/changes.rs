//! Tests of release, extension, reduction, outages and repacking.

use lighthaul_base::{Instant, Rng};
use lighthaul_calendar::{
    Booking, Calendar, Config, Id, Need, NoRules, Outage, Refusal, RepackLimits, Request, Scope,
    Shape,
};

use super::{at, calendar, file, nanos, occupy, steps};

#[test]
fn margin_is_booked_and_freed_by_an_early_release() {
    let mut calendar = calendar(1, 0, Config::default());
    let request = Request {
        need: Need::Size {
            bytes: 1000,
            margin_ppm: 100_000,
        },
        ..file(&calendar, 1, 1)
    };
    assert_eq!(
        steps(calendar.book(at(0), Id(1), &request).unwrap()),
        [(0, 8800, 1)]
    );
    let freed = calendar.release(at(8000), Id(1)).unwrap();
    assert_eq!((freed[0].from, freed[0].till), (at(8000), at(8800)));
    let next = Request {
        from: at(8000),
        ..file(&calendar, 1000, 1)
    };
    assert_eq!(
        steps(calendar.book(at(8000), Id(2), &next).unwrap()),
        [(8000, 16000, 1)]
    );
}

/// Releasing unused margins and repacking gives the same ends as booking without margins.
#[test]
fn repacking_after_early_ends_equals_booking_without_margins() {
    for seed in 0..20 {
        let (mut knows, mut learns) = (
            calendar(20, 0, Config::default()),
            calendar(20, 0, Config::default()),
        );
        let mut rng = Rng::new(seed);
        let mut now = 0;
        let mut wishes = Vec::new();
        for id in 0..150 {
            now += rng.below(400);
            let (bytes, channels) = (1 + rng.below(2000), [1, 5, 10][rng.below(3) as usize]);
            wishes.push((
                Id(id),
                Request {
                    from: at(now),
                    ..file(&knows, bytes, channels)
                },
            ));
        }
        let mut moved = 0;
        for (id, wish) in &wishes {
            knows.book(wish.from, *id, wish).unwrap();
            moved += finish_until(&mut learns, &knows, wish.from);
            let Need::Size { bytes, .. } = wish.need else {
                continue;
            };
            let need = Need::Size {
                bytes,
                margin_ppm: 100_000,
            };
            learns
                .book(
                    wish.from,
                    *id,
                    &Request {
                        need,
                        ..wish.clone()
                    },
                )
                .unwrap();
        }
        moved += finish_until(&mut learns, &knows, Instant::NEVER);
        assert_eq!(learns.bookings().count(), 0, "seed {seed}");
        assert!(
            moved > 10,
            "seed {seed}: only {moved} were moved, so this test shows nothing"
        );
    }
}

/// Releases each booking when it has carried its bytes, until a time, and repacks. Asserts that it
/// ends when the calendar without margins has it end. Returns the number of moves.
fn finish_until(learns: &mut Calendar, knows: &Calendar, till: Instant) -> usize {
    let mut moved = 0;
    loop {
        let over = |(id, booking): (Id, &Booking)| {
            let Need::Size { bytes, .. } = booking.request().need else {
                return None;
            };
            let trc = booking.grant().trc(Instant::ZERO).unwrap();
            Some((trc.time_to_send(bytes, Instant::ZERO).unwrap(), id))
        };
        let Some((end, id)) = learns
            .bookings()
            .filter_map(over)
            .min()
            .filter(|(end, _)| *end <= till)
        else {
            return moved;
        };
        assert_eq!(
            Some(end),
            knows.booking(id).map(|booking| booking.grant().end())
        );
        learns.release(end, id).unwrap();
        moved += learns.repack(end, Scope::All, RepackLimits::NONE).len();
    }
}

#[test]
fn active_booking_can_be_extended_and_shrunk() {
    let mut calendar = calendar(4, 0, Config::default());
    calendar
        .book(at(0), Id(1), &file(&calendar, 100, 2))
        .unwrap();
    occupy(&mut calendar, 500, 600, 4);
    assert_eq!(
        steps(calendar.extend(at(100), Id(1), Need::bytes(150)).unwrap()),
        [(0, 500, 2), (600, 700, 2)]
    );
    assert_eq!(
        steps(calendar.shrink(at(100), Id(1), Need::bytes(50)).unwrap()),
        [(0, 200, 2)]
    );
    assert_eq!(
        calendar.shrink(at(190), Id(1), Need::bytes(10)),
        Err(Refusal::AmountOutOfRange(Id(1)))
    );
    assert_eq!(
        calendar.extend(at(100), Id(1), Need::bytes(50)),
        Err(Refusal::AmountOutOfRange(Id(1)))
    );
    assert_eq!(
        calendar.extend(at(200), Id(1), Need::bytes(60)),
        Err(Refusal::Ended(Id(1)))
    );
    let hold = Request {
        need: Need::Hold(nanos(100)),
        shape: Shape::Fixed,
        from: at(300),
        ..file(&calendar, 1, 4)
    };
    calendar.book(at(200), Id(2), &hold).unwrap();
    let longer = |time| Need::Hold(nanos(time));
    assert_eq!(
        calendar.extend(at(350), Id(2), longer(201)),
        Err(Refusal::FollowingBooked(at(500)))
    );
    assert_eq!(
        steps(calendar.extend(at(350), Id(2), longer(200)).unwrap()),
        [(300, 500, 4)]
    );
    assert_eq!(
        steps(calendar.shrink(at(350), Id(2), longer(60)).unwrap()),
        [(300, 360, 4)]
    );
    assert_eq!(
        calendar.extend(at(350), Id(2), Need::bytes(5)),
        Err(Refusal::AmountOutOfRange(Id(2)))
    );
}

#[test]
fn outage_moves_bookings_and_shortens_bookings_that_do_not_fit() {
    let mut calendar = calendar(4, 0, Config::default());
    let hold = |channels| Request {
        need: Need::Hold(nanos(100)),
        shape: Shape::Fixed,
        ..file(&calendar, 1, channels)
    };
    let (begun, waiting) = (
        hold(1),
        Request {
            from: at(300),
            ..hold(4)
        },
    );
    let long = file(&calendar, 150, 3);
    for (id, request) in (1..).zip([&begun, &long, &waiting]) {
        calendar.book(at(0), Id(id), request).unwrap();
    }
    let outage = Outage {
        link: calendar.topology().link("link").unwrap(),
        from: at(80),
        till: at(350),
    };
    let displaced = calendar.outage(at(50), Id(9), outage).unwrap();
    assert_eq!(displaced.lost, [Id(1)]);
    let now = |calendar: &Calendar, id| steps(calendar.booking(Id(id)).unwrap().grant());
    assert_eq!(now(&calendar, 1), [(0, 80, 1)]);
    // it continues when the outage ends, and skips the time of booking 3
    assert_eq!(
        now(&calendar, 2),
        [(0, 80, 3), (350, 400, 3), (500, 770, 3)]
    );
    assert_eq!(now(&calendar, 3), [(400, 500, 4)]);
    assert_eq!(calendar.lift(Id(9)), Ok(outage));
    let moved = calendar.repack(at(50), Scope::All, RepackLimits::NONE);
    assert_eq!(moved.len(), 1);
    assert_eq!(now(&calendar, 2), [(0, 400, 3)]);
    assert_eq!(now(&calendar, 3), [(400, 500, 4)]);
}

#[test]
fn repack_respects_its_limits() {
    for (bookings, steps, moves) in [(9, 9, 5), (2, 9, 2), (9, 3, 3), (0, 9, 0)] {
        let mut calendar = calendar(1, 0, Config::default());
        let first = occupy(&mut calendar, 0, 100, 1);
        for id in 1..=5 {
            let request = file(&calendar, 10, 1);
            calendar.book(at(0), Id(id), &request).unwrap();
        }
        calendar.release(at(0), first).unwrap();
        let mut limits = RepackLimits { bookings, steps };
        let moved = calendar.repack_by(at(0), Scope::Waiting, &mut limits, &mut NoRules);
        assert_eq!((moved.len(), limits.steps), (moves, steps - moves));
    }
}
