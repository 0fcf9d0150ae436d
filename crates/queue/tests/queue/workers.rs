//! Workers that run real commands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_queue::claims::Report;
use lighthaul_queue::job::JobEnd;
use lighthaul_queue::list::Selection;
use lighthaul_queue::retention::Retention;
use lighthaul_queue::worker::{Activity, WorkerSettings, now, work};
use lighthaul_queue::{Error, JobId, JobSpec, JobState, Queue, Request};
use lighthaul_testkit::allowance;

use crate::rules::ended;
use crate::{Folder, spec};

/// Writes a program of the shell that stands for the command `lighthaul`.
pub(crate) fn program(folder: &Folder, script: &str) -> PathBuf {
    let path = folder.path.join("program");
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
        retention: Retention::default(),
        patience: Duration::from_secs(20),
        turn: Duration::from_mins(1),
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
        [ "$3" != fail ] || { echo '{"type":"error","code":13,"text":"not allowed"}'; exit 13; }
        echo '{"type":"progress","bytes":1,"bytes_total":7}'
        echo '{"type":"summary","bytes":7,"entries":1}'"#,
    );
    let mut queue = folder.queue();
    let directory = folder.path.canonicalize().unwrap();
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
    let log = queue.log(ids[0], (0, 0), 100).unwrap();
    let log: String = log.into_iter().map(|piece| piece.text).collect();
    let line = format!("cp --json well in {}\n", directory.display());
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

