//! A daemon under attack: effects on honest clients and running copies. Each test prints its numbers.
//!
//! By default each attack lasts a few seconds. `make attacks` runs the full form, with optimization: a minute each,
//! 10 GB of datagrams, and no copy may lose more than is promised; the short form, which runs beside other tests, holds
//! the median of the copies to less.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_files::request::{FileReply, FileRequest};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::poller::raise_open_file_limit;
use lighthaul_io::host::wait::pause;
use lighthaul_session::checkup;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::session::Session;
use lighthaul_testkit::{Turn, report};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::far::Far;
use crate::running::{Ends, Running, becomes_true};
use crate::scratch::noise;

/// Seconds that an attack lasts, and whether that is the full form.
fn length() -> (u64, bool) {
    let seconds = std::env::var("LIGHTHAUL_ATTACK_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    (
        seconds.unwrap_or(4),
        seconds.is_some_and(|seconds| seconds >= 60),
    )
}

/// Calls the daemon from another address of this host, in a network of its own.
fn call_from(port: u16, [b, c]: [u8; 2]) -> std::io::Result<TcpStream> {
    let tcp = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&tcp, &SocketAddr::from(([127, b, c, 1], 0)))?;
    connect(&tcp, &SocketAddr::from(([127, 0, 0, 1], port)))?;
    Ok(tcp.into())
}

/// A session with a small request, up to the daemon's reply.
fn ask(tcp: TcpStream, identity: &Identity) -> Result<Session, Error> {
    let paths = vec![b".".to_vec()];
    let verb = FileRequest::Stat { paths };
    request(tcp, identity, Hello::about::<FileReply>(&verb))
}

/// A session that the daemon has accepted, and on which the client sends nothing more.
pub(crate) fn stay(port: u16, identity: &Identity) -> Result<Session, Error> {
    let tcp = TcpStream::connect(("127.0.0.1", port));
    let tcp = tcp.map_err(|error| PeerFault::reported(Code::Network as u8, error.to_string()))?;
    let hello = Hello::about::<checkup::message::Message>(&());
    request(tcp, identity, hello)
}

fn request(tcp: TcpStream, identity: &Identity, hello: Hello) -> Result<Session, Error> {
    let session = Session::start(tcp, Side::Client, identity)?;
    session.say(&Message::Hello(hello))?;
    session.hear::<Message>()?;
    Ok(session)
}

/// Direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Push,
    Pull,
}

/// Copies that are limited by their rates alone, in Mb/s.
fn copies(far: &Far, way: Way, count: usize, rate: u64, seconds: u64) -> Vec<Running> {
    let bytes = seconds * rate * 1_000_000 / 8;
    let rate = format!("{rate}Mb/s");
    let start = |nth: usize| {
        let name = format!("copy-{nth}");
        let file = far.near.file(&name, bytes);
        // a second copy of the same bytes would be a delta, and take no time
        let options = ["--json", "--rate", &rate, "--whole-file"];
        let (file, place) = (file.to_str().unwrap().to_owned(), far.place(&name));
        let paths = match way {
            Way::Push => [file, place],
            Way::Pull => {
                std::fs::rename(&file, far.target.join(&name)).unwrap();
                [place, file]
            }
        };
        let mut copy = Running::start(far.copy(&options, &[&paths[0], &paths[1]]));
        copy.prints("\"type\":\"start\"");
        copy
    };
    (0..count).map(start).collect()
}

/// Returns the seconds that each took to send its bytes. Copies that end early have not felt the attack.
fn times(copies: Vec<Running>) -> Vec<f64> {
    let limit = Duration::from_secs(60 + 2 * length().0);
    let time = |copy: Running| {
        let outcome = copy.finish_within(limit);
        let events = outcome.assert_succeeded().events();
        let summary = events.iter().find(|event| event["type"] == "summary");
        let time = summary.unwrap()["moving_s"].as_f64().unwrap();
        assert!(time >= 0.9 * length().0 as f64, "{summary:?}");
        time
    };
    copies.into_iter().map(time).collect()
}

