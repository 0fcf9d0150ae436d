//! Workers of many hosts at one server, and a server that stops.
#![expect(clippy::needless_collect, reason = "all threads run at once")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_queue::claims::Report;
use lighthaul_queue::job::JobEnd;
use lighthaul_queue::list::Selection;
use lighthaul_queue::worker::{Activity, work};
use lighthaul_queue::{JobSpec, JobState, Queue, Request};
use lighthaul_testkit::{PostgresServer, allowance};

use crate::rules::{ended, submit};
use crate::workers::{program, settings};
use crate::{Folder, spec};

#[test]
fn workers_that_claim_at_once_take_different_jobs() {
    let folder = Folder::new("claims");
    let mut queue = folder.queue();
    let ids = queue.submit(1, &vec![spec(); 400]).unwrap();
    let place = folder.place();
    let claims = |_| {
        let place = place.clone();
        thread::spawn(move || {
            let mut queue = Queue::open(&place).unwrap();
            let mut claimed = Vec::new();
            loop {
                let jobs = queue.claim(2, "worker", 60_000, 3).unwrap();
                if jobs.is_empty() {
                    return claimed;
                }
                for job in jobs {
                    let end = ended(JobEnd::Done);
                    assert!(
                        queue
                            .finish(3, job.attempt(), &end, &Report::default())
                            .unwrap()
                    );
                    claimed.push(job.id);
                }
            }
        })
    };
    let workers: Vec<_> = (0..8).map(claims).collect();
    let mut all: Vec<_> = workers
        .into_iter()
        .flat_map(|worker| worker.join().unwrap())
        .collect();
    all.sort();
    assert_eq!(all, ids);
}

#[test]
fn locked_job_does_not_delay_other_claims() {
    let folder = Folder::new("locked");
    let mut queue = folder.queue();
    let ids = queue.submit(1, &[spec(), spec()]).unwrap();
    let mut other = postgres::Client::connect(&folder.server.url(), postgres::NoTls).unwrap();
    let mut lock = other.transaction().unwrap();
    let sql = format!(
        "SELECT 1 FROM {}.job WHERE id = 1 FOR UPDATE",
        folder.schema
    );
    lock.execute(&sql, &[]).unwrap();
    let claimed = queue.claim(2, "worker", 60_000, 2).unwrap();
    assert_eq!(
        claimed.iter().map(|job| job.id).collect::<Vec<_>>(),
        ids[1..]
    );
    lock.rollback().unwrap();
    let claimed = queue.claim(2, "worker", 60_000, 2).unwrap();
    assert_eq!(
        claimed.iter().map(|job| job.id).collect::<Vec<_>>(),
        ids[..1]
    );
}

/// Jobs, their dependents, ends and cancellations at once, in every order.
#[test]
fn dependents_are_released_once_although_transactions_overlap() {
    let folder = Folder::new("overlap");
    let mut queue = folder.queue();
    for _ in 0..20 {
        let first = queue.submit(1, &[spec(), spec(), spec()]).unwrap();
        let claimed = queue.claim(2, "worker", 60_000, 3).unwrap();
        assert_eq!(claimed.len(), 3);
        let after = JobSpec {
            after: first.clone(),
            ..spec()
        };
        let last = submit(&mut queue, 2, after.clone());
        let threads: Vec<_> = claimed
            .into_iter()
            .map(|job| {
                let place = folder.place();
                let after = after.clone();
                thread::spawn(move || {
                    let mut queue = Queue::open(&place).unwrap();
                    let end = ended(JobEnd::Done);
                    let id = submit(&mut queue, 2, after);
                    queue
                        .finish(3, job.attempt(), &end, &Report::default())
                        .unwrap();
                    id
                })
            })
            .collect();
        queue.cancel(3, last).unwrap();
        queue.retry(4, last).unwrap();
        let mut waiting: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        waiting.push(last);
        for id in waiting {
            assert_eq!(queue.job(id).unwrap().state, JobState::Queued, "{id}");
            queue.cancel(5, id).unwrap();
        }
    }
}

