//! Jobs over REST: rights, limits, and what a worker gets.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking::books::{Config, Policy};
use lighthaul_booking_client::client::ClientError;
use lighthaul_booking_client::jobs::JobFilter;
use lighthaul_booking_client::json::{CopyOptions, JobStatus, NewJob};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_queue::claims::Report;
use lighthaul_queue::job::{AttemptEnd, JobEnd};
use lighthaul_queue::list::Selection;
use lighthaul_queue::worker::now;
use lighthaul_queue::{JobId, JobSpec, JobState, Queue, owner};
use rusqlite::Connection;

use crate::test_server::{Setup, TestServer, problem};

/// Returns a scheduler whose policy permits jobs to `ada` and `bob`, from `near` to their homes.
fn server() -> TestServer {
    let places = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let policy = Policy {
        job_sources: places(&["lh://near/"]),
        job_targets: places(&["lh://far/home/{user}/"]),
        ..Policy::default()
    };
    TestServer::of(Setup {
        config: Config {
            policies: BTreeMap::from([
                ("ada".to_owned(), policy.clone()),
                ("bob".to_owned(), policy),
            ]),
            ..Config::default()
        },
        ..Setup::default()
    })
}

fn queue(server: &TestServer) -> Queue {
    Queue::existing(&server.folder.join("jobs")).unwrap()
}

fn job(target: &str) -> NewJob {
    NewJob {
        sources: vec!["lh://near/results".to_owned()],
        target: target.to_owned(),
        ..NewJob::default()
    }
}

fn ada_job() -> NewJob {
    job("lh://far/home/ada/")
}

#[test]
fn submitted_job_runs_with_its_options_and_reports_its_end() {
    let server = server();
    let ada = server.client("ada");
    let new = NewJob {
        name: "nightly".to_owned(),
        options: CopyOptions {
            delete: true,
            exclude: vec!["--rsh=sh".to_owned()],
            ..CopyOptions::default()
        },
        ..ada_job()
    };
    let submitted = ada.submit_job(&new).unwrap();
    assert_eq!(
        (submitted.state, submitted.owner.as_str()),
        (JobStatus::Queued, "ada")
    );
    let mut queue = queue(&server);
    let claimed = queue.claim(now(), "worker", 60_000, 9).unwrap().remove(0);
    let words = [
        "cp",
        // a web server could send the worker to any other place
        "--no-redirects",
        "--delete",
        "--yes",
        "--exclude=--rsh=sh",
        "--",
        "lh://near/results",
        "lh://far/home/ada/",
    ];
    assert_eq!(claimed.command, words);
    assert_eq!(claimed.retries, 10);
    let running = ada.job(submitted.id).unwrap();
    assert_eq!(
        (running.state, running.worker.as_deref()),
        (JobStatus::Running, Some("worker"))
    );
    let end = AttemptEnd {
        end: JobEnd::Done,
        exit: Some(0),
        text: "7 bytes in 1 entries".to_owned(),
    };
    let report = Report {
        progress: Some((7, 7)),
        log: "a line\n".to_owned(),
        piece: 0,
    };
    queue
        .finish(now(), claimed.attempt(), &end, &report)
        .unwrap();
    let done = ada.job(submitted.id).unwrap();
    assert_eq!(
        (done.state, done.bytes, done.exit),
        (JobStatus::Done, Some(7), Some(0))
    );
    let states: Vec<JobStatus> = ada
        .job_events(done.id)
        .unwrap()
        .iter()
        .map(|event| event.state)
        .collect();
    assert_eq!(
        states,
        [JobStatus::Queued, JobStatus::Running, JobStatus::Done]
    );
    let log = ada.job_log(done.id, (0, 0)).unwrap();
    assert_eq!((log.len(), log[0].text.as_str()), (1, "a line\n"));
    assert!(ada.job_log(done.id, (1, 1)).unwrap().is_empty());
}

