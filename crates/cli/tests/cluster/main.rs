//! Gateways that share one channel in turn, and one address: real processes on this host, some of which die.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test uses the real system")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::wait::pause;
use serde_json::Value;

mod address;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "../cp/running.rs"]
mod running;
#[expect(dead_code, reason = "tests of copies use the rest")]
#[path = "../cp/scratch.rs"]
mod scratch;

use running::Running;
use scratch::Scratch;

/// Three gateways near programs, one near their targets, all on the loopback interface.
struct Cluster {
    elements: Vec<Running>,
    _egress: Running,
    /// Bytes received for the program of each element.
    came: Vec<Arc<AtomicU64>>,
    /// Programs run until this is set.
    over: Arc<AtomicBool>,
}

impl Cluster {
    fn start(name: &str) -> (Scratch, Self) {
        let scratch = Scratch::new(name);
        let path = |name: &str| scratch.at(name).to_str().unwrap().to_owned();
        std::fs::write(scratch.at("secret"), "what only elements know").unwrap();
        let pin = say(&["key", "--key", &path("egress")]);
        for nth in 0..COUNT {
            let key = say(&["key", "--key", &path(&format!("key{nth}"))]);
            say(&[
                "allow",
                &key,
                "element",
                "--gateway",
                "--allowed",
                &path("allowed"),
            ]);
        }
        let mut command = gateway(&scratch, "egress");
        command.args(["--listen", "127.0.0.1:0", "--allow", "127.0.0.1:*"]);
        command.args(["--allowed", &path("allowed")]);
        let mut egress = Running::start(command);
        let place = last_word(&egress.says("listening on"), "listening on ");
        let peer = ["--peer", &place, "--pin", &pin];
        // another process may take a free place before its element does
        let found = (0..10).find_map(|_| {
            let members = free_places();
            let elements = (0..COUNT).map(|nth| start(&scratch, peer, nth, &members));
            elements.collect()
        });
        let started: Vec<(Running, TcpListener)> =
            found.expect("the elements get none of ten places");
        let (mut elements, mut came) = (Vec::new(), Vec::new());
        let over = Arc::<AtomicBool>::default();
        for (mut element, target) in started {
            let address = last_word(&element.says("forwarding to"), " at ");
            elements.push(element);
            came.push(talk(&address, target, &over));
        }
        (
            scratch,
            Self {
                elements,
                _egress: egress,
                came,
                over,
            },
        )
    }

