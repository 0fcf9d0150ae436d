//! Rules of a queue, one by one.

use lighthaul_queue::claims::{ADVANCE_MAX, Leases, Order, Report, backoff};
use lighthaul_queue::job::{Attempt, AttemptEnd, JobEnd};
use lighthaul_queue::list::Selection;
use lighthaul_queue::{Error, JobId, JobSpec, JobState, Queue};

use crate::{Folder, spec};

pub(crate) fn ended(end: JobEnd) -> AttemptEnd {
    AttemptEnd {
        end,
        exit: Some(u8::from(end != JobEnd::Done)),
        text: "text".to_owned(),
    }
}

fn log(text: &str) -> Report {
    Report {
        log: text.to_owned(),
        ..Report::default()
    }
}

pub(crate) fn submit(queue: &mut Queue, now: u64, spec: JobSpec) -> JobId {
    queue.submit(now, &[spec]).unwrap()[0]
}

pub(crate) fn claim(queue: &mut Queue, now: u64) -> Option<Attempt> {
    let claimed = queue.claim(now, "worker", 1000, 1).unwrap();
    claimed.first().map(lighthaul_queue::Job::attempt)
}

pub(crate) fn state(queue: &mut Queue, id: JobId) -> JobState {
    queue.job(id).unwrap().state
}

#[test]
fn higher_priority_starts_first_and_equal_priority_in_order() {
    let folder = Folder::new("priority");
    let mut queue = folder.queue();
    let with = |priority| JobSpec { priority, ..spec() };
    let ids = queue
        .submit(1, &[with(0), with(5), with(-3), with(5)])
        .unwrap();
    let mut order = Vec::new();
    while let Some(attempt) = claim(&mut queue, 2) {
        order.push(attempt.job);
    }
    assert_eq!(order, [ids[1], ids[3], ids[0], ids[2]]);
}

#[test]
fn late_jobs_and_their_dependents_end_in_batches() {
    let folder = Folder::new("late-batches");
    let mut queue = folder.queue();
    let late = JobSpec {
        start_by: Some(10),
        ..spec()
    };
    for first in queue.submit(1, &vec![late; 30]).unwrap() {
        let after = JobSpec {
            after: vec![first],
            ..spec()
        };
        queue.submit(1, &vec![after; 20]).unwrap();
    }
    let failed = |queue: &mut Queue| queue.counts().unwrap().get(&JobState::Failed).copied();
    assert!(claim(&mut queue, 11).is_none());
    assert_eq!(failed(&mut queue), Some(30));
    let mut before = 30;
    while before < 630 {
        queue.advance(11).unwrap();
        let now = failed(&mut queue).unwrap();
        assert!(
            (1..=u64::from(ADVANCE_MAX)).contains(&(now - before)),
            "{now} after {before}"
        );
        before = now;
    }
}

#[test]
fn job_waits_for_its_time_and_for_other_jobs() {
    let folder = Folder::new("waits");
    let mut queue = folder.queue();
    let first = submit(&mut queue, 1, spec());
    let second = submit(
        &mut queue,
        1,
        JobSpec {
            after: vec![first],
            not_before: 50,
            ..spec()
        },
    );
    assert_eq!(state(&mut queue, second), JobState::Waiting);
    let attempt = claim(&mut queue, 2).unwrap();
    assert!(
        queue
            .finish(10, attempt, &ended(JobEnd::Done), &Report::default())
            .unwrap()
    );
    assert_eq!(queue.advance(49).unwrap(), 0);
    assert_eq!(queue.advance(50).unwrap(), 1);
    assert_eq!(claim(&mut queue, 51).unwrap().job, second);
    // a job after one that is done does not wait
    let third = submit(
        &mut queue,
        60,
        JobSpec {
            after: vec![first],
            ..spec()
        },
    );
    assert_eq!(state(&mut queue, third), JobState::Queued);
}

