//! Stores that were restored from a backup, or failed over to a lagging server.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use lighthaul_booking::books::{Books, Config};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking_client::json::Reservation;

use crate::shared_store::SharedStore;
use crate::world::{BEGIN, World, ada, all_for, ben, open};

fn says_backwards<T: std::fmt::Debug>(answer: lighthaul_booking::Result<T>) {
    let why = answer.unwrap_err().to_string();
    assert!(why.contains("is older than before"), "{why}");
    assert!(why.contains("--accept-restored"), "{why}");
}

#[test]
fn older_store_is_refused_by_every_instance_that_knows_later_changes() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let now = Arc::new(AtomicU64::new(BEGIN));
    let one = open(shared_store.handle("one"), Config::default(), &now).unwrap();
    let two = open(shared_store.handle("two"), Config::default(), &now).unwrap();
    one.reserve(&ada(), &all_for(1), None).unwrap();
    let lagging = shared_store.copy();
    let lost = one.reserve(&ada(), &all_for(1), None).unwrap();
    assert_eq!(two.get(&ada(), lost.id).unwrap(), lost);
    shared_store.restore(&lagging);
    // an instance that has seen nothing accepts it, and continues beyond the others
    shared_store.elect("three");
    let three = open(shared_store.handle("three"), Config::default(), &now).unwrap();
    for _ in 0..5 {
        three.reserve(&ada(), &all_for(1), None).unwrap();
    }
    says_backwards(two.get(&ada(), lost.id));
    shared_store.elect("one");
    says_backwards(one.reserve(&ada(), &all_for(1), None));
    says_backwards(one.tick());
    assert!(one.status().why.unwrap().contains("is older than before"));
}

/// Opens a reader that has seen a change, which its store lost, while another writer made a change with the same
/// number.
fn changed_alike(accept_restored: bool) -> (Books, Reservation) {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let now = Arc::new(AtomicU64::new(BEGIN));
    let open = |name, accept_restored| {
        let config = Config {
            accept_restored,
            ..Config::default()
        };
        open(shared_store.handle(name), config, &now).unwrap()
    };
    let one = open("one", false);
    let [two, three] = ["two", "three"].map(|name| open(name, false));
    let reader = open("reader", accept_restored);
    for _ in 0..2 {
        one.reserve(&ada(), &all_for(1), None).unwrap();
    }
    let lagging = shared_store.copy();
    shared_store.elect("two");
    let lost = two.reserve(&ada(), &all_for(1), None).unwrap();
    assert_eq!(reader.get(&ada(), lost.id).unwrap(), lost);
    shared_store.restore(&lagging);
    shared_store.elect("three");
    let other = three.reserve(&ben(), &all_for(1), None).unwrap();
    assert_eq!(other.id, lost.id);
    (reader, other)
}

/// Each writer begins an epoch, so that histories differ even if their numbers are alike.
#[test]
fn lost_change_is_noticed_although_another_change_has_its_number() {
    let (reader, other) = changed_alike(false);
    says_backwards(reader.get(&ben(), other.id));
}

/// A store that is accepted is read again as a whole.
#[test]
fn accepted_store_replaces_the_lost_changes() {
    let (reader, other) = changed_alike(true);
    assert_eq!(reader.get(&ben(), other.id).unwrap(), other);
    assert!(reader.get(&ada(), other.id).is_err());
}

#[test]
fn alternating_writers_extend_the_same_history() {
    let shared_store = SharedStore::default();
    shared_store.elect("one");
    let now = Arc::new(AtomicU64::new(BEGIN));
    let one = open(shared_store.handle("one"), Config::default(), &now).unwrap();
    let two = open(shared_store.handle("two"), Config::default(), &now).unwrap();
    for nth in 0..6 {
        let (name, writer) = if nth % 2 == 0 {
            ("one", &one)
        } else {
            ("two", &two)
        };
        shared_store.elect(name);
        let made = writer.reserve(&ada(), &all_for(1), None).unwrap();
        for books in [&one, &two] {
            books.tick().unwrap();
            assert_eq!(books.get(&ada(), made.id).unwrap().created, made.created);
        }
    }
}

