//! Books in a real `PostgreSQL` server that stops and restarts, and instances that replace each
//! other.
#![expect(clippy::unwrap_used, reason = "a test")]

mod cut_off;
mod kept_events;
mod locked;
mod restored;
mod server;
mod stopping;
mod taking_over;
mod tls;
#[expect(dead_code, reason = "used by other tests")]
#[path = "../../../booking/tests/books/world.rs"]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lighthaul_booking::Error;
use lighthaul_booking::books::{Books, Config, Filter};
use lighthaul_booking::store::Writer;
use lighthaul_booking::store::postgres::Postgres;
use server::Server;
use world::{BEGIN, SECOND, World, ada, all_for, ben, held_for, open, operator};

#[test]
fn answers_survive_a_restart_of_the_server() {
    let Some(server) = Server::start() else {
        return;
    };
    let world = World::on(server.store("http://one"), Config::default());
    let first = world
        .books
        .reserve(&ada(), &all_for(10), Some("k"))
        .unwrap();
    let before = world.calendar();
    server.control("stop", "fast");
    let why = world.books.reserve(&ada(), &all_for(10), None).unwrap_err();
    assert!(matches!(why, Error::Store(_)), "{why:?}");
    assert!(
        why.to_string()
            .contains("nothing was changed: check that the server runs"),
        "{why}"
    );
    assert!(world.books.tick().is_err());
    server.begin();
    assert_eq!(
        world
            .books
            .reserve(&ada(), &all_for(10), Some("k"))
            .unwrap(),
        first
    );
    assert_eq!(world.calendar(), before);
    // crashes the server
    server.control("stop", "immediate");
    server.begin();
    let second = after_a_failure(|| world.books.reserve(&ben(), &all_for(10), None));
    assert_eq!(second.promised_end, World::at(20));
    let all = world
        .books
        .list(&operator(), &Filter::default(), (0, 10))
        .unwrap();
    let ids: Vec<u64> = all.items.iter().map(|one| one.id).collect();
    assert_eq!(ids, [first.id, second.id]);
}

#[test]
fn another_instance_replaces_the_writer_with_all_reservations() {
    let Some(server) = Server::start() else {
        return;
    };
    let now = Arc::new(AtomicU64::new(BEGIN));
    let instance = |url: &str| open(server.store(url), Config::default(), &now).unwrap();
    let (one, two) = (instance("http://one"), instance("http://two"));
    assert_eq!(
        (one.writer().unwrap(), two.writer().unwrap()),
        (Writer::This, Writer::Other("http://one".into()))
    );
    let first = one.reserve(&ada(), &all_for(10), Some("k")).unwrap();
    let hold = one.reserve(&ben(), &held_for(10), None).unwrap();
    assert_eq!(
        two.get(&ada(), first.id).unwrap(),
        one.get(&ada(), first.id).unwrap(),
        "a reader has the latest change"
    );
    match two.reserve(&ada(), &all_for(1), None) {
        Err(Error::OtherWriter { url }) => assert_eq!(url, "http://one"),
        answer => panic!("{answer:?}"),
    }
    drop(one);
    let second = after_a_failure(|| two.reserve(&ada(), &all_for(10), None));
    assert_eq!(second.promised_end, World::at(30));
    assert_eq!(two.reserve(&ada(), &all_for(10), Some("k")).unwrap(), first);
    now.fetch_add(120 * SECOND, Ordering::Relaxed);
    two.tick().unwrap();
    assert!(
        two.get(&ben(), hold.id).unwrap().state.is_final(),
        "holds keep their expiry"
    );
    let three = instance("http://three");
    assert_eq!(three.writer().unwrap(), Writer::Other("http://two".into()));
    assert_eq!(promised(&three), promised(&two));
}

#[test]
fn disconnected_writer_cannot_overwrite_its_successor() {
    let Some(server) = Server::start() else {
        return;
    };
    let now = Arc::new(AtomicU64::new(BEGIN));
    let instance = |url: &str| open(server.store(url), Config::default(), &now).unwrap();
    let (one, two) = (instance("http://one"), instance("http://two"));
    one.reserve(&ada(), &all_for(10), None).unwrap();
    server.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted",
    );
    let taken = after_a_failure(|| two.reserve(&ben(), &all_for(10), None));
    assert_eq!(taken.promised_end, World::at(20));
    // the first instance learns it now, at the latest with its next change
    let mut answers = (0..3).map(|_| one.reserve(&ada(), &all_for(10), None));
    assert!(
        answers.all(|answer| matches!(answer, Err(Error::Store(_) | Error::OtherWriter { .. })))
    );
    assert_eq!(promised(&one), promised(&two));
    assert_eq!(
        two.list(&operator(), &Filter::default(), (0, 10))
            .unwrap()
            .items
            .len(),
        2
    );
}

/// Missing database, and missing server.
#[test]
fn unusable_server_is_reported_with_a_remedy() {
    let gone = Postgres::open("postgres://localhost:1/books", "")
        .unwrap_err()
        .to_string();
    assert!(gone.contains("check that the server runs"), "{gone}");
    let wrong = Postgres::open("postgres//", "").unwrap_err().to_string();
    assert!(wrong.contains("postgres://user@host/books"), "{wrong}");
}

/// Returns all bookings.
fn promised(books: &Books) -> lighthaul_calendar::Calendar {
    let mut calendar = books.snapshot().unwrap();
    calendar.forget(World::at(0).instant());
    calendar
}

/// Returns the result of a call that may fail a few times after a disconnection.
fn after_a_failure<T>(mut ask: impl FnMut() -> lighthaul_booking::Result<T>) -> T {
    let mut answers = (0..100).map(|_| {
        // the server releases the locks of a connection when it notices its end
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        ask()
    });
    answers.find_map(Result::ok).unwrap()
}
