//! Requests and settings that are refused without any change.

use std::time::Duration;

use lighthaul_booking::Error;
use lighthaul_booking::books::{Config, Filter, Principal, Quota};
use lighthaul_booking_client::json::{
    Bps, Bytes, Change, FlowAt, IsoDuration, NewReservation, Timestamp,
};

use crate::world::{BEGIN, SECONDS_WORTH, World, ada, all_for, ben, held_for, operator};

#[test]
fn impossible_amounts_and_times_are_refused_with_a_remedy() {
    assert_refused(&[
        ("at least 1 byte", |new| new.size = Some(Bytes(0))),
        ("ask for less", |new| new.size = Some(Bytes(1 << 63))),
        ("ask for less", |new| new.size = Some(Bytes(u64::MAX))),
        ("give size (--size) or hold (--hold), not both", |new| {
            new.size = None;
        }),
        ("give size (--size) or hold (--hold), not both", |new| {
            new.hold = "1s".parse().ok();
        }),
        ("at least 1ns", |new| {
            (new.size, new.hold) = (None, Some(IsoDuration(Duration::ZERO)));
        }),
        ("at most 100", |new| new.margin_percent = Some(101)),
        ("2027-01-15T08:00:00Z or later", |new| {
            new.start = Some(Timestamp(BEGIN - 1));
        }),
        ("earlier start", |new| {
            new.start = "2553-01-01T00:00:00Z".parse().ok();
        }),
        ("ask for an end at 2027-01-15T08:01:41Z", |new| {
            new.by = Some(World::at(1));
        }),
        ("ask for an end at 2027-01-15T08:01:42Z or later", |new| {
            new.size = Some(Bytes(SECONDS_WORTH + 1));
            new.by = Some(World::at(1));
        }),
    ]);
}

#[test]
fn impossible_rates_and_routes_are_refused_with_a_remedy() {
    assert_refused(&[
        ("at most 1.000 Gb/s", |new| {
            new.rate_max = Some(Bps(1_000_000_001));
        }),
        ("lowest rate of at most", |new| {
            new.rate_min = Some(Bps(1_000_000_001));
        }),
        ("rate_max is zero", |new| new.rate_max = Some(Bps(0))),
        ("no host or switch c", |new| new.to = Some("c".into())),
        ("two connected nodes", |new| {
            (new.from, new.to) = (Some("b".into()), Some("a".into()));
        }),
        ("either from and to", |new| new.to = None),
        ("either from and to", |new| {
            new.path = Some(vec!["link".into()]);
        }),
        ("the topology has no link x", |new| {
            (new.from, new.to, new.path) = (None, None, Some(vec!["x".into()]));
        }),
        ("the path has no links", |new| {
            (new.from, new.to, new.path) = (None, None, Some(vec![]));
        }),
        ("provisions no circuits; omit flow", |new| {
            new.flow = Some(FlowAt {
                interface: "eth9".into(),
                packets: "all".parse().unwrap(),
            });
        }),
    ]);
}

#[test]
fn omitted_values_get_defaults() {
    let world = World::new(Config::default());
    let short = NewReservation {
        rate_max: None,
        margin_percent: None,
        ..all_for(100)
    };
    let reservation = world.books.reserve(&ada(), &short, None).unwrap();
    assert_eq!(reservation.request.rate_max, Some(Bps(1_000_000_000)));
    assert_eq!(reservation.request.start, Some(World::at(0)));
    assert_eq!(
        reservation.promised_end,
        World::at(103),
        "3 percent for headers and retransmissions"
    );
}

#[test]
fn idempotency_key_repeats_its_answer_and_refuses_other_requests() {
    let world = World::new(Config::default());
    let first = world
        .books
        .reserve(&ada(), &all_for(10), Some("k"))
        .unwrap();
    world.books.release(&ada(), first.id, "").unwrap();
    assert_eq!(
        world
            .books
            .reserve(&ada(), &all_for(10), Some("k"))
            .unwrap(),
        first
    );
    let why = world
        .books
        .reserve(&ada(), &all_for(11), Some("k"))
        .unwrap_err();
    assert!(matches!(why, Error::KeyReused(_)), "{why}");
    assert_ne!(
        world
            .books
            .reserve(&ben(), &all_for(10), Some("k"))
            .unwrap()
            .id,
        first.id,
        "keys of owners are independent"
    );
    for key in ["", &"k".repeat(256)] {
        assert!(matches!(
            world.books.reserve(&ada(), &all_for(1), Some(key)),
            Err(Error::Request(_))
        ));
    }
}