/// Largest part of its rate that a copy lost during an attack, in percent.
fn worst(calm: &[f64], attacked: &[f64]) -> f64 {
    let lost = calm
        .iter()
        .zip(attacked)
        .map(|(calm, attacked)| 100.0 * (1.0 - calm / attacked));
    lost.fold(0.0, f64::max)
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Connects `rate` times a second from a thousand networks, sends `words` and nothing more, and keeps the connections
/// that stay open. Counts the connections that were made.
fn crowd(port: u16, words: &[u8], rate: u64, over: &AtomicBool, calls: &AtomicU64) {
    let clock = Clock::start();
    let mut held = std::collections::VecDeque::new();
    for nth in 0_u64.. {
        if over.load(Relaxed) {
            break;
        }
        let due = Instant::ZERO + Duration::from_micros(nth * 1_000_000 / rate);
        pause(due.since(clock.now()));
        let from = [10 + (nth % 1000 / 250) as u8, (nth % 250) as u8];
        if let Ok(mut tcp) = call_from(port, from) {
            calls.fetch_add(1, Relaxed);
            // the daemon may have closed it
            tcp.write_all(words).ok();
            held.push_back(tcp);
        }
        // as many as the limit of open files of the attacker allows
        if held.len() > 3000 {
            held.pop_front();
        }
    }
}

#[test]
fn silent_connections_from_a_thousand_networks_block_no_client() {
    let _turn = Turn::alone();
    // a busy machine may also slow copies of some seconds, but not each time
    let attempts = if length().1 { 1 } else { 3 };
    let slowed: Vec<_> = (0..attempts).map_while(|_| silent_flood()).collect();
    assert!(slowed.len() < attempts, "{slowed:?}");
}

/// Attacks a daemon and its copies. If the copies were slowed, returns their times without and with the attack.
fn silent_flood() -> Option<(Vec<f64>, Vec<f64>)> {
    let (seconds, is_full) = length();
    // the connections of the attackers, and the daemon's
    raise_open_file_limit();
    let far = Far::start("silent-flood", &[]);
    let identity = Identity::load_or_generate(&far.near.key()).unwrap();
    // in the full form the copies need much of the processors, so that what the attack takes of them shows
    let rate = if is_full { 50 } else { 4 };
    let calm = times(copies(&far, Way::Push, 8, rate, seconds));
    let running = copies(&far, Way::Push, 8, rate, seconds);
    let (over, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let port = far.port;
    let mut begins = thread::scope(|scope| {
        scope.spawn(|| crowd(port, &[], 1000, &over, &calls));
        let _ends = Ends(&over);
        let clock = Clock::start();
        let mut begins = Vec::new();
        for nth in 0_u8.. {
            // each honest call comes from a network that is new to the daemon, with the highest address
            let called = clock.now();
            let tcp = call_from(port, [255, nth]).unwrap();
            begins.push(match ask(tcp, &identity) {
                Ok(_) => clock.now().since(called),
                Err(_) => Duration::MAX,
            });
            if clock.now() >= Instant::ZERO + Duration::from_secs(seconds) || nth == 250 {
                break;
            }
            pause(Duration::from_secs(seconds) / 40);
        }
        begins
    });
    let calls = calls.into_inner();
    let attacked = times(running);
    begins.sort_unstable();
    let at = most(&begins);
    let lost = worst(&calm, &attacked);
    let usual = 100.0 * (1.0 - median(&calm) / median(&attacked));
    report(format_args!(
        "{} silent calls in {seconds} s; of {} honest calls 95 % began within {at:?}; no copy lost more than {lost:.1} %, the median {usual:.1} %",
        calls,
        begins.len()
    ));
    assert!(at < Duration::from_secs(2), "{begins:?}");
    // an attacker beside other tests may be slow
    let least = if is_full { 900 } else { 250 };
    assert!(
        calls >= least * seconds,
        "only {calls} connections in {seconds} s"
    );
    let is_slowed = if is_full { lost >= 5.0 } else { usual >= 30.0 };
    is_slowed.then_some((calm, attacked))
}

/// Returns the first octets of an honest client, which anyone on its path can send again.
fn client_hello() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || {
        let tcp = TcpStream::connect(address).unwrap();
        Session::start(tcp, Side::Client, &Identity::generate()).map(drop)
    });
    let mut tcp = listener.accept().unwrap().0;
    let mut octets = vec![0; 1 << 14];
    let len = tcp.read(&mut octets).unwrap();
    drop(tcp);
    client.join().unwrap().unwrap_err();
    octets.truncate(len);
    octets
}

