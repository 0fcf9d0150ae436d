//! The store is authoritative: for a restart, for other instances, and after failures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_booking::Error;
use lighthaul_booking::books::{Books, Config, Filter, Policy, Principal};
use lighthaul_booking::store::Writer;
use lighthaul_booking_client::json::{Bytes, Change, NewOutage, NewReservation, Timestamp};
use lighthaul_booking_client::reservation::ReservationState;
use proptest::prelude::*;

use crate::shared_store::{Fault, SharedStore};
use crate::world::{
    SECOND, SECONDS_WORTH, World, ada, all_for, ben, device, fixed_for, held_for, link,
    most_at_once, open, operator,
};

#[test]
fn policies_can_be_read_while_the_store_hangs() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let (locked, has_locked) = mpsc::sync_channel(1);
    let clock = move || {
        // the books are locked when they look at the clock
        locked.try_send(()).ok();
        World::at(0)
    };
    let store = shared_store.handle("one");
    let books = Books::open(store, link(1000), Config::default(), clock).unwrap();
    has_locked.try_iter().for_each(drop);
    let books = Arc::new(books);
    let hangs = shared_store.hang();
    let ticking = thread::spawn({
        let books = Arc::clone(&books);
        move || books.tick().map(drop)
    });
    has_locked.recv().unwrap();
    let (told, policy) = mpsc::channel();
    thread::spawn(move || told.send(books.policy_of("ada")).is_ok());
    let policy = policy.recv_timeout(Duration::from_secs(30));
    drop(hangs);
    assert_eq!(policy, Ok(Policy::default()));
    ticking.join().unwrap().unwrap();
}

#[test]
fn failed_write_leaves_the_books_unchanged() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let world = World::on(shared_store.handle("one"), Config::default());
    let first = world.books.reserve(&ada(), &all_for(10), None).unwrap();
    let before = world.calendar();
    shared_store.fail(Fault::Before);
    assert!(matches!(
        world.books.reserve(&ada(), &all_for(10), None),
        Err(Error::Store(_))
    ));
    assert_eq!(world.calendar(), before);
    shared_store.fail(Fault::Before);
    assert!(world.books.release(&ada(), first.id, "").is_err());
    assert_eq!(world.books.get(&ada(), first.id).unwrap(), first);
    assert_eq!(
        world
            .books
            .reserve(&ada(), &all_for(10), None)
            .unwrap()
            .promised_end,
        World::at(20)
    );
}

#[test]
fn stored_booking_without_answer_is_returned_for_the_same_key() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let world = World::on(shared_store.handle("one"), Config::default());
    shared_store.fail(Fault::Behind);
    assert!(matches!(
        world.books.reserve(&ada(), &all_for(10), Some("k")),
        Err(Error::Store(_))
    ));
    let again = world
        .books
        .reserve(&ada(), &all_for(10), Some("k"))
        .unwrap();
    assert_eq!(again.promised_end, World::at(10));
    let all = world
        .books
        .list(&ada(), &Filter::default(), (0, 10))
        .unwrap();
    let ids: Vec<u64> = all.items.iter().map(|one| one.id).collect();
    assert_eq!(ids, [again.id], "the request was booked once");
}

#[test]
fn reader_answers_queries_and_replaces_the_writer() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let one = World::on(shared_store.handle("one"), Config::default());
    let two = open(shared_store.handle("two"), Config::default(), &one.now).unwrap();
    let first = one.books.reserve(&ada(), &all_for(10), Some("k")).unwrap();
    assert_eq!(two.get(&ada(), first.id).unwrap(), first);
    assert_eq!(
        two.quote(&ben(), &all_for(1)).unwrap().steps[0].from,
        World::at(10)
    );
    match two.reserve(&ada(), &all_for(1), None) {
        Err(Error::OtherWriter { url }) => assert_eq!(url, "one"),
        answer => panic!("{answer:?}"),
    }
    shared_store.elect("two");
    assert!(matches!(
        one.books.reserve(&ada(), &all_for(1), None),
        Err(Error::OtherWriter { .. })
    ));
    assert_eq!(
        two.reserve(&ada(), &all_for(10), Some("k")).unwrap(),
        first,
        "answers are shared"
    );
    assert_eq!(
        two.reserve(&ben(), &all_for(10), None)
            .unwrap()
            .promised_end,
        World::at(20)
    );
    let mut calendar = two.snapshot().unwrap();
    calendar.forget(World::at(0).instant());
    assert_eq!(one.calendar(), calendar, "the first instance follows");
}

