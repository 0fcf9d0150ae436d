//! Keys that take all the files, threads and sessions they can get, and hosts that have no more files to give.

use std::fs;
use std::net::TcpStream;
use std::time::Duration;

use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::host::wait::pause;
use lighthaul_testkit::Turn;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::message::{Hello, Message, Request, VERSION};
use lighthaul_transfer::options::Options;
use lighthaul_transfer::protocol;
use lighthaul_transfer::session::Session;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::booking::Booking;
use crate::far::Far;
use crate::running::becomes_true;

/// Lets the holder of a new key in.
fn let_in(far: &Far, name: &str) -> Identity {
    let identity = Identity::generate();
    let key = lighthaul_io::crypto::tls::fingerprint(&identity).unwrap();
    let words = ["allow", &key.to_string(), name, "--read-only", "--allowed"];
    let mut allow = far.near.lighthaul(&words);
    allow.arg(far.near.allowed());
    far.near.run(allow).assert_succeeded();
    identity
}

/// A session that has shaken hands and says nothing, unless it is refused.
fn silent(far: &Far, identity: &Identity) -> Result<Session, Error> {
    let tcp = TcpStream::connect(("127.0.0.1", far.port))
        .map_err(|error| Error::new(Code::Network, error.to_string()))?;
    let session = Session::start(tcp, Side::Client, identity)?;
    match session.hear_for(Duration::from_millis(50)) {
        Err(error) if session.was_told() => Err(error),
        _ => Ok(session),
    }
}

/// Asks for all that is in `folder`, and listens to nothing of it.
fn ask_for(folder: &str, session: &Session) {
    let hello = Message::Hello(Hello {
        version: VERSION,
        request: Request::Send(vec![folder.into()]),
        plain: false,
        rate_bps: None,
        limit: String::new(),
        options: Options::default(),
        protocols: protocol::names(),
    });
    session.say(&hello).unwrap();
}

fn files(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count)
}

/// Copies a file there and back with an honest key, and the daemon never lacks a file.
fn assert_honest_copies(far: &Far) {
    let file = far.near.file("honest", 3_000_000);
    let (file, place) = (file.to_str().unwrap(), far.place("honest"));
    far.run(&[], &[file, &place]).assert_succeeded();
    let back = far.near.at("back");
    far.run(&[], &[&place, back.to_str().unwrap()])
        .assert_succeeded();
}

fn assert_no_file_was_missing(far: Far) {
    let Far { daemon, near, .. } = far;
    daemon.signal("TERM");
    assert!(!daemon.finish().said("Too many open files"));
    drop(near);
}

#[test]
fn further_connections_of_a_copy_take_no_sessions() {
    let far = Far::start(
        "connections",
        &["--max-sessions", "2", "--max-sessions-per-key", "1"],
    );
    let file = far.near.file("large", 30_000_000);
    let options = ["--protocol", "ptcp", "--streams", "8"];
    far.push(&options, &[&file], "large").assert_succeeded();
    let back = far.near.at("back");
    let pull = far.run(&options, &[&far.place("large"), back.to_str().unwrap()]);
    pull.assert_succeeded();
    assert_eq!(fs::read(back).unwrap(), fs::read(file).unwrap());
}

#[test]
fn keys_that_hold_all_the_sessions_they_can_keep_no_other_from_its_copy() {
    let _turn = Turn::alone();
    let far = Far::start_after("hoarders", "ulimit -n 700");
    let mut held = Vec::new();
    for name in ["greedy", "greedier"] {
        let key = let_in(&far, name);
        let refused = (0..200).find_map(|_| match silent(&far, &key) {
            Ok(session) => {
                held.push(session);
                None
            }
            Err(error) => Some(error.text),
        });
        let refused = refused.unwrap();
        assert!(
            refused.contains("no open files are free there"),
            "{refused}"
        );
    }
    println!(
        "{} silent sessions, {} files open",
        held.len(),
        files(far.daemon.id())
    );
    assert_honest_copies(&far);
    assert_no_file_was_missing(far);
}

#[test]
fn a_key_that_has_deep_trees_sent_and_listens_to_nothing_keeps_no_other_from_its_copy() {
    let _turn = Turn::alone();
    let far = Far::start_after("deep-hoarder", "ulimit -n 700");
    let folder = far.target.join("deep");
    let deepest = folder.join("level/".repeat(DEPTH));
    fs::create_dir_all(&deepest).unwrap();
    // more than is listed ahead, so that the listing stays down there
    for nth in 0..12_000 {
        fs::write(deepest.join(nth.to_string()), "").unwrap();
    }
    let key = let_in(&far, "greedy");
    let folder = folder.to_str().unwrap();
    let mut held = Vec::new();
    for _ in 0..6 {
        let Ok(session) = silent(&far, &key) else {
            break;
        };
        ask_for(folder, &session);
        held.push(session);
    }
    let id = far.daemon.id();
    let (mut most, mut same) = (0, 0);
    becomes_true("what is open has settled", || {
        let open = files(id);
        same = if open > most { 0 } else { same + 1 };
        most = most.max(open);
        same > 10
    });
    println!("{} deep trees are sent with {most} files open", held.len());
    assert_honest_copies(&far);
    assert_no_file_was_missing(far);
}

/// Leaves the process `id` no file but those that are open, or takes that back.
fn limit_files(id: u32, current: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = current.or(maximum);
    let pid = Pid::from_raw(id.try_into().unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

/// Ticks of a hundredth of a second that a process has computed.
fn ticks(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap())
        .sum()
}

/// Processor time of two seconds in which a process can accept none of the calls to `port`.
fn ticks_without_files(id: u32, port: u16) -> u64 {
    limit_files(id, Some(3));
    let calls: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    let before = ticks(id);
    pause(Duration::from_secs(2));
    let spent = ticks(id) - before;
    limit_files(id, None);
    drop(calls);
    spent
}

#[test]
fn a_daemon_without_a_file_to_accept_with_neither_spins_nor_ends() {
    let _turn = Turn::alone();
    let mut far = Far::start("no-files", &[]);
    // it has begun to take calls
    assert_honest_copies(&far);
    let spent = ticks_without_files(far.daemon.id(), far.port);
    far.daemon.says("a call could not be taken");
    println!("{spent} hundredths of a second of processor time in 2 s");
    assert!(spent < 100, "{spent}");
    assert_honest_copies(&far);
}

#[test]
fn a_scheduler_without_a_file_to_accept_with_neither_spins_nor_ends() {
    let _turn = Turn::alone();
    let mut booking = Booking::start("no-files-to-book", &["--no-tls"]);
    let ada = booking.token("ada", "user");
    booking.run(&ada, &["calendar"]).assert_succeeded();
    let port = booking
        .url
        .rsplit(':')
        .next()
        .unwrap()
        .trim_end_matches('/')
        .parse()
        .unwrap();
    let spent = ticks_without_files(booking.scheduler.id(), port);
    booking.scheduler.says("cannot accept a connection");
    println!("{spent} hundredths of a second of processor time in 2 s");
    assert!(spent < 100, "{spent}");
    booking.run(&ada, &["calendar"]).assert_succeeded();
}

const DEPTH: usize = 300;
