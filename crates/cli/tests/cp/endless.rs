//! Keys whose clients never read, never speak or never stop: their sessions end, and cost what a session costs.

use std::fs;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_copy::message::{self, Way};
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::{Side, fingerprint};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_io::net::flood::flood;
use lighthaul_session::checkup;
use lighthaul_session::error::Error;
use lighthaul_session::measure::{self, MeasureMode, MeasureRequest};
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::offer::Offer;
use lighthaul_session::path::explore;
use lighthaul_session::protocol::Protocol;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;
use lighthaul_stream::message as stream;
use lighthaul_testkit::{allowance, report};

use crate::far::Far;
use crate::resource_limits::{let_in, memory};
use crate::running::{Ends, becomes_true};

/// Returns the number of threads that serve sessions of the daemon with this process id.
pub(crate) fn session_threads(id: u32) -> usize {
    let is_of_session = |task: &fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| !OWN_THREADS.contains(&name.trim()))
    };
    let tasks = fs::read_dir(format!("/proc/{id}/task"));
    tasks.map_or(0, |tasks| tasks.flatten().filter(is_of_session).count())
}

/// Names of the threads of a daemon without sessions.
const OWN_THREADS: [&str; 4] = ["lighthaul", "probes", "recent hosts", "metrics"];

/// Starts a session with the daemon, and makes a request that the daemon accepts.
pub(crate) fn ask<M: Topic>(
    far: &Far,
    key: &Identity,
    request: &M::Request,
    plain: bool,
) -> Session {
    let tcp = TcpStream::connect(("127.0.0.1", far.port)).unwrap();
    let session = Session::start(tcp, Side::Client, key).unwrap();
    let hello = Hello {
        plain,
        ..Hello::about::<M>(request)
    };
    session.say(&Message::Hello(hello)).unwrap();
    let agreed = session.hear().unwrap();
    assert!(matches!(agreed, Message::Welcome), "{agreed:?}");
    session
}

/// The most KiB that the daemon has more than `before`, in the next seconds.
pub(crate) fn growth(id: u32, before: u64, seconds: u64) -> u64 {
    let mut most = 0;
    for _ in 0..seconds * 20 {
        pause(Duration::from_millis(50));
        most = most.max(memory(id));
    }
    most.saturating_sub(before)
}

#[test]
fn client_with_endless_clock_requests_is_refused() {
    let far = Far::start("time", &[]);
    let key = let_in(&far, "timer");
    let session = ask::<checkup::message::Message>(&far, &key, &(), false);
    let (id, before) = (far.daemon.id(), memory(far.daemon.id()));
    let mut asked = 0_u64;
    // the answers are left unread
    while !session.control.has_ended() && asked < 1_000_000 {
        if !session.stream.has_room() {
            pause(Duration::from_millis(1));
            continue;
        }
        let time = checkup::message::Message::Time { nanos: 0 };
        if session.say(&time).is_err() {
            break;
        }
        asked += 1;
    }
    let more = growth(id, before, 1);
    report(format_args!("{more} KiB more after {asked} requests"));
    assert!(more < 16 << 10, "{more}");
    // the end of the data may still be in transit
    becomes_true("the session has ended", || session.control.has_ended());
}

fn measurement(mode: MeasureMode) -> MeasureRequest {
    MeasureRequest {
        mode,
        bytes: 1 << 30,
        millis: 600_000,
        rate_bps: None,
    }
}

/// Begins a measurement by `mode` and stops before its object.
fn begun_measurement(far: &Far, key: &Identity, mode: MeasureMode) -> Session {
    let session = ask::<measure::Message>(far, key, &measurement(mode), true);
    let role = Role::Client(false);
    let lanes = usize::from(!matches!(mode, MeasureMode::By(_)));
    let path = explore(&session.dialog(), &role, true, lanes).unwrap();
    let protocol = if let MeasureMode::By(protocol) = mode {
        protocol
    } else {
        Protocol::Rbudp
    };
    let rate = Rate::from_mbps(100);
    let offer = Offer {
        joins: 0,
        ..Offer::new(&session, (protocol, 0), &path, rate)
    };
    session.say(&measure::Message::Offer(offer)).unwrap();
    let ready = session.hear::<measure::Message>().unwrap();
    assert!(matches!(ready, measure::Message::Ready));
    session
}

