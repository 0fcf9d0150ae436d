//! Links and times to which reservations are moved, after an outage or when capacity is freed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_booking::Error;
use lighthaul_booking::books::{Books, Config, Policy, Principal, Quota};
use lighthaul_booking::error::PolicyError;
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::json::{Bps, Bytes, Change, NewReservation, Reservation, Timestamp};
use lighthaul_booking_client::reservation::ReservationState;
use lighthaul_calendar::Topology;

use crate::world::{
    BEGIN, SECOND, SECONDS_WORTH, World, ada, all_for, ben, fixed_for, operator, parallel_links,
    plan_outage,
};

/// Returns three links from `a` to `b`: `short` is the cheapest and `allowed` the most expensive.
fn three_links() -> Topology {
    parallel_links(&[("short", 1), ("forbidden", 2), ("allowed", 3)])
}

/// Returns books over these links, with a policy for all users except ben.
fn books(policy: Policy) -> Books {
    let config = Config {
        policy,
        policies: [("ben".to_owned(), Policy::default())].into(),
        ..Config::default()
    };
    let now = Arc::new(AtomicU64::new(BEGIN));
    let clock = move || Timestamp(now.load(std::sync::atomic::Ordering::Relaxed));
    let store = Box::new(Sqlite::in_memory().unwrap());
    Books::open(store, three_links(), config, clock).unwrap()
}

fn only(links: &[&str]) -> Policy {
    Policy {
        links: Some(links.iter().map(ToString::to_string).collect()),
        ..Policy::default()
    }
}

/// Books a link for ben between two seconds.
fn hold(books: &Books, link: &str, from: u64, till: u64) -> u64 {
    let new = NewReservation {
        from: None,
        to: None,
        path: Some(vec![link.to_owned()]),
        start: Some(World::at(from)),
        ..fixed_for(till - from)
    };
    let held = books.reserve(&ben(), &new, None).unwrap();
    assert_eq!(
        (held.steps[0].from, held.promised_end),
        (World::at(from), World::at(till))
    );
    held.id
}

fn is_on(books: &Books, principal: &Principal, reservation: &Reservation, link: &str) {
    let now = books.get(principal, reservation.id).unwrap();
    assert_eq!(
        (now.path.as_slice(), now.failure),
        ([link.to_owned()].as_slice(), None)
    );
}

#[test]
fn outage_moves_reservation_only_to_links_that_its_policy_allows() {
    let books = books(only(&["short", "allowed"]));
    let new = NewReservation {
        start: Some(World::at(100)),
        ..all_for(10)
    };
    let bound = books.reserve(&ada(), &new, None).unwrap();
    is_on(&books, &ada(), &bound, "short");
    plan_outage(&books, "short", 0, 1000);
    is_on(&books, &ada(), &bound, "allowed");
    // the reservation fails without another permitted link, and the forbidden link stays free
    plan_outage(&books, "allowed", 0, 3_000_000);
    let late = NewReservation {
        start: Some(World::at(2000)),
        ..new
    };
    let other = books.reserve(&ada(), &late, None).unwrap();
    is_on(&books, &ada(), &other, "short");
    plan_outage(&books, "short", 1000, 3_000_000);
    let failed = books.get(&ada(), other.id).unwrap();
    assert_eq!(failed.state, ReservationState::Failed, "{failed:?}");
}

/// Returns books over one link in which ada may book this many seconds of it an hour, and BEGIN starts an hour.
fn with_hourly_quota(seconds: u64) -> World {
    let quota = Quota {
        bytes: seconds * SECONDS_WORTH,
        ..Quota::default()
    };
    World::new(Config {
        policies: [("ada".to_owned(), quota.into())].into(),
        window: Duration::from_hours(1),
        ..Config::default()
    })
}

