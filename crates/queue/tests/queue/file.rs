//! Files of other programs and of other versions.

use std::fs;

use lighthaul_queue::{Error, Queue};

use crate::Folder;

#[test]
fn files_of_other_programs_and_versions_are_refused() {
    let folder = Folder::new("foreign");
    assert!(matches!(
        Queue::existing(&folder.file()),
        Err(Error::Missing(_))
    ));
    fs::write(
        folder.file(),
        "not a database, but long enough to be read as one",
    )
    .unwrap();
    assert!(matches!(
        Queue::open(&folder.file()),
        Err(Error::Damaged { .. })
    ));
    for (sql, is_newer) in [
        ("CREATE TABLE job (x)", false),
        (
            "PRAGMA application_id = 1818784117; PRAGMA user_version = 6; CREATE TABLE x (y)",
            true,
        ),
    ] {
        fs::remove_file(folder.file()).unwrap();
        let other = rusqlite::Connection::open(folder.file()).unwrap();
        other.execute_batch(sql).unwrap();
        drop(other);
        let error = Queue::open(&folder.file()).unwrap_err();
        assert_eq!(matches!(error, Error::Newer { found: 6, .. }), is_newer);
        assert_eq!(matches!(error, Error::Foreign(_)), !is_newer);
    }
}

#[test]
fn queue_of_an_earlier_version_is_refused_and_stays_as_it_is() {
    let folder = Folder::new("older");
    drop(folder.queue());
    for format in 1..5 {
        let old = rusqlite::Connection::open(folder.file()).unwrap();
        let sql = format!("PRAGMA user_version = {format}; DROP TABLE IF EXISTS room");
        old.execute_batch(&sql).unwrap();
        let error = Queue::open(&folder.file()).unwrap_err();
        let is_older = matches!(error, Error::Older { found, .. } if found == format);
        assert!(is_older, "{error}");
        assert!(error.to_string().contains("move the file away"), "{error}");
        // a process that has it open continues
        let count = "SELECT COUNT(*) FROM sqlite_master WHERE name = 'room'";
        let count: i32 = old.query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 0);
    }
}
