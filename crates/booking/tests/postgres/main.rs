//! Books in a real `PostgreSQL` server, which goes away and comes back; instances that take over from each other.
#![expect(clippy::unwrap_used, reason = "a test")]

mod cut_off;
mod server;
mod stopping;
mod taking_over;
mod tls;
#[expect(dead_code, reason = "other tests need the rest")]
#[path = "../books/world.rs"]
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
fn what_was_answered_survives_a_restart_of_the_server() {
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
            .contains("nothing was changed: see whether the server runs"),
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
    // a crash of the server
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
fn when_the_writer_goes_another_instance_has_everything() {
    let Some(server) = Server::start() else {
        return;
    };
    let now = Arc::new(AtomicU64::new(BEGIN));
    let instance = |url: &str| open(server.store(url), Config::default(), &now).unwrap();
    let (one, two) = (instance("http://one"), instance("http://two"));
    assert_eq!(
        (one.writer().unwrap(), two.writer().unwrap()),
        (Writer::Here, Writer::At("http://one".into()))
    );
    let first = one.reserve(&ada(), &all_for(10), Some("k")).unwrap();
    let hold = one.reserve(&ben(), &held_for(10), None).unwrap();
    assert_eq!(
        two.get(&ada(), first.id).unwrap(),
        one.get(&ada(), first.id).unwrap(),
        "who reads has what was just written"
    );
    match two.reserve(&ada(), &all_for(1), None) {
        Err(Error::Elsewhere { url }) => assert_eq!(url, "http://one"),
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
        "holds are taken over with their time-outs"
    );
    let three = instance("http://three");
    assert_eq!(three.writer().unwrap(), Writer::At("http://two".into()));
    assert_eq!(promised(&three), promised(&two));
}

#[test]
fn a_writer_that_was_cut_off_does_not_write_over_its_successor() {
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
    // the first learns of it now, at the latest with its next change
    let mut answers = (0..3).map(|_| one.reserve(&ada(), &all_for(10), None));
    assert!(answers.all(|answer| matches!(answer, Err(Error::Store(_) | Error::Elsewhere { .. }))));
    assert_eq!(promised(&one), promised(&two));
    assert_eq!(
        two.list(&operator(), &Filter::default(), (0, 10))
            .unwrap()
            .items
            .len(),
        2
    );
}

/// A server without its database, and one that is not there.
#[test]
fn a_server_that_cannot_be_used_is_named_with_what_to_do() {
    let gone = Postgres::open("postgres://localhost:1/books", "")
        .unwrap_err()
        .to_string();
    assert!(gone.contains("see whether the server runs"), "{gone}");
    let wrong = Postgres::open("postgres//", "").unwrap_err().to_string();
    assert!(wrong.contains("postgres://user@host/books"), "{wrong}");
}

/// What is promised from the beginning on.
fn promised(books: &Books) -> lighthaul_calendar::Calendar {
    let mut calendar = books.snapshot().unwrap();
    calendar.forget(World::at(0).instant());
    calendar
}

/// The answer when somebody who was cut off tries a few times.
fn after_a_failure<T>(mut ask: impl FnMut() -> lighthaul_booking::Result<T>) -> T {
    let mut answers = (0..100).map(|_| {
        // the server lets go of the locks of a connection when it sees that it is gone
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        ask()
    });
    answers.find_map(Result::ok).unwrap()
}
