//! Clients whose key is not listed: tokens, and statements of an authority.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use lighthaul_io::host::clock::unix_nanos;
use lighthaul_testkit::{allowance, report};

use crate::booking::Booking;
use crate::far::Far;
use crate::running::{Outcome, Running};

/// Daemon with a list of tokens, and a client with a key that is not listed.
struct Stranger {
    far: Far,
    file: PathBuf,
}

impl Stranger {
    fn at(name: &str) -> Self {
        let far = Far::start(name, &["--tokens", "TOKENS"]);
        let file = far.near.file("x", 10);
        Self { far, file }
    }

    /// The first line that a command prints.
    fn line(&self, words: &[&str]) -> String {
        let near = &self.far.near;
        near.run(near.lighthaul(words)).assert_succeeded().out[0].clone()
    }

    /// Makes a token with `options`.
    fn token(&self, options: &[&str]) -> String {
        let tokens = self.far.near.at("tokens");
        let words = ["token", "robot", "--tokens", tokens.to_str().unwrap()];
        self.line(&[&words, options].concat())
    }

    /// A statement for the caller's key, or for another, that `authority` signed.
    fn statement(&self, authority: &str, key: &str, options: &[&str]) -> String {
        let near = &self.far.near;
        let subject = self.line(&["key", "--key", near.at(key).to_str().unwrap()]);
        let authority = near.at(authority);
        let words = [
            "sign",
            &subject,
            "robot",
            "--key",
            authority.to_str().unwrap(),
        ];
        let text = self.line(&[&words, options].concat());
        fs::write(near.at("statement"), &text).unwrap();
        near.at("statement").to_str().unwrap().to_owned()
    }

    /// Lists an authority.
    fn believe(&self, authority: &str, options: &str) {
        let near = &self.far.near;
        let key = self.line(&["key", "--key", near.at(authority).to_str().unwrap()]);
        fs::write(near.allowed(), format!("ca {key} lab {options}\n")).unwrap();
    }

    /// A copy of the file to `path` at the daemon, or of that to here.
    fn copy(&self, options: &[&str], path: &str, back: bool) -> Outcome {
        let near = &self.far.near;
        let (mut copy, place) = self.called(options, path);
        if back {
            copy.arg(place).arg(near.at("back"));
        } else {
            copy.arg(&self.file).arg(place);
        }
        near.run(copy)
    }

    /// A copy with the stranger's key and without paths, and the place of `path` at the daemon.
    fn called(&self, options: &[&str], path: &str) -> (Command, String) {
        let near = &self.far.near;
        let mut copy = near.cp(options);
        copy.args(["--pin", &self.far.pin, "--key"])
            .arg(near.at("stranger"));
        (copy, format!("lh://127.0.0.1:{}/{path}", self.far.port))
    }

    /// Begins a copy that takes half a minute, calls `change`, and asserts that the copy ends within five seconds with
    /// this error.
    fn assert_ends(&self, options: &[&str], what: &str, change: impl FnOnce(), words: &str) {
        let file = self.far.near.file("large", 60 << 20);
        let slowly = ["--json", "--rate", "20Mb/s", "--retries", "0"];
        let (mut copy, place) = self.called(&[&slowly, options].concat(), "large");
        copy.arg(file).arg(place);
        let mut copy = Running::start(copy);
        copy.prints("\"type\":\"progress\"");
        change();
        let outcome = copy.finish().assert_failed(13, words);
        report(format_args!(
            "{what}: the copy ended after {:?}",
            outcome.time
        ));
        assert!(outcome.time < allowance(5), "{what}: {outcome:?}");
        assert!(!self.far.names().contains(&"large".to_owned()), "{what}");
    }
}

/// Makes a narrower line of the line of a token.
type Narrowed = fn(&str) -> String;

