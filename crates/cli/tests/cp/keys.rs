//! Admission of clients, and the errors of those that are refused.

use std::os::unix::fs::PermissionsExt;

use lighthaul_testkit::{allowance, lacks_root};

use crate::far::{Far, Near, as_user};
use crate::running::Running;
use crate::scratch::names;

#[test]
fn unknown_daemon_is_refused_with_strict_and_can_be_trusted() {
    let far = Far::start("unknown-key", &[]);
    let file = far.near.file("x", 10);
    let copy = || {
        let mut copy = far.near.cp(&["--strict"]);
        copy.arg("--key")
            .arg(far.near.key())
            .arg(&file)
            .arg(far.place("x"));
        far.near.run(copy)
    };
    let outcome = copy().assert_failed(13, "is not known here: compare it with");
    let line = outcome
        .err
        .iter()
        .find(|line| line.contains("lighthaul trust"))
        .unwrap();
    // the message has the command to run
    let words = line
        .split('`')
        .find(|part| part.starts_with("lighthaul trust"))
        .unwrap();
    let words: Vec<_> = words.split_whitespace().skip(1).collect();
    assert_eq!(words.last(), Some(&far.pin.as_str()));
    far.near.run(far.near.lighthaul(&words)).assert_succeeded();
    copy().assert_succeeded();
    assert_eq!(far.names(), ["x"]);
}

#[test]
fn first_key_of_a_daemon_is_trusted_and_another_is_refused() {
    let far = Far::start("first-call", &[]);
    let file = far.near.file("x", 10);
    let call = |options: &[&str]| {
        let mut copy = far.near.cp(options);
        copy.arg("--key")
            .arg(far.near.key())
            .arg(&file)
            .arg(far.place("x"));
        far.near.run(copy)
    };
    let first = call(&[]).assert_succeeded();
    let told: Vec<_> = first
        .err
        .iter()
        .filter(|l| l.contains("is unknown here"))
        .collect();
    assert!(told.len() == 1 && told[0].contains(&far.pin), "{first:?}");
    let known = far.near.at("config/lighthaul/known_hosts");
    let line = format!("{} 127.0.0.1:{}\n", far.pin, far.port);
    assert_eq!(std::fs::read_to_string(&known).unwrap(), line);
    // a known key is accepted with --strict, too
    assert!(
        !call(&["--strict"])
            .assert_succeeded()
            .said("is unknown here")
    );
    let other = format!("sha256:{}", "cd".repeat(32));
    std::fs::write(&known, line.replace(&far.pin, &other)).unwrap();
    call(&[]).assert_failed(13, "another host may be answering in its place");
    // the key of the attacker's host was not stored
    assert!(!std::fs::read_to_string(&known).unwrap().contains(&far.pin));
}

#[test]
fn key_has_exactly_its_granted_rights() {
    let mut far = Far::start("rights", &[]);
    let key = far.near.run(
        far.near
            .lighthaul(&["key", "--key", far.near.key().to_str().unwrap()]),
    );
    let key = key.assert_succeeded().out.concat();
    let grant = |options: &[&str]| {
        let mut allow = far.near.lighthaul(&["allow", &key, "tester", "--allowed"]);
        allow.arg(far.near.allowed()).args(options);
        far.near.run(allow)
    };
    let file = far.near.file("x", 10);
    let file = file.to_str().unwrap();
    let at = |path: &str| format!("lh://127.0.0.1:{}/{path}", far.port);
    let world = far.near.folder("a world");
    std::fs::write(world.join("there"), "was").unwrap();
    let root = ["--root", world.to_str().unwrap()];

    grant(&[&root[..], &["--read-only"]].concat()).assert_succeeded();
    far.run(&[], &[file, &at("x")])
        .assert_failed(13, "your key may only read there");
    let back = far.near.at("back");
    far.run(&[], &[&at("there"), back.to_str().unwrap()])
        .assert_succeeded();
    assert_eq!(std::fs::read(&back).unwrap(), b"was");
    grant(&root).assert_succeeded();
    far.run(&[], &[file, &at("x")]).assert_succeeded();
    far.run(&[], &[file, &at("../x")])
        .assert_failed(13, "leaves the root");
    assert_eq!(names(&world), ["there", "x"]);

    grant(&["--expires", "0s"]).assert_succeeded();
    far.run(&[], &[file, &at("late")])
        .assert_failed(13, "your rights there have expired");
    // a malformed line admits no key
    std::fs::write(far.near.allowed(), format!("{key} tester rot=/\n")).unwrap();
    far.run(&[], &[file, &at("odd")])
        .assert_failed(13, "your key is not allowed there");
    grant(&["--expires", "1d"]).assert_succeeded();
    std::fs::write(far.near.allowed(), format!("{key}\ndeny {key}\n")).unwrap();
    far.run(&[], &[file, &at("denied")])
        .assert_failed(13, "your key is not allowed there");
    assert_eq!(names(&world), ["there", "x"]);
    far.daemon.says("your rights there have expired");
}

