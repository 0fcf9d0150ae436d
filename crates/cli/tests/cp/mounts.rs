//! `lighthaul mount`: real mounts, used by programs.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::far::Far;
use crate::running::{Running, becomes_true};
use crate::scratch::{names, noise, tree};

/// Mount of a daemon's directory.
struct Mounted {
    running: Option<Running>,
    folder: PathBuf,
}

impl Mounted {
    /// Mounts the directory of `far`, or returns `None` if this machine allows no mounts.
    fn start(test: &str, far: &Far, options: &[&str]) -> Option<Self> {
        if lighthaul_testkit::lacks_root(test) {
            return None;
        }
        let folder = far.near.folder("mount");
        let place = format!("lh://127.0.0.1:{}/", far.port);
        let mut command = far.near.lighthaul(&["mount", &place]);
        command
            .arg(&folder)
            .args(options)
            .args(["--pin", &far.pin, "--key"])
            .arg(far.near.key());
        let mut running = Running::start(command);
        running.says("mounted ");
        let running = Some(running);
        Some(Self { running, folder })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.running.take();
        unmount(&self.folder);
    }
}

/// Removes a mount whose program is gone.
fn unmount(folder: &Path) {
    let mut command = Command::new("umount");
    command.arg("-l").arg(folder);
    command.output().unwrap();
}

fn daemon(name: &str) -> Far {
    Far::start(name, &["--root", "ROOT"])
}

fn sh(script: &str) {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

#[test]
fn tar_reads_and_writes_a_mount() {
    let far = daemon("mount-tar");
    let Some(mounted) = Mounted::start("tar_reads_and_writes_a_mount", &far, &[]) else {
        return;
    };
    let source = far.near.folder("source");
    fs::create_dir_all(source.join("a/b")).unwrap();
    fs::write(source.join("a/large"), noise(3_000_000, 1)).unwrap();
    fs::write(source.join("a/b/small"), "small").unwrap();
    fs::write(source.join("empty"), "").unwrap();
    fs::set_permissions(source.join("empty"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("b/small", source.join("a/link")).unwrap();
    let (from, to, archive) = (
        source.display(),
        mounted.folder.display(),
        far.near.at("tar"),
    );
    let archive = archive.display();
    sh(&format!(
        "tar -C {from} --format=posix -cf - . | tar -C {to} -xf -"
    ));
    let [expected, found] = [&source, &far.target].map(|folder| tree(folder));
    assert_eq!(found, expected);
    sh(&format!(
        "tar -C {to} --format=posix -cf {archive} . && tar -C {from} -df {archive}"
    ));
    assert_eq!(names(&mounted.at("a")), ["b", "large", "link"]);
    sh(&format!("mv {to}/a {to}/c && rm -r {to}/c/b {to}/empty"));
    assert_eq!(names(&far.target), ["c"]);
    assert_eq!(names(&far.target.join("c")), ["large", "link"]);
}

#[test]
fn large_file_is_read_at_any_offset_by_several_programs() {
    let far = daemon("mount-read");
    let test = "large_file_is_read_at_any_offset_by_several_programs";
    let Some(mounted) = Mounted::start(test, &far, &["--read-only"]) else {
        return;
    };
    let content = noise(12_345_678, 2);
    fs::write(far.target.join("data"), &content).unwrap();
    let path = mounted.at("data");
    thread::scope(|scope| {
        for nth in 0..4_u64 {
            let (path, content) = (&path, &content);
            scope.spawn(move || {
                let mut file = fs::File::open(path).unwrap();
                let from = nth * 1_234_567;
                file.seek(SeekFrom::Start(from)).unwrap();
                let mut found = Vec::new();
                file.read_to_end(&mut found).unwrap();
                assert!(found == content[from as usize..]);
            });
        }
    });
    let copy = far.near.at("copy");
    let (from, to) = (path.display(), copy.display());
    sh(&format!(
        "dd if={from} of={to} bs=99991 status=none && cmp {from} {to}"
    ));
    let mut found = [0; 10];
    let file = fs::File::open(&path).unwrap();
    assert_eq!(file.read_at(&mut found, content.len() as u64).unwrap(), 0);
    let error = fs::write(mounted.at("new"), "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn file_is_written_once_and_then_only_grows() {
    let far = daemon("mount-write");
    let test = "file_is_written_once_and_then_only_grows";
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let (path, there) = (mounted.at("file"), far.target.join("file"));
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"0123456789").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(b"ab").unwrap();
    assert!(!there.exists(), "it is not complete");
    assert_eq!(fs::metadata(&path).unwrap().len(), 10);
    let error = OpenOptions::new().append(true).open(&path).unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound || error.kind() == ErrorKind::ResourceBusy);
    file.sync_all().unwrap();
    assert_eq!(fs::read(&there).unwrap(), b"ab23456789");
    file.seek(SeekFrom::Start(0)).unwrap();
    let error = file.write_all(b"xy").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"more").unwrap();
    drop(file);
    assert_eq!(fs::read(&there).unwrap(), b"ab23456789more");
    let mut appended = OpenOptions::new().append(true).open(&path).unwrap();
    appended.write_all(b"!").unwrap();
    drop(appended);
    assert_eq!(fs::read(&there).unwrap(), b"ab23456789more!");
    // a new version replaces the old one at its end
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    assert_eq!(fs::read(&there).unwrap(), b"ab23456789more!");
    drop(file);
    assert_eq!(fs::read(&there).unwrap(), b"new");
    assert_eq!(fs::read(&path).unwrap(), b"new");
    let error = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(&path)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn killed_mount_loses_nothing_that_it_acknowledged() {
    let far = daemon("mount-kill");
    let test = "killed_mount_loses_nothing_that_it_acknowledged";
    let Some(mut mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let content = noise(3_000_000, 3);
    fs::write(mounted.at("closed"), &content).unwrap();
    let mut synced = fs::File::create(mounted.at("synced")).unwrap();
    synced.write_all(&content).unwrap();
    synced.sync_all().unwrap();
    let mut open = fs::File::create(mounted.at("open")).unwrap();
    open.write_all(&content).unwrap();
    mounted.running.as_mut().unwrap().kill();
    assert!(fs::read(far.target.join("closed")).unwrap() == content);
    assert!(fs::read(far.target.join("synced")).unwrap() == content);
    assert!(open.sync_all().is_err());
    becomes_true("the daemon removes what was not complete", || {
        names(&far.target) == ["closed", "synced"]
    });
}

#[test]
fn signal_ends_the_mount() {
    let far = daemon("mount-signal");
    let Some(mut mounted) = Mounted::start("signal_ends_the_mount", &far, &[]) else {
        return;
    };
    fs::write(mounted.at("file"), "bytes").unwrap();
    let running = mounted.running.take().unwrap();
    running.signal("TERM");
    running.finish().assert_succeeded();
    assert!(names(&mounted.folder).is_empty());
    assert_eq!(fs::read(far.target.join("file")).unwrap(), b"bytes");
}
