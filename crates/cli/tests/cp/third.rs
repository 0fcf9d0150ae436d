//! Copies between two daemons, requested by a client.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lighthaul_copy::message::{self, Landing, Target, Way};
use lighthaul_copy::relay::{self, Relay, Request};
use lighthaul_daemon::client::call;
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::session::Session;
use serde_json::json;

use crate::booking::Booking;
use crate::far::{ClosedPort, Far, Near, PROGRAM};
use crate::running::{Outcome, Running, becomes_true};
use crate::schema::assert_valid;
use crate::scratch::{dress, look, names, noise, tree};
use crate::ssh;
use crate::stage::Stage;
use lighthaul_testkit::allowance;

/// The sending daemon, with the client that requests the copy, and the receiving daemon.
pub(crate) struct Pair {
    pub(crate) a: Far,
    pub(crate) b: Far,
}

impl Pair {
    /// Daemons with these options, which both allow the client of the first.
    pub(crate) fn start(name: &str, a: &[&str], b: &[&str]) -> Self {
        let a = Far::start(&format!("{name}-a"), a);
        let b = Far::start(&format!("{name}-b"), b);
        let pair = Self { a, b };
        pair.allow(&pair.b, &[]);
        pair
    }

    /// Allows the client at `far`, with options of `allow`.
    pub(crate) fn allow(&self, far: &Far, options: &[&str]) {
        let near = &self.a.near;
        let mut allow = near.lighthaul(&["allow", &self.key(), "third", "--allowed"]);
        near.run({
            allow.arg(far.near.allowed()).args(options);
            allow
        })
        .assert_succeeded();
    }

    /// The client's key.
    fn key(&self) -> String {
        let near = &self.a.near;
        let key = near.lighthaul(&["key", "--key", near.key().to_str().unwrap()]);
        near.run(key).assert_succeeded().out.concat()
    }

    pub(crate) fn copy(&self, options: &[&str], from: &str, to: &str) -> Command {
        let mut copy = self.a.near.cp(options);
        let retries = if options.contains(&"--retries") {
            &[][..]
        } else {
            &["--retries", "0"]
        };
        copy.args(retries)
            .args((!to.ends_with('/')).then_some("-T"))
            .arg("--key")
            .arg(self.a.near.key())
            .args([self.a.place(from), self.b.place(to)]);
        copy
    }

    fn run(&self, options: &[&str], from: &str, to: &str) -> Outcome {
        self.a.near.run(self.copy(options, from, to))
    }
}

/// Fills `folder` with all kinds of entries.
fn fill(folder: &Path) {
    fs::create_dir_all(folder.join("deep/er")).unwrap();
    for (name, len) in [("empty", 0), ("small", 100), ("deep/large", 9 << 20)] {
        fs::write(folder.join(name), noise(len, 7)).unwrap();
    }
    std::os::unix::fs::symlink("small", folder.join("deep/link")).unwrap();
    dress(&folder.join("deep/er"), 0o750, 1_000_000_000);
    dress(&folder.join("small"), 0o604, 1_100_000_000);
}

pub(crate) fn port(far: &Far) -> String {
    format!("127.0.0.1:{}: ", far.port)
}

#[test]
fn tree_is_copied_from_one_daemon_to_another() {
    let pair = Pair::start("third", &[], &[]);
    fill(&pair.a.target.join("tree"));
    let outcome = pair
        .run(&["--json", "--dry-run"], "tree", "copy")
        .assert_succeeded();
    let events = outcome.events();
    let planned = events
        .iter()
        .filter(|event| event["type"] == "plan")
        .count();
    assert!(planned >= 6 && pair.b.names().is_empty(), "{events:?}");
    for options in [&["--json", "--stats"][..], &["--json", "--no-udp"]] {
        let outcome = pair.run(options, "tree", "copy").assert_succeeded();
        let events = outcome.events();
        let start = events.iter().find(|event| event["type"] == "start");
        assert!(start.is_some_and(|start| start["cipher"].is_string()));
        let summary = events.last().unwrap();
        assert_eq!(summary["entries"], 7, "{summary}");
        assert_eq!(summary["verified"], true);
        let target = pair.b.target.join("copy");
        assert!(tree(&pair.a.target.join("tree")) == tree(&target));
    }
    let outcome = pair.run(&[], "tree/", "copy").assert_succeeded();
    assert!(outcome.said("up to date"), "{outcome:?}");
    assert_eq!(pair.b.names(), ["copy"]);
}

