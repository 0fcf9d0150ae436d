//! Sources that cannot be read, targets that change in the middle, and clocks that jump.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use lighthaul_testkit::{lacks_tool, libfaketime};

use crate::far::{Far, Near};
use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{look, names, noise, tree};
use crate::stage::is_skipped;

/// The command without root's permission to read all files.
fn as_anybody(command: &Command) -> Command {
    if !rustix::process::geteuid().is_root() {
        let mut plain = Command::new(command.get_program());
        plain.args(command.get_args());
        return plain;
    }
    let mut shell = Command::new("setpriv");
    let rights = "-dac_override,-dac_read_search";
    shell.args(["--bounding-set", rights, "--inh-caps", rights]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

fn close(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
}

#[test]
fn unreadable_files_are_reported_and_other_files_are_copied() {
    let far = Far::start("unreadable", &[]);
    let folder = far.near.folder("folder");
    for name in ["open", "closed"] {
        fs::write(folder.join(name), name).unwrap();
    }
    let inner = far.near.folder("folder/inner");
    fs::write(inner.join("unseen"), "unseen").unwrap();
    close(&folder.join("closed"));
    close(&inner);
    let run = |source: &Path, name: &str| {
        let place = far.place(name);
        let copy = far.copy(&[], &[source.to_str().unwrap(), &place]);
        let mut copy = as_anybody(&copy);
        copy.env("XDG_CONFIG_HOME", far.near.at("config"));
        far.near.run(copy)
    };
    let outcome = run(&folder, "copy").assert_failed(23, "folder/closed: permission denied");
    let outcome = outcome.assert_failed(23, "folder/inner: permission denied");
    let told = outcome.err.iter().filter(|line| line.contains("denied"));
    assert_eq!(told.count(), 2, "{outcome:?}");
    let left = names(&far.target.join("copy"));
    assert_eq!(left, ["open"], "{outcome:?}");
    run(&folder.join("closed"), "alone").assert_failed(13, "closed: permission denied");
    assert_eq!(far.names(), ["copy"]);
    fs::set_permissions(inner, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn failures_list_is_valid_for_files_from() {
    let far = Far::start("failed-again", &[]);
    let folder = far.near.folder("folder/inner");
    let folder = folder.parent().unwrap();
    for name in ["open", "inner/closed", "inner/open"] {
        fs::write(folder.join(name), name).unwrap();
    }
    close(&folder.join("inner/closed"));
    let failures = far.near.at("failures");
    let run = |options: &[&str]| {
        let note = ["--failures", failures.to_str().unwrap()];
        let options = [options, &note].concat();
        let copy = far.copy(&options, &[folder.to_str().unwrap(), &far.place("copy")]);
        let mut copy = as_anybody(&copy);
        copy.env("XDG_CONFIG_HOME", far.near.at("config"));
        far.near.run(copy)
    };
    run(&[]).assert_failed(23, "inner/closed: permission denied");
    let told = fs::read_to_string(&failures).unwrap();
    assert!(told.contains("\"path\":\"inner/closed\""), "{told:?}");
    fs::set_permissions(
        folder.join("inner/closed"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    run(&["--files-from", failures.to_str().unwrap()]).assert_succeeded();
    assert_eq!(fs::read_to_string(&failures).unwrap(), "");
    assert!(
        tree(folder)
            .into_keys()
            .eq(tree(&far.target.join("copy")).into_keys())
    );
}

#[test]
fn sockets_and_devices_are_skipped_with_a_warning() {
    let far = Far::start("devices", &[]);
    let folder = far.near.folder("folder");
    fs::write(folder.join("file"), "file").unwrap();
    // the path of a socket must be short
    let open = fs::File::open(&folder).unwrap();
    let short = format!("/proc/self/fd/{}/socket", open.as_raw_fd());
    let _socket = UnixListener::bind(short).unwrap();
    let mut device = Command::new("mknod");
    device.arg(folder.join("device")).args(["c", "1", "3"]);
    let device = device.status().unwrap().success();
    let outcome = far.push(&[], &[&folder], "copy").assert_succeeded();
    assert!(outcome.said("socket is a socket"), "{outcome:?}");
    assert!(!device || outcome.said("device is a device"), "{outcome:?}");
    assert_eq!(names(&far.target.join("copy")), ["file"]);
}

/// A tree of a number of files in directories, about in the order in which they are sent.
fn grove(near: &Near, files: u64, len: u64) -> PathBuf {
    let root = near.folder("grove");
    for nth in 0..files {
        let inner = root.join(format!("d{}", nth / 20));
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join(nth.to_string()), noise(len, nth)).unwrap();
    }
    root
}

/// Starts a copy of `source` that takes some seconds, and waits until some of it is published.
fn begun(far: &Far, source: &Path, name: &str, published: impl FnMut() -> bool) -> Running {
    let place = far.place(name);
    let copy = far.copy(
        &["--json", "--rate", "40Mb/s"],
        &[source.to_str().unwrap(), &place],
    );
    let copy = Running::start(copy);
    becomes_true("something is published", published);
    copy
}

/// Returns the number of files below `folder`, and checks that none is hidden.
fn published(folder: &Path) -> usize {
    let files = tree(folder).into_keys();
    let files = files.filter(|path| folder.join(path).is_file());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let hidden = |path: &PathBuf| name(path).starts_with('.');
    let (left, whole): (Vec<_>, Vec<_>) = files.partition(hidden);
    assert!(left.is_empty(), "{left:?}");
    whole.len()
}

#[test]
fn disk_filled_by_other_programs_is_reported_and_finished_files_are_complete() {
    let name = "disk_filled_by_other_programs_is_reported_and_finished_files_are_complete";
    if is_skipped(name) {
        return;
    }
    let far = Far::start_after("filled", "mount -t tmpfs -o size=80m none \"$1\"");
    let inside = format!("/proc/{}/root{}", far.daemon.id(), far.target.display());
    let inside = Path::new(&inside);
    let source = grove(&far.near, 600, 100_000);
    let copy = begun(&far, &source, "copy", || inside.join("copy/d1/39").exists());
    // until the disk is full
    fs::write(inside.join("other"), vec![0; 80 << 20]).unwrap_err();
    copy.finish()
        .assert_failed(11, "the disk is full; free space there");
    let whole = published(&inside.join("copy"));
    assert!((1..600).contains(&whole), "{whole} files");
    for (path, there) in tree(&inside.join("copy")) {
        let path = source.join(path);
        assert!(path.is_dir() || look(&path) == there, "{}", path.display());
    }
    // the copy continues when there is space again
    fs::remove_file(inside.join("other")).unwrap();
    far.push(&["--json"], &[&source], "copy").assert_succeeded();
    assert_eq!(published(&inside.join("copy")), 600);
}

/// Returns true if these programs exist and may mount; otherwise reports the test as skipped.
fn can_mount(test: &str, programs: &[&str]) -> bool {
    !programs.iter().any(|program| lacks_tool(test, program)) && !is_skipped(test)
}

#[test]
fn exhausted_quota_is_reported_and_finished_files_are_complete() {
    let name = "exhausted_quota_is_reported_and_finished_files_are_complete";
    if !can_mount(name, &["mkfs.btrfs", "btrfs"]) {
        return;
    }
    // enough space on the disk, but not for writers below this directory
    let mount = "truncate -s 256M \"$1.disk\"; mkfs.btrfs -q \"$1.disk\"; mount -o loop \"$1.disk\" \"$1\"; rm \"$1.disk\"; \
        btrfs quota enable \"$1\" >&2; btrfs subvolume create \"$1/mine\" >&2; btrfs qgroup limit 24M \"$1/mine\" >&2";
    let far = Far::start_after("quota", mount);
    let inside = format!(
        "/proc/{}/root{}/mine",
        far.daemon.id(),
        far.target.display()
    );
    let inside = Path::new(&inside);
    let large = far.near.file("large", 48 << 20);
    for options in [&[][..], &["--no-udp"]] {
        far.push(options, &[&large], "mine/x")
            .assert_failed(11, "the quota there is used up; free space");
        assert!(names(inside).is_empty(), "{:?}", names(inside));
    }
    let source = grove(&far.near, 400, 100_000);
    let outcome = far.push(&["--rate", "100Mb/s"], &[&source], "mine/copy");
    outcome.assert_failed(11, "the quota there is used up; free space");
    let whole = published(&inside.join("copy"));
    assert!((1..400).contains(&whole), "{whole} files");
    for (path, there) in tree(&inside.join("copy")) {
        let path = source.join(path);
        assert!(path.is_dir() || look(&path) == there, "{}", path.display());
    }
    // the copy continues when there is more space
    let mut more = Command::new("nsenter");
    let daemon = far.daemon.id().to_string();
    more.args([
        "--mount", "--target", &daemon, "btrfs", "qgroup", "limit", "none",
    ]);
    assert!(
        more.arg(far.target.join("mine"))
            .status()
            .unwrap()
            .success()
    );
    far.push(&[], &[&source], "mine/copy").assert_succeeded();
    assert_eq!(published(&inside.join("copy")), 400);
}

#[test]
fn colliding_names_on_a_case_insensitive_target_are_reported() {
    let name = "colliding_names_on_a_case_insensitive_target_are_reported";
    if !can_mount(name, &["mkntfs", "lowntfs-3g"]) {
        return;
    }
    let mount = "truncate -s 32M \"$1.disk\"; mkntfs -qfF \"$1.disk\" >&2; \
        lowntfs-3g -o ignore_case \"$1.disk\" \"$1\"; rm \"$1.disk\"";
    let far = Far::start_after("folded", mount);
    let inside = format!("/proc/{}/root{}", far.daemon.id(), far.target.display());
    let source = far.near.folder("source");
    for (name, bytes) in [("Readme", "upper"), ("readme", "lower"), ("other", "other")] {
        fs::write(source.join(name), bytes).unwrap();
    }
    let outcome = far.push(&[], &[&source], "copy");
    let outcome = outcome.assert_failed(
        23,
        "differs only in case from another name in its directory",
    );
    let (taken, told) = if outcome.said("copy/readme differs") {
        ("Readme", "readme")
    } else {
        ("readme", "Readme")
    };
    assert!(outcome.said(&format!("copy/{told} differs")), "{outcome:?}");
    let copy = Path::new(&inside).join("copy");
    // there are two names, in any form
    assert_eq!(names(&copy).len(), 2, "{outcome:?}");
    let bytes = fs::read(copy.join("readme")).unwrap();
    assert_eq!(bytes, fs::read(source.join(taken)).unwrap());
}

#[test]
fn directory_swapped_for_a_link_during_a_copy_is_refused() {
    for (name, landing) in [("swapped-inside", false), ("swapped-landing", true)] {
        let far = Far::start(name, &["--root", "ROOT"]);
        let outside = far.near.folder("outside");
        fs::write(outside.join("known"), "known").unwrap();
        let source = grove(&far.near, 300, 100_000);
        let place = format!("lh://127.0.0.1:{}/copy", far.port);
        let copy = far.copy(
            &["--json", "--rate", "40Mb/s"],
            &[source.to_str().unwrap(), &place],
        );
        let copy = Running::start(copy);
        becomes_true("something is published", || {
            far.target.join("copy/d1/39").exists()
        });
        let victims: Vec<_> = (if landing { 0..1 } else { 2..15 })
            .map(|nth| {
                let inner = format!("copy/d{nth}");
                far.target.join(if landing { "copy" } else { &inner })
            })
            .collect();
        for victim in victims.iter().filter(|victim| victim.exists()) {
            fs::rename(victim, victim.with_extension("away")).unwrap();
            symlink(&outside, victim).unwrap();
        }
        let outcome = copy.finish();
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.said("lighthaul: "), "{outcome:?}");
        assert_eq!(names(&outside), ["known"], "{outcome:?}");
        assert_eq!(fs::read(outside.join("known")).unwrap(), b"known");
    }
}

#[test]
fn clock_jumps_do_not_affect_a_copy() {
    let name = "clock_jumps_do_not_affect_a_copy";
    let Some(library) = libfaketime(name) else {
        return;
    };
    let near = Near::new("clocks", None);
    let told = near.at("told");
    // written under another name and renamed, since the process reads it all the time
    let tell = |time: &str| {
        fs::write(near.at("telling"), time).unwrap();
        fs::rename(near.at("telling"), &told).unwrap();
    };
    tell("+0");
    let fake_clock = |command: &mut Command| {
        command
            .env("LD_PRELOAD", &library)
            .env("FAKETIME_TIMESTAMP_FILE", &told)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1");
    };
    let far = Far::start_as("clocks-far", fake_clock);
    let file = near.file("x", 20_000_000);
    let place = far.place("x");
    let mut copy = far.copy(
        &["--json", "--rate", "40Mb/s"],
        &[file.to_str().unwrap(), &place],
    );
    fake_clock(&mut copy);
    let mut copy = Running::start(copy);
    copy.prints("\"type\":\"progress\"");
    for (nth, time) in ["+3d", "-400d", "+10y", "-1h"].into_iter().enumerate() {
        tell(time);
        if nth == 2 {
            let mut date = Command::new("date");
            fake_clock(date.arg("+%Y"));
            let output = date.output().unwrap().stdout;
            let year: u32 = String::from_utf8(output).unwrap().trim().parse().unwrap();
            assert!(year > 2034, "the daemon has the wrong time: {year}");
        }
        let pause = Command::new("sleep").arg("0.5").status();
        assert!(pause.unwrap().success());
    }
    let outcome: Outcome = copy.finish().assert_succeeded();
    let seconds = outcome.events().pop().unwrap()["moving_s"]
        .as_f64()
        .unwrap();
    // twenty megabytes at forty megabits a second take four
    assert!(seconds > 3.9, "{seconds} s");
    assert!(look(&far.target.join("x")) == look(&file));
    assert_eq!(far.names(), ["x"]);
}
