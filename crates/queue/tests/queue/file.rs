//! Files of other programs and of other versions.

use std::fs;

use lighthaul_queue::claims::{Report, backoff};
use lighthaul_queue::job::JobEnd;
use lighthaul_queue::list::Selection;
use lighthaul_queue::{Error, JobId, JobState, Queue};

use crate::Folder;
use crate::rules::{claim, ended, state};

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
            "PRAGMA application_id = 1818784117; PRAGMA user_version = 4; CREATE TABLE x (y)",
            true,
        ),
    ] {
        fs::remove_file(folder.file()).unwrap();
        let other = rusqlite::Connection::open(folder.file()).unwrap();
        other.execute_batch(sql).unwrap();
        drop(other);
        let error = Queue::open(&folder.file()).unwrap_err();
        assert_eq!(matches!(error, Error::Newer { found: 4, .. }), is_newer);
        assert_eq!(matches!(error, Error::Foreign(_)), !is_newer);
    }
}

#[test]
fn queue_of_an_earlier_version_is_used() {
    for (name, format, change) in [
        (
            "first",
            1,
            "ALTER TABLE job DROP COLUMN series; PRAGMA user_version = 1;",
        ),
        (
            "second",
            2,
            "UPDATE job SET series = 1000; PRAGMA user_version = 2;",
        ),
    ] {
        let folder = Folder::new(name);
        let old = rusqlite::Connection::open(folder.file()).unwrap();
        let tables = include_str!("format_2.sql");
        // a job that recurs and one that runs, as the earlier version has stored them
        let jobs = r#"INSERT INTO job (owner, name, command, directory, priority, state, retries, not_before, submitted, every)
            VALUES ('ada', '', '["cp", "a", "b"]', X'2F', 0, 1, 2, 1000, 1000, 60000);
            INSERT INTO job (owner, name, command, directory, priority, state, retries, not_before, submitted, attempt, lease)
            VALUES ('bob', '', '["cp", "a", "b"]', X'2F', 0, 1, 2, 1000, 1000, 1, 1500);
            UPDATE job SET state = 2 WHERE owner = 'bob';
            PRAGMA application_id = 1818784117;"#;
        old.execute_batch(&format!("{tables}{jobs}{change}"))
            .unwrap();
        drop(old);
        let mut queue = folder.queue();
        let attempt = claim(&mut queue, 1000).unwrap();
        assert_eq!(attempt.job, JobId(1), "format {format}");
        queue
            .finish(1500, attempt, &ended(JobEnd::Retry), &Report::default())
            .unwrap();
        assert_eq!(queue.advance(1501).unwrap(), 1);
        assert_eq!(state(&mut queue, JobId(2)), JobState::Queued);
        queue.cancel(1502, JobId(2)).unwrap();
        queue.advance(1500 + backoff(0)).unwrap();
        let attempt = claim(&mut queue, 20_000).unwrap();
        queue
            .finish(30_000, attempt, &ended(JobEnd::Done), &Report::default())
            .unwrap();
        let next = queue
            .jobs(&Selection::default(), None, 1)
            .unwrap()
            .remove(0);
        assert_eq!(next.not_before, 61_000, "format {format}");
        drop(queue);
        assert!(Queue::existing(&folder.file()).is_ok());
    }
}
