//! Lifecycle of reservations, and effects on others.

use std::time::Duration;

use lighthaul_booking::Error;
use lighthaul_booking::books::{Config, Filter};
use lighthaul_booking_client::json::{
    Bytes, Change, EventKind, NewOutage, NewReservation, Provision, Timestamp,
};
use lighthaul_booking_client::reservation::{ReservationState, Verb};
use lighthaul_calendar::Refusal;

use crate::world::{
    BEGIN, SECONDS_WORTH, World, ada, all_for, ben, device, fixed_for, held_for, operator,
};

#[test]
fn journal_has_identity_and_reason_from_hold_to_release() {
    let world = World::new(Config::default());
    let held = world.books.reserve(&ada(), &held_for(10), None).unwrap();
    assert_eq!(
        (held.state, held.hold_till),
        (ReservationState::Reserved, Some(World::at(120)))
    );
    assert_eq!(
        (held.steps[0].from, held.promised_end),
        (World::at(0), World::at(10))
    );
    let committed = world.books.commit(&ada(), held.id, "go").unwrap();
    assert_eq!(
        committed.state,
        ReservationState::Provisioned,
        "the commit provisions the circuit"
    );
    world.pass(1);
    assert_eq!(
        world.books.get(&ada(), held.id).unwrap().state,
        ReservationState::Active
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
            (Verb::Reserve, ReservationState::Reserved, "ada", ""),
            (Verb::Commit, ReservationState::Committed, "ada", "go"),
            (
                Verb::Provision,
                ReservationState::Provisioned,
                "ada",
                "with the commit"
            ),
            (
                Verb::Activate,
                ReservationState::Active,
                "clock",
                "its start time was reached"
            ),
            (
                Verb::Release,
                ReservationState::Released,
                "clock",
                "its end time was reached"
            ),
        ]
    );
}

#[test]
fn manual_reservation_waits_and_ends_without_provisioning() {
    let world = World::new(Config::default());
    let by_hand = NewReservation {
        provision: Provision::Manual,
        ..all_for(10)
    };
    let id = world.books.reserve(&ada(), &by_hand, None).unwrap().id;
    assert_eq!(
        world.books.get(&ada(), id).unwrap().state,
        ReservationState::Committed
    );
    assert!(matches!(
        world.books.release(&ada(), id, ""),
        Err(Error::Transition(_))
    ));
    let other = world.books.reserve(&ada(), &by_hand, None).unwrap().id;
    assert_eq!(
        world.books.provision(&ada(), id, "now").unwrap().state,
        ReservationState::Provisioned
    );
    world.pass(20);
    assert_eq!(
        world.books.get(&ada(), id).unwrap().state,
        ReservationState::Released
    );
    assert_eq!(
        world.books.get(&ada(), other).unwrap().state,
        ReservationState::Terminated
    );
}

#[test]
fn uncommitted_hold_expires() {
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
    assert_eq!(
        world.books.get(&ada(), id).unwrap().state,
        ReservationState::Reserved
    );
    world.pass(1);
    let over = world.books.get(&ada(), id).unwrap();
    assert_eq!(
        (over.state, over.hold_till),
        (ReservationState::Terminated, None)
    );
    assert_eq!(over.journal.last().unwrap().who, "clock");
    before.forget(World::at(120).instant());
    assert_eq!(world.calendar(), before);
    let why = world.books.commit(&ada(), id, "").unwrap_err();
    assert!(why.to_string().contains("reserve again"), "{why}");
}

#[test]
fn last_capacity_is_booked_once_by_many_threads() {
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
fn failed_device_frees_the_capacity() {
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
        (
            ReservationState::Failed,
            Some("the device refused: no light")
        )
    );
    assert_eq!(failed.journal.last().unwrap().who, "eth1");
    assert_eq!(
        failed.steps.last().unwrap().till,
        World::at(10),
        "the link was used until then"
    );
    assert_eq!(
        world.books.quote(&ben(), &all_for(1)).unwrap().steps[0].from,
        World::at(10)
    );
    // an ended reservation does not fail again
    world.books.fail(&device(), id, "still dark").unwrap();
    assert_eq!(world.books.get(&ada(), id).unwrap(), failed);
}

