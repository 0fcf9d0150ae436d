//! Freed capacity, into which waiting reservations move.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_booking::books::{Books, Config};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::json::{EventKind, NewReservation, Timestamp};

use crate::world::{BEGIN, World, ada, all_for, ben, fixed_for, operator, parallel_links};

/// Returns three reservations after 30 s, when the first one is released. The others wait behind
/// it, from 100 to 150 s and from 150 to 200 s.
fn after_release(config: Config) -> (World, [u64; 3]) {
    let world = World::new(config);
    let ids = [100, 50, 50].map(|seconds| {
        let reserved = world.books.reserve(&ada(), &all_for(seconds), None);
        reserved.unwrap().id
    });
    world.pass(30);
    world.books.release(&ada(), ids[0], "").unwrap();
    (world, ids)
}

fn ends(world: &World, ids: [u64; 3]) -> [Timestamp; 3] {
    ids.map(|id| world.books.get(&ada(), id).unwrap().promised_end)
}

#[test]
fn freed_capacity_moves_as_many_reservations_as_configured() {
    for (repack_max, after) in [(0, [150, 200]), (1, [90, 200]), (2, [90, 140])] {
        let config = Config {
            repack_max,
            ..Config::default()
        };
        let (world, ids) = after_release(config);
        let [_, second, third] = ends(&world, ids);
        let expected = after.map(World::at);
        assert_eq!([second, third], expected, "at most {repack_max}");
        // the others do not move before capacity is freed again
        world.pass(15);
        assert_eq!(ends(&world, ids)[1..], expected, "at most {repack_max}");
    }
}

#[test]
fn reservation_moves_to_no_earlier_time_than_the_configured_notice() {
    for (notice, after) in [(0, [80, 130]), (1, [81, 131]), (60, [140, 190])] {
        let config = Config {
            notice: Duration::from_secs(notice),
            ..Config::default()
        };
        let (world, ids) = after_release(config);
        let moved = ends(&world, ids);
        assert_eq!(moved[1..], after.map(World::at), "{notice} s of notice");
    }
}

#[test]
fn journal_and_events_have_the_time_by_which_a_moved_reservation_ends_earlier() {
    let (world, ids) = after_release(Config::default());
    let why = "capacity was freed: ends 60 s earlier";
    let moved = world.books.get(&ada(), ids[1]).unwrap();
    let line = moved.journal.last().unwrap();
    assert_eq!((line.who.as_str(), line.why.as_str()), ("calendar", why));
    let all = world.books.events_since(&ada(), 0, 100).unwrap().events;
    let moves = all.iter().filter(|event| event.kind == EventKind::Moved);
    let reports = moves.map(|event| (event.reservation.id, event.why.as_str()));
    let expected = [(ids[1], why), (ids[2], why)];
    assert_eq!(reports.collect::<Vec<_>>(), expected);
}

#[test]
fn reservation_moves_to_a_cheaper_link_with_the_same_end() {
    let links = parallel_links(&[("short", 1), ("long", 2)]);
    let now = Arc::new(AtomicU64::new(BEGIN));
    let clock = move || Timestamp(now.load(Ordering::Relaxed));
    let store = Box::new(Sqlite::in_memory().unwrap());
    let books = Books::open(store, links, Config::default(), clock).unwrap();
    let new = NewReservation {
        start: Some(World::at(100)),
        ..fixed_for(10)
    };
    let first = books.reserve(&ben(), &new, None).unwrap();
    let second = books.reserve(&ada(), &new, None).unwrap();
    assert_eq!(
        [&first.path, &second.path],
        [&["short".to_owned()], &["long".to_owned()]]
    );
    books.release(&operator(), first.id, "").unwrap();
    let moved = books.get(&ada(), second.id).unwrap();
    assert_eq!(
        (&moved.path, moved.promised_end),
        (&first.path, second.promised_end)
    );
    let line = moved.journal.last().unwrap();
    assert_eq!(
        line.why,
        "capacity was freed: links or rates changed, same end"
    );
}