#[test]
fn denied_or_expired_key_ends_running_sessions() {
    for expires in [false, true] {
        let far = Far::start(&format!("ends-{expires}"), &[]);
        let key = far.near.key();
        let key = far.near.lighthaul(&["key", "--key", key.to_str().unwrap()]);
        let key = far.near.run(key).assert_succeeded().out.concat();
        let file = far.near.file("x", 60 << 20);
        let options = ["--json", "--rate", "20Mb/s"];
        let place = far.place("x");
        let mut copy = Running::start(far.copy(&options, &[file.to_str().unwrap(), &place]));
        copy.prints("\"type\":\"progress\"");
        let (mut change, words) = if expires {
            let soon = ["allow", &key, "--owners", "--special", "--expires", "3s"];
            (far.near.lighthaul(&soon), "your rights there have expired")
        } else {
            let deny = far.near.lighthaul(&["deny", &key, "left us"]);
            (deny, "your key is not allowed there")
        };
        change.arg("--allowed").arg(far.near.allowed());
        far.near.run(change).assert_succeeded();
        let outcome = copy.finish().assert_failed(13, words);
        assert!(
            outcome.time < allowance(if expires { 8 } else { 5 }),
            "{outcome:?}"
        );
        assert_eq!(
            far.run(&[], &[file.to_str().unwrap(), &place]).code,
            Some(13)
        );
    }
}

#[test]
fn daemon_with_a_changed_key_is_refused() {
    let far = Far::start("wrong-key", &[]);
    let file = far.near.file("x", 10);
    let wrong = format!("sha256:{}", "ab".repeat(32));
    let mut pinned = far.near.cp(&["--pin", &wrong]);
    pinned
        .arg("--key")
        .arg(far.near.key())
        .arg(&file)
        .arg(far.place("x"));
    let outcome = far.near.run(pinned).assert_failed(
        13,
        "another host may be answering in its place, or --pin is wrong",
    );
    assert!(!outcome.said("known_hosts"), "{outcome:?}");
    let name = format!("127.0.0.1:{}", far.port);
    far.near
        .run(far.near.lighthaul(&["trust", &name, &wrong]))
        .assert_succeeded();
    let mut known = far.near.cp(&[]);
    known
        .arg("--key")
        .arg(far.near.key())
        .arg(&file)
        .arg(far.place("x"));
    far.near
        .run(known)
        .assert_failed(13, "another host may be answering in its place");
    let mut nonsense = far.near.cp(&["--pin", "sha256:12"]);
    nonsense
        .arg("--key")
        .arg(far.near.key())
        .arg(&file)
        .arg(far.place("x"));
    far.near
        .run(nonsense)
        .assert_failed(1, "64 hexadecimal digits");
    assert!(far.names().is_empty());
}

#[test]
fn unknown_client_key_is_refused_with_the_remedy() {
    let mut far = Far::start("stranger", &[]);
    let file = far.near.file("x", 10);
    let mut copy = far.near.cp(&["--pin", &far.pin]);
    copy.arg("--key")
        .arg(far.near.at("other-key"))
        .arg(&file)
        .arg(far.place("x"));
    let outcome = far
        .near
        .run(copy)
        .assert_failed(13, "your key is not allowed there");
    let line = outcome
        .err
        .iter()
        .find(|line| line.contains("lighthaul allow"))
        .unwrap();
    let words = line
        .split('`')
        .find(|part| part.starts_with("lighthaul allow"))
        .unwrap();
    let words: Vec<_> = words.split_whitespace().skip(1).collect();
    let mut allow = far.near.lighthaul(&words);
    allow.arg("--allowed").arg(far.near.allowed());
    far.near.run(allow).assert_succeeded();
    let mut copy = far.near.cp(&["--pin", &far.pin]);
    copy.arg("--key")
        .arg(far.near.at("other-key"))
        .arg(&file)
        .arg(far.place("x"));
    far.near.run(copy).assert_succeeded();
    assert_eq!(far.names(), ["x"]);
    far.daemon.says("refused unknown key sha256:");
}