#[test]
fn narrowed_token_ends_a_running_session_within_five_seconds() {
    let narrow: [(&str, &str, Narrowed); 4] = [
        ("a removed token", "your token is not known there", |_| {
            String::new()
        }),
        (
            "a token that may only read",
            "your key may only read there",
            |line| format!("{line} ro\n"),
        ),
        (
            "a token with another root",
            "the operator of the daemon changed the root directory of your key",
            |line| format!("{line} root=/nowhere\n"),
        ),
        (
            "a token that has expired",
            "your rights there have expired",
            |line| format!("{line} expires=1\n"),
        ),
    ];
    let it = Stranger::at("token-narrowed");
    let (list, root) = (it.far.near.at("tokens"), it.far.target.clone());
    for (what, words, narrowed) in narrow {
        fs::write(&list, "").unwrap();
        let token = it.far.near.at("token");
        fs::write(&token, it.token(&["--root", root.to_str().unwrap()])).unwrap();
        let whole = fs::read_to_string(&list).unwrap();
        let shown = ["--token-file", token.to_str().unwrap()];
        let change = || fs::write(&list, narrowed(whole.trim_end())).unwrap();
        it.assert_ends(&shown, what, change, words);
    }
}

#[test]
fn narrowed_authority_ends_a_running_session_within_five_seconds() {
    let it = Stranger::at("authority-narrowed");
    let allowed = it.far.near.allowed();
    let root = it.far.target.display().to_string();
    let beneath = format!("root={root}");
    it.believe("authority", &beneath);
    let statement = it.statement("authority", "stranger", &[]);
    let shown = ["--statement", statement.as_str()];
    let cases: [(&str, &str, &dyn Fn()); 4] = [
        ("a removed authority", "not an authority there", &|| {
            fs::write(&allowed, "").unwrap();
        }),
        (
            "another authority instead",
            "not an authority there",
            &|| it.believe("other-authority", &beneath),
        ),
        (
            "an authority that may only read",
            "your key may only read there",
            &|| it.believe("authority", &format!("{beneath} ro")),
        ),
        (
            "an authority that has expired",
            "your rights there have expired",
            &|| it.believe("authority", &format!("{beneath} expires=1")),
        ),
    ];
    for (what, words, change) in cases {
        it.believe("authority", &beneath);
        it.assert_ends(&shown, what, change, words);
    }
}

/// Rights that end by themselves: no list changes.
#[test]
fn expired_credential_ends_a_running_session_within_five_seconds() {
    let it = Stranger::at("credential-expires");
    let root = it.far.target.display().to_string();
    it.believe("authority", &format!("root={root}"));
    let source = it.far.near.file("large", 60 << 20);
    let begin = |name: &str, shown: [&str; 2]| {
        let slowly = ["--json", "--rate", "20Mb/s", "--retries", "0"];
        let (mut copy, place) = it.called(&[&slowly[..], &shown].concat(), name);
        copy.arg(&source).arg(place);
        let mut copy = Running::start(copy);
        copy.prints("\"type\":\"start\"");
        copy
    };
    let token = it.far.near.at("token");
    fs::write(&token, it.token(&["--root", &root])).unwrap();
    let by_token = begin("token", ["--token-file", token.to_str().unwrap()]);
    let statement = it.statement("authority", "stranger", &["--expires", "6s"]);
    let by_statement = begin("statement", ["--statement", &statement]);
    let list = it.far.near.at("tokens");
    let line = fs::read_to_string(&list).unwrap();
    let soon = unix_nanos() / 1_000_000_000 + 4;
    fs::write(&list, format!("{} expires={soon}\n", line.trim_end())).unwrap();
    for (copy, words) in [
        (by_token, "your rights there have expired"),
        (by_statement, "it has expired"),
    ] {
        let outcome = copy.finish().assert_failed(13, words);
        report(format_args!(
            "{words}: the copy ended after {:?}",
            outcome.time
        ));
        assert!(outcome.time < allowance(6 + 5), "{outcome:?}");
    }
    let names = it.far.names();
    assert!(names.iter().all(|name| name.starts_with('.')), "{names:?}");
}