#[test]
fn failed_job_fails_all_jobs_after_it() {
    let folder = Folder::new("dead");
    let mut queue = folder.queue();
    let mut ids = vec![submit(&mut queue, 1, spec())];
    for _ in 0..5 {
        let after = vec![*ids.last().unwrap()];
        ids.push(submit(&mut queue, 1, JobSpec { after, ..spec() }));
    }
    let attempt = claim(&mut queue, 2).unwrap();
    assert!(
        queue
            .finish(3, attempt, &ended(JobEnd::Failed), &Report::default())
            .unwrap()
    );
    for pair in ids.windows(2) {
        let job = queue.job(pair[1]).unwrap();
        assert_eq!(job.state, JobState::Failed);
        let why = format!("job {}, which must be done first, is failed", pair[0]);
        assert_eq!(job.text, why);
    }
    let error = queue
        .submit(
            4,
            &[JobSpec {
                after: vec![ids[0]],
                ..spec()
            }],
        )
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a job cannot wait for job 1, which is failed"
    );
    let unknown = queue.submit(
        4,
        &[JobSpec {
            after: vec![JobId(99)],
            ..spec()
        }],
    );
    assert!(matches!(unknown, Err(Error::Unknown(JobId(99)))));
}

#[test]
fn many_dependents_learn_of_an_end_in_batches() {
    for end in [JobEnd::Done, JobEnd::Failed] {
        let folder = Folder::new("batches");
        folder.clear();
        let mut queue = folder.queue();
        let first = submit(&mut queue, 1, spec());
        let after = JobSpec {
            after: vec![first],
            ..spec()
        };
        queue.submit(1, &vec![after; DEPENDENTS]).unwrap();
        let attempt = claim(&mut queue, 2).unwrap();
        let moved = |queue: &mut Queue| {
            let waiting = queue.counts().unwrap().get(&JobState::Waiting).copied();
            DEPENDENTS - usize::try_from(waiting.unwrap_or(0)).unwrap()
        };
        queue
            .finish(3, attempt, &ended(end), &Report::default())
            .unwrap();
        // one transaction moves few of them, so that it is short
        let mut before = moved(&mut queue);
        assert!((1..=100).contains(&before), "{before} at once");
        assert!(!queue.is_idle().unwrap());
        while before < DEPENDENTS {
            queue.advance(4).unwrap();
            let now = moved(&mut queue);
            let batch = now - before;
            assert!(
                (1..=ADVANCE_MAX as usize).contains(&batch),
                "{batch} at once"
            );
            before = now;
        }
        let state = if end == JobEnd::Done {
            JobState::Queued
        } else {
            JobState::Failed
        };
        assert_eq!(
            queue.counts().unwrap()[&state] as usize,
            DEPENDENTS + usize::from(end == JobEnd::Failed)
        );
        assert_eq!(queue.advance(5).unwrap(), 0);
    }
}

#[test]
fn retry_waits_until_all_dependents_know_the_end() {
    let folder = Folder::new("retry-batches");
    let mut queue = folder.queue();
    let first = submit(&mut queue, 1, spec());
    let after = JobSpec {
        after: vec![first],
        ..spec()
    };
    let ids = queue.submit(1, &vec![after; DEPENDENTS]).unwrap();
    queue.cancel(2, first).unwrap();
    queue.retry(3, first).unwrap();
    let failed = queue.counts().unwrap()[&JobState::Failed] as usize;
    assert_eq!(failed, ids.len());
    assert_eq!(state(&mut queue, first), JobState::Queued);
}

#[test]
fn failures_are_retried_later_and_later_until_the_last_retry() {
    let folder = Folder::new("retries");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    let mut now = 1;
    for failures in 0..2 {
        let attempt = claim(&mut queue, now).unwrap();
        assert_eq!(attempt.number, failures + 1);
        queue
            .finish(now, attempt, &ended(JobEnd::Retry), &Report::default())
            .unwrap();
        assert_eq!(queue.advance(now + backoff(failures) - 1).unwrap(), 0);
        now += backoff(failures);
        assert_eq!(queue.advance(now).unwrap(), 1);
    }
    let attempt = claim(&mut queue, now).unwrap();
    queue
        .finish(now, attempt, &ended(JobEnd::Retry), &Report::default())
        .unwrap();
    let job = queue.job(id).unwrap();
    assert_eq!((job.state, job.exit), (JobState::Failed, Some(1)));
    // a client with many open jobs cannot
    let refused = queue.retry_once(now, id, None, 0);
    assert!(matches!(refused, Err(Error::Quota { .. })), "{refused:?}");
    // its user can retry it, with all retries
    queue.retry(now, id).unwrap();
    assert!(matches!(
        queue.retry(now, id),
        Err(Error::NotFailed(_, JobState::Queued))
    ));
    let attempt = claim(&mut queue, now).unwrap();
    queue
        .finish(now, attempt, &ended(JobEnd::Retry), &Report::default())
        .unwrap();
    assert_eq!(state(&mut queue, id), JobState::Waiting);
    assert_eq!(backoff(0), 10_000);
    assert_eq!(backoff(u32::MAX), 600_000);
}

