//! Bounds of what a queue keeps.

use lighthaul_queue::claims::Report;
use lighthaul_queue::job::JobEnd;
use lighthaul_queue::list::Selection;
use lighthaul_queue::retention::Retention;
use lighthaul_queue::{Error, JobId, JobSpec, JobState, Queue, Request, owner};

use crate::rules::{claim, ended, submit};
use crate::{Folder, spec};

fn log(text: String) -> Report {
    Report {
        log: text,
        ..Report::default()
    }
}

fn logged(queue: &mut Queue, id: JobId) -> usize {
    let pieces = queue.log(id, (0, 0), 10_000).unwrap();
    pieces.iter().map(|piece| piece.text.len()).sum()
}

#[test]
fn history_of_a_job_has_a_bound() {
    let folder = Folder::new("history");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    for now in 1..=400 {
        claim(&mut queue, now).unwrap();
        queue.cancel(now, id).unwrap();
        queue.advance(now + 1001).unwrap();
        queue.retry(now, id).unwrap();
    }
    let events = queue.events(id).unwrap();
    assert!((1000..1100).contains(&events.len()), "{}", events.len());
    // the newest are kept
    assert_eq!(events.last().unwrap().state, JobState::Queued);
}

#[test]
fn log_of_a_job_loses_its_oldest_attempts() {
    let folder = Folder::new("long-log");
    let mut queue = folder.queue();
    let id = submit(
        &mut queue,
        0,
        JobSpec {
            retries: 100,
            ..spec()
        },
    );
    let mut now = 1;
    for _ in 0..8 {
        let attempt = claim(&mut queue, now).unwrap();
        let report = log("x".repeat(300_000));
        queue
            .finish(now, attempt, &ended(JobEnd::Retry), &report)
            .unwrap();
        now += 1_000_000;
        queue.advance(now).unwrap();
    }
    assert!(logged(&mut queue, id) <= 1 << 20);
    let newest = queue.log(id, (7, 9), 10).unwrap();
    assert_eq!(newest[0].attempt, 8);
}

#[test]
fn repeated_report_replaces_its_piece() {
    let folder = Folder::new("pieces");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    let attempt = claim(&mut queue, 1).unwrap();
    let piece = |text: &str, piece| Report {
        piece,
        ..log(text.to_owned())
    };
    // the answer to the first one was lost, so the worker sends it again, with what is new
    queue.renew(2, attempt, 1000, &piece("a\n", 1)).unwrap();
    queue.renew(3, attempt, 1000, &piece("a\nb\n", 1)).unwrap();
    queue.renew(4, attempt, 1000, &piece("c\n", 2)).unwrap();
    let log: String = queue
        .log(id, (0, 0), 9)
        .unwrap()
        .into_iter()
        .map(|one| one.text)
        .collect();
    assert_eq!(log, "a\nb\nc\n");
}

#[test]
fn owner_keeps_a_limited_number_of_jobs_and_logs() {
    let folder = Folder::new("trim");
    let mut queue = folder.queue();
    let bounds = Retention {
        user_jobs_max: 5,
        client_jobs_max: 3,
        log_bytes_max: 2500,
    };
    for name in ["ada".to_owned(), owner::of_client("ada")] {
        let of = JobSpec {
            owner: name,
            ..spec()
        };
        let ids = queue.submit(1, &vec![of; 10]).unwrap();
        for _ in &ids {
            let attempt = claim(&mut queue, 2).unwrap();
            let report = log("x".repeat(1000));
            queue
                .finish(3, attempt, &ended(JobEnd::Done), &report)
                .unwrap();
        }
    }
    let mut after = String::new();
    let mut seen = Vec::new();
    for _ in 0..50 {
        match queue.trim(&after, &bounds, 2).unwrap() {
            Some((_, count)) if count >= 2 => {}
            Some((name, _)) => {
                seen.push(name.clone());
                after = name;
            }
            None => break,
        }
    }
    assert_eq!(seen, ["ada", "rest:ada"]);
    for (name, jobs) in [("ada", 5), ("rest:ada", 3)] {
        let selection = Selection {
            owner: Some(name.to_owned()),
            states: Vec::new(),
        };
        let left = queue.jobs(&selection, None, 99).unwrap();
        assert_eq!(left.len(), jobs, "{name}");
        let bytes: usize = left.iter().map(|job| logged(&mut queue, job.id)).sum();
        // the newest logs stay
        assert_eq!(bytes, 2000, "{name}");
    }
}

