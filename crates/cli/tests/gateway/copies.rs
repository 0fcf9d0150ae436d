//! Copies with `lighthaul cp` through two gateways: complete, refused, interrupted and resumed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::pair::{PROGRAM, Pair, SOCKS, say};
use crate::running::{Outcome, Running, becomes_true};
use crate::schema::assert_valid;
use crate::scratch::{Scratch, dress, look, names, tree};
use lighthaul_testkit::allowance;

/// A pair of gateways, and a daemon on `b` that is reached only through it.
#[derive(Debug)]
struct Site {
    _daemon: Running,
    pair: Pair,
    pin: String,
    /// Root of the daemon.
    there: PathBuf,
}

impl Site {
    /// Starts all, or returns `None` if no lab is possible here.
    fn start(name: &str) -> Option<Self> {
        Self::start_with(name, &[])
    }

    /// Starts a site with further options for the gateway near the caller.
    fn start_with(name: &str, ingress: &[&str]) -> Option<Self> {
        let pair = Pair::start_with(name, ingress, &[])?;
        let at = |name: &str| pair.scratch.at(name).to_str().unwrap().to_owned();
        let caller = say(&["key", "--key", &at("caller-key")]);
        let pin = say(&["key", "--key", &at("host-key")]);
        say(&["allow", &caller, "caller", "--allowed", &at("callers")]);
        let there = pair.scratch.folder("there");
        let mut serve = pair.stage.lab.command("b", PROGRAM).unwrap();
        serve
            .args(["serve", "--listen", DAEMON, "--plain", "--root"])
            .arg(&there)
            .args(["--key", &at("host-key"), "--allowed", &at("callers")])
            .env("XDG_CONFIG_HOME", at("config"));
        let mut daemon = Running::start(serve);
        daemon.says("listening on ");
        let others = "iifname != lo meta l4proto { tcp, udp } th dport != 4810";
        pair.stage.block("b", others);
        Some(Self {
            _daemon: daemon,
            pair,
            pin,
            there,
        })
    }

    /// Returns the command on `a`, with the gateway there configured.
    fn lighthaul(&self, words: &[&str]) -> Command {
        let mut command = self.pair.stage.lab.command("a", PROGRAM).unwrap();
        command
            .args(words)
            .args(["--pin", &self.pin, "--key"])
            .arg(self.pair.scratch.at("caller-key"))
            .env("XDG_CONFIG_HOME", self.pair.scratch.at("config"))
            .env("LIGHTHAUL_GATEWAY", SOCKS);
        command
    }

    fn run(&self, words: &[&str]) -> Outcome {
        Running::start(self.lighthaul(words)).finish()
    }

    /// Copies, once.
    fn cp(&self, options: &[&str], paths: &[&str]) -> Outcome {
        self.run(&[&["cp", "--retries", "0"], options, paths].concat())
    }
}

#[test]
fn copies_through_gateways_work_in_both_directions() {
    let name = "copies_through_gateways_work_in_both_directions";
    let Some(site) = Site::start(name) else {
        return;
    };
    let scratch = &site.pair.scratch;
    let source = scratch.folder("source");
    for nth in 0..40_u64 {
        let file = scratch.file(&format!("source/{nth}"), nth * nth * 1000);
        dress(&file, 0o640, 1_600_000_000 + nth);
    }
    let file = scratch.file("file", 3_000_000);
    let (source, file) = (source.to_str().unwrap(), file.to_str().unwrap());
    let mut soonest = f64::INFINITY;
    for (nth, (options, protocol)) in [
        (&[][..], "tcp"),
        (&["--protocol", "auto"], "tcp"),
        (&["--streams", "3"], "ptcp"),
    ]
    .into_iter()
    .enumerate()
    {
        let options = [options, &["--json", "-T"]].concat();
        let [tree_name, file_name] = ["tree", "file"].map(|name| format!("{name}{nth}"));
        let [tree_there, file_there] =
            [&tree_name, &file_name].map(|name| format!("lh://b:4811/{name}"));
        let [tree_back, file_back] =
            [&tree_name, &file_name].map(|name| scratch.at(&format!("back-{name}")));
        for (paths, ours) in [
            ([source, &tree_there], &site.there.join(&tree_name)),
            ([&tree_there, tree_back.to_str().unwrap()], &tree_back),
        ] {
            let outcome = site.cp(&options, &paths).assert_succeeded();
            assert!(tree(ours) == tree(source.as_ref()), "{paths:?}");
            soonest = soonest.min(assert_carried(&outcome, protocol));
        }
        for (paths, ours) in [
            ([file, &file_there], &site.there.join(&file_name)),
            ([&file_there, file_back.to_str().unwrap()], &file_back),
        ] {
            let outcome = site.cp(&options, &paths).assert_succeeded();
            assert!(look(ours) == look(file.as_ref()), "{paths:?}");
            soonest = soonest.min(assert_carried(&outcome, protocol));
        }
    }
    // a wait for datagrams would occur in each copy
    assert!(soonest < 1.2, "each began after {soonest} s or more");
}

