//! Events that a real database keeps.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use lighthaul_booking::Error;
use lighthaul_booking::books::{Config, Principal};
use lighthaul_booking_client::role::Role;

use crate::after_a_failure;
use crate::server::Server;
use crate::world::{BEGIN, ada, all_for, open};

/// The reasons have characters that the functions of the database for JSON refuse.
#[test]
fn next_writer_deletes_the_events_of_the_owner_with_the_most() {
    let Some(server) = Server::start() else {
        return;
    };
    let now = Arc::new(AtomicU64::new(BEGIN));
    let start = |events_max| {
        let config = Config {
            events_max,
            ..Config::default()
        };
        open(server.store("http://one"), config, &now).unwrap()
    };
    let books = start(100);
    let odd = Principal::new("a\"b\\c\0\u{e9}", Role::User);
    let why = "\0\"reservation\":{\"id\":7,\"owner\":\"ada\"".repeat(9);
    let other = books.reserve(&ada(), &all_for(1), None).unwrap().id;
    let id = books.reserve(&odd, &all_for(10), None).unwrap().id;
    for _ in 0..20 {
        books.deprovision(&odd, id, &why).unwrap();
        books.provision(&odd, id, &why).unwrap();
    }
    let mut after = 0;
    while let Some(last) = books.events_since(&odd, after, 7).unwrap().events.last() {
        after = last.seq;
    }
    drop(books);
    let books = start(8);
    after_a_failure(|| books.deprovision(&odd, id, &why));
    let gone = books.events_since(&odd, 0, 100);
    assert!(matches!(gone, Err(Error::EventsDropped { .. })), "{gone:?}");
    let kept = books.events_since(&odd, after, 100).unwrap().events;
    assert_eq!(kept.len(), 1);
    let kept = books.events_since(&ada(), 0, 100).unwrap().events;
    assert!(kept.iter().all(|event| event.reservation.id == other));
    assert!(!kept.is_empty());
    drop(books);
    let gone = start(8).events_since(&odd, 0, 100);
    assert!(matches!(gone, Err(Error::EventsDropped { .. })), "{gone:?}");
}
