//! Files of other programs and of other versions.

use std::fs;

use lighthaul_queue::claims::{Report, backoff};
use lighthaul_queue::job::JobEnd;
use lighthaul_queue::list::Selection;
use lighthaul_queue::{Error, JobId, JobState, Queue};

use crate::rules::{claim, ended, state};
use crate::{Folder, spec};

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
            "PRAGMA application_id = 1818784117; PRAGMA user_version = 5; CREATE TABLE x (y)",
            true,
        ),
    ] {
        fs::remove_file(folder.file()).unwrap();
        let other = rusqlite::Connection::open(folder.file()).unwrap();
        other.execute_batch(sql).unwrap();
        drop(other);
        let error = Queue::open(&folder.file()).unwrap_err();
        assert_eq!(matches!(error, Error::Newer { found: 5, .. }), is_newer);
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

/// Statements that change the tables to those of the third version, with a job of a client and one of a user.
const THIRD: &str = "
DROP INDEX job_logged;
ALTER TABLE job DROP COLUMN logged;
DROP TABLE ending;
INSERT INTO request VALUES ('ada', 'k', 'd', 1, 1000);
INSERT INTO owner VALUES ('ada', 3);
";

/// Checks the jobs of [`THIRD`] in the present version.
fn check_third(queue: &mut Queue) {
    let owners: Vec<String> = [1, 2]
        .map(|id| queue.job(JobId(id)).unwrap().owner)
        .to_vec();
    assert_eq!(owners, ["rest:ada", "ada"]);
    let shares = queue.shares().unwrap();
    let shares: Vec<_> = shares
        .iter()
        .map(|one| (one.owner.as_str(), one.share))
        .collect();
    assert_eq!(shares, [("ada", 3), ("rest:ada", 3)]);
}

#[test]
fn owners_of_the_third_version_get_their_origin() {
    let folder = Folder::new("third");
    folder.queue().submit(1, &[spec(), spec()]).unwrap();
    let old = rusqlite::Connection::open(folder.file()).unwrap();
    old.execute_batch(THIRD).unwrap();
    old.execute_batch("PRAGMA user_version = 3").unwrap();
    drop(old);
    check_third(&mut folder.queue());
    check_third(&mut folder.queue());
}