/// A worker deletes what the guide promises, without any command.
#[test]
fn worker_deletes_history_beyond_its_bounds() {
    let folder = Folder::new("worker-trims");
    let program = program(&folder, r#"echo "$2" >&2"#);
    let mut queue = folder.queue();
    // one job ended long ago, and its key was used long ago
    let request = Request {
        key: Some("key".to_owned()),
        digest: "digest".to_owned(),
        open_max: 9,
    };
    let old = queue.request(1, &spec(), &request).unwrap();
    let finish = |queue: &mut Queue, time: u64, name: &str| {
        let claimed = queue.claim(time, name, 60_000, 1).unwrap().remove(0);
        let report = Report {
            log: "x".repeat(600),
            ..Report::default()
        };
        let attempt = claimed.attempt();
        queue
            .finish(time, attempt, &ended(JobEnd::Done), &report)
            .unwrap();
    };
    finish(&mut queue, 2, "worker");
    let recent = queue.submit(now(), &vec![spec(); 4]).unwrap();
    for nth in 0..4 {
        finish(&mut queue, now() + nth, "worker");
    }
    let mut settings = settings(program);
    settings.retention = Retention {
        user_jobs_max: 2,
        log_bytes_max: 1000,
        ..Retention::default()
    };
    work(&mut queue, &settings, &|| false, &mut |_| {}).unwrap();
    assert!(matches!(queue.job(old), Err(Error::Unknown(_))));
    let left = queue.jobs(&Selection::default(), None, 99).unwrap();
    let left: Vec<JobId> = left.iter().map(|job| job.id).collect();
    assert_eq!(left, [recent[3], recent[2]]);
    // the newest log fits into the bound
    let logs = left.iter().map(|id| queue.log(*id, (0, 0), 9).unwrap());
    let logs: Vec<usize> = logs.map(|pieces| pieces.len()).collect();
    assert_eq!(logs, [1, 0]);
    assert!(
        queue.events(recent[0]).is_err(),
        "its events are deleted, too"
    );
    // the old key names a new job now
    assert_ne!(queue.request(now(), &spec(), &request).unwrap(), old);
}

#[test]
fn option_for_events_is_no_path() {
    let folder = Folder::new("words");
    let program = program(&folder, r#"echo "$*" >&2"#);
    let mut queue = folder.queue();
    let words = [
        (&["cp", "--", "a", "b"][..], "cp --json -- a b\n"),
        (&["cp", "--", "--json", "b"], "cp --json -- --json b\n"),
        (&["cp", "a", "--json", "b"], "cp a --json b\n"),
    ];
    let jobs: Vec<JobSpec> = words.iter().map(|(words, _)| job(words)).collect();
    let ids = queue.submit(now(), &jobs).unwrap();
    work(&mut queue, &settings(program), &|| false, &mut |_| {}).unwrap();
    for (id, (_, line)) in ids.into_iter().zip(words) {
        let log = queue.log(id, (0, 0), 100).unwrap();
        assert_eq!(
            log.into_iter().map(|piece| piece.text).collect::<String>(),
            line
        );
    }
}

#[test]
fn command_that_a_signal_stops_is_retried() {
    let folder = Folder::new("signals");
    let program = program(
        &folder,
        r#"echo "$3" >&2; [ "$3" = KILL ] && kill -s KILL $$; exit "$3""#,
    );
    let mut queue = folder.queue();
    for word in ["20", "130", "143", "KILL"] {
        let spec = JobSpec {
            retries: 1,
            ..job(&["cp", word])
        };
        let id = queue.submit(now(), &[spec]).unwrap()[0];
        let is_over = AtomicBool::new(false);
        let worker = settings(program.clone());
        work(
            &mut queue,
            &worker,
            &|| is_over.load(Relaxed),
            &mut |activity| {
                if let Activity::Ended(..) = activity {
                    is_over.store(true, Relaxed);
                }
            },
        )
        .unwrap();
        let job = queue.job(id).unwrap();
        assert_eq!((job.state, job.failures), (JobState::Waiting, 1), "{word}");
        queue.cancel(now(), id).unwrap();
    }
}

#[test]
fn command_has_a_process_group_of_its_own() {
    let folder = Folder::new("group");
    // fields 1 and 5 of stat: process and group
    let program = program(
        &folder,
        r#"set -- $(cat /proc/$$/stat); echo "$(($1 == $5))" >&2"#,
    );
    let mut queue = folder.queue();
    let id = queue.submit(now(), &[job(&["cp"])]).unwrap()[0];
    work(&mut queue, &settings(program), &|| false, &mut |_| {}).unwrap();
    let log = queue.log(id, (0, 0), 100).unwrap();
    assert_eq!(log[0].text, "1\n");
}

#[test]
fn worker_keeps_its_own_jobs_after_a_stall() {
    let folder = Folder::new("stall");
    let program = program(&folder, "sleep 1");
    let mut queue = folder.queue();
    let id = queue.submit(now(), &[job(&["cp"])]).unwrap()[0];
    let worker = WorkerSettings {
        lease: Duration::from_millis(50),
        ..settings(program)
    };
    let mut lost = 0;
    work(
        &mut queue,
        &worker,
        &|| false,
        &mut |activity| match activity {
            // longer than the lease
            Activity::Starts(_) => pause(Duration::from_millis(200)),
            Activity::Ended(..) | Activity::Yields(_) | Activity::Fails(_) | Activity::Recovers => {
            }
            Activity::Lost(_) => lost += 1,
        },
    )
    .unwrap();
    let job = queue.job(id).unwrap();
    assert_eq!((lost, job.state, job.attempt), (0, JobState::Done, 1));
}

#[test]
fn canceled_command_that_hangs_is_killed() {
    let folder = Folder::new("hangs");
    // the command ignores signals, and ends after some time, so that this test ends even if it fails
    let script = "trap '' INT; n=0; while [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done";
    let program = program(&folder, script);
    let mut queue = folder.queue();
    let id = queue.submit(now(), &[job(&["cp"])]).unwrap()[0];
    let file = folder.place();
    let worker = WorkerSettings {
        patience: Duration::from_millis(100),
        ..settings(program)
    };
    let mut ends = Vec::new();
    work(
        &mut queue,
        &worker,
        &|| false,
        &mut |activity| match activity {
            Activity::Starts(_) => {
                let mut client = Queue::existing(&file).unwrap();
                client.cancel(now(), id).unwrap();
            }
            Activity::Ended(_, end) => ends.push((end.end, end.exit)),
            Activity::Lost(_) | Activity::Yields(_) | Activity::Fails(_) | Activity::Recovers => {
                panic!("no other worker runs")
            }
        },
    )
    .unwrap();
    assert_eq!(ends, [(JobEnd::Canceled, None)]);
    assert_eq!(queue.job(id).unwrap().state, JobState::Canceled);
}

#[test]
fn descendant_that_keeps_the_output_open_does_not_delay_the_end() {
    let folder = Folder::new("descendant");
    let (hold, late) = (folder.path.join("hold"), folder.path.join("late"));
    fs::write(&hold, "").unwrap();
    // the command ends after some time, so that this test ends even if it fails
    let script = format!(
        r#"( n=0; while [ -e {hold} ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done; : >{late} ) &
        echo '{{"type":"summary","bytes":7,"entries":1}}'"#,
        hold = hold.display(),
        late = late.display()
    );
    let program = program(&folder, &script);
    let mut queue = folder.queue();
    let id = queue.submit(now(), &[job(&["cp"])]).unwrap()[0];
    work(&mut queue, &settings(program), &|| false, &mut |_| {}).unwrap();
    assert!(!late.exists(), "the worker has waited for the descendant");
    let job = queue.job(id).unwrap();
    assert_eq!(
        (job.state, job.text.as_str()),
        (JobState::Done, "7 bytes in 1 entries")
    );
    fs::remove_file(hold).unwrap();
    let clock = Clock::start();
    let begin = clock.now();
    while !late.exists() && clock.now().since(begin) < allowance(30) {
        pause(Duration::from_millis(20));
    }
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
            Activity::Lost(_) | Activity::Yields(_) | Activity::Fails(_) | Activity::Recovers => {
                panic!("no other worker runs")
            }
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
    let file = folder.place();
    let mut clients = Vec::new();
    work(&mut queue, &settings(program), &|| false, &mut |activity| {
        if let Activity::Starts(_) = activity {
            let file = file.clone();
            clients.push(std::thread::spawn(move || {
                let mut client = Queue::existing(&file).unwrap();
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
    let mark = folder.path.join("alive");
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

/// A program that runs until the file `go-NAME` exists, where NAME is its last word.
fn until_go(folder: &Folder) -> PathBuf {
    let script = format!(
        r#"for name; do :; done; echo "$name" >>{path}/begun
        trap 'exit 20' INT; n=0; while [ ! -e {path}/go-$name ] && [ $n -lt 1200 ]; do sleep 0.05; n=$((n+1)); done"#,
        path = folder.path.display()
    );
    program(folder, &script)
}

#[test]
fn owner_that_waits_gets_its_share_although_slow_copies_hold_all_slots() {
    let folder = Folder::new("room");
    let program = until_go(&folder);
    let mut queue = folder.queue();
    let of = |owner: &str, name: &str| JobSpec {
        owner: owner.to_owned(),
        ..job(&["cp", name])
    };
    let slow = queue
        .submit(now(), &[of("ada", "a"), of("ada", "b"), of("ada", "c")])
        .unwrap();
    let place = folder.place();
    let worker = WorkerSettings {
        turn: Duration::from_millis(300),
        ..settings(program)
    };
    let path = folder.path.clone();
    let begun = |name: &str| {
        let begun = fs::read_to_string(path.join("begun")).unwrap_or_default();
        begun.lines().filter(|line| *line == name).count()
    };
    let clock = Clock::start();
    let wait = |is_there: &dyn Fn() -> bool| {
        let begin = clock.now();
        while !is_there() {
            assert!(clock.now().since(begin) < allowance(60), "it took too long");
            pause(Duration::from_millis(20));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut told = Vec::new();
            let mut queue = Queue::open(&place).unwrap();
            work(&mut queue, &worker, &|| false, &mut |activity| {
                if let Activity::Yields(job) = activity {
                    told.push(job.id);
                }
            })
            .unwrap();
            // one job made room, once
            assert_eq!(told.len(), 1, "{told:?}");
        });
        // while no other owner waits, one owner has all slots
        wait(&|| {
            slow.len()
                == ["a", "b", "c"]
                    .iter()
                    .map(|name| begun(name))
                    .sum::<usize>()
        });
        let id = queue.submit(now(), &[of("bob", "x")]).unwrap()[0];
        wait(&|| begun("x") == 1);
        let shares = queue.shares().unwrap();
        let running: Vec<u64> = shares.iter().map(|share| share.running).collect();
        assert_eq!(running, [2, 1], "{shares:?}");
        fs::write(path.join("go-x"), "").unwrap();
        // the interrupted job continues at the free slot
        wait(&|| ["a", "b", "c"].iter().any(|name| begun(name) == 2));
        for name in ["a", "b", "c"] {
            fs::write(path.join(format!("go-{name}")), "").unwrap();
        }
        wait(&|| folder.queue().is_idle().unwrap());
        assert_eq!(queue.job(id).unwrap().state, JobState::Done);
    });
    let jobs: Vec<_> = slow.into_iter().map(|id| queue.job(id).unwrap()).collect();
    assert!(
        jobs.iter()
            .all(|job| job.state == JobState::Done && job.failures == 0)
    );
    let texts = jobs.iter().flat_map(|job| queue.events(job.id).unwrap());
    let rooms = texts.filter(|event| event.text == "makes room for a job of another owner");
    assert_eq!(rooms.count(), 1);
}

#[test]
fn output_of_a_command_shows_no_secret() {
    let folder = Folder::new("hidden");
    let script = r#"echo "reads $3" >&2; echo "{\"type\":\"error\",\"code\":13,\"text\":\"cannot read $3\"}"; exit 13"#;
    let program = program(&folder, script);
    let mut queue = folder.queue();
    let id = queue
        .submit(now(), &[job(&["cp", "https://b/a?Signature=12345678"])])
        .unwrap()[0];
    work(&mut queue, &settings(program), &|| false, &mut |_| {}).unwrap();
    let job = queue.job(id).unwrap();
    assert_eq!(job.text, "cannot read https://b/a?(hidden)");
    let log: String = queue
        .log(id, (0, 0), 9)
        .unwrap()
        .into_iter()
        .map(|one| one.text)
        .collect();
    assert!(
        log.contains("reads https://b/a?(hidden)") && !log.contains("1234"),
        "{log}"
    );
    // it is needed for a retry
    assert_eq!(job.command[1], "https://b/a?Signature=12345678");
}
