//! Switch between two hosts, and its driver.

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
use lighthaul_io::host::namespace::{Namespace, check};
use lighthaul_io::host::wait::pause;
use lighthaul_testkit::{Turn, lacks, lacks_tool};

/// Open vSwitch in user space, with the bridge `br0` between the hosts `left` and `right`.
pub(crate) struct Testbed {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    switch: Namespace,
    folder: PathBuf,
    daemons: Vec<Child>,
    _turn: Turn,
}

impl Testbed {
    /// Starts the switch, or skips the test.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_in(test, Turn::beside_others)
    }

    /// Starts the switch while only quiet tests run, for a test that measures rates, or skips the test.
    pub(crate) fn quiet(test: &str) -> Option<Self> {
        Self::start_in(test, Turn::quiet)
    }

    fn start_in(test: &str, turn: fn() -> Turn) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if lacks(
            test,
            check().map_err(|why| format!("needs namespaces: {why}")),
        ) || ["ovs-vswitchd", "ovsdb-server", "ethtool", "python3"]
            .iter()
            .any(|tool| lacks_tool(test, tool))
        {
            return None;
        }
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        // the path of a socket is short
        let name = format!("lh-ovs-{}-{nth}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let mut testbed = Self {
            left: Namespace::create().unwrap(),
            right: Namespace::create().unwrap(),
            switch: Namespace::create().unwrap(),
            folder,
            daemons: Vec::new(),
            _turn: turn(),
        };
        testbed.link_hosts();
        testbed.start_switch();
        Some(testbed)
    }

    fn link_hosts(&self) {
        for (host, port, number) in [(&self.left, "pl", 1), (&self.right, "pr", 2)] {
            let path = host.path();
            let path = path.display();
            let words = format!("link add {port} type veth peer name wire netns {path}");
            self.run_in(&self.switch, "ip", &words);
            self.run_in(&self.switch, "ip", &format!("link set {port} up"));
            let words = format!("addr add 10.9.0.{number}/24 dev wire");
            self.run_in(host, "ip", &words);
            self.run_in(host, "ip", "link set wire up");
            // a switch in user space sees no checksums that hardware would add
            self.run_in(host, "ethtool", "-K wire tx off");
        }
    }

    fn start_switch(&mut self) {
        let folder = self.folder.display().to_string();
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        self.run("ovsdb-tool", &format!("create {folder}/conf.db {schema}"));
        let database = format!("unix:{folder}/db.sock");
        let words =
            format!("{folder}/conf.db --remote=punix:{folder}/db.sock --unixctl={folder}/db.ctl");
        self.daemon("ovsdb-server", &words);
        self.await_file("db.sock");
        self.run("ovs-vsctl", &format!("--db={database} --no-wait init"));
        self.daemon(
            "ovs-vswitchd",
            &format!("{database} --unixctl={folder}/ctl"),
        );
        let words = format!(
            "--db={database} --timeout=20 add-br br0 -- set bridge br0 datapath_type=netdev \
             -- add-port br0 pl -- add-port br0 pr"
        );
        self.run("ovs-vsctl", &words);
        self.await_file("br0.mgmt");
    }

    fn daemon(&mut self, name: &str, words: &str) {
        let log = fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = self.command(name, words);
        command.stderr(log).stdout(Stdio::null());
        let child = self.switch.within(|| command.spawn()).unwrap();
        self.daemons.push(child);
    }

    fn await_file(&self, name: &str) {
        let clock = Clock::start();
        while !self.path(name).exists() {
            let now = clock.now().since(Instant::ZERO);
            assert!(now < PATIENCE, "{name} is not there after {now:?}");
            pause(Duration::from_millis(10));
        }
    }

    /// Returns a path in the directory of the switch.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self, tool: &str, words: &str) -> Command {
        let mut command = Command::new(tool);
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("OVS_RUNDIR", &self.folder)
            .env("OVS_LOGDIR", &self.folder)
            .stdin(Stdio::null())
            .args(words.split_whitespace());
        command
    }

    /// Runs a tool, and returns its output.
    pub(crate) fn run(&self, tool: &str, words: &str) -> String {
        self.run_in(&self.switch, tool, words)
    }

    fn run_in(&self, host: &Namespace, tool: &str, words: &str) -> String {
        let mut command = self.command(tool, words);
        let output = host.within(|| command.output()).unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {words}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command of `ovs-ofctl` for the bridge.
    pub(crate) fn ofctl(&self, command: &str, words: &str) -> String {
        let bridge = self.path("br0.mgmt");
        let bridge = bridge.display();
        self.run(
            "ovs-ofctl",
            &format!("-O OpenFlow13 {command} unix:{bridge} {words}"),
        )
    }

    /// Opens the driver for this socket, with more arguments.
    pub(crate) fn driver(&self, socket: &str, words: &str) -> Result<Exec> {
        let switch = format!("unix:{}", self.path(socket).display());
        open(&switch, words)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        while let Some(mut daemon) = self.daemons.pop() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Opens the driver for a switch, with more arguments.
pub(crate) fn open(switch: &str, words: &str) -> Result<Exec> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/openvswitch/driver.py");
    let own = ["--switch", switch, "--rate-max", "1Gb/s", "--timeout", "3"].into_iter();
    let config = Config {
        program,
        arguments: own
            .chain(words.split_whitespace())
            .map(str::to_owned)
            .collect(),
        limit: Duration::from_secs(20),
    };
    Exec::open(Clock::start(), config)
}

/// Returns a circuit for these packets.
pub(crate) fn circuit(id: u64, flow: &str) -> Circuit {
    Circuit {
        id: CircuitId(id),
        interface: "br0".to_owned(),
        flow: flow.parse().unwrap(),
        trc: "0s-9s 1G".parse().unwrap(),
    }
}

/// Sets the rate of a circuit in Mb/s; zero closes it.
pub(crate) fn set(driver: &mut dyn Driver, circuit: &Circuit, mbps: u64) -> Result<()> {
    let rate = Rate::from_bps(mbps * 1_000_000);
    driver
        .apply(&[Change {
            circuit,
            rate,
            timer: None,
        }])
        .pop()
        .unwrap()
}

/// Time in which a switch starts.
const PATIENCE: Duration = Duration::from_secs(20);