/// Calls the daemon from `from` every `interval` for `seconds`. Returns how long the calls took to begin, sorted.
fn honest_calls(
    port: u16,
    identity: &Identity,
    (interval, seconds): (Duration, u64),
    from: impl Fn(u8) -> [u8; 2],
) -> Vec<Duration> {
    let clock = Clock::start();
    let mut begins = Vec::new();
    for nth in 0..250 {
        let called = clock.now();
        let tcp = call_from(port, from(nth)).unwrap();
        begins.push(match ask(tcp, identity) {
            Ok(_) => clock.now().since(called),
            Err(_) => Duration::MAX,
        });
        if clock.now() >= Instant::ZERO + Duration::from_secs(seconds) {
            break;
        }
        pause(interval);
    }
    begins.sort_unstable();
    begins
}

/// Returns the time within which 95 % of the calls began.
fn most(begins: &[Duration]) -> Duration {
    begins[(begins.len() * 95 / 100).saturating_sub(1)]
}

/// The attackers complete no handshake, but each one costs a slot, a thread and a signature.
#[test]
fn replayed_greetings_from_a_thousand_networks_block_no_client() {
    let _turn = Turn::alone();
    let (seconds, is_full) = length();
    raise_open_file_limit();
    let mut far = Far::start("replayed", &[]);
    let identity = Identity::load_or_generate(&far.near.key()).unwrap();
    let known = [254, 7];
    // a caller that was admitted before the daemon was restarted is known after it
    ask(call_from(far.port, known).unwrap(), &identity).unwrap();
    far.daemon.signal("TERM");
    far.daemon.says("stopping");
    becomes_true("the recent hosts are written", || {
        far.near.at("recent_hosts").exists()
    });
    far.restart();
    let hello = client_hello();
    let (over, calls, port) = (AtomicBool::new(false), AtomicU64::new(0), far.port);
    // each handshake takes a millisecond without optimization
    let rate = if is_full { 1000 } else { 300 };
    let (first, newcomers) = thread::scope(|scope| {
        scope.spawn(|| crowd(port, &hello, rate, &over, &calls));
        let _ends = Ends(&over);
        // until each network has failed once, newcomers have no better standing than attackers
        let interval = Duration::from_millis(100);
        let first = honest_calls(port, &identity, (interval, LEARNED), |_| known);
        let interval = Duration::from_secs(seconds) / 40;
        let newcomers = honest_calls(port, &identity, (interval, seconds), |nth| [255, nth]);
        (first, newcomers)
    });
    let took = [most(&first), most(&newcomers)];
    report(format_args!(
        "{} greetings were sent again; 95 % of {} calls of a known host began within {:?}, of {} newcomers within {:?}",
        calls.into_inner(),
        first.len(),
        took[0],
        newcomers.len(),
        took[1],
    ));
    assert!(
        took.iter().all(|took| *took < Duration::from_secs(2)),
        "{first:?} {newcomers:?}"
    );
}

/// Seconds in which the daemon learns which networks fail.
const LEARNED: u64 = 5;

