//! Two gateways with a long path between: one on the host `a`, near the programs, one on `b`, near their targets.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::running::{Running, becomes_true};
use crate::scratch::Scratch;
use crate::stage::Stage;

/// Two gateways, with the lab that they run on.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ingress: Running,
    pub(crate) egress: Running,
    pub(crate) scratch: Scratch,
    pub(crate) stage: Stage,
    pin: String,
    options: [Vec<String>; 2],
    _sockets: Sockets,
}

/// Removes the files of killed gateways.
#[derive(Debug)]
struct Sockets([PathBuf; 3]);

impl Drop for Sockets {
    fn drop(&mut self) {
        for socket in &self.0 {
            fs::remove_file(socket).ok();
        }
    }
}

/// Address of the ingress for programs on `a`.
pub(crate) const SOCKS: &str = "127.0.0.1:1080";
pub(crate) const CONNECT: &str = "127.0.0.1:3128";
/// The address of `b`.
pub(crate) const B: &str = "10.77.0.2";

impl Pair {
    /// Two gateways on a path of 100 Mb/s and 40 ms, or `None` if no lab is possible here.
    pub(crate) fn start(name: &str) -> Option<Self> {
        Self::start_with(name, &[], &[])
    }

    /// Starts a pair with further options for the ingress and for the egress.
    pub(crate) fn start_with(name: &str, ingress: &[&str], egress: &[&str]) -> Option<Self> {
        let stage = Stage::pair(name, PATH)?;
        Some(Self::start_on(stage, Scratch::new(name), ingress, egress))
    }

    /// Starts a pair while only quiet tests run, for a test that measures times.
    pub(crate) fn start_quiet(name: &str, ingress: &[&str], egress: &[&str]) -> Option<Self> {
        let stage = Stage::pair_quiet(name, PATH)?;
        Some(Self::start_on(stage, Scratch::new(name), ingress, egress))
    }

    /// Starts a pair on an existing stage.
    pub(crate) fn start_on(
        stage: Stage,
        scratch: Scratch,
        ingress: &[&str],
        egress: &[&str],
    ) -> Self {
        let fingerprint = |key: &str| say(&["key", "--key", scratch.at(key).to_str().unwrap()]);
        let (ours, pin) = (fingerprint("a-key"), fingerprint("b-key"));
        let allowed = scratch.at("allowed");
        let allowed = allowed.to_str().unwrap();
        say(&["allow", &ours, "a", "--gateway", "--allowed", allowed]);
        let options = [ingress, egress].map(|row| row.iter().map(|w| (*w).to_owned()).collect());
        let sockets = Sockets(["a", "b", "c"].map(|host| socket(&scratch, host)));
        let egress = start_egress(&stage, &scratch, &options);
        let ingress = start_ingress(&stage, &scratch, &pin, &options);
        let mut pair = Self {
            ingress,
            egress,
            scratch,
            stage,
            pin,
            options,
            _sockets: sockets,
        };
        pair.ingress.says(UP);
        pair
    }

    /// Kills the egress and waits until its port is free.
    pub(crate) fn kill_egress(&mut self) {
        self.egress.kill();
        let bind = || TcpListener::bind((B, 4810));
        becomes_true("the egress is gone", || {
            self.stage.lab.within("b", bind).is_ok()
        });
    }

    /// Starts another egress at its address, and waits until the ingress has connected.
    pub(crate) fn restart_egress(&mut self) {
        self.egress = start_egress(&self.stage, &self.scratch, &self.options);
        self.egress.says(UP);
    }

    /// Starts another ingress at its address.
    pub(crate) fn restart_ingress(&mut self) {
        // the kernel may close the sockets of a killed program later than the program has ended
        let bind = || TcpListener::bind(SOCKS);
        let is_free = || self.stage.lab.within("a", bind).is_ok();
        becomes_true("its address is free", is_free);
        self.ingress = start_ingress(&self.stage, &self.scratch, &self.pin, &self.options);
        self.ingress.says(UP);
    }