/// A client that is gone without a word, as behind a cable that was cut, is one that says nothing.
#[test]
fn silent_session_ends_for_every_type_of_request() {
    let far = Far::start("silent-kinds", &[]);
    let key = let_in(&far, "silent");
    let id = far.daemon.id();
    let silent: Vec<(&str, Session)> = vec![
        (
            "probe of rbudp",
            begun_measurement(&far, &key, MeasureMode::Place),
        ),
        (
            "probe of tcp",
            begun_measurement(&far, &key, MeasureMode::By(Protocol::Tcp)),
        ),
        (
            "probe that has not begun",
            ask::<measure::Message>(&far, &key, &measurement(MeasureMode::Network), true),
        ),
        (
            "checkup",
            ask::<checkup::message::Message>(&far, &key, &(), false),
        ),
        ("copy", {
            let request = message::Request {
                way: Way::Send(vec![
                    far.target.clone().into_os_string().into_encoded_bytes(),
                ]),
                options: Options::default(),
            };
            ask::<message::Message>(&far, &key, &request, false)
        }),
        ("stream", {
            let pipe = far.target.join("pipe");
            fs::write(&pipe, "").unwrap();
            let request = stream::StreamRequest {
                path: pipe.into_os_string().into_encoded_bytes(),
                to: false,
                frames: lighthaul_stream::frames::Frames::Lines,
                kind: stream::StreamKind::Messages(stream::Messages {
                    code: "none".into(),
                    linger_us: 1000,
                    deadline_us: None,
                    drop: false,
                }),
            };
            ask::<stream::Message>(&far, &key, &request, false)
        }),
    ];
    let clock = Clock::start();
    assert!(session_threads(id) > 0);
    becomes_true("every silent session has ended", || {
        session_threads(id) == 0
    });
    report(format_args!(
        "{} silent sessions ended within {:?}",
        silent.len(),
        clock.now().since(Instant::ZERO)
    ));
    for (kind, session) in &silent {
        // the end of the data may still be in transit
        becomes_true(kind, || session.control.has_ended());
    }
}

#[test]
fn denied_key_cannot_keep_its_session_with_a_flood_of_datagrams() {
    let far = Far::start("endless-flood", &[]);
    let key = let_in(&far, "flooder");
    let id = far.daemon.id();
    let request = measurement(MeasureMode::Network);
    let session = ask::<measure::Message>(&far, &key, &request, true);
    let path = explore(&session.dialog(), &Role::Client(true), true, 1).unwrap();
    let number = session.secrets.data_connection();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| {
            let (time, rate) = (Duration::from_millis(100), Rate::from_mbps(20));
            while !over.load(Relaxed) {
                // the daemon's port is closed at the end
                flood(&path.sockets[0], number, path.datagram_len, time, rate).ok();
            }
        });
        pause(Duration::from_secs(1));
        assert!(session_threads(id) > 0);
        let clock = Clock::start();
        deny(&far, &key);
        becomes_true("the denied session has ended", || session_threads(id) == 0);
        let took = clock.now().since(Instant::ZERO);
        report(format_args!("the flood of a denied key ended in {took:?}"));
        assert!(took < allowance(8), "{took:?}");
    });
}

fn deny(far: &Far, key: &Identity) {
    let key = fingerprint(key).unwrap().to_string();
    let mut deny = far.near.lighthaul(&["deny", &key, "--allowed"]);
    deny.arg(far.near.allowed());
    far.near.run(deny).assert_succeeded();
}

/// A client that says that it is there, and measures nothing.
#[test]
fn measurement_without_progress_ends_despite_a_connected_client() {
    let far = Far::start("idle-measurement", &[]);
    let key = let_in(&far, "idle");
    let session = begun_measurement(&far, &key, MeasureMode::Place);
    let end: Result<(), Error> = (0..60).try_for_each(|_| {
        session.say(&Message::Keepalive { work: 0 })?;
        match session.hear_for::<measure::Message>(Duration::from_secs(1)) {
            Err(error) if session.was_told() => Err(error),
            _ => Ok(()),
        }
    });
    let end = end.expect_err("the daemon waits for more than a minute");
    assert!(end.text().contains("measurement"), "{end}");
}