#[test]
fn token_admits_its_bearer_and_is_not_stored() {
    let mut it = Stranger::at("token");
    let root = it.far.target.to_str().unwrap().to_owned();
    let token = it.token(&["--root", &root]);
    let file = it.far.near.at("token");
    fs::write(&file, format!("{token}\n")).unwrap();
    let shown = ["--token-file", file.to_str().unwrap()];
    it.copy(&[], "y", false)
        .assert_failed(13, "your key is not allowed there");
    it.copy(&shown, "y", false).assert_succeeded();
    it.copy(&shown, "../y", false)
        .assert_failed(13, "leaves the root");
    assert_eq!(it.far.names(), ["y"]);
    // a listed key needs no token, and is accepted also with a wrong one
    let mut known = it
        .far
        .copy(&[], &[it.file.to_str().unwrap(), &it.far.place("z")]);
    known.env("LIGHTHAUL_TOKEN", "nonsense");
    it.far.near.run(known).assert_succeeded();

    fs::write(&file, it.token(&["--root", &root, "--read-only"])).unwrap();
    it.copy(&shown, "n", false)
        .assert_failed(13, "may only read there");
    it.copy(&shown, "y", true).assert_succeeded();
    fs::write(&file, it.token(&["--expires", "0s"])).unwrap();
    it.copy(&shown, "n", false).assert_failed(13, "expired");
    fs::write(&file, "lht_guess").unwrap();
    it.copy(&shown, "n", false)
        .assert_failed(13, "your token is not known there");
    fs::write(&file, "x".repeat(5000)).unwrap();
    it.copy(&shown, "n", false)
        .assert_failed(13, "your key is not allowed there");
    assert_eq!(it.far.names(), ["y", "z"]);

    let kept = fs::read_to_string(it.far.near.at("tokens")).unwrap();
    assert!(kept.contains("robot") && !kept.contains(&token), "{kept}");
    it.far.daemon.signal("TERM");
    it.far.daemon.says("stopping");
    let log = it.far.daemon.finish().err.join("\n");
    assert!(log.contains("robot") && !log.contains("lht_"), "{log}");
}

/// A malformed line is logged, and a later line cannot admit its token.
#[test]
fn token_with_a_malformed_line_is_not_admitted() {
    let mut it = Stranger::at("token-malformed");
    let root = it.far.target.to_str().unwrap().to_owned();
    let (list, file) = (it.far.near.at("tokens"), it.far.near.at("token"));
    fs::write(&file, it.token(&["--root", &root])).unwrap();
    let shown = ["--token-file", file.to_str().unwrap()];
    let good = fs::read_to_string(&list).unwrap();
    let bad = good.replace(" root=", " rot=");
    assert_ne!(bad, good);
    for lines in [bad.clone(), format!("{bad}{good}")] {
        fs::write(&list, lines).unwrap();
        it.copy(&shown, "n", false)
            .assert_failed(13, "your token is not known there");
    }
    it.far.daemon.says("tokens, line 1: ");
    // other lines are valid
    let other = it.far.near.at("other");
    fs::write(&other, it.token(&["--root", &root])).unwrap();
    let shown_other = ["--token-file", other.to_str().unwrap()];
    it.copy(&shown_other, "y", false).assert_succeeded();
    fs::write(&list, good).unwrap();
    it.copy(&shown, "z", false).assert_succeeded();
    assert_eq!(it.far.names(), ["y", "z"]);
}

/// The same for the line of an authority.
#[test]
fn statements_of_an_authority_with_a_malformed_line_are_refused() {
    let mut it = Stranger::at("authority-malformed");
    let root = it.far.target.to_str().unwrap().to_owned();
    let statement = it.statement("authority", "stranger", &[]);
    let shown = ["--statement", statement.as_str()];
    let allowed = it.far.near.allowed();
    it.believe("authority", &format!("rot={root}"));
    let bad = fs::read_to_string(&allowed).unwrap();
    it.believe("authority", &format!("root={root}"));
    let good = fs::read_to_string(&allowed).unwrap();
    for lines in [bad.clone(), format!("{bad}{good}")] {
        fs::write(&allowed, lines).unwrap();
        it.copy(&shown, "n", false)
            .assert_failed(13, "not an authority there");
    }
    it.far.daemon.says("allowed, line 1: ");
    fs::write(&allowed, good).unwrap();
    it.copy(&shown, "y", false).assert_succeeded();
    assert_eq!(it.far.names(), ["y"]);
}

#[test]
fn token_is_not_sent_to_an_unknown_daemon() {
    let it = Stranger::at("token-unmet");
    let near = &it.far.near;
    let mut copy = near.cp(&[]);
    copy.env("LIGHTHAUL_TOKEN", it.token(&[]));
    copy.arg(&it.file).arg(it.far.place("y"));
    near.run(copy)
        .assert_failed(13, "is not known here: compare it with");
    assert!(it.far.names().is_empty());
}

