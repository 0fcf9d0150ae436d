//! Deletion of old answers and of history.

use lighthaul_booking::Error;
use lighthaul_booking::books::{Books, Config, Principal, Quota};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::json::NewReservation;
use lighthaul_booking_client::role::Role;

use crate::shared_store::SharedStore;
use crate::world::{SECONDS_WORTH, World, ada, all_for, ben, held_for, operator};

fn key_of(books: &Books, principal: &Principal, key: &str) -> u64 {
    books
        .reserve(principal, &held_for(1), Some(key))
        .unwrap()
        .id
}

#[test]
fn answers_of_the_largest_identity_are_deleted_first() {
    let config = Config {
        answers_bytes_max: 20_000,
        ..Config::default()
    };
    let world = World::new(config);
    let (first, next) = (
        key_of(&world.books, &ada(), "k"),
        key_of(&world.books, &ben(), "0"),
    );
    for nth in 1..200 {
        world.pass(1);
        let id = key_of(&world.books, &ben(), &nth.to_string());
        world.books.terminate(&ben(), id, "").unwrap();
    }
    assert_eq!(
        key_of(&world.books, &ada(), "k"),
        first,
        "answers of others stay"
    );
    let last = key_of(&world.books, &ben(), "199");
    assert_eq!(key_of(&world.books, &ben(), "199"), last);
    assert_ne!(
        key_of(&world.books, &ben(), "0"),
        next,
        "the oldest answer is deleted"
    );
}

#[test]
fn answer_with_a_long_key_is_kept_for_a_repeated_request() {
    let config = Config {
        answers_bytes_max: 20_000,
        ..Config::default()
    };
    let world = World::new(config);
    let key = "k".repeat(255);
    let first = key_of(&world.books, &ada(), &key);
    world.pass(1);
    let other = key_of(&world.books, &ben(), "other");
    assert_ne!(first, other);
    assert_eq!(key_of(&world.books, &ada(), &key), first);
}

#[test]
fn history_of_the_largest_owner_is_deleted_first() {
    let config = Config {
        history_bytes_max: 50_000,
        ..Config::default()
    };
    let world = World::new(config);
    let over = |principal: &Principal| {
        let id = world
            .books
            .reserve(principal, &held_for(1), None)
            .unwrap()
            .id;
        world.books.terminate(principal, id, "").unwrap();
        id
    };
    let (first, oldest) = (over(&ada()), over(&ben()));
    let rest: Vec<u64> = (0..300).map(|_| over(&ben())).collect();
    assert!(world.books.get(&ada(), first).is_ok());
    let missing = world.books.get(&ben(), oldest);
    assert!(
        matches!(missing, Err(Error::NotFound { .. })),
        "{missing:?}"
    );
    let kept = rest
        .iter()
        .filter(|id| world.books.get(&ben(), **id).is_ok());
    let kept = kept.count();
    assert!((5..200).contains(&kept), "{kept}");
    assert!(world.books.get(&ben(), rest[299]).is_ok());
}

/// A change of a reservation with a long reason, many times.
#[test]
fn events_of_others_stay_when_an_owner_has_too_many_bytes() {
    let store = SharedStore::default();
    store.elect("one");
    let config = Config {
        events_bytes_max: 100_000,
        ..Config::default()
    };
    let world = World::on(store.handle("one"), config.clone());
    let first = world.books.reserve(&ada(), &held_for(1), None).unwrap().id;
    let id = world.books.reserve(&ben(), &all_for(10), None).unwrap().id;
    let before = world.books.seq().unwrap();
    let why = "\u{1}".repeat(10_000);
    for _ in 0..100 {
        world.books.deprovision(&ben(), id, &why).unwrap();
        world.books.provision(&ben(), id, &why).unwrap();
    }
    assert!(store.event_bytes() <= 100_000, "{}", store.event_bytes());
    let document = world.books.get(&ben(), id).unwrap();
    let journal = document.journal.iter().map(|line| line.why.len());
    assert!(journal.sum::<usize>() <= 16 << 10);
    let seen = |books: &Books, principal: &Principal, after| {
        let page = books.events_since(principal, after, 100)?;
        Ok::<_, Error>(page.events.first().map(|event| event.reservation.id))
    };
    // the next writer knows which events are gone
    store.elect("two");
    let next = World::on(store.handle("two"), config);
    for books in [&world.books, &next.books] {
        assert_eq!(seen(books, &ada(), 0).unwrap(), Some(first));
        for principal in [ben(), operator()] {
            let why = seen(books, &principal, before).unwrap_err();
            assert!(matches!(why, Error::EventsDropped { .. }), "{why}");
        }
        let last = books.seq().unwrap();
        assert_eq!(seen(books, &ben(), last).unwrap(), None);
    }
    next.books.deprovision(&ben(), id, &why).unwrap();
    assert!(store.event_bytes() <= 100_000, "{}", store.event_bytes());
}

#[test]
fn events_of_unusual_names_and_reasons_are_indexed_again() {
    let name = format!("lighthaul-events-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let on = |events_max| {
        let store = Box::new(Sqlite::open(&path).unwrap());
        let config = Config {
            events_max,
            ..Config::default()
        };
        World::on(store, config)
    };
    let odd = Principal::new("a\"b\\c\0\u{e9}", Role::User);
    let why = "\0\"reservation\":{\"id\":7,\"owner\":\"ada\"";
    let world = on(100);
    let id = world.books.reserve(&odd, &all_for(10), None).unwrap().id;
    world.books.deprovision(&odd, id, why).unwrap();
    world.books.reserve(&ada(), &held_for(1), None).unwrap();
    drop(world);
    let world = on(3);
    world.books.provision(&odd, id, why).unwrap();
    assert!(world.books.events_since(&ada(), 0, 100).is_ok());
    assert!(world.books.events_since(&odd, 0, 100).is_err());
    drop(world);
    assert!(on(3).books.events_since(&odd, 0, 100).is_err());
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn long_events_are_read_in_parts() {
    let world = World::new(Config::default());
    let id = world.books.reserve(&ada(), &all_for(10), None).unwrap().id;
    let why = "\u{1}".repeat(1024);
    for _ in 0..50 {
        world.books.deprovision(&ada(), id, &why).unwrap();
        world.books.provision(&ada(), id, &why).unwrap();
    }
    let (mut count, mut after) = (0, 0);
    loop {
        let page = world.books.events_since(&ada(), after, 1000).unwrap();
        if page.events.is_empty() {
            break;
        }
        let text = serde_json::to_string(&page.events).unwrap();
        assert!(text.len() < 512 << 10, "{}", text.len());
        (count, after) = (count + page.events.len(), page.seq);
    }
    assert!(count > 100, "{count}");
}

#[test]
fn deleted_reservation_still_uses_the_quota() {
    let quota = Quota {
        bytes: 30 * SECONDS_WORTH,
        ..Quota::default()
    };
    let config = Config {
        history_bytes_max: 0,
        policies: [("ada".to_owned(), quota.into())].into(),
        ..Config::default()
    };
    let world = World::new(config);
    for _ in 0..2 {
        let id = world.books.reserve(&ada(), &all_for(10), None).unwrap().id;
        world.pass(10);
        assert!(matches!(
            world.books.get(&ada(), id),
            Err(Error::NotFound { .. })
        ));
    }
    let more: NewReservation = all_for(11);
    let refused = world.books.reserve(&ada(), &more, None);
    assert!(matches!(refused, Err(Error::Quota(_))), "{refused:?}");
    world.books.reserve(&ada(), &all_for(10), None).unwrap();
}
