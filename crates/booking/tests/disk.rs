//! Full disks, and files that are not a store.
#![expect(clippy::unwrap_used, reason = "a test")]

#[expect(dead_code, reason = "used by other tests")]
#[path = "books/world.rs"]
mod world;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lighthaul_booking::Error;
use lighthaul_booking::books::{Config, Filter};
use lighthaul_booking::error::{SqliteFault, StoreError};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_testkit::lacks;
use world::{World, ada, all_for, operator};

#[test]
fn store_is_readable_only_by_its_owner() {
    let name = format!("private-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("books");
    let world = World::on(Box::new(Sqlite::open(&path).unwrap()), Config::default());
    world.books.reserve(&ada(), &all_for(1), None).unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{entry:?}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn full_disk_refuses_bookings_until_space_is_freed() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let small = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=512k", "books"])
        .arg(&folder)
        .output();
    let is_mounted = small.is_ok_and(|mount| mount.status.success());
    let test = "on_a_full_disk_nothing_is_promised_and_afterwards_all_goes_on";
    if lacks(test, is_mounted.then_some(()).ok_or("needs root and mount")) {
        return;
    }
    let world = World::on(
        Box::new(Sqlite::open(&folder.join("books")).unwrap()),
        Config::default(),
    );
    let ballast = folder.join("ballast");
    let free = (0..512)
        .take_while(|nth| fs::write(&ballast, vec![1_u8; nth * 1024]).is_ok())
        .count();
    let mut answers = (0..200).map(|_| world.books.reserve(&ada(), &all_for(1), None));
    let why = answers.find_map(Result::err);
    let kept = world.books.list(&operator(), &Filter::default(), (0, 1000));
    fs::remove_file(&ballast).unwrap();
    let next = world.books.reserve(&ada(), &all_for(1), None);
    let before = world.calendar();
    drop(world);
    let again = World::on(
        Box::new(Sqlite::open(&folder.join("books")).unwrap()),
        Config::default(),
    );
    let is_same = again.calendar() == before;
    drop(again);
    assert!(
        Command::new("umount")
            .arg(&folder)
            .status()
            .unwrap()
            .success()
    );
    assert!(free < 512, "the disk was not full");
    assert!(
        matches!(
            &why,
            Some(Error::Store(StoreError::Sqlite {
                fault: SqliteFault::DiskFull,
                ..
            }))
        ),
        "{why:?}"
    );
    // each takes the link for a second after the previous one
    let seconds = kept.unwrap().items.len() as u64;
    assert_eq!(next.unwrap().promised_end, World::at(seconds + 1));
    assert!(is_same);
}

#[test]
fn locked_file_and_foreign_file_are_refused() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("file-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("books");
    let one = World::on(Box::new(Sqlite::open(&file).unwrap()), Config::default());
    one.books.reserve(&ada(), &all_for(1), None).unwrap();
    let why = Sqlite::open(&file).unwrap_err().to_string();
    assert!(why.contains("another scheduler has it open"), "{why}");
    drop(one);
    let other = folder.join("letter");
    fs::write(&other, "Dear books, ".repeat(100)).unwrap();
    let why = Sqlite::open(&other).unwrap_err().to_string();
    assert!(why.contains("restore it from a backup"), "{why}");
    let nowhere = Sqlite::open(&folder.join("no/such/folder"))
        .unwrap_err()
        .to_string();
    assert!(nowhere.contains("that its directory exists"), "{nowhere}");
    fs::remove_dir_all(folder).unwrap();
}
