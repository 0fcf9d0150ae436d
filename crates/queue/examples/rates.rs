//! Rates of a queue: submits jobs, claims some and ends them, and prints the rates and the memory of this process.
//!
//! `cargo run --release -p lighthaul-queue --example rates -- PLACE [JOBS] [CLAIMS] [WORKERS]`
#![expect(clippy::unwrap_used, reason = "an example")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::needless_collect, reason = "all threads run at once")]

use std::fs;
use std::path::PathBuf;
use std::thread;

use lighthaul_io::host::clock::Clock;
use lighthaul_queue::claims::Report;
use lighthaul_queue::job::{Attempt, AttemptEnd, JobEnd};
use lighthaul_queue::worker::now;
use lighthaul_queue::{JobSpec, Queue};

fn main() {
    let mut words = std::env::args().skip(1);
    let place = PathBuf::from(words.next().unwrap());
    let jobs: u64 = words.next().map_or(1_000_000, |word| word.parse().unwrap());
    let claims: u64 = words.next().map_or(20_000, |word| word.parse().unwrap());
    let mut queue = Queue::open(&place).unwrap();
    let clock = Clock::start();
    let begin = clock.now();
    for first in (0..jobs).step_by(BATCH) {
        let last = jobs.min(first + BATCH as u64);
        let batch: Vec<JobSpec> = (first..last).map(spec).collect();
        queue.submit(now(), &batch).unwrap();
    }
    let submitted = jobs as f64 / clock.now().since(begin).as_secs_f64();
    println!("submit: {submitted:.0} jobs a second, {BATCH} in a transaction");
    let begin = clock.now();
    let workers: u64 = words.next().map_or(1, |word| word.parse().unwrap());
    let worker = |_| {
        let place = place.clone();
        thread::spawn(move || {
            let mut queue = Queue::open(&place).unwrap();
            let claim = |_| queue.claim(now(), "worker", 3_600_000, 1).unwrap();
            let jobs = (0..claims / workers).flat_map(claim);
            jobs.map(|job| job.attempt()).collect::<Vec<Attempt>>()
        })
    };
    let threads: Vec<_> = (0..workers).map(worker).collect();
    let threads = threads.into_iter().map(|thread| thread.join().unwrap());
    let claimed: Vec<Vec<Attempt>> = threads.collect();
    let count = claimed.iter().map(Vec::len).sum::<usize>();
    let rate = count as f64 / clock.now().since(begin).as_secs_f64();
    println!("claim: {rate:.0} jobs a second, one in a transaction, {workers} workers");
    let begin = clock.now();
    let worker = |claimed: Vec<Attempt>| {
        let place = place.clone();
        thread::spawn(move || {
            let mut queue = Queue::open(&place).unwrap();
            let end = AttemptEnd {
                end: JobEnd::Done,
                exit: Some(0),
                text: "100000 bytes in 2 entries".to_owned(),
            };
            for attempt in claimed {
                assert!(
                    queue
                        .finish(now(), attempt, &end, &Report::default())
                        .unwrap()
                );
            }
        })
    };
    let threads: Vec<_> = claimed.into_iter().map(worker).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let rate = count as f64 / clock.now().since(begin).as_secs_f64();
    println!("end: {rate:.0} jobs a second, each on the disk");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "memory: {}",
        peak.unwrap().trim_start_matches("VmHWM:").trim()
    );
    if let Ok(file) = fs::metadata(&place) {
        println!("file: {} MB", file.len() / 1_000_000);
    }
}

/// Returns a job of one of ten owners, with one of three priorities.
fn spec(number: u64) -> JobSpec {
    JobSpec {
        owner: format!("user {}", number % 10),
        command: ["cp", "results", "lh://far.example.org/archive"]
            .map(str::to_owned)
            .to_vec(),
        directory: "/home/user".into(),
        priority: i32::try_from(number % 3).unwrap(),
        retries: 10,
        ..JobSpec::default()
    }
}

/// Jobs in a transaction.
const BATCH: usize = 1000;