    /// Bytes that arrived for each program within some time.
    fn came_in(&self, time: Duration) -> Vec<u64> {
        let look = || {
            self.came
                .iter()
                .map(|came| came.load(Relaxed))
                .collect::<Vec<_>>()
        };
        let before = look();
        pause(time);
        look()
            .iter()
            .zip(before)
            .map(|(now, before)| now - before)
            .collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// Tests that measure, each alone on the host. `make test` runs them after all others.
mod alone {
    use std::time::Duration;

    use lighthaul_io::host::wait::pause;
    use lighthaul_testkit::Turn;

    use crate::running::becomes_true;
    use crate::{BOUND, COUNT, Cluster, RATE_BPS, shown};

    #[test]
    fn cluster_shares_a_channel_and_survives_a_killed_gateway() {
        let _turn = Turn::alone();
        let name = "cluster_shares_a_channel_and_survives_a_killed_gateway";
        let (_scratch, mut cluster) = Cluster::start(name);
        for nth in 0..COUNT {
            becomes_true("every element has had its turns", || {
                shown(&format!("key{nth}"))["tokens_taken"].as_u64() > Some(10)
            });
        }
        let came = cluster.came_in(Duration::from_secs(4));
        let all: u64 = came.iter().sum();
        let used = all as f64 * 8.0 / 4.0 / RATE_BPS;
        eprintln!("{came:?} bytes in 4 s: {used:.3} of the channel");
        assert!(used < 1.02, "more than the channel was sent: {used}");
        assert!(used > 0.3, "the elements leave the channel empty: {used}");
        for came in &came {
            let share = *came as f64 * 3.0 / all as f64;
            assert!(
                (0.8..1.25).contains(&share),
                "a share is {share} of what it should be"
            );
        }
        for nth in 0..COUNT {
            let link = shown(&format!("key{nth}"));
            let turns = link["turns_s"].as_f64().unwrap();
            assert!(
                turns > 0.5 && link["tokens_taken"].as_u64().unwrap() > 10,
                "{link}"
            );
        }
        cluster.elements[0].kill();
        pause(BOUND);
        let came = cluster.came_in(Duration::from_secs(4));
        eprintln!("{came:?} bytes in 4 s after the first died");
        let share = came[1] as f64 * 2.0 / (came[1] + came[2]) as f64;
        assert!(
            (0.8..1.25).contains(&share),
            "a share is {share} of what it should be"
        );
        cluster.elements[1].kill();
        pause(BOUND);
        let alone = cluster.came_in(Duration::from_secs(4))[2];
        eprintln!("{alone} bytes in 4 s for the last");
        assert!(
            alone > came[2],
            "{alone} bytes for who is alone, {} for one of two",
            came[2]
        );
    }
}

/// Starts an element, and its target; none if another process has taken its place.
fn start(
    scratch: &Scratch,
    peer: [&str; 4],
    nth: usize,
    members: &[String],
) -> Option<(Running, TcpListener)> {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let forward = format!("127.0.0.1:0={}", target.local_addr().unwrap());
    let mut command = gateway(scratch, &format!("key{nth}"));
    command.args(peer).args(["--forward", &forward]);
    command.args(["--cluster", &members.join(",")]);
    command.args(["--cluster-listen", &members[nth]]);
    command.arg("--cluster-key").arg(scratch.at("secret"));
    let mut element = Running::start(command);
    let line = element.says_any(&["the link carries sessions", TAKEN]);
    (!line.contains(TAKEN)).then_some((element, target))
}

/// The command of a gateway with this key.
fn gateway(scratch: &Scratch, key: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["gateway", "--rate", RATE, "--slab", "256KiB"]);
    command.arg("--key").arg(scratch.at(key));
    command
        .env("XDG_CONFIG_HOME", scratch.at("config"))
        .env("XDG_STATE_HOME", scratch.at("state"));
    command.arg("--status-socket").arg(board(key));
    command
}

/// A program that sends as fast as it can to its target; returns the bytes that arrived.
fn talk(address: &str, target: TcpListener, over: &Arc<AtomicBool>) -> Arc<AtomicU64> {
    let came = Arc::<AtomicU64>::default();
    let (count, ends) = (Arc::clone(&came), Arc::clone(over));
    thread::spawn(move || {
        let Ok((mut stream, _)) = target.accept() else {
            return;
        };
        let mut bytes = vec![0; 1 << 16];
        while !ends.load(Relaxed) {
            match stream.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(len) => count.fetch_add(len as u64, Relaxed),
            };
        }
    });
    let address: SocketAddr = address.parse().unwrap();
    let (mut stream, ends) = (TcpStream::connect(address).unwrap(), Arc::clone(over));
    thread::spawn(move || {
        let bytes = vec![7; 1 << 16];
        while !ends.load(Relaxed) && stream.write_all(&bytes).is_ok() {}
    });
    came
}

/// Places where elements can listen. Another process may take them at any time.
fn free_places() -> Vec<String> {
    let bind = |_| UdpSocket::bind("127.0.0.1:0").unwrap();
    let sockets: Vec<UdpSocket> = (0..COUNT).map(bind).collect();
    let place = |socket: &UdpSocket| socket.local_addr().unwrap().to_string();
    sockets.iter().map(place).collect()
}

/// Returns the word that follows these words in a line.
fn last_word(line: &str, behind: &str) -> String {
    let rest = line.rsplit_once(behind).unwrap().1;
    rest.split_whitespace().next().unwrap().to_owned()
}

/// Status socket of the gateway with a key. The name of a socket must be short.
fn board(key: &str) -> PathBuf {
    std::env::temp_dir().join(format!("lighthaul-cluster-{}-{key}", std::process::id()))
}

/// Returns the link status of the gateway with this key.
fn shown(key: &str) -> Value {
    let board = board(key);
    let words = [
        "gateway",
        "status",
        "--once",
        "--json",
        "--socket",
        board.to_str().unwrap(),
    ];
    let event: Value = serde_json::from_str(&say(&words)).unwrap();
    event["links"][0].clone()
}

/// Runs the command and returns its first line.
fn say(words: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_lighthaul");
const COUNT: usize = 3;
/// Part of the error of a gateway that cannot listen.
const TAKEN: &str = "Address already in use";
const RATE: &str = "60Mb/s";
const RATE_BPS: f64 = 60e6;
/// Time after which the others have the channel, even on a busy machine.
const BOUND: Duration = Duration::from_secs(1);
