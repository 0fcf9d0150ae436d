//! Copies between two daemons that end early: narrowed rights, hosts that fall silent, and peers that never speak.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::message::{Landing, Target, Way};
use lighthaul_copy::relay::{self, Relay, Request};
use lighthaul_daemon::client::call;
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::Message;
use lighthaul_session::session::Session;
use lighthaul_testkit::{allowance, report};

use crate::endless::session_threads;
use crate::far::Far;
use crate::running::{Ends, Running, becomes_true};
use crate::third::{Pair, assert_agreed, copying, expect, hello, meet, port};

#[test]
fn narrowed_rights_at_either_daemon_end_a_third_party_copy_within_five_seconds() {
    let pair = Pair::start("third-narrowed", &[], &[]);
    let file = pair.a.near.file("x", 60 << 20);
    fs::rename(file, pair.a.target.join("x")).unwrap();
    let [a, b] = [port(&pair.a), port(&pair.b)];
    let slowly = ["--json", "--rate", "20Mb/s"];
    for (far, options, words) in [
        (
            &pair.b,
            &["--read-only"][..],
            format!("{b}your key may only read"),
        ),
        (
            &pair.a,
            &["--root", "/nowhere"],
            format!("{a}the operator of the daemon changed the root directory of your key"),
        ),
    ] {
        let mut copy = Running::start(pair.copy(&slowly, "x", "x"));
        copy.prints("\"type\":\"progress\"");
        pair.allow(far, options);
        let outcome = copy.finish().assert_failed(13, &words);
        report(format_args!(
            "{options:?}: the copy ended after {:?}",
            outcome.time
        ));
        assert!(outcome.time < allowance(5), "{outcome:?}");
        assert!(!pair.b.target.join("x").exists());
        pair.allow(far, &[]);
    }
}

/// One of the three processes stops in the middle of a copy, as a host does that has lost its power or its network.
#[test]
fn third_party_copy_ends_if_any_of_the_three_hosts_is_silent() {
    thread::scope(|scope| {
        for silent in ["client", "source", "target"] {
            scope.spawn(move || assert_silence_ends(silent));
        }
    });
}

fn assert_silence_ends(silent: &str) {
    let pair = Pair::start(&format!("third-silent-{silent}"), &[], &[]);
    let file = pair.a.near.file("x", 24 << 20);
    fs::rename(file, pair.a.target.join("x")).unwrap();
    let mut copy = Running::start(pair.copy(&["--json", "--rate", "4Mb/s"], "x", "x"));
    copy.prints("\"type\":\"progress\"");
    let clock = Clock::start();
    let stopped = match silent {
        "client" => &copy,
        "source" => &pair.a.daemon,
        _ => &pair.b.daemon,
    };
    stopped.signal("STOP");
    let mut told = None;
    if silent == "client" {
        becomes_true("both daemons have ended their sessions", || {
            [&pair.a, &pair.b].map(|far| session_threads(far.daemon.id())) == [0, 0]
        });
    } else {
        told = Some(copy.finish());
    }
    let took = clock.now().since(Instant::ZERO);
    report(format_args!(
        "silent {silent}: the copy ended after {took:?}: {told:?}"
    ));
    assert!(took < silence_max(), "silent {silent}: {took:?}");
    if let Some(outcome) = told {
        let code = outcome.code.unwrap_or_default();
        assert!(
            [Code::Network, Code::TimedOut]
                .map(|code| code as i32)
                .contains(&code),
            "{outcome:?}"
        );
    }
    assert!(!pair.b.target.join("x").exists());
}

/// Returns the longest time for which a silent host keeps the others: half a minute and some checks, and longer on a
/// busy host.
fn silence_max() -> Duration {
    allowance(50)
}

/// A session that only its timeouts end, and what holds it.
struct Silent {
    what: &'static str,
    session: Session,
    /// Sends keepalives, as a client does that is there.
    is_alive: bool,
}

/// Returns the request to send a file to a daemon at `port` that has this key.
fn relayed(far: &Far, port: u16, key: [u8; 32]) -> Request {
    let relay = Relay {
        host: "127.0.0.1".to_owned(),
        port,
        key,
        udp: true,
        paths: vec![far.target.join("x").to_str().unwrap().into()],
        target: target(far),
    };
    let options = Options::default();
    Request::Send { relay, options }
}

fn target(far: &Far) -> Target {
    Target {
        path: far.target.join("y").to_str().unwrap().into(),
        landing: Landing::Exact,
    }
}