    /// A target on `b`.
    pub(crate) fn target(&self) -> (TcpListener, SocketAddr) {
        let bind = || TcpListener::bind((B, 0));
        let listener = self.stage.lab.within("b", bind).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// A connection on `a`.
    pub(crate) fn dial(&self, address: &str) -> TcpStream {
        let address: SocketAddr = address.parse().unwrap();
        let call = || TcpStream::connect_timeout(&address, LONG);
        let stream = self.stage.lab.within("a", call).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Makes the path drop all packets.
    pub(crate) fn cut(&self) {
        for host in ["a", "b"] {
            self.stage.block(host, "iifname != lo");
        }
    }

    /// Makes the path carry all packets again.
    pub(crate) fn mend(&self) {
        for host in ["a", "b"] {
            self.stage.unblock(host);
        }
    }
}

/// Returns the process itself, below those that hold its namespaces.
pub(crate) fn inner(gateway: &Running) -> u32 {
    let mut id = gateway.id();
    loop {
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        match children.split_whitespace().next() {
            Some(child) => id = child.parse().unwrap(),
            None => return id,
        }
    }
}

/// Sends a gateway the signal of this name, as in `INT`.
pub(crate) fn signal(gateway: &Running, name: &str) {
    let id = inner(gateway).to_string();
    let status = Command::new("kill").args(["-s", name, &id]).status();
    assert!(status.unwrap().success());
}

/// Runs the command outside of the lab.
pub(crate) fn say(words: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the gateway command on a host of the stage, with its own configuration.
pub(crate) fn gateway(stage: &Stage, scratch: &Scratch, host: &str) -> Command {
    let mut command = stage.lab.command(host, PROGRAM).unwrap();
    let key: PathBuf = scratch.at(&format!("{host}-key"));
    command
        .arg("gateway")
        .env("XDG_CONFIG_HOME", scratch.at("config"))
        .env("XDG_STATE_HOME", scratch.at("state"))
        .env("LIGHTHAUL_LOG", "debug")
        .arg("--key")
        .arg(key)
        .arg("--status-socket")
        .arg(socket(scratch, host));
    command
}

/// Status socket of the gateway on a host. The name must be short, and unique to this test.
pub(crate) fn socket(scratch: &Scratch, host: &str) -> PathBuf {
    let folder = fs::metadata(scratch.at("")).unwrap().ino();
    let name = format!("lighthaul-test-{}-{folder}-{host}", std::process::id());
    std::env::temp_dir().join(name)
}

fn start_egress(stage: &Stage, scratch: &Scratch, options: &[Vec<String>; 2]) -> Running {
    let mut command = gateway(stage, scratch, "b");
    command
        .args(["--listen", "0.0.0.0:4810", "--rate", "90Mb/s"])
        .args(["--allow", "10.77.0.2:*,absent.invalid:*", "--allowed"])
        .arg(scratch.at("allowed"))
        .args(&options[1]);
    let mut egress = Running::start(command);
    egress.says("listening on");
    egress
}

fn start_ingress(
    stage: &Stage,
    scratch: &Scratch,
    pin: &str,
    options: &[Vec<String>; 2],
) -> Running {
    let mut command = gateway(stage, scratch, "a");
    command
        .args(["--peer", "10.77.0.2:4810", "--pin", pin])
        .args(["--socks", SOCKS, "--connect", CONNECT])
        .args(["--rate", "90Mb/s"])
        .args(&options[0]);
    Running::start(command)
}

/// The command that was built.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_lighthaul");
pub(crate) const PATH: &str = "rate = \"100Mb/s\"\nrtt = \"40ms\"";
/// Line of the log once programs can connect.
pub(crate) const UP: &str = "the link carries sessions";
/// Timeout of every wait.
pub(crate) const LONG: Duration = Duration::from_mins(1);
