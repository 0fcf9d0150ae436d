//! What is in the store is what is so: for who opens it again, for who follows it, and when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lighthaul_base::Rng;
use lighthaul_booking::Error;
use lighthaul_booking::books::{Books, Config, Filter, Who};
use lighthaul_booking::store::Writer;
use lighthaul_booking::word::{Bytes, Change, Moment, NewOutage, NewReservation};
use lighthaul_circuit::reservation::State;
use proptest::prelude::*;

use crate::shelf::{Fault, Shelf};
use crate::world::{
    SECOND, SECONDS_WORTH, World, ada, all_for, ben, device, fixed_for, held_for, link,
    most_at_once, open, operator,
};

#[test]
fn what_the_store_has_not_kept_has_not_happened() {
    let shelf = Shelf::default();
    shelf.elect("one");
    let world = World::on(shelf.hand("one"), Config::default());
    let first = world.books.reserve(&ada(), &all_for(10), None).unwrap();
    let before = world.calendar();
    shelf.fail(Fault::Before);
    assert!(matches!(
        world.books.reserve(&ada(), &all_for(10), None),
        Err(Error::Store(_))
    ));
    assert_eq!(world.calendar(), before);
    shelf.fail(Fault::Before);
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
fn what_was_kept_without_an_answer_is_answered_to_the_same_key() {
    let shelf = Shelf::default();
    shelf.elect("one");
    let world = World::on(shelf.hand("one"), Config::default());
    shelf.fail(Fault::Behind);
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
    assert_eq!(ids, [again.id], "it was booked once");
}

#[test]
fn another_instance_reads_sends_writers_away_and_takes_over() {
    let shelf = Shelf::default();
    shelf.elect("one");
    let one = World::on(shelf.hand("one"), Config::default());
    let two = open(shelf.hand("two"), Config::default(), &one.now).unwrap();
    let first = one.books.reserve(&ada(), &all_for(10), Some("k")).unwrap();
    assert_eq!(two.get(&ada(), first.id).unwrap(), first);
    assert_eq!(
        two.quote(&ben(), &all_for(1)).unwrap().steps[0].from,
        World::at(10)
    );
    match two.reserve(&ada(), &all_for(1), None) {
        Err(Error::Elsewhere { url }) => assert_eq!(url, "one"),
        answer => panic!("{answer:?}"),
    }
    shelf.elect("two");
    assert!(matches!(
        one.books.reserve(&ada(), &all_for(1), None),
        Err(Error::Elsewhere { .. })
    ));
    assert_eq!(
        two.reserve(&ada(), &all_for(10), Some("k")).unwrap(),
        first,
        "answers are taken over"
    );
    assert_eq!(
        two.reserve(&ben(), &all_for(10), None)
            .unwrap()
            .promised_end,
        World::at(20)
    );
    let mut calendar = two.snapshot().unwrap();
    calendar.forget(World::at(0).instant());
    assert_eq!(one.calendar(), calendar, "and the first follows");
}

#[test]
fn instance_knows_who_writes_when_it_looked_and_what_failed() {
    let shelf = Shelf::default();
    shelf.elect("one");
    let one = World::on(shelf.hand("one"), Config::default());
    let two = open(shelf.hand("two"), Config::default(), &one.now).unwrap();
    let of = |books: &Books| {
        let standing = books.standing();
        (standing.writer, standing.at, standing.why.is_some())
    };
    let other = Some("one".to_owned());
    assert_eq!(of(&one.books), (None, World::at(0), false));
    assert_eq!(of(&two), (other.clone(), World::at(0), false));
    assert_eq!(one.books.writer().unwrap(), Writer::Here);
    assert_eq!(two.writer().unwrap(), Writer::At("one".to_owned()));
    one.pass(5);
    assert_eq!(of(&one.books), (None, World::at(5), false));
    shelf.fail(Fault::Away);
    assert!(two.tick().is_err() && two.writer().is_err());
    assert_eq!(of(&two), (other, World::at(5), true));
    shelf.heal();
    shelf.elect("two");
    two.tick().unwrap();
    assert_eq!(of(&two), (None, World::at(5), false));
    assert_eq!(two.circuits().unwrap(), Some(Vec::new()));
    one.pass(1);
    assert_eq!(of(&one.books).0, Some("two".to_owned()));
    assert_eq!(one.books.circuits().unwrap(), None);
}

#[test]
fn listeners_hear_of_news_alone_and_of_those_of_others() {
    let shelf = Shelf::default();
    shelf.elect("one");
    let one = World::on(shelf.hand("one"), Config::default());
    let two = open(shelf.hand("two"), Config::default(), &one.now).unwrap();
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
fn who_follows_late_still_hears_that_an_outage_was_lifted() {
    let shelf = Shelf::default();
    shelf.elect("one");
    let one = World::on(shelf.hand("one"), Config::default());
    let two = open(shelf.hand("two"), Config::default(), &one.now).unwrap();
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
fn what_the_links_cannot_keep_any_more_fails_and_the_rest_stays() {
    let shelf = Shelf::default();
    shelf.elect("one");
    let world = World::on(shelf.hand("one"), Config::default());
    let wide = world.books.reserve(&ada(), &all_for(10), None).unwrap().id;
    let narrow = NewReservation {
        rate_max: Some("100Mb/s".parse().unwrap()),
        ..all_for(1)
    };
    let narrow = world.books.reserve(&ada(), &narrow, None).unwrap();
    let now = Arc::clone(&world.now);
    let clock = move || Moment(now.load(Ordering::Relaxed));
    let slower = Books::open(shelf.hand("one"), link(500), Config::default(), clock).unwrap();
    let failed = slower.get(&ada(), wide).unwrap();
    assert_eq!(failed.state, State::Failed);
    assert!(failed.failure.unwrap().contains("no room for it any more"));
    assert_eq!(slower.get(&ada(), narrow.id).unwrap().steps, narrow.steps);
}

#[test]
fn a_topology_without_what_is_promised_is_refused_and_the_books_stay() {
    let shelf = Shelf::default();
    shelf.elect("one");
    let world = World::on(shelf.hand("one"), Config::default());
    let kept = world.books.reserve(&ada(), &all_for(10), None).unwrap();
    let other = || {
        let link = lighthaul_calendar::Link {
            name: "other".into(),
            from: "a".into(),
            to: "c".into(),
            capacity: lighthaul_base::Rate::from_mbps(1000),
            channel: lighthaul_base::Rate::from_mbps(1),
            guard: std::time::Duration::ZERO,
            cost: 1,
        };
        lighthaul_calendar::Topology::new(vec!["a".into(), "c".into()], vec![link]).unwrap()
    };
    let clock = || {
        let now = Arc::clone(&world.now);
        move || Moment(now.load(Ordering::Relaxed))
    };
    for name in ["one", "two"] {
        let opened = Books::open(shelf.hand(name), other(), Config::default(), clock());
        let why = opened.unwrap_err().to_string();
        assert!(
            why.contains("the topology lacks host b, link link"),
            "{why}"
        );
        assert!(
            why.contains(&format!("reservations {}: ", kept.id)),
            "{why}"
        );
    }
    let again = open(shelf.hand("one"), Config::default(), &world.now).unwrap();
    assert_eq!(again.get(&ada(), kept.id).unwrap().steps, kept.steps);
    // what is over needs no links
    drop(again);
    world.now.fetch_add(100 * SECOND, Ordering::Relaxed);
    let new = Books::open(shelf.hand("one"), other(), Config::default(), clock()).unwrap();
    assert_eq!(new.get(&ada(), kept.id).unwrap().state, State::Released);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_books_balance_and_all_instances_have_the_same(seed: u64) {
        let shelf = Shelf::default();
        shelf.elect("one");
        let world = World::on(shelf.hand("one"), Config::default());
        let two = open(shelf.hand("two"), Config::default(), &world.now).unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..60 {
            match rng.below(12) {
                0 => shelf.fail(Fault::Before),
                1 => shelf.fail(Fault::Behind),
                _ => {}
            }
            // whether it is granted, refused or lost is all the same here
            let _ = act(&world.books, &mut rng);
            if rng.below(4) == 0 {
                world.now.fetch_add(rng.below(90) * SECOND, Ordering::Relaxed);
                let _ = world.books.tick();
            }
            if rng.below(4) == 0 {
                two.tick().unwrap();
            }
        }
        shelf.heal();
        world.books.tick().unwrap();
        let all = world.books.list(&operator(), &Filter::default(), (0, 1000)).unwrap().items;
        prop_assert!(most_at_once(&all) <= 1_000_000_000, "seed {seed}");
        let now = Moment(world.now.load(Ordering::Relaxed)).instant();
        let again = open(shelf.hand("one"), Config::default(), &world.now).unwrap();
        for books in [&two, &again] {
            let mut calendar = books.snapshot().unwrap();
            calendar.forget(now);
            prop_assert_eq!(&calendar, &world.calendar(), "seed {}", seed);
            let theirs = books.list(&operator(), &Filter::default(), (0, 1000)).unwrap().items;
            prop_assert_eq!(&theirs, &all);
        }
    }
}

/// Something that somebody does.
fn act(books: &Books, rng: &mut Rng) -> lighthaul_booking::Result<()> {
    let whose: [Who; 2] = [ada(), ben()];
    let who = &whose[rng.below(2) as usize];
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
                from: books.tick().ok().map(|now| Moment(now.0 + from * SECOND)),
                till: Moment(books.tick()?.0 + (from + 1 + rng.below(50)) * SECOND),
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
                .reserve(who, &new, (rng.below(2) == 0).then_some(key.as_str()))
                .map(drop)
        }
    }
}
