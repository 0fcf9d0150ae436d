//! Requests that their clients repeat after lost answers.

use lighthaul_queue::claims::Report;
use lighthaul_queue::job::JobEnd;
use lighthaul_queue::{Error, JobId, JobSpec, JobState, Queue, Request, RequestKey};

use crate::rules::{claim, ended, state, submit};
use crate::{Folder, spec};

#[test]
fn repeated_retry_or_cancellation_changes_nothing() {
    let folder = Folder::new("once");
    let mut queue = folder.queue();
    let id = submit(&mut queue, 0, spec());
    let key = |key| Some(RequestKey { owner: "ada", key });
    let fail = |queue: &mut Queue| {
        let attempt = claim(queue, 1).unwrap();
        let how = ended(JobEnd::Failed);
        queue.finish(2, attempt, &how, &Report::default()).unwrap();
    };
    fail(&mut queue);
    queue.retry_once(3, id, key("r"), u64::MAX).unwrap();
    // the answer was lost, and the job has failed again before the repetition
    fail(&mut queue);
    queue.retry_once(4, id, key("r"), u64::MAX).unwrap();
    assert_eq!(state(&mut queue, id), JobState::Failed);
    queue.retry_once(5, id, key("s"), u64::MAX).unwrap();
    assert_eq!(
        queue.cancel_once(6, id, key("c")).unwrap(),
        JobState::Canceled
    );
    // another client has retried it meanwhile
    queue.retry(7, id).unwrap();
    assert_eq!(
        queue.cancel_once(8, id, key("c")).unwrap(),
        JobState::Queued
    );
    let reused = queue.cancel_once(9, id, key("r"));
    assert!(matches!(reused, Err(Error::KeyReused(_))), "{reused:?}");
    // a refused request leaves no key
    let refused = queue.retry_once(9, id, key("t"), u64::MAX);
    assert!(matches!(refused, Err(Error::NotFailed(..))), "{refused:?}");
    queue.cancel(9, id).unwrap();
    queue.retry_once(9, id, key("t"), u64::MAX).unwrap();
    assert_eq!(state(&mut queue, id), JobState::Queued);
}

#[test]
fn repeated_request_returns_its_first_job() {
    let folder = Folder::new("request");
    let mut queue = folder.queue();
    let request = |key: &str, digest: &str| Request {
        key: Some(key.to_owned()),
        digest: digest.to_owned(),
        open_max: 3,
    };
    let ada = spec();
    let first = queue.request(1, &ada, &request("k", "d")).unwrap();
    assert_eq!(queue.request(2, &ada, &request("k", "d")).unwrap(), first);
    let other = queue.request(2, &ada, &request("k", "e"));
    assert!(matches!(other, Err(Error::KeyReused(key)) if key == "k"));
    // keys of owners are separate
    let bob = JobSpec {
        owner: "bob".to_owned(),
        ..spec()
    };
    let second = queue.request(2, &bob, &request("k", "d")).unwrap();
    assert_ne!(second, first);
    // a refused job leaves no key behind
    let dead = JobSpec {
        after: vec![JobId(99)],
        ..spec()
    };
    assert!(queue.request(3, &dead, &request("l", "d")).is_err());
    let third = queue.request(3, &ada, &request("l", "d")).unwrap();
    // a day later, the key is free
    let day = 24 * 3600 * 1000;
    let fourth = queue.request(2 + day, &ada, &request("k", "e")).unwrap();
    assert!(fourth > third && third > second);
    let quota = queue.request(2 + day, &ada, &request("m", "d"));
    assert!(matches!(quota, Err(Error::Quota { open_max: 3, .. })));
    queue.cancel(3 + day, third).unwrap();
    queue.request(3 + day, &ada, &request("m", "d")).unwrap();
}
