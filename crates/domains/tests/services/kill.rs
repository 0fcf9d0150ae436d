//! A domain as a process of its own that is killed between hold and commit.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lighthaul_domains::{DomainConfig, Service};
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{Body, Key};

use super::peer::{Peer, hold, identification};
use super::recording::RecordingDevices;
use super::site::{Folder, any_port, text};

/// Process that runs a domain until it is killed.
struct Process(Child);

impl Process {
    /// Starts the process and waits until its domain runs.
    fn start(config: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "kill::domain", "--ignored", "--nocapture"])
            .env(CONFIG, config)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = output.lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line == READY);
        let process = Self(child);
        assert!(is_ready, "the domain did not start");
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL: nothing is written any more
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn killed_domain_commits_its_held_path() {
    let folder = Folder::new("kill");
    let peer = (2, None, folder.key(2));
    let peer = Peer::start(identification(1, folder.identity(1), peer));
    let neighbors = [(1, Some(peer.transport.local()), folder.key(1))];
    let config = folder.0.join("2.toml");
    fs::write(&config, text(2, 2, any_port(), &neighbors)).unwrap();
    let mut keys = Vec::new();
    for round in 0..5 {
        let process = Process::start(&config);
        for key in &keys {
            let key = *key;
            peer.expect(2, &Body::Commit { key }, &Body::Committed { key });
        }
        let (key, body) = hold_here(round);
        peer.expect(2, &body, &Body::Held { key });
        keys.push(key);
        drop(process);
    }
    let _process = Process::start(&config);
    for key in keys {
        peer.expect(2, &Body::Commit { key }, &Body::Committed { key });
        peer.expect(2, &Body::Release { key }, &Body::Released { key });
    }
}

/// Returns a hold for a path that ends in domain 2.
fn hold_here(id: u128) -> (Key, Body) {
    let (key, mut body) = hold(id, Duration::from_secs(50));
    if let Body::Hold { hops, .. } = &mut body {
        hops.truncate(1);
        hops[0].segment.egress = lighthaul_stargate::PortId(102);
    }
    (key, body)
}

/// Process that the test above kills.
#[test]
#[ignore = "it is started by another test"]
fn domain() {
    #[expect(clippy::disallowed_methods, reason = "set by the other test")]
    let Ok(path) = env::var(CONFIG) else {
        return;
    };
    let config = DomainConfig::read(Path::new(&path)).unwrap();
    let service = Service::start(config, Box::new(RecordingDevices::default())).unwrap();
    println!("\n{READY}");
    while !service.has_ended() {
        pause(Duration::from_millis(100));
    }
    panic!("the service ended by itself: {:?}", service.stop());
}

const CONFIG: &str = "LIGHTHAUL_DOMAINS_TEST_CONFIG";
const READY: &str = "the domain runs";
