//! `lighthaul mount`: real mounts, used by programs.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use lighthaul_io::host::interrupt::TOGETHER;

use crate::far::Far;
use crate::running::{Running, becomes_true};
use crate::scratch::{names, noise, tree};

/// Mount of a daemon's directory.
pub(crate) struct Mounted {
    pub(crate) running: Option<Running>,
    folder: PathBuf,
}

impl Mounted {
    /// Mounts the directory of `far`, or returns `None` if this machine allows no mounts.
    pub(crate) fn start(test: &str, far: &Far, options: &[&str]) -> Option<Self> {
        Self::of("/", test, far, options)
    }

    /// Mounts the directory of `far`, whose root is that of its host. It keeps that over a restart.
    fn of_host(test: &str, far: &Far) -> Option<Self> {
        Self::of(&far.target.to_string_lossy(), test, far, &[])
    }

    fn of(path: &str, test: &str, far: &Far, options: &[&str]) -> Option<Self> {
        if lighthaul_testkit::lacks_root(test) {
            return None;
        }
        let folder = far.near.folder("mount");
        let place = format!("lh://127.0.0.1:{}{path}", far.port);
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

    pub(crate) fn at(&self, name: &str) -> PathBuf {
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

pub(crate) fn daemon(name: &str) -> Far {
    Far::start(name, &["--root", "ROOT"])
}

pub(crate) fn sh(script: &str) {
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
fn killed_mount_loses_no_acknowledged_write() {
    let far = daemon("mount-kill");
    let test = "killed_mount_loses_no_acknowledged_write";
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

#[test]
fn open_files_are_completed_after_a_signal() {
    let far = daemon("mount-signal-open");
    let test = "open_files_are_completed_after_a_signal";
    let Some(mut mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let mut file = fs::File::create(mounted.at("file")).unwrap();
    file.write_all(b"first ").unwrap();
    let running = mounted.running.take().unwrap();
    running.signal("TERM");
    becomes_true("the mount is removed", || names(&mounted.folder).is_empty());
    file.write_all(b"second").unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(far.target.join("file")).unwrap(), b"first second");
    drop(file);
    running.finish().assert_succeeded();
}

#[test]
fn second_signal_does_not_wait_for_open_files() {
    let far = daemon("mount-signals");
    let test = "second_signal_does_not_wait_for_open_files";
    let Some(mut mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let mut file = fs::File::create(mounted.at("file")).unwrap();
    file.write_all(b"lost").unwrap();
    let running = mounted.running.take().unwrap();
    running.signal("TERM");
    becomes_true("the mount is removed", || names(&mounted.folder).is_empty());
    // signals that come together count as one
    thread::sleep(2 * TOGETHER);
    running.signal("TERM");
    running.finish();
    assert!(file.sync_all().is_err());
    becomes_true("nothing is left", || names(&far.target).is_empty());
}

#[test]
fn redirected_output_replaces_a_file_when_the_shell_closes_the_output() {
    let far = daemon("mount-redirect");
    let test = "redirected_output_replaces_a_file_when_the_shell_closes_the_output";
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let (file, there) = (mounted.at("file"), far.target.join("file"));
    fs::write(&there, "old").unwrap();
    for shell in ["sh", "bash"] {
        // the commands see what is on the server while they run
        let seen = far.near.at(shell);
        let script = format!(
            "{{ echo a; cat {there}; (echo b); cat {there}; }} > {file} 2> {seen}; : > {empty}; touch {empty}2",
            there = there.display(),
            file = file.display(),
            seen = seen.display(),
            empty = mounted.at("empty").display(),
        );
        let before = fs::read_to_string(&there).unwrap();
        let output = Command::new(shell).args(["-ec", &script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let expected = format!("a\n{before}b\n{before}");
        becomes_true("the file is complete", || {
            fs::read_to_string(&there).unwrap() == expected
        });
        becomes_true("the empty files are there", || {
            ["empty", "empty2"]
                .iter()
                .all(|name| far.target.join(name).exists())
        });
    }
}

#[test]
fn program_never_reads_a_mixture_of_a_replaced_file() {
    let far = daemon("mount-versions");
    let test = "program_never_reads_a_mixture_of_a_replaced_file";
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let len = 40 << 20;
    let (old, new) = (vec![b'o'; len], vec![b'n'; len / 2]);
    let path = mounted.at("file");
    let replace_there = || {
        fs::write(far.target.join(".new"), &new).unwrap();
        fs::rename(far.target.join(".new"), far.target.join("file")).unwrap();
    };
    let rewrite_here = || fs::write(&path, &new).unwrap();
    let rename_here = || {
        fs::write(mounted.at("other"), &new).unwrap();
        fs::rename(mounted.at("other"), &path).unwrap();
    };
    let replacements: [(&str, &dyn Fn()); 3] = [
        ("on the server", &replace_there),
        ("rewritten", &rewrite_here),
        ("renamed", &rename_here),
    ];
    for (how, replace) in replacements {
        fs::write(far.target.join("file"), &old).unwrap();
        becomes_true("the mount shows the old file", || {
            fs::metadata(&path).is_ok_and(|meta| meta.len() == len as u64)
        });
        let mut reader = fs::File::open(&path).unwrap();
        let mut half = vec![0; len / 8];
        reader.read_exact(&mut half).unwrap();
        replace();
        becomes_true("the mount shows the new file", || {
            fs::read(&path).is_ok_and(|read| read == new)
        });
        // the rest of the old version, or an error
        let mut rest = Vec::new();
        match reader.read_to_end(&mut rest) {
            Ok(_) => assert!(
                rest.len() == len - half.len(),
                "{how}: {} bytes",
                rest.len()
            ),
            Err(error) => assert_eq!(error.kind(), ErrorKind::StaleNetworkFileHandle, "{how}"),
        }
        assert!(rest.iter().all(|octet| *octet == b'o'), "{how}");
        assert_eq!(reader.metadata().unwrap().len(), len as u64, "{how}");
    }
}

#[test]
fn last_mode_of_an_open_file_is_kept() {
    let far = daemon("mount-modes");
    let test = "last_mode_of_an_open_file_is_kept";
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    let mode = |name: &str| {
        let meta = fs::metadata(far.target.join(name)).unwrap();
        meta.permissions().mode() & 0o7777
    };
    let private = || fs::Permissions::from_mode(0o600);
    let mut file = fs::File::create(mounted.at("early")).unwrap();
    file.set_permissions(private()).unwrap();
    file.write_all(b"x").unwrap();
    file.sync_all().unwrap();
    assert_eq!(mode("early"), 0o600);
    let file = fs::File::create(mounted.at("late")).unwrap();
    file.sync_all().unwrap();
    file.set_permissions(private()).unwrap();
    drop(file);
    // the close is complete once another program may write the file
    becomes_true("the file is closed", || {
        OpenOptions::new()
            .append(true)
            .open(mounted.at("late"))
            .is_ok()
    });
    assert_eq!(mode("late"), 0o600);
    // bits that a client cannot set stay
    fs::create_dir(far.target.join("shared")).unwrap();
    fs::set_permissions(
        far.target.join("shared"),
        fs::Permissions::from_mode(0o3777),
    )
    .unwrap();
    fs::set_permissions(mounted.at("shared"), fs::Permissions::from_mode(0o775)).unwrap();
    assert_eq!(mode("shared"), 0o3775);
}

#[test]
fn open_file_can_be_appended_after_a_restart_but_not_if_replaced() {
    let mut far = Far::start("mount-log", &[]);
    let test = "open_file_can_be_appended_after_a_restart_but_not_if_replaced";
    let Some(mounted) = Mounted::of_host(test, &far) else {
        return;
    };
    let there = far.target.join("log");
    let open = || {
        let mut options = OpenOptions::new();
        options.append(true).create(true).open(mounted.at("log"))
    };
    let mut log = open().unwrap();
    log.write_all(b"one ").unwrap();
    log.sync_all().unwrap();
    far.restart();
    // the mount notices the loss when it next uses the connection
    becomes_true("the log can be written", || log.write_all(b"two ").is_ok());
    log.sync_all().unwrap();
    assert_eq!(fs::read(&there).unwrap(), b"one two ");
    fs::remove_file(mounted.at("log")).unwrap();
    fs::write(&there, "another").unwrap();
    let written = log.write_all(b"three").and_then(|()| log.sync_all());
    assert_eq!(written.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(
        log.set_permissions(fs::Permissions::from_mode(0o600))
            .is_err()
    );
    drop(log);
    assert_eq!(fs::read(&there).unwrap(), b"another");
    assert_eq!(
        fs::metadata(&there).unwrap().permissions().mode() & 0o777,
        0o644
    );
}

#[test]
fn renamed_directory_keeps_open_files() {
    let far = daemon("mount-rename");
    let test = "renamed_directory_keeps_open_files";
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    fs::create_dir(mounted.at("d")).unwrap();
    let mut file = fs::File::create(mounted.at("d/x")).unwrap();
    file.write_all(b"all").unwrap();
    fs::rename(mounted.at("d"), mounted.at("e")).unwrap();
    assert_eq!(fs::metadata(mounted.at("e/x")).unwrap().len(), 3);
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::read(far.target.join("e/x")).unwrap(), b"all");
}

#[test]
fn directory_with_files_of_a_killed_daemon_can_be_removed() {
    let mut far = Far::start("mount-leftovers", &[]);
    let test = "directory_with_files_of_a_killed_daemon_can_be_removed";
    let Some(mounted) = Mounted::of_host(test, &far) else {
        return;
    };
    fs::create_dir(mounted.at("d")).unwrap();
    let mut file = fs::File::create(mounted.at("d/x")).unwrap();
    file.write_all(b"half").unwrap();
    assert!(
        fs::remove_dir(mounted.at("d")).is_err(),
        "the file is written"
    );
    far.restart();
    drop(file);
    assert!(
        !names(&far.target.join("d")).is_empty(),
        "the daemon was killed"
    );
    becomes_true("the directory is removed", || {
        fs::remove_dir(mounted.at("d")).is_ok()
    });
    assert!(names(&far.target).is_empty());
}

#[test]
fn many_open_files_are_read_at_the_same_time() {
    let far = daemon("mount-many");
    let Some(mounted) = Mounted::start("many_open_files_are_read_at_the_same_time", &far, &[])
    else {
        return;
    };
    let content = &noise(300_000, 9);
    let mut files = Vec::new();
    for nth in 0..400 {
        let name = format!("{nth}");
        fs::write(far.target.join(&name), content).unwrap();
        files.push(fs::File::open(mounted.at(&name)).unwrap());
    }
    thread::scope(|scope| {
        for part in files.chunks(100) {
            scope.spawn(move || {
                for file in part {
                    let mut read = vec![0; content.len()];
                    file.read_exact_at(&mut read, 0).unwrap();
                    assert!(read == *content);
                }
            });
        }
    });
}

#[test]
fn slow_write_delays_no_other_program() {
    let far = daemon("mount-slow");
    let Some(mounted) = Mounted::start("slow_write_delays_no_other_program", &far, &[]) else {
        return;
    };
    fs::write(far.target.join("other"), "bytes").unwrap();
    let path = "/x".repeat(2100);
    let error = fs::metadata(mounted.at(&path[1..])).unwrap_err();
    assert!(error.raw_os_error().is_some(), "{error}");
    let writer = thread::spawn({
        let path = mounted.at("large");
        move || fs::write(path, vec![7; 100 << 20]).unwrap()
    });
    while !writer.is_finished() {
        assert_eq!(fs::read(mounted.at("other")).unwrap(), b"bytes");
    }
    writer.join().unwrap();
    assert_eq!(
        fs::metadata(far.target.join("large")).unwrap().len(),
        100 << 20
    );
}

/// Python raises an exception for the signal, and Linux ends `cat` by it.
#[test]
fn signal_ends_the_wait_of_a_program_for_a_silent_server() {
    let test = "signal_ends_the_wait_of_a_program_for_a_silent_server";
    let far = daemon("mount-interrupt");
    if lighthaul_testkit::lacks_tool(test, "python3") {
        return;
    }
    let Some(mounted) = Mounted::start(test, &far, &[]) else {
        return;
    };
    fs::write(far.target.join("data"), noise(50_000_000, 9)).unwrap();
    let path = mounted.at("data");
    assert_eq!(fs::metadata(&path).unwrap().len(), 50_000_000);
    let start = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(&path).arg(far.near.at("go"));
        Running::start(command)
    };
    let mut reader = start(&["python3", "-c", READ]);
    reader.prints("opened");
    far.daemon.signal("STOP");
    fs::write(far.near.at("go"), "").unwrap();
    reader.prints("reads");
    let state = |reader: &Running| {
        let status = fs::read_to_string(format!("/proc/{}/stat", reader.id())).unwrap();
        let (_, rest) = status.rsplit_once(") ").unwrap();
        rest.chars().next()
    };
    let waits = |reader: &Running| matches!(state(reader), Some('S' | 'D'));
    becomes_true("the program waits", || waits(&reader));
    let copier = start(&["cat"]);
    becomes_true("the command waits", || waits(&copier));
    reader.signal("INT");
    copier.signal("INT");
    // requests to a silent server fail after 80 seconds
    let limit = Duration::from_mins(1);
    let ended = reader.finish_within(limit);
    let said = ended.err.join("\n");
    let is_interrupted = said.contains("KeyboardInterrupt") && !said.contains("OSError");
    assert!(is_interrupted, "{ended:?}");
    let ended = copier.finish_within(limit);
    assert_eq!(ended.code, None, "{ended:?}");
    // the mount works on
    far.daemon.signal("CONT");
    assert_eq!(fs::read(&path).unwrap(), noise(50_000_000, 9));
}

/// Program in Python that reads a file once another one exists.
const READ: &str = "import os, sys, time\nfile = os.open(sys.argv[1], os.O_RDONLY)\nos.pread(file, 9, 0)\n\
                    print('opened', flush=True)\nwhile not os.path.exists(sys.argv[2]): time.sleep(0.01)\n\
                    print('reads', flush=True)\nos.pread(file, 1 << 20, 40_000_000)";
