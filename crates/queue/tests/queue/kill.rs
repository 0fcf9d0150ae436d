//! Workers that are killed at any time: every job ends once.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::wait::pause;
use lighthaul_queue::retention::Retention;
use lighthaul_queue::worker::{WorkerSettings, now, work};
use lighthaul_queue::{JobSpec, JobState, Queue};
use lighthaul_testkit::allowance;

use crate::workers::program;
use crate::{Folder, KILLS, spec};

/// Starts a worker process for the queue of `folder`, with a lease in milliseconds.
pub(crate) fn start(folder: &Folder, program: &Path, lease: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::child_works_until_it_is_killed",
            "--ignored",
        ])
        .env(PLACE, folder.place())
        .env(PROGRAM, program)
        .env(LEASE, lease.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Process that tests kill.
#[test]
#[ignore = "it is started by other tests"]
fn child_works_until_it_is_killed() {
    let value = |name: &str| {
        #[expect(clippy::disallowed_methods, reason = "set by the other test")]
        env::var(name).ok()
    };
    let (Some(place), Some(program), Some(lease)) = (value(PLACE), value(PROGRAM), value(LEASE))
    else {
        return;
    };
    let settings = WorkerSettings {
        name: format!("worker {}", std::process::id()),
        program: program.into(),
        slots: 4,
        lease: Duration::from_millis(lease.parse().unwrap()),
        until_empty: false,
        keep: Duration::from_hours(1),
        retention: Retention::default(),
        patience: Duration::from_secs(20),
        turn: Duration::from_mins(1),
    };
    let mut queue = Queue::open(Path::new(&place)).unwrap();
    work(&mut queue, &settings, &|| false, &mut |_| {}).unwrap();
}

#[test]
fn every_job_ends_once_although_workers_are_killed() {
    let seed = unix_nanos();
    println!("seed {seed}");
    let mut random = seed;
    let mut below = |limit: u64| {
        // splitmix64
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    };
    let folder = Folder::new("kill");
    let record = folder.path.join("record");
    // one short line is appended at once; each fifth job fails once with the network
    let script = format!(
        "echo \"$3\" >>{}\n[ $(($3 % 5)) != 0 ] || [ -e {dir}/$3 ] || {{ : >{dir}/$3; exit 10; }}",
        record.display(),
        dir = folder.path.display()
    );
    let program = program(&folder, &script);
    let mut queue = folder.queue();
    let mut submitted = 0;
    let mut workers: Vec<Child> = (0..WORKERS)
        .map(|_| start(&folder, &program, LEASE_MS))
        .collect();
    for _ in 0..KILLS {
        let jobs: Vec<JobSpec> = (0..below(4))
            .map(|_| {
                submitted += 1;
                JobSpec {
                    command: vec!["cp".to_owned(), submitted.to_string()],
                    retries: 5,
                    ..spec()
                }
            })
            .collect();
        queue.submit(now(), &jobs).unwrap();
        pause(Duration::from_millis(below(60)));
        let victim = usize::try_from(below(WORKERS as u64)).unwrap();
        workers[victim].kill().unwrap();
        workers[victim].wait().unwrap();
        workers[victim] = start(&folder, &program, LEASE_MS);
    }
    let clock = Clock::start();
    let begin = clock.now();
    loop {
        let counts = queue.counts().unwrap();
        let ended: u64 = counts
            .iter()
            .filter(|(state, _)| state.is_end())
            .map(|(_, count)| count)
            .sum();
        if ended == submitted {
            break;
        }
        assert!(
            clock.now().since(begin) < allowance(120),
            "seed {seed}: {counts:?} of {submitted}"
        );
        pause(Duration::from_millis(100));
    }
    for mut worker in workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    check(&mut queue, &record, seed);
}

/// Checks that each job has ended once, and has run.
fn check(queue: &mut Queue, record: &Path, seed: u64) {
    let mut runs: BTreeMap<String, u64> = BTreeMap::new();
    for line in fs::read_to_string(record).unwrap().lines() {
        *runs.entry(line.to_owned()).or_default() += 1;
    }
    let all = queue
        .jobs(&lighthaul_queue::list::Selection::default(), None, 100_000)
        .unwrap();
    assert!(all.len() > KILLS / 2, "too few for a test");
    for job in all {
        let events = queue.events(job.id).unwrap();
        let ends = events.iter().filter(|event| event.state.is_end()).count();
        assert_eq!(ends, 1, "seed {seed}: {events:?}");
        // a job may fail in the end, if it was unlucky with its workers
        assert!(
            job.state == JobState::Done || job.text.contains("workers ended"),
            "seed {seed}: {job:?}"
        );
        let run = runs.get(&job.command[1]).copied().unwrap_or(0);
        assert!(
            run >= 1 && run <= u64::from(job.attempt),
            "seed {seed}: {job:?}"
        );
    }
}

const PLACE: &str = "LIGHTHAUL_QUEUE_TEST_PLACE";
const PROGRAM: &str = "LIGHTHAUL_QUEUE_TEST_PROGRAM";
const LEASE: &str = "LIGHTHAUL_QUEUE_TEST_LEASE";
const WORKERS: usize = 4;
const LEASE_MS: u64 = 700;