#[test]
fn only_the_newest_attempt_ends_a_job() {
    let folder = Folder::new("fence");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    let lost = claim(&mut queue, 1).unwrap();
    // its lease ends without news
    assert_eq!(queue.advance(1002).unwrap(), 1);
    let newest = claim(&mut queue, 1003).unwrap();
    let report = Report::default();
    assert_eq!(
        queue.renew(1004, lost, 1000, &report).unwrap(),
        Order::Abandon
    );
    assert!(
        !queue
            .finish(1004, lost, &ended(JobEnd::Failed), &Report::default())
            .unwrap()
    );
    assert_eq!(
        queue.renew(1004, newest, 1000, &report).unwrap(),
        Order::Continue
    );
    assert!(
        queue
            .finish(1005, newest, &ended(JobEnd::Done), &Report::default())
            .unwrap()
    );
    assert!(
        !queue
            .finish(1006, newest, &ended(JobEnd::Failed), &Report::default())
            .unwrap()
    );
    assert_eq!(state(&mut queue, id), JobState::Done);
    let events = queue.events(id).unwrap();
    let ends = events.iter().filter(|event| event.state.is_end()).count();
    assert_eq!(ends, 1);
}

#[test]
fn job_that_ends_its_workers_fails_in_the_end() {
    let folder = Folder::new("poison");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    let mut now = 1;
    while claim(&mut queue, now).is_some() {
        now += 1001;
        queue.advance(now).unwrap();
    }
    let job = queue.job(id).unwrap();
    assert_eq!(job.state, JobState::Failed);
    assert_eq!(
        job.text,
        "11 workers ended during it, the last of them worker"
    );
}

#[test]
fn job_whose_attempts_come_farther_outlives_any_number_of_workers() {
    let folder = Folder::new("farther");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    let mut now = 1;
    let mut lose_workers = |queue: &mut Queue, attempts: u64, progress: fn(u64) -> u64| {
        for nth in 1..=attempts {
            let attempt = claim(queue, now)?;
            let report = Report {
                progress: Some((progress(nth), 1000)),
                ..Report::default()
            };
            queue.renew(now, attempt, 1000, &report).unwrap();
            now += 1002;
            queue.advance(now).unwrap();
        }
        Some(())
    };
    lose_workers(&mut queue, 40, |nth| nth).unwrap();
    assert_eq!(state(&mut queue, id), JobState::Queued);
    // from then on each worker ends at the same place
    assert_eq!(lose_workers(&mut queue, 40, |_| 40), None);
    let job = queue.job(id).unwrap();
    assert_eq!(job.state, JobState::Failed);
    assert!(job.text.starts_with("11 workers ended"), "{}", job.text);
    // its user has removed the target, and the copy begins again
    queue.retry(job.ended.unwrap(), id).unwrap();
    lose_workers(&mut queue, 30, |nth| nth).unwrap();
    assert_eq!(state(&mut queue, id), JobState::Queued);
}

#[test]
fn list_is_submitted_once_or_not_at_all() {
    let folder = Folder::new("once");
    let mut queue = folder.queue();
    let specs = [spec(), spec(), spec()];
    let first = queue.submit_once(1, &specs, "key").unwrap();
    assert_eq!(first, [JobId(1), JobId(2), JobId(3)]);
    // the client has not heard the answer
    assert_eq!(queue.submit_once(2, &specs, "key").unwrap(), first);
    let other = queue.submit_once(3, &specs[..1], "other").unwrap();
    assert_eq!(other, [JobId(4)]);
    let after_none = JobSpec {
        after: vec![JobId(99)],
        ..spec()
    };
    let refused = queue.submit_once(4, &[spec(), after_none], "refused");
    assert!(matches!(refused, Err(Error::Unknown(JobId(99)))));
    assert!(matches!(queue.job(JobId(5)), Err(Error::Unknown(JobId(5)))));
}

