//! Rate limit of an owner after outages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_base::{Rate, Rng};
use lighthaul_booking::books::{Books, Config, Policy, Principal};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::json::{
    Bps, Bytes, IsoDuration, NewReservation, Reservation, Timestamp,
};
use lighthaul_booking_client::reservation::ReservationState;

use crate::world::{
    BEGIN, SECONDS_WORTH, World, ada, all_for, ben, fixed_for, most_at_once, parallel_links,
    plan_outage,
};

const GIGABIT: u64 = 1_000_000_000;
/// Horizon of reservations in seconds.
const HORIZON: u64 = 1000;

/// Returns books over three links of 1 Gb/s from `a` to `b`, with a limit of 1 Gb/s for ada.
fn books() -> Books {
    let topology = parallel_links(&[("one", 1), ("two", 1), ("three", 1)]);
    let limited = Policy {
        rate_max: Some(Rate::from_mbps(1000)),
        ..Policy::default()
    };
    let mut config = Config {
        policies: [("ada".to_owned(), limited)].into(),
        ..Config::default()
    };
    config.calendar.horizon = Duration::from_secs(HORIZON);
    let now = Arc::new(AtomicU64::new(BEGIN));
    let clock = move || Timestamp(now.load(Ordering::Relaxed));
    let store = Box::new(Sqlite::in_memory().unwrap());
    Books::open(store, topology, config, clock).unwrap()
}

/// Returns a request for the path of one link from a second on.
fn over(link: &str, from: u64, new: NewReservation) -> NewReservation {
    NewReservation {
        from: None,
        to: None,
        path: Some(vec![link.to_owned()]),
        start: Some(World::at(from)),
        ..new
    }
}

/// Returns a request for any link from a second on.
fn over_any(from: u64, new: NewReservation) -> NewReservation {
    NewReservation {
        start: Some(World::at(from)),
        ..new
    }
}

/// Returns the active reservations among `all`, and asserts that ada is within her limit.
fn within_limit(books: &Books, all: &[&Reservation]) -> Vec<Reservation> {
    let now = all.iter().map(|one| books.get(&ada(), one.id).unwrap());
    let live: Vec<Reservation> = now.filter(|one| !one.state.is_final()).collect();
    let most = most_at_once(&live);
    assert!(most <= GIGABIT, "{most} b/s at one time: {live:?}");
    live
}

#[test]
fn outage_moves_reservation_to_a_time_within_the_owners_rate_limit() {
    let books = books();
    let first = books.reserve(&ada(), &over_any(100, all_for(10)), None);
    let first = first.unwrap();
    let second = books.reserve(&ada(), &over("two", 110, fixed_for(10)), None);
    let second = second.unwrap();
    assert_eq!(first.path, ["one"]);
    for link in ["two", "three"] {
        let new = over(link, 100, fixed_for(10));
        books.reserve(&ben(), &new, None).unwrap();
    }
    plan_outage(&books, "one", 100, 105);
    let live = within_limit(&books, &[&first, &second]);
    assert_eq!(live.len(), 2, "{live:?}");
    // five seconds before the start of the second one, and five after its end
    assert_eq!(live[0].promised_end, World::at(125));
    assert_eq!(live[1], second);
}

#[test]
fn outage_keeps_reservation_at_a_rate_within_the_owners_limit() {
    let books = books();
    let half = NewReservation {
        rate_max: Some(Bps(GIGABIT / 2)),
        size: Some(Bytes(20 * SECONDS_WORTH / 2)),
        ..fixed_for(1)
    };
    let beside = books.reserve(&ada(), &over("two", 110, half), None);
    let beside = beside.unwrap();
    let moved = books.reserve(&ada(), &over("one", 100, all_for(10)), None);
    let moved = moved.unwrap();
    plan_outage(&books, "one", 100, 110);
    let live = within_limit(&books, &[&beside, &moved]);
    assert_eq!(live.len(), 2, "{live:?}");
    assert_eq!(live[1].promised_end, World::at(130));
}

