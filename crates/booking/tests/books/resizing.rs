//! Extended and shrunk reservations, and the policy of their owner.

use std::time::Duration;

use lighthaul_booking::Error;
use lighthaul_booking::books::{Config, Policy, Principal};
use lighthaul_booking_client::json::{Bytes, Change, EventKind};
use lighthaul_calendar::Refusal;

use crate::world::{SECONDS_WORTH, World, ada, all_for, operator};

/// Returns a new size, in seconds of the whole link.
fn size(seconds: u64) -> Change {
    Change {
        size: Some(Bytes(seconds * SECONDS_WORTH)),
        ..Change::default()
    }
}

/// Permits reservations that end within this number of seconds.
fn ahead(seconds: u64) -> Policy {
    Policy {
        ahead: Some(Duration::from_secs(seconds)),
        ..Policy::default()
    }
}

#[test]
fn only_operators_extend_reservations_beyond_the_policy_of_the_owner() {
    let world = World::new(Config {
        policy: ahead(100),
        ..Config::default()
    });
    let id = world.books.reserve(&ada(), &all_for(10), None).unwrap().id;
    let extend = |principal: &Principal, seconds| {
        let extended = world.books.extend(principal, id, &size(seconds));
        extended.map(|extended| extended.promised_end)
    };
    assert_eq!(extend(&ada(), 100).unwrap(), World::at(100));
    let (before, calendar) = (world.books.get(&ada(), id).unwrap(), world.calendar());
    let why = extend(&ada(), 101).unwrap_err();
    assert!(matches!(why, Error::Policy(_)), "{why}");
    assert_eq!(world.books.get(&ada(), id).unwrap(), before);
    assert_eq!(world.calendar(), calendar);
    assert_eq!(extend(&operator(), 101).unwrap(), World::at(101));
}

#[test]
fn reservation_shrinks_though_a_new_policy_forbids_its_end() {
    let world = World::new(Config::default());
    let id = world.books.reserve(&ada(), &all_for(100), None).unwrap().id;
    world.books.set_policies(ahead(10), [].into());
    let shrunk = world.books.shrink(&ada(), id, &size(50)).unwrap();
    assert_eq!(shrunk.promised_end, World::at(50));
    let happened = world.books.events_since(&ada(), 0, 100).unwrap();
    assert_eq!(happened.events.last().unwrap().kind, EventKind::Resized);
}

#[test]
fn ended_reservation_is_not_resized() {
    let world = World::new(Config::default());
    let id = world.books.reserve(&ada(), &all_for(10), None).unwrap().id;
    world.books.release(&ada(), id, "").unwrap();
    for resized in [
        world.books.extend(&ada(), id, &size(11)),
        world.books.shrink(&ada(), id, &size(9)),
    ] {
        let why = resized.unwrap_err();
        assert!(matches!(why, Error::Refused(Refusal::Ended(_))), "{why}");
    }
}