#[test]
fn client_sees_and_changes_only_its_own_jobs() {
    let server = server();
    let (ada, bob, olga) = (
        server.client("ada"),
        server.client("bob"),
        server.client("olga"),
    );
    let id = ada.submit_job(&ada_job()).unwrap().id;
    let unknown = problem(bob.job(id));
    assert_eq!(unknown.status, 404);
    // the answer does not tell if the job exists
    let missing = problem(bob.job(id + 1));
    assert_eq!(
        missing.detail.replace(&(id + 1).to_string(), "N"),
        unknown.detail.replace(&id.to_string(), "N")
    );
    assert_eq!(problem(bob.job_events(id)).status, 404);
    assert_eq!(problem(bob.job_log(id, (0, 0))).status, 404);
    assert_eq!(problem(bob.cancel_job(id)).status, 404);
    assert_eq!(problem(bob.retry_job(id)).status, 404);
    assert!(bob.jobs(&JobFilter::default()).unwrap().items.is_empty());
    let of_ada = JobFilter {
        owner: Some("ada".to_owned()),
        ..JobFilter::default()
    };
    assert_eq!(problem(bob.jobs(&of_ada)).status, 403);
    let after = NewJob {
        after: vec![id],
        ..job("lh://far/home/bob/")
    };
    assert_eq!(problem(bob.submit_job(&after)).status, 404);
    assert_eq!(olga.jobs(&of_ada).unwrap().items.len(), 1);
    assert_eq!(olga.cancel_job(id).unwrap().state, JobStatus::Canceled);
    assert_eq!(problem(ada.cancel_job(id)).status, 409);
    assert_eq!(ada.retry_job(id).unwrap().state, JobStatus::Queued);
    assert_eq!(problem(server.client("eve").job(id)).status, 401);
}

#[test]
fn dangerous_jobs_are_refused_and_leave_nothing_in_the_queue() {
    let server = server();
    let ada = server.client("ada");
    let with = |source: &str, target: &str| NewJob {
        sources: vec![source.to_owned()],
        target: target.to_owned(),
        ..NewJob::default()
    };
    for (bad, status) in [
        (with("/etc/shadow", "lh://far/home/ada/"), 422),
        (with("lh://near/a", "/etc/cron.d/"), 422),
        (with("host:/etc/shadow", "lh://far/home/ada/"), 422),
        (with("--rsh=sh", "lh://far/home/ada/"), 422),
        (with("lh://near/a", "lh://far/home/ada/../bob/"), 422),
        (with("lh://near/a", "lh://far/home/bob/"), 403),
        (with("lh://far/home/bob/", "lh://far/home/ada/"), 403),
        (
            NewJob {
                sources: Vec::new(),
                ..ada_job()
            },
            422,
        ),
        (
            NewJob {
                priority: 1,
                ..ada_job()
            },
            403,
        ),
        (
            NewJob {
                name: "a\nb".to_owned(),
                ..ada_job()
            },
            422,
        ),
    ] {
        let problem = problem(ada.submit_job(&bad));
        assert_eq!(problem.status, status, "{bad:?}: {problem:?}");
    }
    // without a policy, a user submits nothing
    let plain = TestServer::new();
    let refused = problem(plain.client("ada").submit_job(&ada_job()));
    assert_eq!(refused.status, 403);
    assert!(refused.detail.contains("ask an operator"), "{refused:?}");
    for unknown in [
        r#"{"sources": ["lh://near/a"], "target": "lh://far/home/ada/", "command": ["cp"]}"#,
        r#"{"sources": ["lh://near/a"], "target": "lh://far/home/ada/", "options": {"ssh": "sh"}}"#,
        r#"{"sources": ["lh://near/a"], "target": "lh://far/home/ada/", "options": []}"#,
    ] {
        assert_eq!(
            server.raw("POST", "/v1/jobs", "ada", unknown).0,
            400,
            "{unknown}"
        );
    }
    assert!(queue(&server).counts().unwrap().is_empty());
}