#[test]
fn release_moves_later_reservations_forward_and_delays_none() {
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
    // waiting reservations have ten seconds of notice
    assert_eq!(ends(), [World::at(90), World::at(140), World::at(190)]);
    let happened = world.books.events_since(&ben(), 0, 100).unwrap();
    let moved = happened
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Moved);
    assert_eq!(moved.count(), 3);
}

#[test]
fn reservation_extends_into_free_capacity_and_shrinks() {
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
        "other reservations do not change"
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
fn journal_has_creation_resizes_and_moves() {
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
    let reports = lines.iter().map(|line| (line.verb, line.who.as_str()));
    assert_eq!(
        reports.collect::<Vec<_>>(),
        [
            (Verb::Reserve, "ada"),
            (Verb::Extend, "ada"),
            (Verb::Shrink, "olga"),
            (Verb::Move, "olga"),
        ]
    );
    assert_eq!(lines[1].why, "more");
    assert!(lines[3].why.ends_with("new fibre"), "{moved:?}");
    // a long reason is truncated
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
    assert_eq!(
        world.books.get(&ada(), id).unwrap().state,
        ReservationState::Released
    );
}

#[test]
fn outage_moves_reservations_or_fails_them() {
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
        (None, BEGIN, "which has passed"),
        (Some(World::at(9)), World::at(9).0, "before its start"),
    ] {
        let till = Timestamp(till);
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
        Err(Error::NotFound { .. })
    ));
}

#[test]
fn ended_reservations_are_deleted_eventually() {
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
        Err(Error::NotFound { .. })
    ));
    assert_eq!(
        world
            .books
            .reserve(&ada(), &all_for(10), Some("once"))
            .unwrap()
            .id,
        id,
        "the answer is kept for a day"
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
fn large_step_back_of_the_clock_is_followed() {
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
        ReservationState::Active
    );
    world.pass(9);
    assert_eq!(
        world.books.get(&ada(), next.id).unwrap().state,
        ReservationState::Released
    );
    assert_eq!(world.books.get(&ada(), kept.id).unwrap(), kept);
}

#[test]
fn small_step_back_of_the_clock_has_no_effect() {
    let world = World::new(Config::default());
    world.pass(10);
    let back = BEGIN + 9_500_000_000;
    world.now.store(back, std::sync::atomic::Ordering::Relaxed);
    let next = world.books.reserve(&ada(), &all_for(10), None).unwrap();
    assert_eq!(next.created, World::at(10));
}

#[test]
fn deprovisioned_circuit_keeps_its_capacity_and_can_be_provisioned_again() {
    let world = World::new(Config::default());
    let id = world.books.reserve(&ada(), &all_for(100), None).unwrap().id;
    world.pass(1);
    let state = || world.books.get(&ada(), id).unwrap().state;
    assert_eq!(state(), ReservationState::Active);
    let steps = world.books.get(&ada(), id).unwrap().steps;
    let off = world.books.deprovision(&ada(), id, "pause").unwrap();
    assert_eq!((off.state, off.steps), (ReservationState::Committed, steps));
    assert!(world.books.circuits().unwrap().unwrap().is_empty());
    assert!(world.books.deprovision(&ada(), id, "again").is_err());
    assert!(world.books.deprovision(&ben(), id, "not his").is_err());
    // the capacity is not free for others
    let late = world.books.reserve(&ben(), &all_for(1), None).unwrap();
    assert_eq!(late.steps[0].from, World::at(100));
    world.books.provision(&ada(), id, "go on").unwrap();
    world.pass(1);
    assert_eq!(state(), ReservationState::Active);
}