#[test]
fn quota_limits_reservations_and_bytes_of_a_day() {
    let quota = Quota {
        reservations: 2,
        bytes: 100 * SECONDS_WORTH,
        ..Quota::default()
    };
    let config = Config {
        policies: [("ada".to_owned(), quota.into())].into(),
        ..Config::default()
    };
    let world = World::new(config);
    let refused = |new: &NewReservation| match world.books.reserve(&ada(), new, None) {
        Err(Error::Quota(why)) => why.to_string(),
        answer => panic!("{answer:?}"),
    };
    let why = refused(&all_for(101));
    assert!(why.contains("of which 12500000000 are left"), "{why}");
    let first = world.books.reserve(&ada(), &all_for(60), None).unwrap();
    let why = refused(&all_for(41));
    assert!(why.contains("of which 5000000000 are left"), "{why}");
    let tomorrow = NewReservation {
        start: Some(World::at(24 * 3600)),
        ..all_for(100)
    };
    let second = world.books.reserve(&ada(), &tomorrow, None).unwrap();
    let why = refused(&all_for(1));
    assert!(why.contains("2 reservations"), "{why}");
    assert!(
        world.books.reserve(&ben(), &all_for(1000), None).is_ok(),
        "quotas of owners are independent"
    );
    // a refused extension changes nothing
    let before = world.calendar();
    let size = |seconds| Change {
        size: Some(Bytes(seconds * SECONDS_WORTH)),
        ..Change::default()
    };
    assert!(matches!(
        world.books.extend(&ada(), second.id, &size(101)),
        Err(Error::Quota(_))
    ));
    assert_eq!(world.calendar(), before);
    assert_eq!(world.books.get(&ada(), second.id).unwrap(), second);
    // the unused rest of a released reservation does not count
    world.pass(10);
    world.books.release(&ada(), first.id, "").unwrap();
    assert!(world.books.reserve(&ada(), &all_for(90), None).is_ok());
}

#[test]
fn reservations_of_other_owners_are_not_visible() {
    let world = World::new(Config::default());
    let id = world.books.reserve(&ada(), &held_for(10), None).unwrap().id;
    let missing =
        |answer: lighthaul_booking::Result<_>| matches!(answer, Err(Error::NotFound { .. }));
    assert!(missing(world.books.get(&ben(), id)));
    assert!(missing(world.books.commit(&ben(), id, "")));
    assert!(missing(world.books.terminate(&ben(), id, "")));
    assert!(missing(world.books.extend(&ben(), id, &Change::default())));
    assert!(missing(world.books.get(&ada(), id + 1)));
    assert_eq!(
        world
            .books
            .list(&ben(), &Filter::default(), (0, 10))
            .unwrap()
            .items,
        []
    );
    assert_eq!(world.books.events_since(&ben(), 0, 10).unwrap().events, []);
    let whole = (World::at(0), World::at(20));
    let owner = |principal| {
        world
            .books
            .calendar(principal, "link", whole)
            .unwrap()
            .allocations[0]
            .owner
            .clone()
    };
    assert_eq!(
        (owner(&ben()), owner(&ada()).as_deref()),
        (None, Some("ada"))
    );
    assert_eq!(
        world
            .books
            .terminate(&operator(), id, "maintenance")
            .unwrap()
            .owner,
        "ada"
    );
}