#[test]
fn requests_with_one_key_at_once_submit_one_job() {
    let folder = Folder::new("keys");
    drop(folder.queue());
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let place = folder.place();
            thread::spawn(move || {
                let mut queue = Queue::open(&place).unwrap();
                let request = Request {
                    key: Some("k".to_owned()),
                    digest: "d".to_owned(),
                    open_max: 100,
                };
                queue.request(1, &spec(), &request).unwrap()
            })
        })
        .collect();
    let ids = threads.into_iter().map(|thread| thread.join().unwrap());
    let ids: std::collections::BTreeSet<_> = ids.collect();
    assert_eq!(ids.len(), 1);
    let jobs = folder.queue().jobs(&Selection::default(), None, 9).unwrap();
    assert_eq!(jobs.len(), 1);
}

#[test]
fn clock_of_the_server_counts() {
    let folder = Folder::new("clock");
    let mut queue = folder.queue();
    let here = lighthaul_queue::worker::now();
    assert!(queue.now().unwrap().abs_diff(here) < 60_000);
}

#[test]
fn commands_outlive_a_restart_of_the_server() {
    let folder = Folder::new("restart");
    let server = PostgresServer::start().unwrap();
    let url = server.url_of("public");
    let (begun, go) = (folder.path.join("begun"), folder.path.join("go"));
    let script = format!(
        r#"echo "$$" >>{begun}
        n=0; while [ ! -e {go} ] && [ $n -lt 1200 ]; do sleep 0.05; n=$((n+1)); done
        echo '{{"type":"summary","bytes":7,"entries":1}}'"#,
        begun = begun.display(),
        go = go.display()
    );
    let program = program(&folder, &script);
    let mut queue = Queue::open(url.as_ref()).unwrap();
    let id = submit(&mut queue, 1, spec());
    let is_over = std::sync::Arc::new(AtomicBool::new(false));
    let worker = {
        let (url, is_over) = (url, std::sync::Arc::clone(&is_over));
        thread::spawn(move || {
            let mut queue = Queue::open(url.as_ref()).unwrap();
            let mut told: BTreeMap<&str, u32> = BTreeMap::new();
            let tell = &mut |activity: Activity<'_>| {
                let name = match activity {
                    Activity::Starts(_) => "starts",
                    Activity::Ended(..) => "ended",
                    Activity::Lost(_) => "lost",
                    Activity::Fails(_) => "fails",
                    Activity::Yields(_) => "yields",
                    Activity::Recovers => "recovers",
                };
                *told.entry(name).or_default() += 1;
            };
            work(
                &mut queue,
                &settings(program),
                &|| is_over.load(Relaxed),
                tell,
            )
            .unwrap();
            told
        })
    };
    let clock = Clock::start();
    let wait = |is_there: &mut dyn FnMut() -> bool| {
        let begin = clock.now();
        while !is_there() {
            assert!(clock.now().since(begin) < allowance(60), "it took too long");
            pause(std::time::Duration::from_millis(20));
        }
    };
    wait(&mut || begun.exists());
    server.control("stop", "immediate");
    std::fs::write(&go, "").unwrap();
    // the command ends while the server is away
    pause(std::time::Duration::from_millis(1500));
    server.begin();
    wait(&mut || queue.job(id).is_ok_and(|job| job.state == JobState::Done));
    is_over.store(true, Relaxed);
    let told = worker.join().unwrap();
    assert_eq!(told.get("ended"), Some(&1), "{told:?}");
    assert_eq!(told.get("starts"), Some(&1), "{told:?}");
    assert!(
        told.get("fails").is_some_and(|fails| *fails >= 1),
        "{told:?}"
    );
    let job = queue.job(id).unwrap();
    assert_eq!(
        (job.attempt, job.text.as_str()),
        (1, "7 bytes in 1 entries")
    );
}
