//! A daemon with unknown clients: silent ones, scanners, garbage, and other versions.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use lighthaul_base::escape::{LINE_MAX, is_hidden};
use lighthaul_base::{Instant, Rng};
use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_io::control::Frame;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::{Side, fingerprint};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::Code;
use lighthaul_session::message::{Hello, Message, VERSION};
use lighthaul_session::session::Session;
use lighthaul_testkit::{allowance, report};

use crate::far::{Far, Near};
use crate::running::{Running, becomes_true};
use crate::scratch::{look, noise};

/// A daemon, and a copy to it that takes some seconds and has begun.
fn busy(name: &str) -> (Far, Running) {
    let far = Far::start(name, &[]);
    let file = far.near.file("large", 12_500_000);
    let place = far.place("large");
    let paths = [file.to_str().unwrap(), &place];
    let mut copy = Running::start(far.copy(&["--json", "--rate", "20Mb/s"], &paths));
    copy.prints("\"type\":\"progress\"");
    (far, copy)
}

/// Asserts that the copy succeeds.
fn assert_unharmed(far: &Far, copy: Running) {
    copy.finish().assert_succeeded();
    assert!(look(&far.target.join("large")) == look(&far.near.at("large")));
}

/// Returns a number from the daemon's /proc status, such as `Threads` or `VmRSS`.
fn status(far: &Far, what: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", far.daemon.id())).unwrap();
    let line = text.lines().find(|line| line.starts_with(what)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn descriptors(far: &Far) -> usize {
    fs::read_dir(format!("/proc/{}/fd", far.daemon.id()))
        .unwrap()
        .count()
}

#[test]
fn ten_thousand_silent_connections_are_bounded_and_block_no_client() {
    let (far, copy) = busy("silent");
    let mut callers = Vec::new();
    for _ in 0..10_000 {
        callers.push(TcpStream::connect(("127.0.0.1", far.port)).unwrap());
    }
    let (threads, resident, open) = (
        status(&far, "Threads"),
        status(&far, "VmRSS"),
        descriptors(&far),
    );
    report(format_args!(
        "{threads} threads, {resident} KiB, {open} descriptors"
    ));
    // each waiting connection is a descriptor, and one host may have only some
    assert!(
        threads < 50 && resident < 150_000 && open < 400,
        "{threads} {resident} {open}"
    );
    // clients that found no free slot receive an error
    let last = callers.last_mut().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let end = last.read(&mut [0]);
    assert!(
        matches!(&end, Ok(0))
            || end
                .as_ref()
                .is_err_and(|e| e.kind() == ErrorKind::ConnectionReset),
        "{end:?}"
    );
    // a later connection replaces the one that has waited longest
    pause(Duration::from_millis(1100));
    let file = far.near.file("small", 10);
    far.push(&[], &[Path::new(&file)], "small")
        .assert_succeeded();
    assert_unharmed(&far, copy);
    assert_eq!(far.names(), ["large", "small"]);
}

#[test]
fn slow_handshake_is_timed_out() {
    let far = Far::start("dribble", &[]);
    let mut caller = TcpStream::connect(("127.0.0.1", far.port)).unwrap();
    caller
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let clock = Clock::start();
    // the start of a greeting of 2 KiB, and then an octet at a time, so that no single read waits long
    let mut octets = [0x16, 3, 1, 0x08, 0, 1]
        .into_iter()
        .chain(std::iter::repeat(0));
    loop {
        let octet = octets.next().unwrap();
        let gone = caller.write_all(&[octet]).is_err();
        let end = caller.read(&mut [0]).map_err(|error| error.kind());
        if gone || end != Err(ErrorKind::WouldBlock) {
            break;
        }
        assert!(
            clock.now() < Instant::ZERO + allowance(15),
            "it is still served"
        );
    }
    assert!(
        clock.now() > Instant::ZERO + Duration::from_secs(5),
        "a slow path was given no time"
    );
    becomes_true("its thread is gone", || descriptors(&far) < 12);
}

#[test]
fn port_scans_and_garbage_do_not_disturb_a_copy() {
    const SEED: u64 = 20_261_122;
    println!("seed {SEED}");
    let (far, copy) = busy("garbage");
    let mut rng = Rng::new(SEED);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for nth in 0..2000_u64 {
        let bytes = noise(rng.next_u64() % 1400, nth);
        udp.send_to(&bytes, ("127.0.0.1", far.port)).ok();
        if nth % 20 > 0 {
            continue;
        }
        let mut tcp = TcpStream::connect(("127.0.0.1", far.port)).unwrap();
        match rng.next_u64() % 4 {
            0 => drop(tcp),
            // the daemon may have ended the connection
            1 => _ = tcp.shutdown(Shutdown::Write),
            2 => _ = tcp.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
            // data that begins like a TLS greeting and is none
            _ => {
                let mut hello = noise(300, nth);
                hello[..9].copy_from_slice(&[0x16, 3, 1, 1, 0x27, 1, 0, 1, 0x23]);
                tcp.write_all(&hello).ok();
            }
        }
    }
    assert_unharmed(&far, copy);
    let file = far.near.file("small", 10);
    far.push(&[], &[Path::new(&file)], "small")
        .assert_succeeded();
}

#[test]
fn client_of_another_version_gets_an_error() {
    let far = Far::start("other-version", &[]);
    let identity = Identity::load_or_generate(&far.near.key()).unwrap();
    let dial = || {
        let tcp = TcpStream::connect(("127.0.0.1", far.port)).unwrap();
        Session::start(tcp, Side::Client, &identity).unwrap()
    };
    let session = dial();
    let hello = Hello {
        version: VERSION + 1,
        ..Hello::about::<FileReply>(&FileRequest::Stat { paths: Vec::new() })
    };
    session.say(&Message::Hello(hello)).unwrap();
    let error = session.hear::<Message>().unwrap_err();
    assert_eq!(error.code(), Code::Protocol);
    assert!(error.text().contains("speaks version"), "{error}");
    let session = dial();
    session.stream.send(&Frame::message(vec![0xff; 9])).unwrap();
    let error = session.hear::<Message>().unwrap_err();
    assert_eq!(error.code(), Code::Protocol);
    assert!(error.text().contains("same version"), "{error}");
}

#[test]
fn daemon_of_another_version_is_a_distinct_failure() {
    let near = Near::new("other-daemon", None);
    let identity = Identity::generate();
    let pin = fingerprint(&identity).unwrap().to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("lh://{}/x", listener.local_addr().unwrap());
    let file = near.file("x", 10);
    let mut copy = near.cp(&["--pin", &pin, "--key"]);
    copy.arg(near.key()).arg(&file).arg(&place);
    let copy = Running::start(copy);
    let session = Session::start(listener.accept().unwrap().0, Side::Server, &identity).unwrap();
    session.hear::<Message>().unwrap();
    session.stream.send(&Frame::message(vec![0xff; 9])).unwrap();
    copy.finish()
        .assert_failed(2, "do both sides run the same version?");
}

#[test]
fn refused_key_is_logged_once() {
    let mut far = Far::start("logged-once", &[]);
    let file = far.near.file("x", 10);
    let call = |key: &str| {
        let mut copy = far.near.cp(&["--pin", &far.pin, "--key"]);
        copy.arg(far.near.at(key)).arg(&file).arg(far.place("x"));
        far.near
            .run(copy)
            .assert_failed(13, "your key is not allowed there");
    };
    for key in ["one", "one", "one", "two"] {
        call(key);
    }
    far.daemon.signal("TERM");
    far.daemon.says("stopping");
    let outcome = far.daemon.finish();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let refused = outcome
        .err
        .iter()
        .filter(|line| line.contains("refused unknown key sha256:"));
    assert_eq!(refused.count(), 2, "{:?}", outcome.err);
}

#[test]
fn unknown_client_cannot_forge_log_lines() {
    let mut far = Far::start("forger", &[]);
    let forged = "gone\n2031-01-01T00:00:00Z  INFO forged \x1b[2J\u{9b}2J \u{202e}reversed ";
    let long = format!("{forged}{}", "x".repeat(48 << 10));
    for text in [forged, &long] {
        let tcp = TcpStream::connect(("127.0.0.1", far.port)).unwrap();
        let from = tcp.local_addr().unwrap();
        let session = Session::start(tcp, Side::Client, &Identity::generate()).unwrap();
        session
            .say(&Message::Failed {
                code: 1,
                why: text.to_owned(),
            })
            .unwrap();
        session.hear::<Message>().unwrap_err();
        // the daemon has logged it before it is stopped
        far.daemon.says(&format!("{from}}}: refused"));
    }
    far.daemon.signal("TERM");
    far.daemon.says("stopping");
    let log = far.daemon.finish().err;
    let refused = log.iter().filter(|line| line.contains("refused"));
    assert_eq!(refused.count(), 2, "{log:?}");
    for line in &log {
        assert!(!line.starts_with("2031"), "{line}");
        assert!(
            !line.contains(is_hidden) && line.len() <= LINE_MAX,
            "{line:.300}"
        );
    }
}