#[test]
fn lists_have_pages_and_events_have_an_order() {
    let world = World::new(Config::default());
    let ids: Vec<u64> = (0..5)
        .map(|_| world.books.reserve(&ada(), &held_for(1), None).unwrap().id)
        .collect();
    let (mut seen, mut after) = (Vec::new(), 0);
    for _ in 0..3 {
        let page = world
            .books
            .list(&ada(), &Filter::default(), (after, 2))
            .unwrap();
        seen.extend(page.items.iter().map(|reservation| reservation.id));
        after = page.next.unwrap_or(u64::MAX);
    }
    assert_eq!((seen, after), (ids, u64::MAX));
    let (mut numbers, mut behind) = (Vec::new(), 0);
    for _ in 0..4 {
        let happened = world.books.events_since(&ada(), behind, 2).unwrap();
        numbers.extend(happened.events.iter().map(|event| event.seq));
        behind = happened.seq;
    }
    assert_eq!(numbers.len(), 5);
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

#[test]
fn only_the_latest_events_are_kept() {
    let world = World::new(Config {
        events_max: 4,
        ..Config::default()
    });
    let reserve = |_| world.books.reserve(&ada(), &held_for(1), None).unwrap().id + 1;
    let numbers = |after| -> Result<Vec<u64>, Error> {
        let page = world.books.events_since(&ada(), after, 100)?;
        Ok(page.events.iter().map(|event| event.seq).collect())
    };
    let first: Vec<u64> = (0..4).map(reserve).collect();
    assert_eq!(numbers(0).unwrap(), first);
    let all = [first, vec![reserve(4)]].concat();
    let why = numbers(0).unwrap_err();
    assert!(matches!(why, Error::EventsDropped { after: 0 }), "{why}");
    assert!(numbers(all[0] - 1).is_err());
    assert_eq!(numbers(all[0]).unwrap(), all[1..]);
}

#[test]
fn settings_out_of_range_are_refused() {
    let cases: [(&str, Spoil<Config>); 4] = [
        ("thousandths", |config| {
            config.shares.insert("ada".into(), 1001);
        }),
        ("hold of", |config| config.hold = Duration::ZERO),
        ("quota window", |config| {
            config.window = Duration::from_mins(1);
        }),
        ("events to keep", |config| config.events_max = 0),
    ];
    for (says, change) in cases {
        let mut config = Config::default();
        change(&mut config);
        let why = config.check().unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }
}

/// Asserts that each faulty request is refused with a remedy, and that the books do not change.
fn assert_refused(cases: &[(&str, Spoil<NewReservation>)]) {
    let world = World::new(Config::default());
    world.books.reserve(&ada(), &all_for(100), None).unwrap();
    let before = world.calendar();
    for (says, spoil) in cases {
        let mut new = held_for(1);
        assert!(world.books.quote(&ada(), &new).is_ok());
        spoil(&mut new);
        let answer = world.books.reserve(&ada(), &new, Some("key"));
        let why = answer.unwrap_err().to_string();
        assert!(why.contains(says), "{new:?}: {why}");
        assert!(world.books.quote(&ada(), &new).is_err(), "{new:?}");
    }
    assert_eq!(world.calendar(), before);
    let all = world.books.list(&operator(), &Filter::default(), (0, 100));
    assert_eq!(all.unwrap().items.len(), 1);
}

/// Makes a request or a setting faulty.
type Spoil<T> = fn(&mut T);

/// Returns the bookings of ben in an hour, one each ten seconds if the link is free. Ada asks first, holds the whole link,
/// and never commits. If `cancels` is set, she ends each hold before she asks again.
fn bookings_beside_a_greedy_user(uncommitted: Option<Duration>, cancels: bool) -> (usize, bool) {
    let quota = Quota {
        uncommitted,
        ..Quota::default()
    };
    let world = World::new(Config {
        policy: quota.into(),
        ..Config::default()
    });
    let (mut booked, mut was_refused, mut held) = (0, false, None);
    for nth in 0..360 {
        let wanted = |seconds| NewReservation {
            start: Some(World::at(10 * nth)),
            by: Some(World::at(10 * nth + seconds)),
            ..held_for(seconds)
        };
        if let Some(id) = held.take().filter(|_| cancels) {
            world.books.terminate(&ada(), id, "another one").unwrap();
        }
        match world.books.reserve(&ada(), &wanted(200), None) {
            Ok(made) => held = Some(made.id),
            Err(Error::Quota(why)) => {
                was_refused = true;
                let why = why.to_string();
                assert!(why.contains("600 s of this hour without a commit"), "{why}");
                assert!(why.contains("again after 2027-01-15T09:00:00Z"), "{why}");
            }
            Err(Error::Refused(_)) => {}
            Err(why) => panic!("{why}"),
        }
        if let Ok(made) = world.books.reserve(&ben(), &wanted(5), None) {
            world.books.commit(&ben(), made.id, "").unwrap();
            world.books.terminate(&ben(), made.id, "").unwrap();
            booked += 1;
        }
        world.pass(10);
    }
    // a commit with the request holds nothing
    let sure = NewReservation {
        commit: true,
        ..all_for(1)
    };
    world.books.reserve(&ada(), &sure, None).unwrap();
    (booked, was_refused)
}

#[test]
fn greedy_user_leaves_most_of_an_hour_to_an_honest_one() {
    for cancels in [false, true] {
        let (booked, was_refused) = bookings_beside_a_greedy_user(Some(Duration::MAX), cancels);
        assert_eq!((booked, was_refused), (0, false), "{cancels}");
        let (booked, was_refused) = bookings_beside_a_greedy_user(None, cancels);
        assert!((298..=300).contains(&booked) && was_refused, "{booked}");
    }
}

#[test]
fn hold_of_half_a_link_counts_half_until_the_next_hour() {
    let world = World::new(Config::default());
    let half = NewReservation {
        rate_max: Some(Bps(500_000_000)),
        ..held_for(100)
    };
    let hold = |wanted: &NewReservation| {
        let made = world.books.reserve(&ada(), wanted, None);
        world.pass(120);
        made.map(drop)
    };
    // each hold lasts two minutes
    for nth in 0..10 {
        assert!(hold(&half).is_ok(), "{nth}");
    }
    assert!(matches!(hold(&half), Err(Error::Quota(_))));
    // operators and other users have no part in it
    assert!(world.books.reserve(&operator(), &half, None).is_ok());
    assert!(world.books.reserve(&ben(), &half, None).is_ok());
    world.pass(3600 - 11 * 120);
    assert!(hold(&half).is_ok());
}

/// Reserves the whole link without a commit, again and again, and returns the number of holds before a refusal.
fn holds_before_refusal(world: &World, principal: &Principal, wanted: &NewReservation) -> usize {
    let hold = |_: &usize| {
        let made = world.books.reserve(principal, wanted, None);
        world.pass(130);
        assert!(matches!(made, Ok(_) | Err(Error::Quota(_))), "{made:?}");
        made.is_ok()
    };
    (0..20).take_while(hold).count()
}

#[test]
fn hold_counts_for_no_longer_than_the_time_that_it_reserves() {
    let world = World::new(Config::default());
    assert_eq!(holds_before_refusal(&world, &ada(), &held_for(1)), 20);
    assert_eq!(holds_before_refusal(&world, &ben(), &held_for(1000)), 5);
}

#[test]
fn change_of_a_hold_does_not_lower_its_count() {
    let world = World::new(Config::default());
    let shrunk = |nth: &u64| {
        let later = NewReservation {
            start: Some(World::at(120 * nth + 200)),
            ..held_for(1000)
        };
        let Ok(made) = world.books.reserve(&ada(), &later, None) else {
            return false;
        };
        world.pass(119);
        let change = Change {
            size: Some(Bytes(SECONDS_WORTH)),
            ..Change::default()
        };
        let shrunk = world.books.shrink(&ada(), made.id, &change);
        assert!(shrunk.is_ok(), "{shrunk:?}");
        world.pass(1);
        true
    };
    assert_eq!((0..9).take_while(shrunk).count(), 5);
}

#[test]
fn hold_that_expires_during_an_outage_of_the_scheduler_counts_for_its_own_time() {
    let world = World::new(Config::default());
    for nth in 0..5 {
        let made = world.books.reserve(&ada(), &held_for(1000), None);
        assert!(made.is_ok(), "{nth} {made:?}");
        // the clock advances beyond the end of the hold before the next tick
        world.pass(700);
    }
}

#[test]
fn one_hold_of_any_configured_length_leaves_room_for_others() {
    let world = World::new(Config {
        hold: Duration::from_mins(11),
        ..Config::default()
    });
    for nth in 0..5 {
        let made = world.books.reserve(&ada(), &held_for(1000), None);
        assert!(made.is_ok(), "{nth} {made:?}");
        world.pass(661);
    }
}

#[test]
fn holds_that_last_count_together_until_their_commit() {
    let world = World::new(Config::default());
    let hold = || world.books.reserve(&ada(), &held_for(1000), None);
    let held: Vec<u64> = (0..6).map(|_| hold().unwrap().id).collect();
    world.pass(99);
    let last = hold().unwrap().id;
    world.pass(1);
    assert!(matches!(hold(), Err(Error::Quota(_))));
    assert!(world.books.reserve(&ben(), &held_for(1000), None).is_ok());
    world.books.commit(&ada(), held[0], "").unwrap();
    assert!(hold().is_ok());
    world.books.terminate(&ada(), last, "").unwrap();
}

#[test]
fn requester_of_nsi_has_a_limit_only_if_the_operator_sets_one() {
    let requester = Principal::requester("agg");
    let world = World::new(Config::default());
    assert_eq!(
        holds_before_refusal(&world, &requester, &held_for(1000)),
        20
    );
    let quota = Quota {
        uncommitted: Some(Duration::from_mins(4)),
        ..Quota::default()
    };
    let world = World::new(Config {
        policy: quota.into(),
        ..Config::default()
    });
    assert_eq!(holds_before_refusal(&world, &requester, &held_for(1000)), 2);
}