#[test]
fn a_thousand_sessions_of_one_key_block_no_other_key() {
    let _turn = Turn::alone();
    let far = Far::start("greedy", &[]);
    let greedy = Identity::generate();
    let key = lighthaul_io::crypto::tls::fingerprint(&greedy)
        .unwrap()
        .to_string();
    let mut allow = far
        .near
        .lighthaul(&["allow", &key, "greedy", "--read-only", "--allowed"]);
    allow.arg(far.near.allowed());
    far.near.run(allow).assert_succeeded();
    let honest = Identity::load_or_generate(&far.near.key()).unwrap();
    let (tried, held, refused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (over, port) = (AtomicBool::new(false), far.port);
    let (begins, after) = thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut sessions = Vec::new();
                while tried.fetch_add(1, Relaxed) < TRIES {
                    match stay(port, &greedy) {
                        Ok(session) => {
                            held.fetch_add(1, Relaxed);
                            sessions.push(session);
                        }
                        Err(error) => {
                            let is_share = error.text().contains("your key already holds");
                            refused.fetch_add(is_share.into(), Relaxed);
                        }
                    }
                }
                while !over.load(Relaxed) {
                    pause(Duration::from_millis(20));
                }
            });
        }
        let _ends = Ends(&over);
        let enter = || {
            let clock = Clock::start();
            let tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
            ask(tcp, &honest).map(|_| clock.now().since(Instant::ZERO))
        };
        let mut times = Vec::new();
        while tried.load(Relaxed) < TRIES {
            times.push(enter().unwrap());
            pause(Duration::from_millis(50));
        }
        let after = enter().unwrap();
        times.sort_unstable();
        (times, after)
    });
    let at = most(&begins);
    let (held, refused) = (held.into_inner(), refused.into_inner());
    report(format_args!(
        "95 % of {} calls of an honest key began within {at:?} during {TRIES} sessions of another, of which {held} were \
         held and {refused} refused for its share, and one within {after:?} after",
        begins.len()
    ));
    assert!(held > 0 && refused > TRIES / 2, "{held} {refused}");
    assert!(
        at < Duration::from_secs(2) && after < Duration::from_secs(1),
        "{begins:?}"
    );
}

/// Sessions that a greedy key tries to open.
const TRIES: u64 = 1000;

#[test]
fn garbage_datagrams_do_not_slow_a_copy() {
    let _turn = Turn::alone();
    for way in [Way::Push, Way::Pull] {
        let attempts = if length().1 { 1 } else { 3 };
        let slowed: Vec<_> = (0..attempts).map_while(|_| garbage_flood(way)).collect();
        assert!(slowed.len() < attempts, "{slowed:?}");
    }
}

/// Attacks a daemon and a copy. If the copy was slowed, returns its time without and with the attack.
fn garbage_flood(way: Way) -> Option<(Vec<f64>, Vec<f64>)> {
    let (seconds, is_full) = length();
    // the flood lasts as long as the copy, and at least this long
    let (least, rate) = if is_full {
        (10_000_000_000, 100)
    } else {
        (50_000_000, 4)
    };
    let far = Far::start("garbage-flood", &[]);
    let calm = times(copies(&far, way, 1, rate, seconds));
    let running = copies(&far, way, 1, rate, seconds);
    let clock = Clock::start();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    // each datagram is another piece of the same random octets
    let garbage = noise(GARBAGE + 1400, 7);
    let (over, port) = (AtomicBool::new(false), far.port);
    let (attacked, sent) = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut sent = 0_u64;
            while sent < least || !over.load(Relaxed) {
                let at = (sent / 1400 * 13 % GARBAGE) as usize;
                let datagram = &garbage[at..at + 1400];
                sent += udp.send_to(datagram, ("127.0.0.1", port)).unwrap_or(0) as u64;
            }
            sent
        });
        let ends = Ends(&over);
        let attacked = times(running);
        drop(ends);
        (attacked, flood.join().unwrap())
    });
    let lost = worst(&calm, &attacked);
    let took = clock.now().since(Instant::ZERO).as_secs_f64();
    report(format_args!(
        "{} MB of garbage in {took:.1} s; the copy lost {lost:.1} %",
        sent / 1_000_000
    ));
    assert!(sent >= least, "only {sent} bytes");
    (lost >= 10.0).then_some((calm, attacked))
}

/// Random octets that the datagrams are cut from.
const GARBAGE: u64 = 1 << 20;