#[test]
fn job_that_ended_last_and_log_of_a_running_job_are_kept() {
    let folder = Folder::new("trim-order");
    let mut queue = folder.queue();
    let ids = queue.submit(1, &vec![spec(); 6]).unwrap();
    let attempts: Vec<_> = ids.iter().map(|_| claim(&mut queue, 2).unwrap()).collect();
    let report = log("x".repeat(1000));
    queue.renew(3, attempts[0], 1000, &report).unwrap();
    for nth in [2, 3, 4, 5, 1] {
        let now = 10 + if nth == 1 { 9 } else { nth as u64 };
        queue
            .finish(now, attempts[nth], &ended(JobEnd::Failed), &report)
            .unwrap();
    }
    let bounds = Retention {
        user_jobs_max: 2,
        client_jobs_max: 2,
        log_bytes_max: 2000,
    };
    while queue.trim("", &bounds, 1).unwrap().unwrap().1 > 0 {}
    let left = queue.jobs(&Selection::default(), None, 9).unwrap();
    let left: Vec<JobId> = left.iter().map(|job| job.id).collect();
    assert_eq!(left, [ids[5], ids[1], ids[0]]);
    let logs = [ids[0], ids[1], ids[5]].map(|id| logged(&mut queue, id));
    assert_eq!(logs, [1000, 1000, 0]);
}

#[test]
fn logs_count_by_their_octets_and_repeated_pieces_once() {
    let folder = Folder::new("octets");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    let attempt = claim(&mut queue, 1).unwrap();
    let report = Report {
        piece: 1,
        ..log("é".repeat(500))
    };
    for now in 2..9 {
        queue.renew(now, attempt, 1000, &report).unwrap();
    }
    let bounds = |log_bytes_max| Retention {
        log_bytes_max,
        ..Retention::default()
    };
    assert_eq!(queue.trim("", &bounds(1000), 9).unwrap().unwrap().1, 0);
    assert_eq!(logged(&mut queue, id), 1000);
    assert_eq!(queue.trim("", &bounds(999), 9).unwrap().unwrap().1, 1);
    assert_eq!(logged(&mut queue, id), 0);
}

#[test]
fn keys_of_requests_are_kept_for_a_day_even_if_their_jobs_are_forgotten() {
    let folder = Folder::new("old-keys");
    let mut queue = folder.queue();
    let request = |key: &str| Request {
        key: Some(key.to_owned()),
        digest: "d".to_owned(),
        open_max: 10,
    };
    let id = queue.request(1, &spec(), &request("k")).unwrap();
    queue.cancel(2, id).unwrap();
    assert_eq!(queue.forget(100, 9).unwrap(), 1);
    // a repetition must not submit the job again
    assert_eq!(queue.request(3, &spec(), &request("k")).unwrap(), id);
    assert!(matches!(queue.job(id), Err(Error::Unknown(_))));
    let day = 24 * 3600 * 1000;
    assert_eq!(queue.forget_keys(day, 9).unwrap(), 0);
    assert_eq!(queue.forget_keys(day + 2, 9).unwrap(), 1);
}

#[test]
fn secrets_are_deleted_once_a_job_is_done() {
    let folder = Folder::new("done-secret");
    let mut queue = folder.queue();
    let signed = JobSpec {
        command: ["cp", "https://b/a?Signature=12345678", "x"]
            .map(str::to_owned)
            .to_vec(),
        ..spec()
    };
    let id = submit(&mut queue, 0, signed);
    let attempt = claim(&mut queue, 1).unwrap();
    queue
        .finish(2, attempt, &ended(JobEnd::Done), &Report::default())
        .unwrap();
    assert_eq!(queue.job(id).unwrap().command[1], "https://b/a?(hidden)");
}