#[test]
fn token_is_sent_only_to_its_service() {
    let it = Stranger::at("token-split");
    let booking = Booking::start("token-split-books", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    let robot = it.token(&[]);
    let near = &it.far.near;
    let list = |variable: &str, token: &str| {
        let mut list = near.lighthaul(&["reservations", "--scheduler", &booking.url]);
        list.env(variable, token);
        near.run(list)
    };
    list("LIGHTHAUL_SCHEDULER_TOKEN", &ada).assert_succeeded();
    for variable in ["LIGHTHAUL_TOKEN", "LIGHTHAUL_TOKEN_FILE"] {
        list(variable, &ada).assert_failed(13, "no token given");
    }
    let copy = |tokens: &[(&str, &str)], options: &[&str]| {
        let mut copy = near.cp(options);
        let place = format!("lh://127.0.0.1:{}/y", it.far.port);
        copy.args(["--pin", &it.far.pin, "--key"])
            .arg(near.at("stranger"));
        copy.args(["--scheduler", &booking.url])
            .args(["--node", "paris", "--far-node", "milan"]);
        copy.envs(tokens.iter().copied()).arg(&it.file).arg(place);
        near.run(copy)
    };
    let scheduler = ("LIGHTHAUL_SCHEDULER_TOKEN", ada.as_str());
    let daemon = ("LIGHTHAUL_TOKEN", robot.as_str());
    // a daemon that received a token would report that it is unknown
    for options in [&[][..], &["--book"]] {
        copy(&[scheduler], options).assert_failed(13, "your key is not allowed there");
    }
    copy(&[daemon], &["--book"]).assert_failed(13, "no token given");
    let file = near.file("robot", 0);
    fs::write(&file, &robot).unwrap();
    let shown = ["--book", "--token-file", file.to_str().unwrap()];
    copy(&[], &shown).assert_failed(13, "no token given");
    copy(&[scheduler, daemon], &["--book"]).assert_succeeded();
}

#[test]
fn statement_admits_its_key_with_the_rights_of_its_authority() {
    let it = Stranger::at("statement");
    let target = it.far.target.clone();
    for folder in ["data", "data/robot", "other"] {
        it.far.near.folder(&format!("target/{folder}"));
    }
    it.believe(
        "authority",
        &format!("root={}", target.join("data").display()),
    );
    let statement = it.statement("authority", "stranger", &["--root", "robot"]);
    let shown = ["--statement", statement.as_str()];
    it.copy(&shown, "y", false).assert_succeeded();
    assert!(target.join("data/robot/y").exists());
    // without a root of its own, the statement has the root of its authority
    it.statement("authority", "stranger", &["--read-only"]);
    it.copy(&shown, "robot/y", true).assert_succeeded();
    it.copy(&shown, "n", false)
        .assert_failed(13, "may only read there");

    std::os::unix::fs::symlink(target.join("other"), target.join("data/link")).unwrap();
    for (out, code, words) in [
        ("../other", 13, "leaves the root"),
        ("link", 13, "leaves the root"),
        ("missing", 3, "cannot open the root"),
    ] {
        it.statement("authority", "stranger", &["--root", out]);
        it.copy(&shown, "n", false).assert_failed(code, words);
    }
    it.statement("authority", "somebody-else", &[]);
    it.copy(&shown, "n", false)
        .assert_failed(13, "it was made for another key");
    it.statement("authority", "stranger", &["--expires", "0s"]);
    it.copy(&shown, "n", false)
        .assert_failed(13, "it has expired");
    it.statement("other-authority", "stranger", &[]);
    it.copy(&shown, "n", false)
        .assert_failed(13, "not an authority there");
    // an authority is not thereby allowed, and a denied key stays denied
    it.statement("authority", "stranger", &[]);
    let key = it.line(&["key", "--key", it.far.near.at("stranger").to_str().unwrap()]);
    let listed = fs::read_to_string(it.far.near.allowed()).unwrap();
    fs::write(it.far.near.allowed(), format!("{listed}deny {key} gone\n")).unwrap();
    it.copy(&shown, "n", false)
        .assert_failed(13, "your key is not allowed there");
    fs::write(&statement, "no statement").unwrap();
    it.copy(&shown, "n", false)
        .assert_failed(13, "it is not a statement");
    assert!(fs::read_dir(target.join("other")).unwrap().next().is_none());
}
