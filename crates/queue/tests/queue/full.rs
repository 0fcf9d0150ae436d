//! A full disk, and a database that another process locks.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_queue::worker::{Activity, WorkerSettings, now, work};
use lighthaul_queue::{Error, JobSpec, JobState, Queue};
use lighthaul_testkit::allowance;

use crate::workers::{program, settings};
use crate::{Folder, spec};

/// Small file system in memory at a directory, until its end.
struct SmallDisk<'a>(&'a Folder);

impl<'a> SmallDisk<'a> {
    /// Returns none if this user cannot mount.
    fn at(folder: &'a Folder) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(&folder.path);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        if !is_mounted {
            lighthaul_testkit::skip("tmpfs", "needs the right to mount");
        }
        is_mounted.then_some(Self(folder))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        Command::new("umount")
            .arg("-l")
            .arg(&self.0.path)
            .status()
            .ok();
    }
}

#[test]
fn worker_outlives_a_full_disk() {
    let folder = Folder::new("full");
    let tools = Folder::new("full-tools");
    let Some(_disk) = SmallDisk::at(&folder) else {
        return;
    };
    let program = program(&tools, r#"echo '{"type":"summary","bytes":7,"entries":1}'"#);
    let mut queue = folder.queue();
    let id = queue.submit(now(), &[spec()]).unwrap()[0];
    let filler = folder.path.join("filler");
    let mut told = Vec::new();
    let mut fill = true;
    work(
        &mut queue,
        &settings(program),
        &|| false,
        &mut |activity| match activity {
            Activity::Starts(_) if std::mem::take(&mut fill) => {
                // all that is left
                fs::write(&filler, vec![1; 2 << 20]).unwrap_err();
                told.push("starts".to_owned());
            }
            Activity::Fails(why) => {
                told.push(why.to_string());
                fs::remove_file(&filler).unwrap();
            }
            Activity::Ended(..) => told.push("ended".to_owned()),
            Activity::Recovers => told.push("recovers".to_owned()),
            Activity::Starts(_) | Activity::Yields(_) | Activity::Lost(_) => {}
        },
    )
    .unwrap();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[1].contains("disk full; free space there"), "{told:?}");
    assert_eq!((told[2].as_str(), told[3].as_str()), ("ended", "recovers"));
    let job = queue.job(id).unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Done, 1));
    drop(queue);
    drop(Queue::existing(&folder.file()).unwrap());
}

#[test]
fn worker_is_stopped_while_another_process_locks_the_queue() {
    let folder = Folder::new("locked");
    // the commands end after some time, so that this test ends even if it fails
    let script = format!(
        "for name; do :; done; echo $$ >{}/process-$name
        n=0; while [ $n -lt 2400 ]; do sleep 0.05; n=$((n+1)); done",
        folder.path.display()
    );
    let program = program(&folder, &script);
    let mut queue = folder.queue();
    let job = |name: &str| JobSpec {
        command: vec!["cp".to_owned(), name.to_owned()],
        ..spec()
    };
    let names = ["a", "b", "c", "d"];
    queue.submit(now(), &names.map(job)).unwrap();
    let worker = WorkerSettings {
        slots: names.len(),
        patience: Duration::from_millis(200),
        ..settings(program)
    };
    let (is_stopped, place) = (AtomicBool::new(false), folder.place());
    let processes = || {
        let read = |name: &&str| {
            let file = folder.path.join(format!("process-{name}"));
            let text = fs::read_to_string(file).unwrap_or_default();
            text.trim().parse::<u32>().ok()
        };
        names.iter().filter_map(read).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let works = scope.spawn(|| {
            let mut queue = Queue::open(&place).unwrap();
            work(
                &mut queue,
                &worker,
                &|| is_stopped.load(SeqCst),
                &mut |_| {},
            )
        });
        let clock = Clock::start();
        let wait = |is_there: &dyn Fn() -> bool| {
            let begin = clock.now();
            while !is_there() && clock.now().since(begin) < allowance(60) {
                pause(Duration::from_millis(20));
            }
            is_there()
        };
        let begun = wait(&|| processes().len() == names.len());
        let other = rusqlite::Connection::open(folder.file()).unwrap();
        other.busy_timeout(Duration::from_mins(1)).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        // the worker has tried to renew its leases, and waits for the lock
        pause(Duration::from_millis(1500));
        is_stopped.store(true, SeqCst);
        let is_alive = |id: &u32| fs::exists(format!("/proc/{id}")).unwrap();
        let stopped = wait(&|| !processes().iter().any(is_alive));
        other.execute_batch("ROLLBACK").unwrap();
        // if the queue is still locked once the commands have ended, the worker says so
        let result = works.join().unwrap();
        let is_busy = |why: &Error| matches!(why, Error::Busy { .. });
        assert!(result.as_ref().err().is_none_or(is_busy), "{result:?}");
        assert!(begun && stopped, "begun: {begun}, stopped: {stopped}");
    });
}