#[test]
fn status_contains_the_writer_the_time_and_the_failure() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let one = World::on(shared_store.handle("one"), Config::default());
    let two = open(shared_store.handle("two"), Config::default(), &one.now).unwrap();
    let of = |books: &Books| {
        let status = books.status();
        (status.writer, status.at, status.why.is_some())
    };
    let other = Some("one".to_owned());
    assert_eq!(of(&one.books), (None, World::at(0), false));
    assert_eq!(of(&two), (other.clone(), World::at(0), false));
    assert_eq!(one.books.writer().unwrap(), Writer::This);
    assert_eq!(two.writer().unwrap(), Writer::Other("one".to_owned()));
    one.pass(5);
    assert_eq!(of(&one.books), (None, World::at(5), false));
    shared_store.fail(Fault::Away);
    assert!(two.tick().is_err() && two.writer().is_err());
    assert_eq!(of(&two), (other, World::at(5), true));
    shared_store.heal();
    shared_store.elect("two");
    two.tick().unwrap();
    assert_eq!(of(&two), (None, World::at(5), false));
    assert_eq!(two.circuits().unwrap(), Some(Vec::new()));
    one.pass(1);
    assert_eq!(of(&one.books).0, Some("two".to_owned()));
    assert_eq!(one.books.circuits().unwrap(), None);
}

#[test]
fn listeners_are_called_for_changes_of_all_instances() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let one = World::on(shared_store.handle("one"), Config::default());
    let two = open(shared_store.handle("two"), Config::default(), &one.now).unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    for books in [&one.books, &two] {
        let heard = Arc::clone(&heard);
        books.listen(move || {
            heard.fetch_add(1, Ordering::Relaxed);
        });
    }
    let heard = || heard.swap(0, Ordering::Relaxed);
    let made = one.books.reserve(&ada(), &held_for(10), None).unwrap();
    assert_eq!(heard(), 1);
    assert_eq!(two.get(&ada(), made.id).unwrap(), made);
    assert_eq!(heard(), 1);
    one.books.tick().unwrap();
    two.tick().unwrap();
    two.list(&ada(), &Filter::default(), (0, 10)).unwrap();
    assert_eq!(heard(), 0);
}

#[test]
fn late_reader_learns_that_an_outage_was_canceled() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let one = World::on(shared_store.handle("one"), Config::default());
    let two = open(shared_store.handle("two"), Config::default(), &one.now).unwrap();
    let outage = NewOutage {
        link: "link".into(),
        from: Some(World::at(1000)),
        till: World::at(2000),
        why: String::new(),
    };
    let id = one.books.outage(&operator(), &outage).unwrap().id;
    assert_eq!(two.outages().unwrap().len(), 1);
    one.books.lift(&operator(), id).unwrap();
    one.pass(100);
    one.pass(100);
    let within = NewReservation {
        start: Some(World::at(1500)),
        ..fixed_for(10)
    };
    let booked = one.books.reserve(&ada(), &within, None).unwrap();
    assert_eq!(booked.steps[0].from, World::at(1500));
    assert_eq!(two.get(&ada(), booked.id).unwrap(), booked);
    let now = World::at(200).instant();
    let mut calendar = two.snapshot().unwrap();
    calendar.forget(now);
    assert_eq!(calendar, one.calendar());
}

#[test]
fn reservations_beyond_a_reduced_capacity_fail_and_others_stay() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let world = World::on(shared_store.handle("one"), Config::default());
    let wide = world.books.reserve(&ada(), &all_for(10), None).unwrap().id;
    let narrow = NewReservation {
        rate_max: Some("100Mb/s".parse().unwrap()),
        ..all_for(1)
    };
    let narrow = world.books.reserve(&ada(), &narrow, None).unwrap();
    let now = Arc::clone(&world.now);
    let clock = move || Timestamp(now.load(Ordering::Relaxed));
    let slower = Books::open(
        shared_store.handle("one"),
        link(500),
        Config::default(),
        clock,
    )
    .unwrap();
    let failed = slower.get(&ada(), wide).unwrap();
    assert_eq!(failed.state, ReservationState::Failed);
    assert!(
        failed
            .failure
            .unwrap()
            .contains("no longer has the capacity")
    );
    assert_eq!(slower.get(&ada(), narrow.id).unwrap().steps, narrow.steps);
}

