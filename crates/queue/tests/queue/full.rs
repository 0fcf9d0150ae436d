//! A full disk, and a database that another process locks.

use std::fs;
use std::process::Command;

use lighthaul_queue::worker::{Activity, now, work};
use lighthaul_queue::{JobState, Queue};

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
