//! From the reservation to its end, and what others have of it.

use std::time::Duration;

use lighthaul_booking::Error;
use lighthaul_booking::books::{Config, Filter};
use lighthaul_booking::word::{Bytes, Change, Kind, Moment, NewOutage, NewReservation, Provision};
use lighthaul_calendar::Refusal;
use lighthaul_circuit::reservation::{State, Verb};

use crate::world::{
    BEGIN, SECONDS_WORTH, World, ada, all_for, ben, device, fixed_for, held_for, operator,
};

#[test]
fn a_reservation_goes_from_hold_to_release_and_says_who_and_why() {
    let world = World::new(Config::default());
    let held = world.books.reserve(&ada(), &held_for(10), None).unwrap();
    assert_eq!(
        (held.state, held.hold_till),
        (State::Reserved, Some(World::at(120)))
    );
    assert_eq!(
        (held.steps[0].from, held.promised_end),
        (World::at(0), World::at(10))
    );
    let committed = world.books.commit(&ada(), held.id, "go").unwrap();
    assert_eq!(
        committed.state,
        State::Provisioned,
        "circuits are made with the commit"
    );
    world.pass(1);
    assert_eq!(
        world.books.get(&ada(), held.id).unwrap().state,
        State::Active
    );
    world.pass(9);
    let over = world.books.get(&ada(), held.id).unwrap();
    let lines = over
        .journal
        .iter()
        .map(|line| (line.verb, line.to, line.who.as_str(), line.why.as_str()));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            (Verb::Reserve, State::Reserved, "ada", ""),
            (Verb::Commit, State::Committed, "ada", "go"),
            (
                Verb::Provision,
                State::Provisioned,
                "ada",
                "with the commit"
            ),
            (Verb::Activate, State::Active, "clock", "its time has come"),
            (Verb::Release, State::Released, "clock", "its time is over"),
        ]
    );
}

#[test]
fn what_is_provisioned_by_hand_waits_for_the_hand_and_ends_without_it() {
    let world = World::new(Config::default());
    let by_hand = NewReservation {
        provision: Provision::Manual,
        ..all_for(10)
    };
    let id = world.books.reserve(&ada(), &by_hand, None).unwrap().id;
    assert_eq!(world.books.get(&ada(), id).unwrap().state, State::Committed);
    assert!(matches!(
        world.books.release(&ada(), id, ""),
        Err(Error::Illegal(_))
    ));
    let other = world.books.reserve(&ada(), &by_hand, None).unwrap().id;
    assert_eq!(
        world.books.provision(&ada(), id, "now").unwrap().state,
        State::Provisioned
    );
    world.pass(20);
    assert_eq!(world.books.get(&ada(), id).unwrap().state, State::Released);
    assert_eq!(
        world.books.get(&ada(), other).unwrap().state,
        State::Terminated
    );
}

#[test]
fn a_hold_that_nobody_commits_is_free_again() {
    let world = World::new(Config::default());
    let mut before = world.calendar();
    let id = world
        .books
        .reserve(&ada(), &held_for(1000), None)
        .unwrap()
        .id;
    assert_eq!(
        world.books.quote(&ben(), &all_for(1)).unwrap().steps[0].from,
        World::at(1000)
    );
    world.pass(119);
    assert_eq!(world.books.get(&ada(), id).unwrap().state, State::Reserved);
    world.pass(1);
    let over = world.books.get(&ada(), id).unwrap();
    assert_eq!((over.state, over.hold_till), (State::Terminated, None));
    assert_eq!(over.journal.last().unwrap().who, "clock");
    before.forget(World::at(120).instant());
    assert_eq!(world.calendar(), before);
    let why = world.books.commit(&ada(), id, "").unwrap_err();
    assert!(why.to_string().contains("reserve again"), "{why}");
}

#[test]
fn of_many_who_want_the_last_capacity_one_has_it() {
    let world = World::new(Config::default());
    let last = NewReservation {
        by: Some(World::at(10)),
        ..fixed_for(10)
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = || world.books.reserve(&ada(), &last, None);
        #[expect(
            clippy::needless_collect,
            reason = "all begin before one is waited for"
        )]
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 7));
    for why in lost {
        let Err(Error::Refused(Refusal::MissesDeadline(counter))) = why else {
            panic!("{why:?}");
        };
        assert_eq!(counter.end, Some(World::at(20).instant()));
    }
}