#[test]
fn cancellation_reaches_the_worker_and_is_final() {
    let folder = Folder::new("cancel");
    let mut queue = folder.queue();
    let (running, queued) = (submit(&mut queue, 0, spec()), submit(&mut queue, 0, spec()));
    let attempt = claim(&mut queue, 1).unwrap();
    assert_eq!(queue.cancel(2, queued).unwrap(), JobState::Canceled);
    assert_eq!(queue.cancel(2, running).unwrap(), JobState::Running);
    let order = queue.renew(3, attempt, 1000, &Report::default()).unwrap();
    assert_eq!(order, Order::Cancel);
    queue
        .finish(4, attempt, &ended(JobEnd::Canceled), &Report::default())
        .unwrap();
    assert_eq!(state(&mut queue, running), JobState::Canceled);
    assert!(matches!(
        queue.cancel(5, running),
        Err(Error::Ended(_, JobState::Canceled))
    ));
    // a worker that dies before it hears of it does not start the job again
    let dying = submit(&mut queue, 6, spec());
    claim(&mut queue, 6).unwrap();
    queue.cancel(7, dying).unwrap();
    queue.advance(2000).unwrap();
    assert_eq!(state(&mut queue, dying), JobState::Canceled);
}

#[test]
fn retried_dependent_is_retried_after_its_own_failure() {
    let folder = Folder::new("retried-dependent");
    let mut queue = folder.queue();
    let first = submit(&mut queue, 0, spec());
    let after = vec![first];
    let second = submit(&mut queue, 0, JobSpec { after, ..spec() });
    queue.cancel(1, first).unwrap();
    assert_eq!(state(&mut queue, second), JobState::Failed);
    queue.retry(2, second).unwrap();
    let attempt = claim(&mut queue, 3).unwrap();
    queue
        .finish(4, attempt, &ended(JobEnd::Retry), &Report::default())
        .unwrap();
    assert!(!queue.is_idle().unwrap());
    assert_eq!(queue.advance(4 + backoff(0)).unwrap(), 1);
    assert_eq!(claim(&mut queue, 5 + backoff(0)).unwrap().job, second);
}

#[test]
fn worker_does_not_take_its_own_attempts_away() {
    let folder = Folder::new("own");
    let mut queue = folder.queue();
    let (own, other) = (submit(&mut queue, 0, spec()), submit(&mut queue, 0, spec()));
    let attempt = claim(&mut queue, 1).unwrap();
    claim(&mut queue, 1).unwrap();
    assert_eq!(
        queue
            .advance_beside(5000, Leases::EndExcept(&[attempt]))
            .unwrap(),
        1
    );
    assert_eq!(state(&mut queue, own), JobState::Running);
    assert_eq!(state(&mut queue, other), JobState::Queued);
    assert_eq!(queue.advance_beside(5000, Leases::Keep).unwrap(), 0);
    // an older attempt is not the worker's any more
    assert_eq!(queue.advance(5000).unwrap(), 1);
    claim(&mut queue, 5001).unwrap();
    assert_eq!(
        queue
            .advance_beside(9000, Leases::EndExcept(&[attempt]))
            .unwrap(),
        1
    );
}

#[test]
fn numbers_beyond_those_of_the_database_are_cut() {
    let folder = Folder::new("numbers");
    let mut queue = folder.queue();
    let large = JobSpec {
        every: Some(u64::MAX),
        not_before: u64::MAX,
        start_by: Some(u64::MAX),
        ..spec()
    };
    let waiting = submit(&mut queue, 1, large);
    let id = submit(&mut queue, 1, spec());
    assert_eq!(queue.advance(2).unwrap(), 0);
    assert_eq!(queue.job(waiting).unwrap().not_before, i64::MAX as u64);
    let claimed = queue.claim(2, "worker", u64::MAX, 9).unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(queue.advance(3).unwrap(), 0, "its lease does not end");
    let report = Report {
        progress: Some((u64::MAX, u64::MAX)),
        ..Report::default()
    };
    let attempt = claimed[0].attempt();
    queue.renew(4, attempt, u64::MAX, &report).unwrap();
    let most = i64::MAX as u64;
    assert_eq!(queue.job(id).unwrap().progress, Some((most, most)));
    assert_eq!(queue.advance(5).unwrap(), 0);
    assert!(
        queue
            .finish(6, attempt, &ended(JobEnd::Done), &report)
            .unwrap()
    );
    assert!(matches!(queue.job(JobId(u64::MAX)), Err(Error::Unknown(_))));
    queue.forget(u64::MAX, 9).unwrap();
    assert_eq!(queue.jobs(&Selection::default(), None, 9).unwrap().len(), 1);
}

