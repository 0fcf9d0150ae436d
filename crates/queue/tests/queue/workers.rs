//! Workers that run real commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_queue::worker::{Activity, WorkerSettings, now, work};
use lighthaul_queue::{JobSpec, JobState};
use lighthaul_testkit::allowance;

use crate::{Folder, spec};

/// Writes a program of the shell that stands for the command `lighthaul`.
pub(crate) fn program(folder: &Folder, script: &str) -> PathBuf {
    let path = folder.0.join("program");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

pub(crate) fn settings(program: PathBuf) -> WorkerSettings {
    WorkerSettings {
        name: "tester".to_owned(),
        program,
        slots: 3,
        lease: Duration::from_mins(1),
        until_empty: true,
        keep: Duration::from_hours(1),
    }
}

fn job(words: &[&str]) -> JobSpec {
    JobSpec {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        retries: 0,
        ..spec()
    }
}

#[test]
fn commands_run_in_their_directory_with_progress_result_and_log() {
    let folder = Folder::new("commands");
    let program = program(
        &folder,
        r#"echo "$1 $2 $3 in $(pwd)" >&2
        [ "$2" != fail ] || { echo '{"type":"error","code":13,"text":"not allowed"}'; exit 13; }
        echo '{"type":"progress","bytes":1,"bytes_total":7}'
        echo '{"type":"summary","bytes":7,"entries":1}'"#,
    );
    let mut queue = folder.queue();
    let directory = folder.0.canonicalize().unwrap();
    let good = JobSpec {
        directory: directory.clone(),
        ..job(&["cp", "well"])
    };
    let missing = JobSpec {
        directory: directory.join("missing"),
        ..job(&["cp"])
    };
    let ids = queue
        .submit(now(), &[good, job(&["cp", "fail"]), missing])
        .unwrap();
    work(&mut queue, &settings(program), &|| false, &mut |_| {}).unwrap();
    let done = queue.job(ids[0]).unwrap();
    assert_eq!(
        (done.state, done.exit, done.progress),
        (JobState::Done, Some(0), Some((7, 7)))
    );
    assert_eq!(done.text, "7 bytes in 1 entries");
    let log = queue.log(ids[0], (0, 0)).unwrap();
    let log: String = log.into_iter().map(|piece| piece.text).collect();
    let line = format!("cp well --json in {}\n", directory.display());
    assert!(log.contains(&line), "{log}");
    let refused = queue.job(ids[1]).unwrap();
    assert_eq!((refused.state, refused.exit), (JobState::Failed, Some(13)));
    assert_eq!(refused.text, "not allowed");
    let missing = queue.job(ids[2]).unwrap();
    assert_eq!(missing.state, JobState::Failed);
    assert!(
        missing.text.starts_with("cannot start "),
        "{}",
        missing.text
    );
}

#[test]
fn stopped_worker_interrupts_its_commands_and_puts_their_jobs_back() {
    let folder = Folder::new("stopped");
    // the command ends by the signal only
    let program = program(&folder, "trap 'exit 20' INT; while :; do sleep 0.05; done");
    let mut queue = folder.queue();
    let ids = queue.submit(now(), &[job(&["cp"]), job(&["cp"])]).unwrap();
    let started = AtomicBool::new(false);
    let mut ends = 0;
    work(
        &mut queue,
        &settings(program),
        &|| started.load(Relaxed),
        &mut |activity| match activity {
            Activity::Starts(_) => started.store(true, Relaxed),
            Activity::Ended(..) => ends += 1,
            Activity::Lost(_) => panic!("no other worker runs"),
        },
    )
    .unwrap();
    assert_eq!(ends, 2);
    for id in ids {
        let job = queue.job(id).unwrap();
        assert_eq!(
            (job.state, job.attempt, job.failures),
            (JobState::Queued, 1, 0)
        );
    }
}

#[test]
fn canceled_job_ends_its_command() {
    let folder = Folder::new("canceled");
    let program = program(&folder, "trap 'exit 20' INT; while :; do sleep 0.05; done");
    let mut queue = folder.queue();
    let id = queue.submit(now(), &[job(&["cp"])]).unwrap()[0];
    let file = folder.file();
    let mut clients = Vec::new();
    work(&mut queue, &settings(program), &|| false, &mut |activity| {
        if let Activity::Starts(_) = activity {
            let file = file.clone();
            clients.push(std::thread::spawn(move || {
                let mut client = lighthaul_queue::Queue::existing(&file).unwrap();
                client.cancel(now(), id).unwrap()
            }));
        }
    })
    .unwrap();
    for client in clients {
        assert_eq!(client.join().unwrap(), JobState::Running);
    }
    assert_eq!(queue.job(id).unwrap().state, JobState::Canceled);
}

#[test]
fn command_of_a_killed_worker_ends_with_it() {
    let folder = Folder::new("orphan");
    let mark = folder.0.join("alive");
    let script = format!("while :; do date +%N >{}; sleep 0.02; done", mark.display());
    let program = program(&folder, &script);
    folder.queue().submit(now(), &[job(&["cp"])]).unwrap();
    let clock = Clock::start();
    let mut worker = crate::kill::start(&folder, &program, 60_000);
    let begin = clock.now();
    while !mark.exists() {
        assert!(
            clock.now().since(begin) < allowance(30),
            "the command did not start"
        );
        pause(Duration::from_millis(20));
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    // the kernel ends the shell, and its last sleep takes 20 ms
    let read = || fs::read(&mark).unwrap();
    let still = || {
        let before = read();
        pause(Duration::from_millis(300));
        read() == before
    };
    let begin = clock.now();
    while !still() {
        assert!(
            clock.now().since(begin) < allowance(10),
            "the command still runs"
        );
    }
}