#[test]
fn third_party_copy_itemizes_removes_sources_and_expands_patterns() {
    let pair = Pair::start("third-items", &[], &[]);
    fill(&pair.a.target.join("tree"));
    let before = tree(&pair.a.target.join("tree"));
    let options = ["-i", "--remove-source-files"];
    let outcome = pair.run(&options, "tree", "copy").assert_succeeded();
    assert!(
        outcome.out.contains(&"cd+++++++++ copy/".to_owned()),
        "{outcome:?}"
    );
    assert!(tree(&pair.b.target.join("copy")) == before);
    let left = tree(&pair.a.target.join("tree")).into_keys();
    let left: Vec<_> = left
        .map(|path| pair.a.target.join("tree").join(path))
        .collect();
    assert!(left.iter().all(|path| path.is_dir()), "{left:?}");
    for name in ["a.h5", "b.h5"] {
        fs::write(pair.a.target.join(name), name).unwrap();
    }
    pair.run(&[], "*.h5", "some/").assert_succeeded();
    assert_eq!(names(&pair.b.target.join("some")), ["a.h5", "b.h5"]);
}

#[test]
fn third_party_copy_books_and_follows_its_vector() {
    let pair = Pair::start("third-booked", &[], &[]);
    fs::write(pair.a.target.join("source"), noise(10_000_000, 8)).unwrap();
    let booking = Booking::start("third-booking", &["--no-tls"]);
    let token = booking.near.at("token");
    fs::write(&token, booking.token("ada", "user")).unwrap();
    let mut copy = pair.copy(&["--json", "--book", "--rate", "50Mb/s"], "source", "copy");
    copy.args(["--scheduler", &booking.url, "--scheduler-token"])
        .arg(&token)
        .args(["--node", "paris", "--far-node", "milan"]);
    let events = assert_valid(&pair.a.near.run(copy).assert_succeeded());
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    assert_eq!(
        of("booked")["path"],
        json!(["paris-geneva", "geneva-milan"])
    );
    assert_eq!(of("start")["protocol"], "vbtp");
    assert_eq!(of("released")["reservation"], of("booked")["reservation"]);
    let [from, to] = [pair.a.target.join("source"), pair.b.target.join("copy")];
    assert!(fs::read(from).unwrap() == fs::read(to).unwrap());
}

#[test]
fn third_party_data_does_not_cross_the_client() {
    let name = "third_party_data_does_not_cross_the_client";
    let hosts = "host = [{ name = \"a\" }, { name = \"b\" }, { name = \"c\" }]";
    let link = |between: &str, rate: &str| {
        format!("[[link]]\nbetween = {between}\nrate = \"{rate}\"\nrtt = \"10ms\"\n")
    };
    let links = [
        link("[\"a\", \"b\"]", "1Gb/s"),
        link("[\"a\", \"c\"]", "2Mb/s"),
        link("[\"b\", \"c\"]", "2Mb/s"),
    ];
    let Some(stage) = Stage::start(name, &format!("{hosts}\n{}", links.concat())) else {
        return;
    };
    let daemon = |host: &str| {
        let near = Near::new(&format!("third-lab-{host}"), None);
        let mut serve = stage.lab.command(host, PROGRAM).unwrap();
        serve
            .args(["serve", "--listen", "0.0.0.0:0"])
            .env("XDG_CONFIG_HOME", near.at("config"));
        Far::with(near, serve, &[])
    };
    let pair = Pair {
        a: daemon("a"),
        b: daemon("b"),
    };
    pair.allow(&pair.b, &[]);
    // two minutes of the capacity that c has
    let file = pair.a.near.file("x", 30 << 20);
    fs::rename(file, pair.a.target.join("x")).unwrap();
    let place =
        |host: &str, far: &Far| format!("lh://{host}:{}{}/x", far.port, far.target.display());
    let mut copy = stage.lab.command("c", PROGRAM).unwrap();
    copy.args(["cp", "--key"])
        .arg(pair.a.near.key())
        .args([place("a", &pair.a), place("b", &pair.b)])
        .env("XDG_CONFIG_HOME", pair.a.near.at("config"));
    let outcome = pair.a.near.run(copy).assert_succeeded();
    assert!(outcome.time < allowance(40), "{outcome:?}");
    assert!(look(&pair.a.target.join("x")) == look(&pair.b.target.join("x")));
}