#[test]
fn malformed_line_is_logged_at_start() {
    let near = Near::new("odd-line", None);
    let key = format!("sha256:{}", "ab".repeat(32));
    std::fs::write(near.allowed(), format!("# keys\n{key} eve rot=/x\n")).unwrap();
    let mut serve = near.lighthaul(&["serve", "--root", "/", "--listen", "127.0.0.1:0", "--key"]);
    serve
        .arg(near.at("host-key"))
        .arg("--allowed")
        .arg(near.allowed());
    let mut daemon = Running::start(serve);
    let line = daemon.says("no key in this line is accepted");
    assert!(line.contains("line 2") && line.contains("rot=/x"), "{line}");
    daemon.says("listening on");
}

#[test]
fn malformed_key_is_reported() {
    let far = Far::start("no-key", &[]);
    let file = far.near.file("x", 10);
    let mut copy = far.near.cp(&["--pin", &far.pin]);
    copy.arg("--key").arg(&file).arg(&file).arg(far.place("x"));
    far.near.run(copy).assert_failed(13, "not an ed25519 key");
}

#[test]
fn plain_needs_agreement_of_both_sides() {
    let far = Far::start("plain-refused", &[]);
    let file = far.near.file("x", 10);
    far.push(&["--plain"], &[&file], "x")
        .assert_failed(13, "refuses unencrypted packets");
    assert!(far.names().is_empty());
}

#[test]
fn paths_outside_the_root_are_refused() {
    let far = Far::start("root", &["--root", "ROOT"]);
    let file = far.near.file("x", 10);
    let outside = format!("lh://127.0.0.1:{}/../outside", far.port);
    far.run(&[], &[file.to_str().unwrap(), &outside])
        .assert_failed(13, "leaves the root");
    let inside = format!("lh://127.0.0.1:{}/inside", far.port);
    far.run(&[], &[file.to_str().unwrap(), &inside])
        .assert_succeeded();
    assert_eq!(far.names(), ["inside"]);
    // a link that leaves the root is refused, too, in both directions
    let secret = far.near.folder("secret");
    far.near.file("secret/known", 10);
    std::os::unix::fs::symlink(&secret, far.target.join("link")).unwrap();
    let file = file.to_str().unwrap();
    for place in ["link/y", "link/"] {
        let linked = format!("lh://127.0.0.1:{}/{place}", far.port);
        far.run(&[], &[file, &linked])
            .assert_failed(13, "leaves the root");
    }
    let back = far.near.at("back");
    for place in ["link/known", "link/"] {
        let linked = format!("lh://127.0.0.1:{}/{place}", far.port);
        far.run(&[], &[&linked, back.to_str().unwrap()])
            .assert_failed(13, "leaves the root");
    }
    // a file replaces the link, not the target of the link
    let linked = format!("lh://127.0.0.1:{}/link", far.port);
    far.run(&[], &[file, &linked]).assert_succeeded();
    assert!(!far.target.join("link").is_symlink());
    assert_eq!(names(&secret), ["known"]);
    assert!(!back.exists());
}

/// The key of root's daemon cannot be read by others, and a new key would be mistaken for it.
#[test]
fn host_key_without_a_daemon_of_the_user_is_refused_with_the_remedy() {
    if lacks_root("host_key_without_a_daemon_of_the_user_is_refused_with_the_remedy") {
        return;
    }
    let near = Near::new("host-key-user", None);
    let config = near.folder("config");
    std::fs::set_permissions(&config, PermissionsExt::from_mode(0o777)).unwrap();
    let ask = || near.run(as_user(&near.lighthaul(&["key", "--host"])));
    let outcome = ask().assert_failed(3, "no daemon of this user has a key yet");
    assert!(
        outcome.said("ask root for `lighthaul key --host`, or start `lighthaul serve`"),
        "{outcome:?}"
    );
    assert!(
        outcome.out.is_empty() && names(&config).is_empty(),
        "{outcome:?}"
    );
    // after a first start of `serve` by this user, it is the key of that daemon
    let path = config.join("lighthaul/host_key");
    let mut serve = near.lighthaul(&["serve", "--root", "/", "--listen", "127.0.0.1:0"]);
    serve.arg("--allowed").arg(near.allowed());
    let mut daemon = Running::start(as_user(&serve));
    let line = daemon.says("this host's key is ");
    let key = ask().assert_succeeded().out.concat();
    assert!(line.contains(&key) && path.exists(), "{line}: {key}");
}