#[test]
fn retry_needs_the_rights_of_today() {
    let server = server();
    let id = server.client("ada").submit_job(&ada_job()).unwrap().id;
    server.client("ada").cancel_job(id).unwrap();
    // jobs from the time when ada was an operator
    let mut queue = queue(&server);
    let old = |words: &[&str], priority| JobSpec {
        owner: owner::of_client("ada"),
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        directory: "/".into(),
        priority,
        ..JobSpec::default()
    };
    let permitted = ["cp", "--", "lh://near/a", "lh://far/home/ada/b"];
    let olds = [
        (
            old(&["cp", "--", "lh://near/a", "lh://far/home/bob/b"], 0),
            403,
        ),
        (old(&permitted, 1), 403),
        (old(&["cp", "/etc/shadow", "lh://far/home/ada/"], 0), 422),
        (
            old(&["cp", "--", "/etc/shadow", "lh://far/home/ada/"], 0),
            422,
        ),
    ];
    for (spec, status) in olds {
        let old = queue.submit(now(), &[spec]).unwrap()[0];
        queue.cancel(now(), old).unwrap();
        assert_eq!(
            problem(server.client("ada").retry_job(old.0)).status,
            status
        );
        // an operator decides for itself
        server.client("olga").retry_job(old.0).unwrap();
    }
    let good = queue.submit(now(), &[old(&permitted, 0)]).unwrap()[0];
    queue.cancel(now(), good).unwrap();
    server.client("ada").retry_job(good.0).unwrap();
}

#[test]
fn repeated_change_with_the_same_key_changes_nothing() {
    let server = server();
    let ada = server.client("ada");
    let id = ada.submit_job(&ada_job()).unwrap().id;
    let change = |verb: &str, key: &str| {
        let head = format!("ada\r\nIdempotency-Key: {key}");
        let path = format!("/v1/jobs/{id}/{verb}");
        server.raw("POST", &path, &head, "{}").0
    };
    assert_eq!(change("cancel", "c"), 200);
    assert_eq!(change("retry", "r"), 200);
    // the answers were lost, and the job is queued again
    assert_eq!(change("cancel", "c"), 200);
    assert_eq!(ada.job(id).unwrap().state, JobStatus::Queued);
    assert_eq!(change("cancel", "d"), 200);
    assert_eq!(change("retry", "r"), 200);
    assert_eq!(ada.job(id).unwrap().state, JobStatus::Canceled);
}

#[test]
fn client_has_no_rights_at_jobs_of_a_user_with_its_name() {
    let server = server();
    let mut queue = queue(&server);
    let local = JobSpec {
        owner: owner::of_user("ada"),
        command: vec![
            "cp".to_owned(),
            "/srv/secret".to_owned(),
            "lh://far/".to_owned(),
        ],
        directory: "/".into(),
        ..JobSpec::default()
    };
    let id = queue.submit(now(), &[local]).unwrap()[0].0;
    let ada = server.client("ada");
    assert_eq!(problem(ada.job(id)).status, 404);
    assert_eq!(problem(ada.job_log(id, (0, 0))).status, 404);
    assert_eq!(problem(ada.cancel_job(id)).status, 404);
    assert_eq!(problem(ada.retry_job(id)).status, 404);
    assert!(ada.jobs(&JobFilter::default()).unwrap().items.is_empty());
    // operators see where it comes from
    let olga = server.client("olga");
    assert_eq!(olga.job(id).unwrap().owner, "local:ada");
    let filter = |owner: &str| JobFilter {
        owner: Some(owner.to_owned()),
        ..JobFilter::default()
    };
    ada.submit_job(&ada_job()).unwrap();
    let found = |owner: &str| {
        let items = olga.jobs(&filter(owner)).unwrap().items;
        items.into_iter().map(|job| job.owner).collect::<Vec<_>>()
    };
    assert_eq!(found("local:ada"), ["local:ada"]);
    assert_eq!(found("ada"), ["ada"]);
    assert_eq!(problem(ada.jobs(&filter("local:ada"))).status, 403);
}

