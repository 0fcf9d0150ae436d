//! Keys that take as many files, threads and sessions as they can, and hosts that have no free files.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use lighthaul_copy::message::{self, Way};
use lighthaul_daemon::rights::Rights;
use lighthaul_daemon::statement;
use lighthaul_files::options::Options;
use lighthaul_io::control::FRAME_MAX;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::wait::pause;
use lighthaul_session::checkup;
use lighthaul_session::credential::Credential;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::session::Session;
use lighthaul_testkit::{Turn, report};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::alone::attacks::stay;
use crate::booking::Booking;
use crate::far::Far;
use crate::running::becomes_true;

/// Allows a new key at the daemon.
pub(crate) fn let_in(far: &Far, name: &str) -> Identity {
    let identity = Identity::generate();
    let key = tls::fingerprint(&identity).unwrap();
    let words = ["allow", &key.to_string(), name, "--read-only", "--allowed"];
    let mut allow = far.near.lighthaul(&words);
    allow.arg(far.near.allowed());
    far.near.run(allow).assert_succeeded();
    identity
}

/// A session that has completed its handshake and sends nothing, unless it is refused.
fn silent(far: &Far, identity: &Identity) -> Result<Session, Error> {
    let tcp = TcpStream::connect(("127.0.0.1", far.port))
        .map_err(|error| PeerFault::reported(Code::Network as u8, error.to_string()))?;
    let session = Session::start(tcp, Side::Client, identity)?;
    match session.hear_for::<Message>(Duration::from_millis(50)) {
        Err(error) if session.was_told() => Err(error),
        _ => Ok(session),
    }
}