#[test]
fn topology_without_booked_links_is_refused() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let world = World::on(shared_store.handle("one"), Config::default());
    let kept = world.books.reserve(&ada(), &all_for(10), None).unwrap();
    let other = || {
        let link = lighthaul_calendar::Link {
            name: "other".into(),
            from: "a".into(),
            to: "c".into(),
            capacity: lighthaul_base::Rate::from_mbps(1000),
            channel: lighthaul_base::Rate::from_mbps(1),
            guard: Duration::ZERO,
            cost: 1,
        };
        lighthaul_calendar::Topology::new(vec!["a".into(), "c".into()], vec![link]).unwrap()
    };
    let clock = || {
        let now = Arc::clone(&world.now);
        move || Timestamp(now.load(Ordering::Relaxed))
    };
    for name in ["one", "two"] {
        let opened = Books::open(
            shared_store.handle(name),
            other(),
            Config::default(),
            clock(),
        );
        let why = opened.unwrap_err().to_string();
        assert!(
            why.contains("the topology lacks host b, link link"),
            "{why}"
        );
        assert!(
            why.contains(&format!("reservations {} use: ", kept.id)),
            "{why}"
        );
    }
    let again = open(shared_store.handle("one"), Config::default(), &world.now).unwrap();
    assert_eq!(again.get(&ada(), kept.id).unwrap().steps, kept.steps);
    // ended reservations need no links
    drop(again);
    world.now.fetch_add(100 * SECOND, Ordering::Relaxed);
    let new = Books::open(
        shared_store.handle("one"),
        other(),
        Config::default(),
        clock(),
    )
    .unwrap();
    assert_eq!(
        new.get(&ada(), kept.id).unwrap().state,
        ReservationState::Released
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_actions_never_overbook_and_instances_agree(seed: u64) {
        let shared_store = SharedStore::default();
        shared_store.elect("one");
        let world = World::on(shared_store.handle("one"), Config::default());
        let two = open(shared_store.handle("two"), Config::default(), &world.now).unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..60 {
            match rng.below(12) {
                0 => shared_store.fail(Fault::Before),
                1 => shared_store.fail(Fault::Behind),
                _ => {}
            }
            // the result does not matter here
            let _ = act(&world.books, &mut rng);
            if rng.below(4) == 0 {
                world.now.fetch_add(rng.below(90) * SECOND, Ordering::Relaxed);
                let _ = world.books.tick();
            }
            if rng.below(4) == 0 {
                two.tick().unwrap();
            }
        }
        shared_store.heal();
        world.books.tick().unwrap();
        let all = world.books.list(&operator(), &Filter::default(), (0, 1000)).unwrap().items;
        prop_assert!(most_at_once(&all) <= 1_000_000_000, "seed {seed}");
        let now = Timestamp(world.now.load(Ordering::Relaxed)).instant();
        let again = open(shared_store.handle("one"), Config::default(), &world.now).unwrap();
        for books in [&two, &again] {
            let mut calendar = books.snapshot().unwrap();
            calendar.forget(now);
            prop_assert_eq!(&calendar, &world.calendar(), "seed {}", seed);
            let theirs = books.list(&operator(), &Filter::default(), (0, 1000)).unwrap().items;
            prop_assert_eq!(&theirs, &all);
        }
    }
}

/// Makes a random change.
fn act(books: &Books, rng: &mut Rng) -> lighthaul_booking::Result<()> {
    let whose: [Principal; 2] = [ada(), ben()];
    let principal = &whose[rng.below(2) as usize];
    let all = books
        .list(&operator(), &Filter::default(), (0, 1000))?
        .items;
    let one = all
        .get(rng.below(all.len().max(1) as u64) as usize)
        .map_or(0, |reservation| reservation.id);
    let size = Change {
        size: Some(Bytes((1 + rng.below(60)) * SECONDS_WORTH / 2)),
        ..Change::default()
    };
    match rng.below(12) {
        0 => books.release(&operator(), one, "").map(drop),
        1 => books.terminate(&operator(), one, "").map(drop),
        2 => books.commit(&operator(), one, "").map(drop),
        3 => books.extend(&operator(), one, &size).map(drop),
        4 => books.shrink(&operator(), one, &size).map(drop),
        5 => books.fail(&device(), one, "it broke"),
        6 => {
            let from = rng.below(200);
            let outage = NewOutage {
                link: "link".into(),
                from: books
                    .tick()
                    .ok()
                    .map(|now| Timestamp(now.0 + from * SECOND)),
                till: Timestamp(books.tick()?.0 + (from + 1 + rng.below(50)) * SECOND),
                why: String::new(),
            };
            books.outage(&operator(), &outage).map(drop)
        }
        7 => {
            let outages = books.outages()?;
            outages.first().map_or(Ok(()), |outage| {
                books.lift(&operator(), outage.id).map(drop)
            })
        }
        nth => {
            let new = if nth == 8 {
                fixed_for(1 + rng.below(40))
            } else {
                all_for(1 + rng.below(40))
            };
            let new = NewReservation {
                rate_max: Some(lighthaul_base::Rate::from_mbps(100 + rng.below(901)).into()),
                commit: rng.below(3) > 0,
                ..new
            };
            let key = rng.below(20).to_string();
            books
                .reserve(principal, &new, (rng.below(2) == 0).then_some(key.as_str()))
                .map(drop)
        }
    }
}