#[test]
fn third_party_copy_needs_rights_at_both_daemons() {
    let pair = Pair::start("third-rights", &[], &[]);
    let file = pair.a.target.join("x");
    fs::write(&file, "x").unwrap();
    let [a, b] = [port(&pair.a), port(&pair.b)];
    pair.run(&[], "gone", "y")
        .assert_failed(3, &format!("{a}cannot open"));
    pair.run(&[], "x", "no/such/y")
        .assert_failed(3, &format!("{b}cannot open the target directory"));
    // a source that may only read may be sent from, and a target may not
    pair.allow(&pair.a, &["--read-only"]);
    pair.run(&[], "x", "y").assert_succeeded();
    assert!(look(&pair.b.target.join("y")) == look(&file));
    pair.allow(&pair.b, &["--read-only"]);
    pair.run(&[], "x", "z")
        .assert_failed(13, &format!("{b}your key may only read"));
    // the root at the target is that of the client, not that of the source
    let world = pair.b.near.folder("world");
    pair.allow(&pair.b, &["--root", world.to_str().unwrap()]);
    let mut copy = pair.a.near.cp(&["--key"]);
    copy.arg(pair.a.near.key()).args([
        &pair.a.place("x"),
        &format!("lh://127.0.0.1:{}/z", pair.b.port),
    ]);
    pair.a.near.run(copy).assert_succeeded();
    assert!(look(&world.join("z")) == look(&file));
    fs::write(pair.b.near.allowed(), "").unwrap();
    pair.run(&[], "x", "z")
        .assert_failed(13, &format!("{b}your key is not allowed"));
    assert_eq!(pair.b.names(), ["y"]);
}

/// The journal in `folder`, and its length.
fn journal(folder: &Path) -> Option<(PathBuf, u64)> {
    let mut names = names(folder).into_iter();
    let path = folder.join(names.find(|name| name.ends_with(".journal"))?);
    let len = fs::metadata(&path).ok()?.len();
    Some((path, len))
}

#[test]
fn third_party_copy_is_interrupted_and_resumes() {
    let pair = Pair::start("third-stop", &[], &[]);
    let len = 40_u64 << 20;
    let file = pair.a.near.file("x", len);
    fs::rename(file, pair.a.target.join("x")).unwrap();
    let slowly = ["--json", "--rate", "40Mb/s"];
    for (signal, code) in [("INT", Some(20)), ("KILL", None)] {
        let mut copy = Running::start(pair.copy(&slowly, "x", "x"));
        copy.prints("\"type\":\"progress\"");
        let before = journal(&pair.b.target).map_or(0, |(_, len)| len);
        becomes_true("more is proved", || {
            journal(&pair.b.target).is_some_and(|(_, len)| len > before + 40)
        });
        copy.signal(signal);
        assert_eq!(copy.finish().code, code);
        becomes_true("the target has let go of it", || {
            let (path, _) = journal(&pair.b.target).unwrap();
            fs::File::open(path).unwrap().try_lock().is_ok()
        });
    }
    let outcome = pair.run(&["--json"], "x", "x").assert_succeeded();
    let moved = outcome.events().pop().unwrap()["bytes_moved"].as_u64();
    assert!(moved.unwrap() < len - (8 << 20) + 1, "{outcome:?}");
    assert!(look(&pair.a.target.join("x")) == look(&pair.b.target.join("x")));
    assert_eq!(pair.b.names(), ["x"]);
}