/// Asks for a relay, and confirms that its target expects it if `announced`.
fn relay_of(far: &Far, request: &Request, announced: bool) -> Session {
    let session = meet(far);
    session.say(&hello(request)).unwrap();
    let answer = session.hear().unwrap();
    assert!(matches!(answer, relay::Message::SourceKey { .. }));
    if announced {
        session.say(&relay::Message::Expected).unwrap();
    }
    session
}

/// Invites a guest.
fn invitation_of(far: &Far, guest: &Identity) -> Session {
    let key = *tls::fingerprint(guest).unwrap().octets();
    let host = meet(far);
    host.say(&hello(&expect(key, target(far)))).unwrap();
    assert_agreed(&host.hear());
    host
}

#[test]
fn silent_relay_and_invitation_end_in_half_a_minute() {
    let far = Far::start("third-silent", &[]);
    fs::write(far.target.join("x"), "x").unwrap();
    let identity = Identity::generate();
    let key = *tls::fingerprint(&identity).unwrap().octets();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let to_mute = relayed(&far, mute.local_addr().unwrap().port(), key);
    let [absent, guest] = [(); 2].map(|()| Identity::generate());
    let silent = |what, session| Silent {
        what,
        session,
        is_alive: false,
    };
    let alive = |what, session| Silent {
        what,
        session,
        is_alive: true,
    };
    let mut all = vec![
        silent(
            "relay that is not announced",
            relay_of(&far, &to_mute, false),
        ),
        silent(
            "invitation of a silent host",
            invitation_of(&far, &Identity::generate()),
        ),
        alive("invitation without a guest", invitation_of(&far, &absent)),
        alive("invitation of a silent guest", invitation_of(&far, &guest)),
    ];
    let session = call("127.0.0.1", far.port, &guest).unwrap();
    session.say(&Message::Guest).unwrap();
    session.say(&copying(Way::Receive(target(&far)))).unwrap();
    assert_agreed(&session.hear());
    all.push(silent("guest", session));
    // the target of a relay completes the handshake, and says nothing more
    let session = relay_of(&far, &to_mute, true);
    let reached = Session::meet(mute.accept().unwrap().0, &identity).unwrap();
    reached.control.authorize();
    all.push(alive("relay to a silent target", session));
    assert!(session_threads(far.daemon.id()) > 0);
    let clock = Clock::start();
    thread::scope(|scope| {
        for one in &all {
            scope.spawn(|| {
                let error = ended(one, clock);
                let took = clock.now().since(Instant::ZERO);
                report(format_args!("{} ended after {took:?}: {error:?}", one.what));
                assert!(took < silence_max(), "{}: {took:?}", one.what);
            });
        }
    });
    becomes_true("no session is left", || {
        session_threads(far.daemon.id()) == 0
    });
    assert_eq!(far.names(), ["x"]);
}

/// Each octet of the target arrives within the time for one, so only the time for the whole handshake ends the wait.
#[test]
fn relay_to_a_target_with_an_endless_handshake_leaves_no_thread() {
    let far = Far::start("third-drip", &[]);
    fs::write(far.target.join("x"), "x").unwrap();
    let key = *tls::fingerprint(&Identity::generate()).unwrap().octets();
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let request = relayed(&far, slow.local_addr().unwrap().port(), key);
    let relay = Silent {
        what: "relay to a slow target",
        session: relay_of(&far, &request, true),
        is_alive: true,
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&is_over);
        scope.spawn(|| {
            let mut tcp = slow.accept().unwrap().0;
            // the header of a long record of a handshake
            tcp.write_all(&[22, 3, 3, 0x40, 0]).unwrap();
            while !is_over.load(Relaxed) && tcp.write_all(&[0]).is_ok() {
                pause(Duration::from_millis(20));
            }
        });
        let error = ended(&relay, Clock::start()).unwrap();
        assert!(error.text().contains("cannot reach"), "{error}");
        becomes_true("no thread is left", || {
            session_threads(far.daemon.id()) == 0
        });
    });
}

/// Waits until the daemon has ended a session. Returns what it told.
fn ended(silent: &Silent, clock: Clock) -> Option<Error> {
    let session = &silent.session;
    while clock.now() < Instant::ZERO + silence_max() {
        if silent.is_alive {
            session.say(&Message::Keepalive { work: 0 }).ok();
        }
        match session.hear_for::<Message>(Duration::from_millis(500)) {
            Err(error) if session.was_told() => return Some(error),
            _ if session.control.has_ended() => return None,
            _ => {}
        }
    }
    None
}