#[test]
fn restored_file_is_refused_until_accepted() {
    let name = format!("backwards-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let (books, backup) = (folder.join("books"), folder.join("backup"));
    let config = |accept_restored| Config {
        position_file: Some(folder.join("books.seen")),
        accept_restored,
        ..Config::default()
    };
    let now = Arc::new(AtomicU64::new(BEGIN));
    let start = |accept| {
        open(
            Box::new(Sqlite::open(&books).unwrap()),
            config(accept),
            &now,
        )
    };
    let first = start(false).unwrap().reserve(&ada(), &all_for(1), None);
    let first = first.unwrap();
    fs::copy(&books, &backup).unwrap();
    let again = start(false).unwrap();
    let lost = again.reserve(&ada(), &all_for(1), None).unwrap();
    drop(again);
    fs::copy(&backup, &books).unwrap();
    says_backwards(start(false));
    let restored = start(true).unwrap();
    assert_eq!(restored.get(&ada(), first.id).unwrap().id, first.id);
    let next = restored.reserve(&ada(), &all_for(1), None).unwrap();
    assert!(next.id > lost.id + 1000, "{} behind {}", next.id, lost.id);
    drop(restored);
    start(false).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn numbers_are_not_reused_after_a_power_failure() {
    let name = format!("bound-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let now = Arc::new(AtomicU64::new(BEGIN));
    let start = || {
        let config = Config {
            position_file: Some(folder.join("books.seen")),
            ..Config::default()
        };
        let store = Sqlite::open(&folder.join("books")).unwrap();
        open(Box::new(store), config, &now).unwrap()
    };
    let files = ["books", "books-wal", "books.seen"].map(|name| folder.join(name));
    let first = start();
    first.reserve(&ada(), &all_for(1), None).unwrap();
    // a power failure leaves an older position, and the books are restored from an equally old
    // backup
    let old = files.each_ref().map(|file| fs::read(file).unwrap());
    let lost = first.reserve(&ada(), &all_for(1), None).unwrap();
    drop(first);
    for (file, octets) in files.iter().zip(&old) {
        fs::write(file, octets).unwrap();
    }
    let third = start();
    let next = third.reserve(&ada(), &all_for(1), None).unwrap();
    assert!(next.id > lost.id, "{} behind {}", next.id, lost.id);
    drop(third);
    // numbers continue without a gap after a stop
    let fourth = start();
    let last = fourth.reserve(&ada(), &all_for(1), None).unwrap();
    assert!(last.id < next.id + 100, "{} behind {}", last.id, next.id);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn damaged_position_file_is_refused_until_restored_books_are_accepted() {
    let name = format!("damaged-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let seen = folder.join("books.seen");
    let now = Arc::new(AtomicU64::new(BEGIN));
    let start = |accept_restored| {
        let config = Config {
            position_file: Some(seen.clone()),
            accept_restored,
            ..Config::default()
        };
        let store = Sqlite::open(&folder.join("books")).unwrap();
        open(Box::new(store), config, &now)
    };
    let first = start(false).unwrap().reserve(&ada(), &all_for(1), None);
    let first = first.unwrap();
    let whole = fs::read(&seen).unwrap();
    for damaged in [Vec::new(), whole[..100].to_vec(), vec![0; whole.len()]] {
        fs::write(&seen, &damaged).unwrap();
        let why = start(false).unwrap_err().to_string();
        assert!(
            why.contains("is damaged") && why.contains("--accept-restored"),
            "{why}"
        );
        assert_eq!(
            fs::read(&seen).unwrap(),
            damaged,
            "a refused start changes nothing"
        );
    }
    let next = start(true).unwrap().reserve(&ada(), &all_for(1), None);
    let next = next.unwrap();
    assert!(next.id > first.id + 1000, "{} behind {}", next.id, first.id);
    start(false).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn replaced_file_is_not_written() {
    let name = format!("replaced-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let (path, copy) = (folder.join("books"), folder.join("copy"));
    let world = World::on(Box::new(Sqlite::open(&path).unwrap()), Config::default());
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    let why = world.books.reserve(&ada(), &all_for(1), None).unwrap_err();
    assert!(why.to_string().contains("was replaced"), "{why}");
    fs::remove_dir_all(&folder).unwrap();
}
