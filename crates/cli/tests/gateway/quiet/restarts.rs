//! Many gateways that reconnect to a restarted one.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use serde_json::Value;

use crate::pair::{B, LONG, say};
use crate::programs::echo;
use crate::running::{Running, becomes_true};
use crate::scratch::Scratch;
use crate::stage::Stage;
use crate::status::{links, links_at};

/// Gateways near programs, each with an address and a network of its own.
const INGRESSES: usize = 64;
/// Time limit for all reconnections: 2 s and three round trips of 40 ms.
const SETTLED: Duration = Duration::from_millis(2_120);

#[test]
fn sixty_four_gateways_reconnect_to_a_restarted_egress() {
    let name = "sixty_four_gateways_reconnect_to_a_restarted_egress";
    let Some(stage) = Stage::pair_quiet(name, "rate = \"1Gb/s\"\nrtt = \"40ms\"") else {
        return;
    };
    let scratch = Scratch::new(name);
    connect_networks(&stage);
    let listener = stage
        .lab
        .within("b", || TcpListener::bind((B, 7001)))
        .unwrap();
    let target = echo(listener, INGRESSES);
    let _sockets = Sockets::of(&scratch);
    let mut egress = start_egress(&stage, &scratch);
    let pin = say(&["key", "--key", scratch.at("b-key").to_str().unwrap()]);
    let mut ingresses: Vec<Running> = (0..INGRESSES)
        .map(|nth| start_ingress(&stage, &scratch, (nth, &pin)))
        .collect();
    for ingress in &mut ingresses {
        ingress.says("the link carries sessions");
    }

    egress.kill();
    becomes_true("the egress is gone", || {
        stage
            .lab
            .within("b", || TcpListener::bind((B, 4810)))
            .is_ok()
    });
    egress = start_egress(&stage, &scratch);
    let clock = Clock::start();
    while connected(&scratch) < INGRESSES && clock.now() < Instant::ZERO + LONG {
        pause(Duration::from_millis(20));
    }
    let took = clock.now().since(Instant::ZERO);
    eprintln!("{INGRESSES} ingresses were back after {took:?}, of {SETTLED:?}");
    assert_eq!(connected(&scratch), INGRESSES);
    for nth in 0..INGRESSES {
        assert_echoes(&stage, nth);
    }
    target.join().unwrap();
    for link in links(&scratch, "b") {
        assert_eq!(
            link["reconnections"], 0,
            "one was ended and came again: {link}"
        );
    }
    for nth in 0..INGRESSES {
        let link = links_at(&board(&scratch, nth)).remove(0);
        assert_eq!(link["connected"], true, "{nth}: {link}");
        assert_eq!(
            link["reconnections"], 0,
            "{nth} found its link gone: {link}"
        );
    }
    for mut ingress in ingresses {
        ingress.kill();
        let told = ingress.finish().err;
        let carried = told
            .iter()
            .filter(|line| line.contains("the link carries sessions"));
        assert_eq!(carried.count(), 2, "{told:?}");
    }
    assert!(took <= SETTLED, "{took:?} is more than {SETTLED:?}");
    drop(egress);
}

/// Removes the status sockets of gateways that are killed.
struct Sockets(Vec<PathBuf>);

impl Sockets {
    fn of(scratch: &Scratch) -> Self {
        let boards = (0..INGRESSES).map(|nth| board(scratch, nth));
        Self(boards.chain([crate::pair::socket(scratch, "b")]).collect())
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for socket in &self.0 {
            fs::remove_file(socket).ok();
        }
    }
}

/// Links that the egress shows as connected.
fn connected(scratch: &Scratch) -> usize {
    let is_connected = |link: &Value| link["connected"] == true;
    links(scratch, "b").into_iter().filter(is_connected).count()
}

/// Gives each ingress an address in a network of its own, and the egress an address in that network.
fn connect_networks(stage: &Stage) {
    let lines = |here: u8, there: u8| {
        let line = |nth: usize| {
            format!(
                "addr add {}/32 dev lo\nroute add {}/32 via 10.77.0.{there} src {}\n",
                address(nth, here),
                address(nth, there),
                address(nth, here)
            )
        };
        (0..INGRESSES).map(line).collect::<String>()
    };
    for (host, batch) in [("a", lines(1, 2)), ("b", lines(2, 1))] {
        let script = format!("ip -batch - <<'END'\n{batch}END\n");
        let status = stage.lab.run(host, &["sh", "-c", &script]).unwrap();
        assert!(status.success(), "{host}");
    }
}

fn start_egress(stage: &Stage, scratch: &Scratch) -> Running {
    let mut command = crate::pair::gateway(stage, scratch, "b");
    command
        .args(["--listen", "0.0.0.0:4810", "--rate", "900Mb/s"])
        .args([
            "--memory",
            "32MiB",
            "--allow",
            "10.77.0.2:7001",
            "--allowed",
        ])
        .arg(scratch.at("allowed"));
    let mut egress = Running::start(command);
    egress.says("listening on");
    egress
}

fn start_ingress(stage: &Stage, scratch: &Scratch, (nth, pin): (usize, &str)) -> Running {
    let key = scratch.at(&format!("key-{nth}"));
    let fingerprint = say(&["key", "--key", key.to_str().unwrap()]);
    let allowed = scratch.at("allowed");
    let allowed = allowed.to_str().unwrap();
    let name = format!("ingress-{nth}");
    say(&[
        "allow",
        &fingerprint,
        &name,
        "--gateway",
        "--allowed",
        allowed,
    ]);
    let mut command: Command = stage.lab.command("a", crate::pair::PROGRAM).unwrap();
    command
        .arg("gateway")
        .env("XDG_CONFIG_HOME", scratch.at("config"))
        .env("XDG_STATE_HOME", scratch.at("state"))
        .args(["--peer", &format!("{}:4810", address(nth, 2)), "--pin", pin])
        .args(["--forward", &format!("{}={B}:7001", entry(nth))])
        .args(["--rate", "14Mb/s", "--memory", "32MiB", "--key"])
        .arg(key)
        .arg("--status-socket")
        .arg(board(scratch, nth));
    Running::start(command)
}

/// Address of an ingress for programs.
fn entry(nth: usize) -> String {
    format!("127.0.0.1:{}", 8000 + nth)
}

/// Address of a host in the network of an ingress; a lab finds hosts by the last two octets.
fn address(nth: usize, host: u8) -> String {
    format!("10.{}.0.{host}", 100 + nth)
}

/// Status socket of an ingress; the name of a socket must be short.
fn board(scratch: &Scratch, nth: usize) -> PathBuf {
    crate::pair::socket(scratch, &format!("i{nth}"))
}

/// Asserts that a program at this ingress reaches its target.
fn assert_echoes(stage: &Stage, nth: usize) {
    let place = entry(nth).parse().unwrap();
    let call = || std::net::TcpStream::connect_timeout(&place, LONG);
    let mut program = stage.lab.within("a", call).unwrap();
    program.set_read_timeout(Some(LONG)).unwrap();
    program.write_all(b"still there?").unwrap();
    program.shutdown(std::net::Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    program.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"still there?", "{nth}");
}