#[test]
fn outages_of_any_links_and_times_leave_an_owner_within_its_limit() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let books = books();
        let mut all = Vec::new();
        for _ in 0..12 {
            let mbps = 100 * (1 + rng.below(10));
            let new = NewReservation {
                rate_max: Some(Bps(mbps * 1_000_000)),
                ..if rng.below(2) == 0 {
                    all_for(10)
                } else {
                    fixed_for(10)
                }
            };
            let new = over_any(100 + rng.below(200), new);
            // requests above the limit are refused
            all.extend(books.reserve(&ada(), &new, None));
            let new = over_any(100 + rng.below(200), fixed_for(15));
            books.reserve(&ben(), &new, None).unwrap();
        }
        for _ in 0..6 {
            let link = ["one", "two", "three"][rng.below(3) as usize];
            let from = 50 + rng.below(250);
            plan_outage(&books, link, from, from + 1 + rng.below(100));
            let all: Vec<&Reservation> = all.iter().collect();
            assert!(!within_limit(&books, &all).is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn displaced_reservations_do_not_block_each_other() {
    let books = books();
    let reserve = |principal: &Principal, link, from| {
        let new = over(link, from, fixed_for(10));
        books.reserve(principal, &new, None).unwrap()
    };
    reserve(&ben(), "two", 100);
    reserve(&ben(), "three", 100);
    let first = books.reserve(&ada(), &over_any(100, fixed_for(10)), None);
    let first = first.unwrap();
    let second = books.reserve(&ada(), &over_any(110, fixed_for(10)), None);
    let second = second.unwrap();
    assert_eq!(
        (&first.path, &second.path),
        (&["one".to_owned()].into(), &["one".to_owned()].into())
    );
    plan_outage(&books, "one", 100, 115);
    let live = within_limit(&books, &[&first, &second]);
    // the first booking gets the time of the second one
    let ends: Vec<Timestamp> = live.iter().map(|one| one.promised_end).collect();
    assert_eq!(ends, [World::at(120), World::at(130)]);
}

#[test]
fn freed_capacity_is_used_only_within_the_limit_of_the_owner() {
    let books = books();
    let reserve = |principal: &Principal, link, new| {
        let new = over(link, 100, new);
        books.reserve(principal, &new, None).unwrap()
    };
    let other = reserve(&ben(), "one", fixed_for(10));
    let first = reserve(&ada(), "two", fixed_for(10));
    let second = reserve(&ada(), "one", all_for(10));
    assert_eq!(second.promised_end, World::at(120));
    books.release(&ben(), other.id, "").unwrap();
    let live = within_limit(&books, &[&first, &second]);
    assert_eq!(live, [first.clone(), second]);
    books.release(&ada(), first.id, "").unwrap();
    let moved = books.get(&ada(), live[1].id).unwrap();
    assert_eq!(moved.promised_end, World::at(110));
}

#[test]
fn failure_names_the_rate_limit() {
    let books = books();
    let first = books.reserve(&ada(), &over_any(100, all_for(10)), None);
    let first = first.unwrap();
    let rest = NewReservation {
        size: None,
        hold: Some(IsoDuration(Duration::from_secs(HORIZON - 5 - 110))),
        ..all_for(1)
    };
    let rest = books.reserve(&ada(), &over("two", 110, rest), None);
    let rest = rest.unwrap();
    plan_outage(&books, "one", 100, HORIZON);
    plan_outage(&books, "two", 100, 110);
    plan_outage(&books, "three", 100, 110);
    assert_eq!(within_limit(&books, &[&first, &rest]), [rest]);
    let failed = books.get(&ada(), first.id).unwrap();
    assert_eq!(failed.state, ReservationState::Failed);
    let why = failed.failure.unwrap();
    let says =
        "the policy of ada permits 1.000 Gb/s at one time for all of its reservations together";
    assert!(
        why.contains("no other time or path is free") && why.contains(says),
        "{why}"
    );
}