#[test]
fn signatures_and_faults_of_the_queue_are_not_told_to_clients() {
    let server = server();
    let signed = JobSpec {
        owner: "root".to_owned(),
        command: ["cp", "https://b/a?X-Amz-Signature=12345678", "lh://far/"]
            .map(str::to_owned)
            .to_vec(),
        directory: "/".into(),
        ..JobSpec::default()
    };
    let id = queue(&server).submit(now(), &[signed]).unwrap()[0].0;
    let shown = server.raw("GET", &format!("/v1/jobs/{id}"), "olga", "").2;
    assert!(
        shown.contains("https://b/a?(hidden)") && !shown.contains("1234"),
        "{shown}"
    );
    let damage = Connection::open(server.folder.join("jobs")).unwrap();
    damage
        .execute_batch("ALTER TABLE job RENAME TO other")
        .unwrap();
    let (status, _, answer) = server.raw("GET", &format!("/v1/jobs/{id}"), "olga", "");
    assert_eq!(status, 500, "{answer}");
    for word in [server.folder.to_str().unwrap(), "no such table", "SQL"] {
        assert!(!answer.contains(word), "{answer}");
    }
    assert!(answer.contains("the log of the scheduler"), "{answer}");
}

#[test]
fn repeated_submission_returns_the_first_job() {
    let server = server();
    let ada = server.client("ada");
    let first = ada.submit_job_once(&ada_job(), "k").unwrap();
    assert_eq!(ada.submit_job_once(&ada_job(), "k").unwrap(), first);
    let other = NewJob {
        name: "other".to_owned(),
        ..ada_job()
    };
    let reused = problem(ada.submit_job_once(&other, "k"));
    assert_eq!(reused.kind, "urn:lighthaul:problem:idempotency");
    assert_eq!(ada.jobs(&JobFilter::default()).unwrap().items.len(), 1);
}

#[test]
fn list_has_pages_and_filters() {
    let server = server();
    let ada = server.client("ada");
    let mut ids: Vec<u64> = (0..5)
        .map(|_| ada.submit_job(&ada_job()).unwrap().id)
        .collect();
    // jobs of a local client, of which ada is no owner
    let local = JobSpec {
        owner: "root".to_owned(),
        command: vec!["cp".to_owned()],
        directory: "/".into(),
        ..JobSpec::default()
    };
    queue(&server).submit(now(), &[local]).unwrap();
    queue(&server).cancel(now(), JobId(ids[0])).unwrap();
    ids.reverse();
    let mut filter = JobFilter {
        limit: Some(2),
        ..JobFilter::default()
    };
    let mut found = Vec::new();
    loop {
        let page = ada.jobs(&filter).unwrap();
        assert!(page.items.len() <= 2);
        found.extend(page.items.iter().map(|job| job.id));
        filter.before = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(found, ids);
    let canceled = JobFilter {
        states: vec![JobStatus::Canceled, JobStatus::Done],
        ..JobFilter::default()
    };
    let found = ada.jobs(&canceled).unwrap().items;
    assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), ids[4..]);
    for query in ["limit=0", "limit=1001", "state=lost", "before=x", "page=1"] {
        let path = format!("/v1/jobs?{query}");
        assert_eq!(server.raw("GET", &path, "ada", "").0, 400, "{query}");
    }
}

#[test]
fn scheduler_without_a_queue_says_so() {
    let server = TestServer::of(Setup {
        has_jobs: false,
        ..Setup::default()
    });
    let failure = server.client("olga").job(1);
    let Err(ClientError::Problem(problem)) = failure else {
        panic!("{failure:?}");
    };
    assert_eq!(
        (problem.status, problem.kind.as_str()),
        (404, "urn:lighthaul:problem:no-queue")
    );
    assert!(problem.detail.contains("--jobs"), "{problem:?}");
}

