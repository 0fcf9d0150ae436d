//! Queries by devices, operators and other instances.

use lighthaul_booking::Error;
use lighthaul_booking::books::{Config, Policy};
use lighthaul_booking_client::json::NewReservation;
use lighthaul_booking_client::reservation::ReservationState;

use crate::world::{World, ada, all_for, ben, device};

#[test]
fn reservation_becomes_active_when_a_device_reports_the_circuit() {
    let world = World::new(Config::default());
    let later = NewReservation {
        start: Some(World::at(100)),
        ..all_for(10)
    };
    let id = world.books.reserve(&ada(), &later, None).unwrap().id;
    let state = || world.books.get(&ada(), id).unwrap().state;
    assert!(world.books.activate(&ada(), id, "it carries").is_err());
    assert_eq!(state(), ReservationState::Provisioned);
    world.books.activate(&device(), id, "it carries").unwrap();
    assert_eq!(state(), ReservationState::Active);
}

#[test]
fn changed_policies_apply_to_the_next_booking() {
    let world = World::new(Config::default());
    let before = world.books.reserve(&ben(), &all_for(10), None).unwrap();
    let no_links = Policy {
        links: Some(Vec::new()),
        ..Policy::default()
    };
    let listed = [("ada".to_owned(), Policy::default())];
    world.books.set_policies(no_links, listed.into());
    let refused = world.books.reserve(&ben(), &all_for(10), None);
    assert!(matches!(refused, Err(Error::Policy(_))), "{refused:?}");
    assert!(world.books.reserve(&ada(), &all_for(10), None).is_ok());
    let kept = world.books.get(&ben(), before.id).unwrap();
    assert_eq!(kept.steps, before.steps);
}

#[test]
fn events_after_the_latest_number_are_later_events() {
    let world = World::new(Config::default());
    let later = NewReservation {
        start: Some(World::at(100)),
        ..all_for(10)
    };
    for _ in 0..3 {
        let latest = world.books.seq().unwrap();
        let made = world.books.reserve(&ada(), &later, None).unwrap();
        let happened = world.books.events_since(&ada(), latest, 100).unwrap();
        let about = |id| {
            happened
                .events
                .iter()
                .all(|event| event.reservation.id == id)
        };
        assert!(about(made.id) && !happened.events.is_empty());
    }
}

#[test]
fn books_return_their_time_and_topology() {
    let world = World::new(Config::default());
    world.pass(5);
    assert_eq!(world.books.now(), World::at(5));
    let topology = world.books.topology().unwrap();
    assert_eq!(topology.nodes, ["a", "b"]);
    let links = topology.links.iter().map(|link| link.name.as_str());
    assert_eq!(links.collect::<Vec<_>>(), ["link"]);
}
