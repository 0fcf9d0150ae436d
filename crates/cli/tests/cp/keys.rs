//! Who may call whom, and what is said when they may not.

use crate::far::Far;
use crate::scratch::names;

#[test]
fn a_daemon_that_nobody_vouched_for_is_refused_and_can_be_accepted() {
    let far = Far::start("unknown-key", &[]);
    let file = far.near.file("x", 10);
    let copy = || {
        let mut copy = far.near.cp(&[]);
        copy.arg("--key")
            .arg(far.near.key())
            .arg(&file)
            .arg(far.place("x"));
        far.near.run(copy)
    };
    let outcome = copy().failed(13, "is not known here: compare it with");
    let line = outcome
        .err
        .iter()
        .find(|line| line.contains("lighthaul trust"))
        .unwrap();
    // the sentence says what to type
    let words = line
        .split('`')
        .find(|part| part.starts_with("lighthaul trust"))
        .unwrap();
    let words: Vec<_> = words.split_whitespace().skip(1).collect();
    assert_eq!(words.last(), Some(&far.pin.as_str()));
    far.near.run(far.near.lighthaul(&words)).succeeded();
    copy().succeeded();
    assert_eq!(far.names(), ["x"]);
}

#[test]
fn a_daemon_with_another_key_than_the_known_one_is_refused() {
    let far = Far::start("wrong-key", &[]);
    let file = far.near.file("x", 10);
    let wrong = format!("sha256:{}", "ab".repeat(32));
    let mut pinned = far.near.cp(&["--pin", &wrong]);
    pinned
        .arg("--key")
        .arg(far.near.key())
        .arg(&file)
        .arg(far.place("x"));
    far.near
        .run(pinned)
        .failed(13, "somebody may be in between");
    let name = format!("127.0.0.1:{}", far.port);
    far.near
        .run(far.near.lighthaul(&["trust", &name, &wrong]))
        .succeeded();
    let mut known = far.near.cp(&[]);
    known
        .arg("--key")
        .arg(far.near.key())
        .arg(&file)
        .arg(far.place("x"));
    far.near.run(known).failed(13, "somebody may be in between");
    let mut nonsense = far.near.cp(&["--pin", "sha256:12"]);
    nonsense
        .arg("--key")
        .arg(far.near.key())
        .arg(&file)
        .arg(far.place("x"));
    far.near.run(nonsense).failed(1, "64 hexadecimal digits");
    assert!(far.names().is_empty());
}

#[test]
fn a_client_whose_key_is_not_allowed_is_refused_and_told_what_to_do() {
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
        .failed(13, "your key is not allowed there");
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
    far.near.run(allow).succeeded();
    let mut copy = far.near.cp(&["--pin", &far.pin]);
    copy.arg("--key")
        .arg(far.near.at("other-key"))
        .arg(&file)
        .arg(far.place("x"));
    far.near.run(copy).succeeded();
    assert_eq!(far.names(), ["x"]);
    far.daemon.says("not allowed there");
}

#[test]
fn what_is_no_key_is_named() {
    let far = Far::start("no-key", &[]);
    let file = far.near.file("x", 10);
    let mut copy = far.near.cp(&["--pin", &far.pin]);
    copy.arg("--key").arg(&file).arg(&file).arg(far.place("x"));
    far.near.run(copy).failed(13, "this is no ed25519 key");
}

#[test]
fn plain_datagrams_need_both_sides() {
    let far = Far::start("plain-refused", &[]);
    let file = far.near.file("x", 10);
    far.push(&["--plain"], &[&file], "x")
        .failed(13, "plain datagrams are refused there");
    assert!(far.names().is_empty());
}

#[test]
fn nothing_outside_the_root_can_be_named() {
    let far = Far::start("root", &["--root", "ROOT"]);
    let file = far.near.file("x", 10);
    let outside = format!("lh://127.0.0.1:{}/../outside", far.port);
    far.run(&[], &[file.to_str().unwrap(), &outside])
        .failed(13, "leaves the root");
    let inside = format!("lh://127.0.0.1:{}/inside", far.port);
    far.run(&[], &[file.to_str().unwrap(), &inside]).succeeded();
    assert_eq!(far.names(), ["inside"]);
    // a link that leads out is no way out either, in or back
    let secret = far.near.folder("secret");
    far.near.file("secret/known", 10);
    std::os::unix::fs::symlink(&secret, far.target.join("link")).unwrap();
    let file = file.to_str().unwrap();
    for place in ["link/y", "link/"] {
        let linked = format!("lh://127.0.0.1:{}/{place}", far.port);
        far.run(&[], &[file, &linked]).failed(13, "leaves the root");
    }
    let back = far.near.at("back");
    for place in ["link/known", "link/"] {
        let linked = format!("lh://127.0.0.1:{}/{place}", far.port);
        far.run(&[], &[&linked, back.to_str().unwrap()])
            .failed(13, "leaves the root");
    }
    // a file takes the place of a link, not of what it points at
    let linked = format!("lh://127.0.0.1:{}/link", far.port);
    far.run(&[], &[file, &linked]).succeeded();
    assert!(!far.target.join("link").is_symlink());
    assert_eq!(names(&secret), ["known"]);
    assert!(!back.exists());
}