/// Waits until a condition is true, for at most 30 seconds.
fn until(done: impl FnMut() -> bool) {
    let clock = Clock::start();
    let mut done = done;
    while !done() {
        let waited = clock.now().since(Instant::ZERO);
        assert!(waited < Duration::from_secs(30), "it takes too long");
        pause(Duration::from_millis(20));
    }
}

#[test]
fn each_run_of_a_series_is_checked_and_its_end_has_a_reason() {
    let server = server();
    let mut queue = queue(&server);
    // as they were permitted when they were submitted
    let series = [
        ("ada", "lh://far/home/ada/"),
        ("bob", "lh://far/home/ada/"),
        ("eve", "lh://far/home/eve/"),
        ("olga", "lh://elsewhere/"),
    ];
    let jobs = series.map(|(name, target)| JobSpec {
        owner: owner::of_client(name),
        command: ["cp", "--", "lh://near/results", target]
            .map(str::to_owned)
            .to_vec(),
        directory: "/".into(),
        every: Some(1000),
        ..JobSpec::default()
    });
    queue.submit(now(), &jobs).unwrap();
    for run in queue.claim(now(), "worker", 60_000, 9).unwrap() {
        let end = AttemptEnd {
            end: JobEnd::Done,
            exit: Some(0),
            text: String::new(),
        };
        let finished = queue.finish(now(), run.attempt(), &end, &Report::default());
        assert!(finished.unwrap());
    }
    let mut last = |name: &str| {
        let selection = Selection {
            owner: Some(owner::of_client(name)),
            states: Vec::new(),
        };
        queue.jobs(&selection, None, 1).unwrap().remove(0)
    };
    for name in ["ada", "olga"] {
        until(|| last(name).state == JobState::Queued);
        assert_eq!(last(name).every, Some(1000), "{name}");
    }
    for (name, why) in [
        (
            "bob",
            "the series ends: the policy of bob permits no job to copy to lh://far/home/ada/",
        ),
        ("eve", "the series ends: no token of eve is valid any more"),
    ] {
        until(|| last(name).state == JobState::Failed);
        let ended = last(name);
        assert!(ended.text.starts_with(why), "{}", ended.text);
        assert_eq!(ended.every, None);
    }
    // the owner sees the reason
    let seen = server.client("bob").jobs(&JobFilter::default()).unwrap();
    assert!(seen.items[0].text.contains("the series ends"), "{seen:?}");
}

#[test]
fn health_shows_that_the_queue_fails() {
    let server = server();
    let client = server.client("ada");
    assert_eq!(client.health().unwrap().queue_fault, None);
    let store = Connection::open(server.folder.join("jobs")).unwrap();
    store
        .execute_batch("ALTER TABLE ending RENAME TO lost")
        .unwrap();
    until(|| client.health().unwrap().queue_fault.is_some());
    let (status, _, text) = server.raw("GET", "/healthz", "", "");
    assert_eq!(status, 200);
    let fault = "the queue of jobs cannot be used: the log of the scheduler has the reason";
    assert!(text.contains(fault), "{text}");
    assert!(
        !text.contains("ending"),
        "names of tables are for operators"
    );
    let (_, _, metrics) = server.raw("GET", "/metrics", "", "");
    assert!(
        metrics.contains("lighthaul_scheduler_queue_up 0"),
        "{metrics}"
    );
    // the books can still be used
    assert_eq!(server.raw("GET", "/readyz", "", "").0, 200);
    store
        .execute_batch("ALTER TABLE lost RENAME TO ending")
        .unwrap();
    until(|| client.health().unwrap().queue_fault.is_none());
    let (_, _, metrics) = server.raw("GET", "/metrics", "", "");
    assert!(
        metrics.contains("lighthaul_scheduler_queue_up 1"),
        "{metrics}"
    );
}
