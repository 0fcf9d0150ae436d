//! Recurring jobs: each run starts at a multiple of the period, until the series is canceled.

use lighthaul_queue::claims::{Report, backoff};
use lighthaul_queue::job::JobEnd;
use lighthaul_queue::list::Selection;
use lighthaul_queue::{JobSpec, JobState, Queue, owner};

use crate::rules::{claim, ended, state, submit};
use crate::{Folder, spec};

#[test]
fn recurring_job_runs_at_its_times_and_misses_are_not_repeated() {
    let folder = Folder::new("every");
    let mut queue = folder.queue();
    let every = JobSpec {
        every: Some(60_000),
        not_before: 1000,
        retries: 0,
        ..spec()
    };
    let first = submit(&mut queue, 0, every);
    queue.advance(1000).unwrap();
    let attempt = claim(&mut queue, 1000).unwrap();
    // a run that takes two and a half periods
    queue
        .finish(151_000, attempt, &ended(JobEnd::Failed), &Report::default())
        .unwrap();
    let next = queue
        .jobs(&Selection::default(), None, 1)
        .unwrap()
        .remove(0);
    assert_ne!(next.id, first);
    assert_eq!((next.not_before, next.every), (181_000, Some(60_000)));
    // a retry of the failed run does not start a second series
    queue.retry(151_001, first).unwrap();
    let attempt = claim(&mut queue, 151_002).unwrap();
    queue
        .finish(151_003, attempt, &ended(JobEnd::Done), &Report::default())
        .unwrap();
    assert_eq!(queue.jobs(&Selection::default(), None, 9).unwrap().len(), 2);
    // cancellation ends the series
    queue.cancel(151_004, next.id).unwrap();
    assert_eq!(queue.jobs(&Selection::default(), None, 9).unwrap().len(), 2);
}

#[test]
fn cancellation_of_a_running_job_ends_its_series() {
    for end in [
        JobEnd::Done,
        JobEnd::Failed,
        JobEnd::Retry,
        JobEnd::Released,
    ] {
        let folder = Folder::new("cancel-series");
        let mut queue = folder.queue();
        let every = Some(60_000);
        let id = submit(
            &mut queue,
            1000,
            JobSpec {
                every,
                retries: 0,
                ..spec()
            },
        );
        let attempt = claim(&mut queue, 1000).unwrap();
        queue.cancel(1001, id).unwrap();
        // the copy was faster than the cancellation
        queue
            .finish(1002, attempt, &ended(end), &Report::default())
            .unwrap();
        let all = queue.jobs(&Selection::default(), None, 9).unwrap();
        assert_eq!(all.len(), 1, "{end:?}");
    }
    // also if its last worker stops with it
    let folder = Folder::new("cancel-lost");
    let mut queue = folder.queue();
    let every = Some(60_000);
    let id = submit(&mut queue, 0, JobSpec { every, ..spec() });
    let mut now = 1;
    for _ in 0..10 {
        claim(&mut queue, now).unwrap();
        now += 1001;
        queue.advance(now).unwrap();
    }
    claim(&mut queue, now).unwrap();
    queue.cancel(now, id).unwrap();
    queue.advance(now + 1001).unwrap();
    assert_eq!(state(&mut queue, id), JobState::Canceled);
    assert_eq!(queue.jobs(&Selection::default(), None, 9).unwrap().len(), 1);
}

/// Workers do not start a run of a client before the scheduler has checked it.
#[test]
fn run_of_a_client_waits_for_its_check() {
    let folder = Folder::new("held");
    let mut queue = folder.queue();
    let every = || JobSpec {
        owner: owner::of_client("ada"),
        every: Some(60_000),
        not_before: 1000,
        ..spec()
    };
    submit(&mut queue, 0, every());
    queue.advance(1000).unwrap();
    // the first run was checked at its submission
    let attempt = claim(&mut queue, 1000).unwrap();
    let done = |queue: &mut Queue, now, attempt| {
        queue
            .finish(now, attempt, &ended(JobEnd::Done), &Report::default())
            .unwrap();
    };
    done(&mut queue, 2000, attempt);
    assert!(queue.unchecked_runs(60_999, 9).unwrap().is_empty());
    queue.advance(61_000).unwrap();
    assert_eq!(claim(&mut queue, 61_000), None);
    assert!(!queue.is_idle().unwrap());
    let second = queue.unchecked_runs(61_000, 9).unwrap().remove(0);
    queue.admit_run(61_001, second.id).unwrap();
    queue.admit_run(61_001, second.id).unwrap();
    assert_eq!(state(&mut queue, second.id), JobState::Queued);
    let attempt = claim(&mut queue, 61_002).unwrap();
    done(&mut queue, 61_003, attempt);
    // what was checked once is not checked again
    queue.end_series(61_004, second.id, "late").unwrap();
    assert_eq!(state(&mut queue, second.id), JobState::Done);

    let third = queue.unchecked_runs(121_000, 9).unwrap().remove(0);
    queue.end_series(121_000, third.id, "no rights").unwrap();
    let third = queue.job(third.id).unwrap();
    assert_eq!(
        (third.state, third.text.as_str(), third.every),
        (JobState::Failed, "no rights", None)
    );
    assert_eq!(queue.jobs(&Selection::default(), None, 9).unwrap().len(), 3);
    // a retry runs once
    queue.retry(121_001, third.id).unwrap();
    let attempt = claim(&mut queue, 121_002).unwrap();
    done(&mut queue, 121_003, attempt);
    assert!(queue.is_idle().unwrap());
}

#[test]
fn retry_does_not_shift_the_series() {
    let folder = Folder::new("series");
    let mut queue = folder.queue();
    let every = JobSpec {
        every: Some(60_000),
        not_before: 1000,
        ..spec()
    };
    submit(&mut queue, 0, every);
    queue.advance(1000).unwrap();
    let attempt = claim(&mut queue, 1000).unwrap();
    queue
        .finish(1500, attempt, &ended(JobEnd::Retry), &Report::default())
        .unwrap();
    queue.advance(1500 + backoff(0)).unwrap();
    let attempt = claim(&mut queue, 1500 + backoff(0)).unwrap();
    queue
        .finish(20_000, attempt, &ended(JobEnd::Done), &Report::default())
        .unwrap();
    let next = queue
        .jobs(&Selection::default(), None, 1)
        .unwrap()
        .remove(0);
    assert_eq!((next.not_before, next.every), (61_000, Some(60_000)));
}
