//! NETCONF server behind sshd, with the configuration of an operator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::error::Result;
use lighthaul_circuit::exec::Exec;
use lighthaul_circuit::exec::config::Config;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_testkit::{Turn, lacks, lacks_root, lacks_tool};

use crate::client::Client;

/// Server with the target that it edits, and the files around it.
pub(crate) struct Testbed {
    folder: PathBuf,
    /// `candidate` or `running`.
    pub(crate) target: &'static str,
    server: Child,
    _turn: Turn,
}

impl Testbed {
    /// Starts the server, or skips the test.
    pub(crate) fn start(test: &str, target: &'static str) -> Option<Self> {
        Self::start_in(test, target, Turn::beside_others)
    }

    /// Starts the server while only quiet tests run, for a test that measures rates, or skips the test.
    pub(crate) fn quiet(test: &str) -> Option<Self> {
        Self::start_in(test, "candidate", Turn::quiet)
    }

    fn start_in(test: &str, target: &'static str, turn: fn() -> Turn) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let tools = tools();
        let is_there = tools.join("netconf/usr/sbin/netconfd").exists();
        let missing = format!("needs {}: run make test", tools.join("netconf").display());
        if lacks_root(test)
            || lacks(test, is_there.then_some(()).ok_or(missing))
            || ["ssh", "/usr/sbin/sshd", "python3"]
                .iter()
                .any(|tool| lacks_tool(test, tool))
        {
            return None;
        }
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        // the path of a socket is short
        let name = format!("lh-nc-{}-{nth}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let turn = turn();
        let server = start_server(&folder, target);
        let testbed = Self {
            folder,
            target,
            server,
            _turn: turn,
        };
        testbed.await_file("server");
        testbed.configure_ssh();
        let mut client = testbed.client();
        client.edit(target, OPERATOR);
        Some(testbed)
    }

    /// Writes keys, and configurations of ssh and sshd. The client starts a daemon of its own for each connection, and
    /// its subsystem connects to the socket that `behind` names.
    fn configure_ssh(&self) {
        let folder = self.folder.display();
        for key in ["host", "user"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(self.path(key));
            assert!(make.status().unwrap().success());
        }
        fs::create_dir_all("/run/sshd").unwrap();
        let host_key = fs::read_to_string(self.path("host.pub")).unwrap();
        self.write("known_hosts", &format!("device {host_key}"));
        for behind in ["server", "proxy"] {
            // a daemon without a connection of its own does not know the address
            let subsystem = format!(
                "#!/bin/sh\nexec env 'SSH_CONNECTION=127.0.0.1 1 127.0.0.1 65535' LD_LIBRARY_PATH={} {} --ncxserver-sockname=65535@{folder}/{behind}\n",
                libraries(),
                tools().join("netconf/usr/sbin/netconf-subsystem").display()
            );
            let script = format!("subsystem-{behind}");
            self.write(&script, &subsystem);
            let daemon = format!(
                "HostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\n\
                 PidFile none\nLogLevel QUIET\nSubsystem netconf /bin/sh {folder}/{script}\n"
            );
            self.write(&format!("sshd_config-{behind}"), &daemon);
            let client = format!(
                "Host device\n HostKeyAlias device\n IdentitiesOnly yes\n IdentityFile {folder}/user\n\
                 KexAlgorithms curve25519-sha256\n UserKnownHostsFile {folder}/known_hosts\n\
                 ProxyCommand /usr/sbin/sshd -i -f {folder}/sshd_config-{behind}\n"
            );
            self.write(&format!("ssh_config-{behind}"), &client);
        }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn await_file(&self, name: &str) {
        let clock = Clock::start();
        while !self.path(name).exists() {
            let now = clock.now().since(Instant::ZERO);
            let log = fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(
                now < PATIENCE,
                "{name} is not there after {now:?}; the server says:\n{log}"
            );
            pause(Duration::from_millis(10));
        }
    }

    /// Returns a path in the directory of the server.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a session of another client.
    pub(crate) fn client(&self) -> Client {
        let mut subsystem = Command::new(tools().join("netconf/usr/sbin/netconf-subsystem"));
        subsystem
            .arg(format!(
                "--ncxserver-sockname=65535@{}",
                self.path("server").display()
            ))
            .env("LD_LIBRARY_PATH", libraries());
        Client::start(subsystem)
    }

    /// Opens the driver over ssh, with more arguments. `behind` is `server`, or `proxy` for the socket of a proxy.
    pub(crate) fn driver(&self, behind: &str, words: &str) -> Result<Exec> {
        let config = self.path(&format!("ssh_config-{behind}"));
        let config = config.display().to_string();
        let mut all = vec!["--address", "root@device", "--ssh-config", &config];
        all.extend(words.split_whitespace());
        open(&all)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn start_server(folder: &Path, target: &str) -> Child {
    let log = fs::File::create(folder.join("log")).unwrap();
    // where it keeps the configuration before a confirmed commit
    fs::create_dir(folder.join("data")).unwrap();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/netconf/models");
    let modules = [tools().join("netconf/usr/share/yuma/modules"), models];
    let modules = modules.map(|path| path.display().to_string()).join(":");
    let mut command = Command::new(tools().join("netconf/usr/sbin/netconfd"));
    command
        .args(["--no-startup", "--superuser=root", "--access-control=off"])
        .args(["--module=openconfig-qos", "--port=65535"])
        .arg(format!("--target={target}"))
        .arg(format!("--modpath={modules}"))
        .arg(format!("--ncxserver-sockname={}/server", folder.display()))
        .env("LD_LIBRARY_PATH", libraries())
        .env("HOME", folder)
        .env("YUMA_HOME", folder)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    command.spawn().unwrap()
}

/// Returns the directory of programs that `make test` unpacks.
fn tools() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().unwrap().join("tools")
}

/// Returns the directories of the server's libraries.
fn libraries() -> String {
    let folder = tools().join("netconf/usr/lib");
    let within = fs::read_dir(&folder).unwrap();
    let paths = within.map(|entry| entry.unwrap().path().display().to_string());
    paths.collect::<Vec<_>>().join(":")
}

/// Opens the driver with these arguments and those of all tests.
pub(crate) fn open(words: &[&str]) -> Result<Exec> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/netconf/driver.py");
    let own = "--rate-max 1Gb/s --circuits 24 --reconfiguration 0.05 --confirm 3 --timeout 8";
    let words = own.split_whitespace().chain(words.iter().copied());
    let config = Config {
        program,
        arguments: words.map(str::to_owned).collect(),
        limit: Duration::from_mins(1),
    };
    Exec::open(Clock::start(), config)
}

/// Returns a circuit for these packets.
pub(crate) fn circuit(id: u64, flow: &str) -> Circuit {
    Circuit {
        id: CircuitId(id),
        interface: "router".to_owned(),
        flow: flow.parse().unwrap(),
        trc: "0s-9s 1G".parse().unwrap(),
    }
}

/// Sets the rate of a circuit in Mb/s; zero closes it.
pub(crate) fn set(driver: &mut dyn Driver, circuit: &Circuit, mbps: u64) -> Result<()> {
    let rate = Rate::from_bps(mbps * 1_000_000);
    let change = Change {
        circuit,
        rate,
        timer: None,
    };
    driver.apply(&[change]).pop().unwrap()
}

/// Time in which the server starts.
const PATIENCE: Duration = Duration::from_mins(1);

/// Configuration of the operator: a policy with a scheduler for other packets, and classifiers, at the interfaces.
const OPERATOR: &str = "\
    <queues><queue><name>rest</name><config><name>rest</name></config></queue></queues>\
    <classifiers>\
    <classifier><name>lighthaul-ipv4</name><config><name>lighthaul-ipv4</name><type>IPV4</type></config></classifier>\
    <classifier><name>lighthaul-ipv6</name><config><name>lighthaul-ipv6</name><type>IPV6</type></config></classifier>\
    </classifiers>\
    <scheduler-policies><scheduler-policy><name>lighthaul</name><config><name>lighthaul</name></config>\
    <schedulers><scheduler><sequence>9000</sequence><config><sequence>9000</sequence></config>\
    <inputs><input><id>rest</id><config><id>rest</id><input-type>QUEUE</input-type><queue>rest</queue></config></input></inputs>\
    </scheduler></schedulers></scheduler-policy></scheduler-policies>\
    <interfaces>\
    <interface><interface-id>left</interface-id><config><interface-id>left</interface-id></config>\
    <input><classifiers>\
    <classifier><type>IPV4</type><config><type>IPV4</type><name>lighthaul-ipv4</name></config></classifier>\
    <classifier><type>IPV6</type><config><type>IPV6</type><name>lighthaul-ipv6</name></config></classifier>\
    </classifiers></input></interface>\
    <interface><interface-id>right</interface-id><config><interface-id>right</interface-id></config>\
    <output><scheduler-policy><config><name>lighthaul</name></config></scheduler-policy></output></interface>\
    </interfaces>";