/// Requests all files in `folder`, and reads no reply.
fn ask_for(folder: &str, session: &Session) {
    let request = message::Request {
        way: Way::Send(vec![folder.into()]),
        options: Options::default(),
    };
    let hello = Hello::about::<message::Message>(&request);
    session.say(&Message::Hello(hello)).unwrap();
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
fn ptcp_connections_do_not_use_the_session_limit() {
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
fn ptcp_copy_uses_the_allowed_connections_of_its_address() {
    let mut far = Far::start(
        "few-connections",
        &[
            "--max-connections",
            "8",
            "--max-connections-per-address",
            "4",
        ],
    );
    let file = far.near.file("large", 30_000_000);
    let options = ["--protocol", "ptcp", "--streams", "8"];
    far.push(&options, &[&file], "large").assert_succeeded();
    far.daemon
        .says("no connections are free there: your address already holds 4");
}

#[test]
fn keys_at_their_session_limit_block_no_other_key() {
    let _turn = Turn::beside_others();
    let far = Far::start_after("hoarders", "ulimit -n 700");
    let mut held = Vec::new();
    // the second key calls from the same address, which also has a limit
    for (name, holder) in [("greedy", "your key"), ("greedier", "your")] {
        let key = let_in(&far, name);
        let mut refused = 0;
        for _ in 0..TRIES {
            match stay(far.port, &key) {
                Ok(session) => held.push(session),
                Err(error) => {
                    let words = format!("no open files are free there: {holder}");
                    assert!(error.text().contains(&words), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > TRIES / 2, "{refused}");
    }
    report(format_args!(
        "{} of {} sessions are held with {} files open",
        held.len(),
        2 * TRIES,
        files(far.daemon.id())
    ));
    assert_honest_copies(&far);
    assert_no_file_was_missing(far);
}

/// Opens a session with a new key, for which `authority` has signed a statement.
fn minted(far: &Far, authority: &Identity) -> Result<Session, Error> {
    let identity = Identity::generate();
    let key = tls::fingerprint(&identity)?;
    let rights = Rights {
        name: "minted".to_owned(),
        ..Rights::default()
    };
    let expires = unix_nanos() / 1_000_000_000 + 3600;
    let octets = statement::sign(authority, key, &rights, expires);
    let tcp = TcpStream::connect(("127.0.0.1", far.port))
        .map_err(|error| PeerFault::reported(Code::Network as u8, error.to_string()))?;
    let session = Session::start(tcp, Side::Client, &identity)?;
    session.say(&Message::Credential(Credential::Statement(octets)))?;
    session.say(&Message::Hello(Hello::about::<checkup::message::Message>(
        &(),
    )))?;
    session.hear::<Message>()?;
    Ok(session)
}

/// The holder of an authority's key can create any number of keys.
#[test]
fn keys_of_one_authority_share_its_limit_and_block_no_other_key() {
    let far = Far::start(
        "authority",
        &["--max-sessions", "8", "--max-sessions-per-authority", "4"],
    );
    let authority = Identity::generate();
    let key = tls::fingerprint(&authority).unwrap();
    let listed = fs::read_to_string(far.near.allowed()).unwrap();
    fs::write(far.near.allowed(), format!("{listed}ca {key} lab\n")).unwrap();
    let mut held = Vec::new();
    for _ in 0..12 {
        match minted(&far, &authority) {
            Ok(session) => held.push(session),
            Err(error) => {
                let words = "the keys of your authority already hold 4";
                assert!(error.text().contains(words), "{error}");
            }
        }
    }
    assert_eq!(held.len(), 4);
    assert_honest_copies(&far);
    drop(held);
    becomes_true("a statement is accepted again", || {
        minted(&far, &authority).is_ok()
    });
}

/// KiB of memory that a process has at the moment.
pub(crate) fn memory(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1);
    kib.unwrap().parse().unwrap()
}

/// Sends a frame of the longest length without its last octet, or as much of it as the daemon takes. Returns the
/// connection.
fn unfinished_frame(far: &Far, identity: &Identity) -> TcpStream {
    let mut tcp = TcpStream::connect(("127.0.0.1", far.port)).unwrap();
    let mut connection = tls::handshake(&mut tcp, Side::Client, identity).unwrap();
    tcp.set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let mut frame = (FRAME_MAX as u32).to_be_bytes().to_vec();
    frame.extend([0, 0, 2, 0]);
    frame.resize(FRAME_MAX + 7, 7);
    frame.truncate(8 << 20);
    for part in frame.chunks(16 << 10) {
        connection.writer().write_all(part).unwrap();
        while connection.wants_write() {
            if connection.write_tls(&mut tcp).is_err() {
                return tcp;
            }
        }
    }
    tcp
}

#[test]
fn unfinished_frames_on_many_connections_take_no_more_memory_than_the_limit() {
    let _turn = Turn::beside_others();
    let far = Far::start("unfinished", &["--max-memory", "256MiB"]);
    let key = let_in(&far, "greedy");
    // memory while it serves
    assert_honest_copies(&far);
    let (id, before) = (far.daemon.id(), memory(far.daemon.id()));
    let held = [(); 64].map(|()| unfinished_frame(&far, &key));
    let mut most = 0;
    for _ in 0..20 {
        pause(Duration::from_millis(50));
        most = most.max(memory(id));
    }
    let more = most.saturating_sub(before) >> 10;
    report(format_args!(
        "{} connections with an unfinished frame each: {more} MiB more than the {} MiB before",
        held.len(),
        before >> 10
    ));
    // half of the memory is for one key
    assert!(more < 128, "{more} MiB");
    assert_honest_copies(&far);
}

#[test]
fn limits_of_memory_threads_and_files_refuse_one_key_and_block_no_other_key() {
    let _turn = Turn::beside_others();
    for (option, most, what) in [
        ("--max-memory", "256MiB", "MiB of memory"),
        ("--max-threads", "128", "threads"),
        ("--max-open-files", "2000", "open files"),
    ] {
        let far = Far::start("limits", &[option, most]);
        let key = let_in(&far, "greedy");
        let mut held = Vec::new();
        let refused = (0..200).find_map(|_| match silent(&far, &key) {
            Ok(session) => {
                held.push(session);
                None
            }
            Err(error) => Some(error.text()),
        });
        report(format_args!(
            "{option} {most}: {} silent sessions",
            held.len()
        ));
        let refused = refused.unwrap();
        let words = format!("no {what} are free there: your key already holds");
        assert!(refused.contains(&words), "{option}: {refused}");
        assert_honest_copies(&far);
        assert_no_file_was_missing(far);
    }
}

#[test]
fn stalled_client_with_deep_trees_blocks_no_other_key() {
    let _turn = Turn::beside_others();
    let far = Far::start_after("deep-hoarder", "ulimit -n 700");
    let folder = far.target.join("deep");
    let deepest = folder.join("level/".repeat(DEPTH));
    fs::create_dir_all(&deepest).unwrap();
    // more than is listed ahead, so that the walk waits inside the tree
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
    report(format_args!(
        "{} deep trees are sent with {most} files open",
        held.len()
    ));
    assert_honest_copies(&far);
    assert_no_file_was_missing(far);
}

/// Clients that do work increase the counter, which does not change here.
#[test]
fn client_that_only_sends_keepalives_is_ended() {
    let far = Far::start("idle-client", &[]);
    fs::write(far.target.join("file"), "bytes").unwrap();
    let key = let_in(&far, "idle");
    let session = silent(&far, &key).unwrap();
    let request = message::Request {
        way: Way::Send(vec![
            far.target
                .join("file")
                .into_os_string()
                .into_encoded_bytes(),
        ]),
        options: Options {
            stall: 4,
            ..Options::default()
        },
    };
    let hello = Hello::about::<message::Message>(&request);
    session.say(&Message::Hello(hello)).unwrap();
    assert!(matches!(session.hear(), Ok(Message::Welcome)));
    let end = (0..240).find_map(|_| {
        session.say(&Message::Keepalive { work: 7 }).ok();
        let heard = session.hear_for::<message::Message>(Duration::from_millis(250));
        heard.err().filter(|_| session.was_told())
    });
    let end = end.expect("the daemon waits for more than a minute");
    assert_eq!(end.code(), Code::TimedOut, "{end}");
    assert!(end.text().contains("done nothing for 4 s"), "{end}");
    drop(session);
    assert_honest_copies(&far);
}

/// Limits the process `id` to the files that it has open, or removes that limit.
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

/// Returns the processor time of two seconds in which a process cannot accept calls to `port`.
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

/// Tests that measure processor time of an idle process.
mod quiet {
    use super::*;

    #[test]
    fn daemon_without_file_descriptors_keeps_running_idle() {
        let _turn = Turn::quiet();
        let mut far = Far::start("no-files", &[]);
        // it has begun to accept connections
        assert_honest_copies(&far);
        let spent = ticks_without_files(far.daemon.id(), far.port);
        far.daemon.says("cannot accept a connection");
        report(format_args!(
            "{spent} hundredths of a second of processor time in 2 s"
        ));
        assert!(spent < 100, "{spent}");
        assert_honest_copies(&far);
    }

    #[test]
    fn scheduler_without_file_descriptors_keeps_running_idle() {
        let _turn = Turn::quiet();
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
        report(format_args!(
            "{spent} hundredths of a second of processor time in 2 s"
        ));
        assert!(spent < 100, "{spent}");
        booking.run(&ada, &["calendar"]).assert_succeeded();
    }
}

const DEPTH: usize = 300;
/// Sessions that each greedy key tries to open.
const TRIES: usize = 500;