/// Asserts that this protocol carried a copy and that the command reported it. Returns its start-up in seconds.
fn assert_carried(outcome: &Outcome, protocol: &str) -> f64 {
    let events = assert_valid(outcome);
    let of = |kind: &str| {
        let found = events.iter().find(|event| event["type"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}: {outcome:?}"))
    };
    assert_eq!(of("choice")["protocol"], protocol);
    let told = format!("lighthaul: {protocol} carries the data, through the gateway at {SOCKS}");
    assert!(outcome.said(&told), "{outcome:?}");
    assert_eq!(of("start")["protocol"], protocol);
    assert_eq!(of("summary")["verified"], true);
    of("start")["startup_s"].as_f64().unwrap()
}

#[test]
fn copy_reports_an_unreachable_target() {
    let Some(site) = Site::start("copy_reports_an_unreachable_target") else {
        return;
    };
    let file = site.pair.scratch.file("file", 10);
    let file = file.to_str().unwrap();
    let elsewhere = ["--gateway", "127.0.0.1:1081"];
    let vector = ["--trc", "0s-2s 4Mb/s"];
    for (options, target, code, words) in [
        (
            &[][..],
            "lh://10.77.0.1:4811/x",
            13,
            "the gateway does not allow this target",
        ),
        (
            &[],
            "lh://b:4812/x",
            10,
            "refused the connection; is `lighthaul serve` running there?",
        ),
        (
            &[],
            "lh://absent.invalid/x",
            10,
            "name cannot be resolved at the gateway",
        ),
        (
            &elsewhere,
            "lh://b:4811/x",
            10,
            "is `lighthaul gateway --socks` running there?",
        ),
        (
            &["--protocol", "sabul"],
            "lh://b:4811/x",
            1,
            "--protocol sabul needs datagrams",
        ),
        (
            &["--protocol", "rbudp"],
            "lh://b:4811/x",
            1,
            "--protocol rbudp needs datagrams",
        ),
        (&vector, "lh://b:4811/x", 1, "circuits need datagrams"),
    ] {
        let outcome = site.cp(options, &[file, target]);
        let outcome = outcome.assert_failed(code, words);
        assert!(outcome.time < allowance(8), "{outcome:?}");
    }
    site.cp(&[], &["lh://b:4811/x", "lh://a/x"])
        .assert_failed(1, "between two remote hosts");
    site.cp(&["--gateway", "1080"], &[file, "lh://b:4811/x"])
        .assert_failed_to_parse();
    assert!(!site.there.join("x").exists());
}

#[test]
fn other_commands_work_through_gateways() {
    let Some(site) = Site::start("other_commands_work_through_gateways") else {
        return;
    };
    site.run(&["mkdir", "-p", "lh://b:4811/a/b"])
        .assert_succeeded();
    let listed = site.run(&["ls", "lh://b:4811/a"]).assert_succeeded();
    assert_eq!(listed.out, ["b"]);
    site.run(&["stat", "lh://b:4811/a"]).assert_succeeded();
    site.run(&["rm", "-r", "lh://b:4811/a"]).assert_succeeded();
    assert!(!site.there.join("a").exists());

    let words = ["probe", "--json", "--size", "1MiB", "--what"];
    let probed = site.run(&[&words[..], &["all", "lh://b:4811/"]].concat());
    let events = assert_valid(&probed.assert_succeeded());
    let measured: Vec<_> = events.iter().map(|event| &event["what"]).collect();
    assert_eq!(measured, ["tcp", "ptcp"]);
    site.run(&[&words[..], &["copy", "lh://b:4811/"]].concat())
        .assert_failed(1, "network and copy needs datagrams");

    let lines = site.pair.scratch.at("lines");
    fs::write(&lines, "one\ntwo\n").unwrap();
    let times = [(); 3].map(|()| {
        fs::write(site.there.join("heard"), "").unwrap();
        let streamed = site
            .run(&["stream", lines.to_str().unwrap(), "lh://b:4811/heard"])
            .assert_succeeded();
        let heard = fs::read_to_string(site.there.join("heard")).unwrap();
        assert_eq!(heard, "one\ntwo\n");
        streamed.time
    });
    // a wait for datagrams would occur each time, a busy machine only sometimes
    let soonest = times.into_iter().min().unwrap();
    assert!(
        soonest < allowance(1) + Duration::from_millis(400),
        "{times:?}"
    );
}

#[test]
fn copy_resumes_after_the_egress_is_killed() {
    let name = "copy_resumes_after_the_egress_is_killed";
    let Some(mut site) = Site::start(name) else {
        return;
    };
    let file = site.pair.scratch.file("large", LARGE);
    let back = site.pair.scratch.folder("back");
    let place = "lh://b:4811/large";
    let (here, there) = (file.to_str().unwrap(), site.there.clone());
    for (paths, folder) in [
        ([here, place], there),
        ([place, back.join("large").to_str().unwrap()], back.clone()),
    ] {
        let slowly = ["cp", "--retries", "0", "--json", "--rate", "40Mb/s"];
        let words = [&slowly[..], &paths].concat();
        let copy = Running::start(site.lighthaul(&words));
        becomes_true("some of it is proved", || records(&folder) >= 2);
        site.pair.kill_egress();
        site.pair.restart_egress();
        copy.finish().assert_failed(10, "the connection to");
        assert!(!folder.join("large").exists());
        let outcome = site.run(&words).assert_succeeded();
        assert_went_on(&outcome, &folder, &file);
    }
}

#[test]
fn retry_replaces_the_attempt_that_the_daemon_still_serves() {
    let name = "retry_replaces_the_attempt_that_the_daemon_still_serves";
    let Some(mut site) = Site::start(name) else {
        return;
    };
    let file = site.pair.scratch.file("large", LARGE);
    let slowly = ["cp", "--retries", "9", "--json", "--rate", "40Mb/s"];
    let paths = [file.to_str().unwrap(), "lh://b:4811/large"];
    let words = [&slowly[..], &paths].concat();
    let copy = Running::start(site.lighthaul(&words));
    becomes_true("some of it is proved", || records(&site.there) >= 2);
    site.pair.ingress.kill();
    site.pair.restart_ingress();
    let outcome = copy.finish().assert_succeeded();
    assert!(outcome.said("retrying in 1 s"), "{outcome:?}");
    // the bytes of both attempts together
    assert_moved_less(&outcome, LARGE + (4 << 20));
    assert_is_there(&outcome, &site.there, &file);
}

#[test]
fn repeated_command_waits_for_the_attempt_that_the_daemon_still_serves() {
    let name = "repeated_command_waits_for_the_attempt_that_the_daemon_still_serves";
    let Some(mut site) = Site::start(name) else {
        return;
    };
    let file = site.pair.scratch.file("large", LARGE);
    let options = ["--json", "--rate", "40Mb/s", "--stall-timeout", "6s"];
    let paths = [file.to_str().unwrap(), "lh://b:4811/large"];
    let words = [&["cp", "--retries", "0"][..], &options, &paths].concat();
    let copy = Running::start(site.lighthaul(&words));
    becomes_true("some of it is proved", || records(&site.there) >= 2);
    site.pair.ingress.kill();
    copy.finish().assert_failed(10, "the connection to");
    site.pair.restart_ingress();
    let outcome = site.cp(&options, &paths).assert_succeeded();
    assert!(
        outcome.said("waiting up to 6 s for another copy that is writing"),
        "{outcome:?}"
    );
    assert_went_on(&outcome, &site.there, &file);
}

/// Asserts that the target has only this file, and that the parts in its journal were not sent again.
fn assert_went_on(outcome: &Outcome, folder: &Path, file: &Path) {
    assert_is_there(outcome, folder, file);
    assert_moved_less(outcome, LARGE - (8 << 20) + 1);
}

/// Asserts that the target has only this file.
fn assert_is_there(outcome: &Outcome, folder: &Path, file: &Path) {
    assert!(look(&folder.join("large")) == look(file), "{outcome:?}");
    assert_eq!(names(folder), ["large"]);
}

/// Asserts that fewer bytes than `most` were sent.
fn assert_moved_less(outcome: &Outcome, bytes: u64) {
    let events = assert_valid(outcome);
    let moved = events.last().unwrap()["bytes_moved"].as_u64().unwrap();
    assert!(moved < bytes, "{moved} bytes were sent again");
}

/// Returns the number of ranges in the journal of a file in `folder`.
fn records(folder: &Path) -> u64 {
    let names = names(folder).into_iter();
    let journals = names.filter(|name| name.ends_with(".journal"));
    let lens = journals.map(|name| fs::metadata(folder.join(name)).map_or(0, |meta| meta.len()));
    lens.map(|len| len.saturating_sub(40) / 22).sum()
}

#[test]
fn ssh_copy_works_through_gateways() {
    let name = "ssh_copy_works_through_gateways";
    let Some(site) = Site::start(name) else {
        return;
    };
    let scratch = &site.pair.scratch;
    let script = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = -G ]; then echo hostname b; exit 0; fi\n\
         shift 2; cd '{}'; exec {PROGRAM} lab on b -- \"$@\"\n",
        site.there.display()
    );
    fs::write(scratch.at("ssh"), script).unwrap();
    fs::set_permissions(scratch.at("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    let file = scratch.file("file", 1_000_000);
    let ssh = scratch.at("ssh");
    let ssh = ["-e", ssh.to_str().unwrap(), "--remote", PROGRAM];
    let outcome = site.cp(&ssh, &[file.to_str().unwrap(), "b:x"]);
    let outcome = outcome.assert_succeeded();
    assert!(outcome.said("through the gateway at"), "{outcome:?}");
    assert!(look(&site.there.join("x")) == look(&file));
}

#[test]
fn gateway_password_is_required() {
    let name = "gateway_password_is_required";
    let scratch = Scratch::new("gateways-password");
    let credentials = scratch.at("credentials");
    fs::write(&credentials, "alice:s@cret\n").unwrap();
    fs::set_permissions(&credentials, fs::Permissions::from_mode(0o600)).unwrap();
    let options = ["--credentials", credentials.to_str().unwrap()];
    let Some(site) = Site::start_with(name, &options) else {
        return;
    };
    let ls = ["ls", "lh://b:4811/"];
    site.run(&ls).assert_failed(
        13,
        "requires a name and a password: write NAME:PASSWORD@127.",
    );
    let said = |who: &str, words: &[&str]| {
        let mut command = site.lighthaul(words);
        command.env("LIGHTHAUL_GATEWAY", format!("{who}@{SOCKS}"));
        Running::start(command).finish()
    };
    said("alice:other", &ls).assert_failed(13, "rejects the name or the password");
    said("alice:s@cret", &ls).assert_succeeded();
    // an unreadable reply is not repeated to the user
    let mut unread = site.lighthaul(&ls);
    unread.env("LIGHTHAUL_GATEWAY", "alice:s@cret@nowhere");
    let unread = Running::start(unread).finish();
    assert!(unread.said("invalid value for '--gateway"), "{unread:?}");
    assert!(!unread.said("s@cret"), "{unread:?}");
    let file = scratch.file("file", 100_000);
    let words = [
        "cp",
        "--streams",
        "2",
        file.to_str().unwrap(),
        "lh://b:4811/x",
    ];
    let outcome = said("alice:s@cret", &words).assert_succeeded();
    assert!(!outcome.said("s@cret"), "{outcome:?}");
    assert!(look(&site.there.join("x")) == look(&file));
}

#[test]
fn doctor_works_through_gateways() {
    let Some(mut site) = Site::start("doctor_works_through_gateways") else {
        return;
    };
    let doctor = |site: &Site, host: &str| {
        let events = assert_valid(&site.run(&["doctor", "--json", host]));
        let lines = events.iter().map(|event| {
            let [name, outcome, text] = ["name", "outcome", "text"].map(|key| event[key].as_str());
            let line = [name.unwrap_or("all"), outcome.unwrap(), text.unwrap()];
            line.join(" ")
        });
        lines.collect::<Vec<_>>()
    };
    let lines = doctor(&site, "b:4811");
    let names: Vec<_> = lines
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let steps = [
        "gateway", "tls", "key", "allowed", "version", "clock", "rtt", "udp", "all",
    ];
    assert_eq!(names, steps, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains(" ok ")), "{lines:?}");
    let refused = doctor(&site, "10.77.0.1:4811");
    assert!(
        refused[0].starts_with("gateway fail cannot reach 10.77.0.1:4811"),
        "{refused:?}"
    );
    assert!(
        refused[0].contains("does not allow this target"),
        "{refused:?}"
    );
    site.pair.ingress.kill();
    // the kernel may close the socket of a killed process a moment later
    becomes_true("the doctor reports that no process listens there", || {
        let gone = doctor(&site, "b:4811");
        gone[0].contains("is `lighthaul gateway --socks` running there?")
    });
}

/// Address of the daemon.
const DAEMON: &str = "10.77.0.2:4811";
/// Bytes of a file that takes some objects of 4 MiB.
const LARGE: u64 = 40 << 20;