#[test]
fn third_party_copy_resumes_after_a_killed_daemon() {
    let mut pair = Pair::start("third-dies", &[], &[]);
    let file = pair.a.near.file("x", 40 << 20);
    fs::rename(file, pair.a.target.join("x")).unwrap();
    let slowly = ["--json", "--rate", "40Mb/s"];
    let [a, b] = [port(&pair.a), port(&pair.b)];
    let lost = "the connection to 127.0.0.1";
    let begin = |pair: &Pair| {
        let mut copy = Running::start(pair.copy(&slowly, "x", "x"));
        copy.prints("\"type\":\"progress\"");
        copy
    };
    // the source notices that the target has ended, and the client that the source has
    let copy = begin(&pair);
    pair.b.daemon.kill();
    let outcome = copy.finish().assert_failed(10, &format!("{a}{lost}"));
    assert!(outcome.said(b.trim_end_matches(": ")), "{outcome:?}");
    pair.b.restart();
    let copy = begin(&pair);
    pair.a.daemon.kill();
    copy.finish().assert_failed(10, &format!("{a}{lost}"));
    pair.a.restart();
    becomes_true("the target has let go of it", || {
        let Some((path, _)) = journal(&pair.b.target) else {
            return true;
        };
        fs::File::open(path).unwrap().try_lock().is_ok()
    });
    let again = ["--json", "--retries", "9", "--rate", "100Mb/s"];
    let mut copy = Running::start(pair.copy(&again, "x", "x"));
    copy.prints("\"type\":\"progress\"");
    pair.b.restart();
    let outcome = copy.finish().assert_succeeded();
    assert!(outcome.said("retrying in"), "{outcome:?}");
    assert!(look(&pair.a.target.join("x")) == look(&pair.b.target.join("x")));
    assert_eq!(pair.b.names(), ["x"]);
}

#[test]
fn key_denied_at_either_daemon_ends_a_third_party_copy() {
    for denied in ["a", "b"] {
        let pair = Pair::start(&format!("third-denied-{denied}"), &[], &[]);
        let file = pair.a.near.file("x", 60 << 20);
        fs::rename(file, pair.a.target.join("x")).unwrap();
        let far = if denied == "a" { &pair.a } else { &pair.b };
        let mut copy = Running::start(pair.copy(&["--json", "--rate", "20Mb/s"], "x", "x"));
        copy.prints("\"type\":\"progress\"");
        let near = &pair.a.near;
        let mut deny = near.lighthaul(&["deny", &pair.key(), "--allowed"]);
        deny.arg(far.near.allowed());
        near.run(deny).assert_succeeded();
        let words = format!("{}your key is not allowed", port(far));
        let outcome = copy.finish().assert_failed(13, &words);
        assert!(outcome.time < allowance(6), "{outcome:?}");
    }
}

#[test]
fn no_relay_and_options_for_one_daemon_are_refused() {
    let pair = Pair::start("third-refuses", &["--no-relay"], &[]);
    fs::write(pair.a.target.join("x"), "x").unwrap();
    pair.run(&[], "x", "x")
        .assert_failed(13, "serve --no-relay");
    let token = pair.a.near.file("token", 10);
    for (options, words) in [
        (["--pin", &pair.a.pin], "--pin names one key"),
        (
            ["--token-file", token.to_str().unwrap()],
            "a token is for one",
        ),
    ] {
        pair.run(&options, "x", "x").assert_failed(1, words);
    }
    assert!(pair.b.names().is_empty());
}

#[test]
fn third_party_copy_works_over_ssh() {
    let near = ssh::near("third-ssh", "exec \"$@\"");
    let far = Far::start("third-ssh-far", &[]);
    fill(&near.at("home/tree"));
    let copy = |paths: [&str; 2]| {
        let mut copy = near.cp(&["-e"]);
        copy.arg(near.at("ssh"))
            .args(["-T", "--remote", PROGRAM, "--key"])
            .arg(far.near.key())
            .args(paths);
        near.run(copy).assert_succeeded()
    };
    copy(["one:tree", &far.place("copy")]);
    assert!(tree(&near.at("home/tree")) == tree(&far.target.join("copy")));
    copy([&far.place("copy"), "one:back"]);
    assert!(tree(&near.at("home/tree")) == tree(&near.at("home/back")));
    copy(["one:tree", "two:again"]);
    assert!(tree(&near.at("home/tree")) == tree(&near.at("home/again")));
}