#[test]
fn a_device_that_fails_frees_what_its_reservation_had() {
    let world = World::new(Config::default());
    let id = world.books.reserve(&ada(), &all_for(100), None).unwrap().id;
    world.pass(10);
    assert!(matches!(
        world.books.fail(&ada(), id, "I say so"),
        Err(Error::Forbidden { .. })
    ));
    world
        .books
        .fail(&device(), id, "the device refused: no light")
        .unwrap();
    let failed = world.books.get(&ada(), id).unwrap();
    assert_eq!(
        (failed.state, failed.failure.as_deref()),
        (State::Failed, Some("the device refused: no light"))
    );
    assert_eq!(failed.journal.last().unwrap().who, "eth1");
    assert_eq!(
        failed.steps.last().unwrap().till,
        World::at(10),
        "it had the link till then"
    );
    assert_eq!(
        world.books.quote(&ben(), &all_for(1)).unwrap().steps[0].from,
        World::at(10)
    );
    // what is over does not fail again
    world.books.fail(&device(), id, "still dark").unwrap();
    assert_eq!(world.books.get(&ada(), id).unwrap(), failed);
}

#[test]
fn what_one_releases_lets_those_behind_finish_earlier_and_nobody_later() {
    let world = World::new(Config::default());
    let first = world.books.reserve(&ada(), &all_for(100), None).unwrap();
    let ends = || -> Vec<_> {
        let page = world
            .books
            .list(&operator(), &Filter::default(), (first.id, 100))
            .unwrap();
        page.items
            .iter()
            .map(|reservation| reservation.promised_end)
            .collect()
    };
    for _ in 0..3 {
        world.books.reserve(&ben(), &all_for(50), None).unwrap();
    }
    let before = ends();
    assert_eq!(before, [World::at(150), World::at(200), World::at(250)]);
    world.pass(30);
    world
        .books
        .release(&ada(), first.id, "the copy is done")
        .unwrap();
    // those who wait have ten seconds to hear of it
    assert_eq!(ends(), [World::at(90), World::at(140), World::at(190)]);
    let happened = world.books.events_since(&ben(), 0, 100).unwrap();
    let moved = happened
        .events
        .iter()
        .filter(|event| event.kind == Kind::Moved);
    assert_eq!(moved.count(), 3);
}

#[test]
fn it_grows_into_what_is_free_and_shrinks_to_what_is_asked() {
    let world = World::new(Config::default());
    let id = world.books.reserve(&ada(), &all_for(10), None).unwrap().id;
    let other = world.books.reserve(&ben(), &all_for(10), None).unwrap();
    let size = |seconds| Change {
        size: Some(Bytes(seconds * SECONDS_WORTH)),
        ..Change::default()
    };
    let grown = world.books.extend(&ada(), id, &size(15)).unwrap();
    assert_eq!(grown.promised_end, World::at(25));
    assert_eq!(
        world.books.get(&ben(), other.id).unwrap().steps,
        other.steps,
        "nobody else is touched"
    );
    let shrunk = world.books.shrink(&ada(), id, &size(5)).unwrap();
    assert_eq!(
        (shrunk.promised_end, shrunk.request.size),
        (World::at(5), Some(Bytes(5 * SECONDS_WORTH)))
    );
    let wrong = Change {
        hold: Some("1h".parse().unwrap()),
        ..Change::default()
    };
    for change in [wrong, Change::default()] {
        let why = world.books.extend(&ada(), id, &change).unwrap_err();
        assert!(why.to_string().contains("made with a size"), "{why}");
    }
    world.pass(30);
    assert!(matches!(
        world.books.extend(&ada(), id, &size(20)),
        Err(Error::Refused(Refusal::Ended(_)))
    ));
}

#[test]
fn a_journal_tells_who_made_changed_and_moved_it() {
    let world = World::new(Config::default());
    let id = world.books.reserve(&ada(), &all_for(10), None).unwrap().id;
    let change = |seconds, why: &str| Change {
        size: Some(Bytes(seconds * SECONDS_WORTH)),
        why: why.into(),
        ..Change::default()
    };
    world.books.extend(&ada(), id, &change(15, "more")).unwrap();
    world.books.shrink(&operator(), id, &change(5, "")).unwrap();
    let outage = NewOutage {
        link: "link".into(),
        from: None,
        till: World::at(50),
        why: "new fibre".into(),
    };
    world.books.outage(&operator(), &outage).unwrap();
    let moved = world.books.get(&ada(), id).unwrap();
    let lines = moved.journal.iter().filter(|line| line.from == line.to);
    let lines: Vec<_> = lines.collect();
    let told = lines.iter().map(|line| (line.verb, line.who.as_str()));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (Verb::Reserve, "ada"),
            (Verb::Extend, "ada"),
            (Verb::Shrink, "olga"),
            (Verb::Move, "olga"),
        ]
    );
    assert_eq!(lines[1].why, "more");
    assert!(lines[3].why.ends_with("new fibre"), "{moved:?}");
    // many words do not fill the store
    for nth in 0..300 {
        let size = change(6 + nth % 2, "");
        let books = &world.books;
        let done = if nth % 2 == 0 && nth > 0 {
            books.shrink(&ada(), id, &size)
        } else {
            books.extend(&ada(), id, &size)
        };
        done.unwrap();
    }
    let long = world.books.get(&ada(), id).unwrap().journal;
    assert!(
        long.len() < 270 && long[0].verb == Verb::Reserve,
        "{}",
        long.len()
    );
    world.pass(1000);
    assert_eq!(world.books.get(&ada(), id).unwrap().state, State::Released);
}