#[test]
fn outage_moves_no_reservation_into_an_hour_without_quota() {
    assert_eq!(BEGIN % (3600 * SECOND), 0);
    for (room, keeps) in [(30, true), (29, false)] {
        let world = with_hourly_quota(room);
        let books = &world.books;
        let over = |from, seconds| NewReservation {
            start: Some(World::at(from)),
            ..all_for(seconds)
        };
        let moved = books.reserve(&ada(), &over(100, 20), None).unwrap();
        books.reserve(&ada(), &over(4000, 10), None).unwrap();
        // the rest of this hour is out
        plan_outage(books, "link", 100, 3600);
        let moved = books.get(&ada(), moved.id).unwrap();
        assert_eq!(moved.failure.is_none(), keeps, "{room}: {moved:?}");
        if keeps {
            assert_eq!(moved.promised_end, World::at(3620));
        } else {
            let why = moved.failure.unwrap();
            assert!(
                why.contains("may book 3625000000 bytes in 1 hours"),
                "{why}"
            );
        }
        let quota = books.reserve(&ada(), &over(5000, 1), None);
        assert!(matches!(quota, Err(Error::Quota(_))) == keeps, "{quota:?}");
    }
}

#[test]
fn outage_moves_reservations_of_one_hour_in_turn_within_their_quota() {
    let world = with_hourly_quota(30);
    let books = &world.books;
    let ids = [100, 120].map(|from| {
        let new = NewReservation {
            start: Some(World::at(from)),
            ..all_for(15)
        };
        books.reserve(&ada(), &new, None).unwrap().id
    });
    // both stay in their hour, which has no room beside both
    plan_outage(books, "link", 100, 200);
    let ends = ids.map(|id| books.get(&ada(), id).unwrap().promised_end);
    assert_eq!(ends, [World::at(215), World::at(230)]);
    let full = books.reserve(&ada(), &all_for(1), None);
    assert!(matches!(full, Err(Error::Quota(_))), "{full:?}");
}

#[test]
fn freed_capacity_is_used_only_within_the_quota_of_the_hour() {
    for (seconds, moves) in [(30, true), (29, false)] {
        let world = with_hourly_quota(seconds);
        let books = &world.books;
        let all = NewReservation {
            start: Some(World::at(100)),
            ..fixed_for(3500)
        };
        let blocker = books.reserve(&ben(), &all, None).unwrap().id;
        let (early, late) = (all_for(10), all_for(20));
        books.reserve(&ada(), &early, None).unwrap();
        let start = Some(World::at(100));
        let late = books.reserve(&ada(), &NewReservation { start, ..late }, None);
        let late = late.unwrap();
        assert_eq!(late.promised_end, World::at(3620));
        books.terminate(&ben(), blocker, "").unwrap();
        world.pass(1);
        let end = books.get(&ada(), late.id).unwrap().promised_end;
        assert_eq!(end == World::at(120), moves, "{end}");
    }
}

#[test]
fn outage_moves_bookings_of_operators_to_any_link() {
    let books = books(only(&["short"]));
    let new = NewReservation {
        start: Some(World::at(100)),
        ..all_for(10)
    };
    let free = books.reserve(&operator(), &new, None).unwrap();
    is_on(&books, &operator(), &free, "short");
    plan_outage(&books, "short", 0, 1000);
    is_on(&books, &operator(), &free, "forbidden");
}

#[test]
fn outage_does_not_move_reservation_beyond_the_end_that_its_policy_allows() {
    let books = books(Policy {
        ahead: Some(Duration::from_hours(1)),
        ..Policy::default()
    });
    let new = NewReservation {
        start: Some(World::at(3000)),
        ..all_for(10)
    };
    let early = books.reserve(&ada(), &new, None).unwrap();
    for link in ["short", "forbidden", "allowed"] {
        plan_outage(&books, link, 2900, 3300);
    }
    let moved = books.get(&ada(), early.id).unwrap();
    assert_eq!(moved.promised_end, World::at(3310));
    for link in ["short", "forbidden", "allowed"] {
        plan_outage(&books, link, 3300, 3700);
    }
    assert_eq!(
        books.get(&ada(), early.id).unwrap().state,
        ReservationState::Failed
    );
}