/// Returns the first message of a client for `request`.
pub(crate) fn hello(request: &Request) -> Message {
    Message::Hello(Hello::about::<relay::Message>(request))
}

/// The request to expect the holder of a key.
pub(crate) fn expect(key: [u8; 32], target: Target) -> Request {
    Request::Expect {
        key,
        target,
        options: Options::default(),
    }
}

/// Returns the first message of a client that wants to copy.
pub(crate) fn copying(way: Way) -> Message {
    let request = message::Request {
        way,
        options: Options::default(),
    };
    Message::Hello(Hello::about::<message::Message>(&request))
}

/// Asserts that a daemon accepted the request.
pub(crate) fn assert_agreed(said: &Result<Message, Error>) {
    assert_eq!(said, &Ok(Message::Welcome));
}

/// Returns a client of `far`.
pub(crate) fn caller(far: &Far) -> Identity {
    Identity::load_or_generate(&far.near.key()).unwrap()
}

/// A session at `far` for the client that it allows.
pub(crate) fn meet(far: &Far) -> Session {
    call("127.0.0.1", far.port, &caller(far)).unwrap()
}

#[test]
fn relay_does_not_reveal_the_network_of_the_daemon() {
    let far = Far::start("third-scan", &[]);
    let other = Far::start("third-scan-other", &[]);
    fs::write(far.target.join("x"), "x").unwrap();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = ClosedPort::new();
    let (mute_port, closed_port) = (mute.local_addr().unwrap().port(), closed.number());
    let (identity, at, path) = (caller(&far), far.port, far.target.join("x"));
    let ask = |host: &str, port: u16| -> (Error, Duration) {
        let session = call("127.0.0.1", at, &identity).unwrap();
        let relay = Relay {
            host: host.to_owned(),
            port,
            key: [7; 32],
            udp: true,
            paths: vec![path.to_str().unwrap().into()],
            target: Target {
                path: b"/x".to_vec(),
                landing: Landing::Exact,
            },
        };
        let options = Options::default();
        let request = Request::Send { relay, options };
        session.say(&hello(&request)).unwrap();
        let answer = session.hear().unwrap();
        assert!(matches!(answer, relay::Message::SourceKey { .. }));
        let began = session.clock.now();
        session.say(&relay::Message::Expected).unwrap();
        let error = session.hear::<Message>().unwrap_err();
        (error, session.clock.now().since(began))
    };
    let places = [
        ("127.0.0.1", closed_port),
        ("127.0.0.1", mute_port),
        ("127.0.0.1", other.port),
        ("no-such-host.invalid", 1),
    ];
    std::thread::scope(|scope| {
        let ask = &ask;
        let answers = places.map(|(host, port)| (host, port, scope.spawn(move || ask(host, port))));
        for (host, port, answer) in answers {
            let (error, time) = answer.join().unwrap();
            assert_eq!(error.code(), Code::Network);
            let text = format!("the source cannot reach {host} port {port}, or finds another key");
            assert!(error.text().starts_with(&text), "{error}");
            let limits = Duration::from_secs(10)..allowance(11);
            assert!(limits.contains(&time), "{host}:{port} took {time:?}");
        }
    });
}