#[test]
fn job_that_starts_too_late_fails() {
    let folder = Folder::new("late");
    let mut queue = folder.queue();
    let late = || JobSpec {
        start_by: Some(10),
        ..spec()
    };
    let (first, second) = (submit(&mut queue, 1, late()), submit(&mut queue, 1, late()));
    let attempt = claim(&mut queue, 10).unwrap();
    assert_eq!(attempt.job, first);
    assert!(claim(&mut queue, 11).is_none());
    assert_eq!(state(&mut queue, second), JobState::Failed);
    // a retry of a job that did start in time is not too late
    queue
        .finish(12, attempt, &ended(JobEnd::Retry), &Report::default())
        .unwrap();
    queue.advance(12 + backoff(0)).unwrap();
    assert_eq!(state(&mut queue, first), JobState::Queued);
}

#[test]
fn progress_and_log_of_a_running_job_can_be_read() {
    let folder = Folder::new("log");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    let attempt = claim(&mut queue, 1).unwrap();
    let report = Report {
        progress: Some((5, 9)),
        log: "first\n".to_owned(),
        piece: 0,
    };
    queue.renew(2, attempt, 1000, &report).unwrap();
    assert_eq!(queue.job(id).unwrap().progress, Some((5, 9)));
    queue
        .finish(3, attempt, &ended(JobEnd::Done), &log("last\n"))
        .unwrap();
    let all = queue.log(id, (0, 0), 100).unwrap();
    let text: String = all.iter().map(|piece| piece.text.as_str()).collect();
    assert_eq!(text, "first\nlast\n");
    assert_eq!(queue.log(id, (1, 1), 100).unwrap()[0].text, "last\n");
    assert!(queue.log(JobId(77), (0, 0), 100).is_err());
}

#[test]
fn old_jobs_are_forgotten_with_their_history() {
    let folder = Folder::new("forget");
    let mut queue = folder.queue();
    let (old, new) = (submit(&mut queue, 0, spec()), submit(&mut queue, 0, spec()));
    let attempt = claim(&mut queue, 1).unwrap();
    queue
        .finish(100, attempt, &ended(JobEnd::Done), &log("log"))
        .unwrap();
    assert_eq!(queue.forget(100, 10).unwrap(), 0);
    assert_eq!(queue.forget(101, 10).unwrap(), 1);
    assert!(matches!(queue.job(old), Err(Error::Unknown(_))));
    assert_eq!(state(&mut queue, new), JobState::Queued);
}

#[test]
fn specifications_beyond_the_limits_are_refused() {
    let folder = Folder::new("limits");
    let mut queue = folder.queue();
    for bad in [
        JobSpec {
            command: Vec::new(),
            ..spec()
        },
        JobSpec {
            command: vec!["x".repeat(70_000)],
            ..spec()
        },
        JobSpec {
            name: "x".repeat(201),
            ..spec()
        },
        JobSpec {
            after: vec![JobId(1); 1001],
            ..spec()
        },
        JobSpec {
            every: Some(999),
            ..spec()
        },
    ] {
        // all or nothing
        assert!(queue.submit(0, &[spec(), bad]).is_err());
    }
    assert!(queue.counts().unwrap().is_empty());
}

#[test]
fn shares_list_owners_with_jobs_or_a_share() {
    let folder = Folder::new("list-shares");
    let mut queue = folder.queue();
    queue.set_share("eve", 3).unwrap();
    queue.set_share("eve", 2).unwrap();
    queue.submit(1, &[spec(), spec(), spec()]).unwrap();
    claim(&mut queue, 2).unwrap();
    let shares = queue.shares().unwrap();
    let found: Vec<_> = shares
        .iter()
        .map(|one| (one.owner.as_str(), one.share, one.running, one.queued))
        .collect();
    assert_eq!(found, [("ada", 1, 1, 2), ("eve", 2, 0, 0)]);
}

/// Jobs after one job, more than two calls move.
const DEPENDENTS: usize = 700;