#[test]
fn outage_moves_reservation_that_an_operator_extended_if_its_end_stays() {
    let books = books(Policy {
        ahead: Some(Duration::from_hours(1)),
        ..Policy::default()
    });
    let new = NewReservation {
        start: Some(World::at(3000)),
        ..all_for(10)
    };
    let bound = books.reserve(&ada(), &new, None).unwrap();
    let larger = Change {
        size: Some(Bytes(1000 * SECONDS_WORTH)),
        ..Change::default()
    };
    books.extend(&operator(), bound.id, &larger).unwrap();
    plan_outage(&books, "short", 0, 5000);
    is_on(&books, &ada(), &bound, "forbidden");
    let moved = books.get(&ada(), bound.id).unwrap();
    assert_eq!(moved.promised_end, World::at(4000));
}

#[test]
fn freed_capacity_is_used_only_on_permitted_links() {
    let books = books(only(&["short", "allowed"]));
    hold(&books, "short", 0, 100);
    let forbidden = hold(&books, "forbidden", 0, 200);
    let allowed = hold(&books, "allowed", 0, 200);
    let bound = books.reserve(&ada(), &all_for(10), None).unwrap();
    assert_eq!(bound.promised_end, World::at(110));
    books.release(&ben(), forbidden, "").unwrap();
    assert_eq!(books.get(&ada(), bound.id).unwrap().steps, bound.steps);
    is_on(&books, &ada(), &bound, "short");
    books.release(&ben(), allowed, "").unwrap();
    is_on(&books, &ada(), &bound, "allowed");
}

#[test]
fn reservation_is_not_extended_onto_a_link_that_its_policy_forbids() {
    let books = books(only(&["short", "allowed"]));
    hold(&books, "short", 0, 100);
    hold(&books, "short", 110, 1000);
    hold(&books, "forbidden", 0, 100);
    hold(&books, "allowed", 0, 1000);
    let bound = books.reserve(&ada(), &all_for(10), None).unwrap();
    is_on(&books, &ada(), &bound, "short");
    let larger = Change {
        size: Some(Bytes(20 * SECONDS_WORTH)),
        ..Change::default()
    };
    let why = books.extend(&ada(), bound.id, &larger).unwrap_err();
    assert!(
        matches!(&why, Error::Policy(PolicyError::Link { link, .. }) if link == "forbidden"),
        "{why}"
    );
    assert_eq!(books.get(&ada(), bound.id).unwrap(), bound);
    books.extend(&operator(), bound.id, &larger).unwrap();
}

/// Each of these has as many steps as there are gaps between the bookings of ben.
#[test]
fn many_long_reservations_under_a_rate_limit_do_not_block_the_calendar() {
    const MANY: u64 = 120;
    let books = books(Policy {
        rate_max: Some(Rate::from_mbps(10_000)),
        ..only(&["short"])
    });
    let fixed: Vec<u64> = (0..=MANY)
        .map(|nth| hold(&books, "short", 100 + 2 * nth, 101 + 2 * nth))
        .collect();
    let new = NewReservation {
        from: None,
        to: None,
        path: Some(vec!["short".to_owned()]),
        start: Some(World::at(100)),
        size: Some(Bytes(MANY * SECONDS_WORTH / 1000)),
        rate_max: Some(Bps(1_000_000)),
        ..all_for(1)
    };
    let bound: Vec<Reservation> = (0..MANY)
        .map(|_| books.reserve(&ada(), &new, None).unwrap())
        .collect();
    assert!(bound.iter().all(|bound| bound.steps.len() == MANY as usize));
    // each is compared with a sum of the others, at a cost proportional to its steps
    let reserved = books.steps_examined().unwrap();
    assert!(reserved <= 2 * MANY * MANY, "{reserved}");
    books.release(&ben(), fixed[0], "").unwrap();
    let moved = books.steps_examined().unwrap() - reserved;
    assert!((MANY * MANY..=4 * MANY * MANY).contains(&moved), "{moved}");
    for bound in &bound {
        let now = books.get(&ada(), bound.id).unwrap();
        assert!(now.promised_end < bound.promised_end);
    }
}