#[test]
fn invitation_is_valid_once_and_for_a_single_request() {
    let far = Far::start("third-expected", &[]);
    let place = |name: &str| Target {
        path: far.target.join(name).to_str().unwrap().into(),
        landing: Landing::Exact,
    };
    let caller = Identity::generate();
    let key = *tls::fingerprint(&caller).unwrap().octets();
    let come = |way: Way| {
        let session = call("127.0.0.1", far.port, &caller).unwrap();
        session.say(&Message::Guest).unwrap();
        session.say(&copying(way)).unwrap();
        session.hear()
    };
    let host = |name: &str| {
        let host = meet(&far);
        host.say(&hello(&expect(key, place(name)))).unwrap();
        assert_agreed(&host.hear());
        host
    };
    let refused = |said: Result<Message, Error>, words: &str| {
        let error = said.unwrap_err();
        assert!(
            error.code() == Code::Permission && error.text().contains(words),
            "{error}"
        );
    };
    refused(come(Way::Receive(place("x"))), "not allowed there");
    let first = host("x");
    refused(
        come(Way::Send(vec![b"/etc/passwd".to_vec()])),
        "the invitation of this client there is for another request; start the copy again",
    );
    refused(come(Way::Receive(place("x"))), "not allowed there");
    drop(first);
    let second = host("x");
    refused(come(Way::Receive(place("y"))), "for another request");
    drop(second);
    // a guest whose host has disconnected is refused
    let third = host("x");
    assert_agreed(&come(Way::Receive(place("x"))));
    drop(third);
    let fourth = Identity::generate();
    let gone = *tls::fingerprint(&fourth).unwrap().octets();
    let lone = meet(&far);
    lone.say(&hello(&expect(gone, place("x")))).unwrap();
    assert_agreed(&lone.hear());
    lone.give_up(&PeerFault::reported(Code::Interrupted as u8, "enough").into());
    drop(lone);
    let session = call("127.0.0.1", far.port, &fourth).unwrap();
    session.say(&Message::Guest).unwrap();
    refused(session.hear(), "not allowed there");
    // a host cannot invite a client that connects by itself
    let known = *tls::fingerprint(&self::caller(&far)).unwrap().octets();
    let lone = meet(&far);
    lone.say(&hello(&expect(known, place("x")))).unwrap();
    assert_agreed(&lone.hear());
    let session = meet(&far);
    session.say(&copying(Way::Receive(place("own")))).unwrap();
    assert_agreed(&session.hear());
    // two hosts invite the same client: the second is refused, and the first has no guest either
    let first = host("x");
    let other = meet(&far);
    other.say(&hello(&expect(key, place("x")))).unwrap();
    refused(other.hear(), "another client already invited this key");
    drop(first);
}

#[test]
fn third_party_copy_takes_a_list_of_files() {
    let pair = Pair::start("third-list", &[], &[]);
    let folder = pair.a.target.join("tree");
    fill(&folder);
    fs::create_dir(folder.join("many")).unwrap();
    // more than one request can have
    let many: Vec<_> = (0..15_000).map(|nth| format!("many/{nth}")).collect();
    for name in &many {
        fs::write(folder.join(name), "").unwrap();
    }
    let listed = ["deep/link", "absent", "many/0"];
    let near = &pair.a.near;
    fs::write(near.at("list"), listed.join("\n")).unwrap();
    fs::write(near.at("many"), many.join("\0")).unwrap();
    let list = near.at("list");
    let options = ["--files-from", list.to_str().unwrap()];
    let outcome = pair.run(&options, "tree", "copy");
    assert_eq!(outcome.code, Some(Code::Partial as i32), "{outcome:?}");
    assert!(outcome.said("absent"), "{outcome:?}");
    let copy = pair.b.target.join("copy");
    assert_eq!(names(&copy), ["deep", "many"]);
    assert_eq!(names(&copy.join("deep")), ["link"]);
    assert_eq!(names(&copy.join("many")), ["0"]);
    let list = near.at("many");
    let options = ["-0", "--files-from", list.to_str().unwrap()];
    pair.run(&options, "tree", "all").assert_succeeded();
    assert!(tree(&folder.join("many")) == tree(&pair.b.target.join("all/many")));
    assert_eq!(names(&pair.b.target.join("all")), ["many"]);
}

#[test]
fn unfinished_list_does_not_delay_an_interrupt() {
    let pair = Pair::start("third-writes", &[], &[]);
    fill(&pair.a.target.join("tree"));
    let list = pair.a.near.at("list");
    let made = Command::new("mkfifo").arg(&list).status().unwrap();
    assert!(made.success());
    let options = ["--files-from", list.to_str().unwrap()];
    let copy = Running::start(pair.copy(&options, "tree", "copy"));
    let mut pipe = fs::File::options().write(true).open(&list).unwrap();
    pipe.write_all(b"small\n").unwrap();
    let copied = pair.b.target.join("copy/small");
    becomes_true("what was listed is there", || copied.exists());
    copy.signal("INT");
    let outcome = copy.finish();
    assert_eq!(outcome.code, Some(20), "{outcome:?}");
    assert!(outcome.said("interrupted"), "{outcome:?}");
}
