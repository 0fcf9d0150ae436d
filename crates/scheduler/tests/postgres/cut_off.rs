//! A writer whose host loses power: the server must release its lock without a goodbye.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking::store::postgres::Postgres;
use lighthaul_booking::store::{Store, Writer};
use lighthaul_io::host::clock::Clock;
use lighthaul_testkit::{lacks_root, lacks_tool};

use crate::server::Server;

#[test]
fn disconnected_writer_is_replaced_within_15_s() {
    let name = "disconnected_writer_is_replaced_within_15_s";
    if lacks_root(name) || lacks_tool(name, "nsenter") {
        return;
    }
    let Some(server) = Server::start() else {
        return;
    };
    let far = Far::make();
    let rules = server.file(
        "hba",
        "local all all trust\nhost all all 10.0.0.0/8 trust\n",
    );
    server.control("stop", "fast");
    let port = server.begin_on_port(&format!(
        "-c listen_addresses={},127.0.0.1 -c hba_file={}",
        far.here,
        rules.display()
    ));
    let url = format!("postgres://lighthaul@{}:{port}/postgres", far.here);
    let _writer = far.hold(&url);
    let near = format!("{} port={port}", server.url());
    let mut store = Postgres::open(&near, "http://two").unwrap();
    assert_eq!(
        store.elect().unwrap(),
        Writer::Other("http://cut".to_owned())
    );
    far.cut();
    let clock = Clock::start();
    while store.elect().unwrap() != Writer::This {
        assert!(clock.now() < Instant::ZERO + LONGEST, "the lock is held");
        thread::park_timeout(Duration::from_millis(100));
    }
    println!("replaced after {:?}", clock.now().since(Instant::ZERO));
}

/// Process that the test above disconnects. It holds the lock until then.
#[test]
#[ignore = "it is started by another test"]
fn holder() {
    #[expect(clippy::disallowed_methods, reason = "set by the other test")]
    let Ok(url) = env::var(STORE) else {
        return;
    };
    let mut store = Postgres::open(&url, "http://cut").unwrap();
    assert_eq!(store.elect().unwrap(), Writer::This);
    println!("\n{READY}");
    thread::park_timeout(Duration::from_mins(2));
}

/// Separate host: a network namespace that exists as long as a process in it.
struct Far {
    sleeper: Child,
    /// Address of this host on the link between the two.
    here: String,
}

impl Far {
    fn make() -> Self {
        let mut sleeper = Command::new("unshare");
        let sleeper = sleeper.args(["--net", "sleep", "120"]).spawn().unwrap();
        let id = sleeper.id();
        let net = format!("10.213.{}", id % 200 + 20);
        let far = Self {
            here: format!("{net}.1"),
            sleeper,
        };
        far.wait_for_namespace();
        let (near, there) = (format!("lh{id}"), format!("lf{id}"));
        let target = id.to_string();
        ip(&["link", "add", &near, "type", "veth", "peer", "name", &there]);
        ip(&["link", "set", &there, "netns", &target]);
        ip(&["addr", "add", &format!("{net}.1/24"), "dev", &near]);
        ip(&["link", "set", &near, "up"]);
        far.inside("ip")
            .args(["addr", "add", &format!("{net}.2/24"), "dev", &there])
            .status()
            .unwrap();
        far.inside("ip")
            .args(["link", "set", &there, "up"])
            .status()
            .unwrap();
        far
    }

    /// Waits until the process has its own namespace.
    fn wait_for_namespace(&self) {
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", self.sleeper.id());
        let clock = Clock::start();
        while std::fs::read_link(&theirs).is_ok_and(|link| link == own) {
            assert!(
                clock.now() < Instant::ZERO + LONGEST,
                "no namespace was made"
            );
            thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.sleeper.id().to_string(), "-n", program]);
        command
    }

    /// Starts the holder of the lock there.
    fn hold(&self, url: &str) -> Holder {
        let own = env::current_exe().unwrap();
        let mut child = self.inside(own.to_str().unwrap());
        child.args(["cut_off::holder", "--exact", "--ignored", "--nocapture"]);
        let mut child = child
            .env(STORE, url)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let holder = Holder(child);
        let mut lines = said.lines().map_while(Result::ok);
        assert!(lines.any(|line| line == READY), "the lock is not held");
        holder
    }

    /// Drops all packets from now on.
    fn cut(&self) {
        let there = format!("lf{}", self.sleeper.id());
        let cut = self
            .inside("ip")
            .args(["link", "set", &there, "down"])
            .status();
        assert!(cut.unwrap().success());
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.sleeper.kill().ok();
        self.sleeper.wait().ok();
    }
}

/// Process that ends with the test.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).status().unwrap();
    assert!(done.success(), "ip {words:?}");
}

const LONGEST: Duration = Duration::from_secs(15);
const READY: &str = "holding";
const STORE: &str = "LIGHTHAUL_TEST_STORE";