#[test]
fn an_outage_moves_whom_it_hits_and_fails_who_has_no_room() {
    let world = World::new(Config::default());
    let free = world.books.reserve(&ada(), &all_for(100), None).unwrap().id;
    let bound = NewReservation {
        by: Some(World::at(200)),
        ..all_for(100)
    };
    let bound = world.books.reserve(&ben(), &bound, None).unwrap().id;
    let outage = NewOutage {
        link: "link".into(),
        from: Some(World::at(50)),
        till: World::at(150),
        why: "new fibre".into(),
    };
    assert!(matches!(
        world.books.outage(&ada(), &outage),
        Err(Error::Forbidden { .. })
    ));
    for (from, till, says) in [
        (None, BEGIN, "is over already"),
        (Some(World::at(9)), World::at(9).0, "ends before it begins"),
    ] {
        let till = Moment(till);
        let wrong = NewOutage {
            from,
            till,
            ..outage.clone()
        };
        let why = world.books.outage(&operator(), &wrong).unwrap_err();
        assert!(why.to_string().contains(says), "{why}");
    }
    let view = world.books.outage(&operator(), &outage).unwrap();
    assert_eq!(view.moved.len() + view.failed.len(), 2);
    for id in [free, bound] {
        let reservation = world.books.get(&operator(), id).unwrap();
        let is_out = |from, till| World::at(50) < till && from < World::at(150);
        assert!(
            !reservation
                .steps
                .iter()
                .any(|step| is_out(step.from, step.till)),
            "{:?}",
            reservation.steps
        );
        if view.failed.contains(&id) {
            assert!(reservation.failure.unwrap().contains("new fibre"));
        }
    }
    assert_eq!(world.books.outages().unwrap(), std::slice::from_ref(&view));
    assert_eq!(
        world.books.lift(&operator(), view.id).unwrap().till,
        World::at(50)
    );
    assert_eq!(world.books.outages().unwrap(), []);
    assert!(matches!(
        world.books.lift(&operator(), view.id),
        Err(Error::Missing { .. })
    ));
}

#[test]
fn what_is_over_is_forgotten_in_the_end() {
    let config = Config {
        history: Duration::from_secs(1000),
        ..Config::default()
    };
    let world = World::new(config);
    let id = world
        .books
        .reserve(&ada(), &all_for(10), Some("once"))
        .unwrap()
        .id;
    world.pass(10);
    world.pass(890);
    assert!(world.books.get(&ada(), id).is_ok());
    world.pass(200);
    assert!(matches!(
        world.books.get(&ada(), id),
        Err(Error::Missing { .. })
    ));
    assert_eq!(
        world
            .books
            .reserve(&ada(), &all_for(10), Some("once"))
            .unwrap()
            .id,
        id,
        "the answer is kept a day"
    );
    world.pass(24 * 3600);
    assert_ne!(
        world
            .books
            .reserve(&ada(), &all_for(10), Some("once"))
            .unwrap()
            .id,
        id
    );
}

#[test]
fn clock_that_went_ahead_and_back_is_followed() {
    let world = World::new(Config::default());
    let day = 24 * 3600;
    let later = NewReservation {
        start: Some(World::at(2 * day)),
        ..all_for(10)
    };
    let kept = world.books.reserve(&ada(), &later, None).unwrap();
    world.pass(day);
    world.now.store(BEGIN, std::sync::atomic::Ordering::Relaxed);
    world.books.tick().unwrap();
    let next = world.books.reserve(&ada(), &all_for(10), None).unwrap();
    assert_eq!(
        (next.created, next.steps[0].from),
        (World::at(0), World::at(0))
    );
    assert_eq!(next.promised_end, World::at(10));
    world.pass(1);
    assert_eq!(
        world.books.get(&ada(), next.id).unwrap().state,
        State::Active
    );
    world.pass(9);
    assert_eq!(
        world.books.get(&ada(), next.id).unwrap().state,
        State::Released
    );
    assert_eq!(world.books.get(&ada(), kept.id).unwrap(), kept);
}

#[test]
fn clock_that_goes_back_a_little_is_waited_for() {
    let world = World::new(Config::default());
    world.pass(10);
    let back = BEGIN + 9_500_000_000;
    world.now.store(back, std::sync::atomic::Ordering::Relaxed);
    let next = world.books.reserve(&ada(), &all_for(10), None).unwrap();
    assert_eq!(next.created, World::at(10));
}
