//! Running lab: hosts, the thread that emulates the links between them, and commands.
//!
//! A [`Lab`] makes network namespaces as hosts and joins them by TUN devices or veth pairs. All
//! processes in it end when it is dropped, and also when its own process is killed. [`available`]
//! says why a lab cannot run here, for example without root.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use lighthaul_io::host::clock::{Clock, lower_timer_slack};
use lighthaul_io::host::namespace::{self, Cell, NAMESPACES, Namespace};
use lighthaul_io::host::wait::Waker;
use lighthaul_io::net::tun::{Watchers, raise_priority};
use lighthaul_sim::Link;

use crate::congestion;
use crate::counters::{Counters, DirectionCounters};
use crate::description::{Description, LinkKind, address};
use crate::error::{Error, Result};
use crate::line::Line;
use crate::netns::{self, Host};
use crate::route;
use crate::wan::{Next, Wan};

/// Lab that runs until it is dropped.
#[derive(Debug)]
pub struct Lab {
    description: Description,
    hosts: Vec<Host>,
    hosts_file: String,
    wan: Arc<Mutex<Wan>>,
    emulator: Option<JoinHandle<()>>,
    stop: Stop,
    /// Pipe that ends all commands when it is closed. Both ends close when this process ends in any way.
    lifeline: (PipeReader, Option<PipeWriter>),
}

/// Checks that this host can run a lab. Otherwise returns the reason as one sentence.
pub fn available() -> std::result::Result<(), String> {
    namespace::check().map_err(|e| format!("a lab needs root and namespaces: {e}"))?;
    if !Path::new("/dev/net/tun").exists() {
        return Err("a lab needs /dev/net/tun, which does not exist".to_owned());
    }
    let tool = Command::new("ip")
        .arg("-Version")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .map_err(|e| format!("a lab needs the command ip, of iproute2: {e}"))?;
    if tool.status.success() {
        Ok(())
    } else {
        Err("the command ip does not work".to_owned())
    }
}

/// Creates a command that runs on another host of the lab to which this process belongs. Moves the calling thread to
/// that host. Fails outside a lab, or if the host does not exist.
pub fn command_on(host: &str, program: impl AsRef<OsStr>) -> Result<Command> {
    let file = Path::new(NAMESPACES).join(host);
    if !Path::new(NAMESPACES).join(".hosts").exists() {
        return Err(Error::Misuse(
            "this command does not run inside a lab".to_owned(),
        ));
    }
    if host.contains('/') || !file.exists() {
        return Err(Error::Misuse(format!(
            "there is no host named {host:?} in this lab"
        )));
    }
    let what = || format!("enter the host {host}");
    let namespace = Namespace::open(&file).map_err(Error::world(what()))?;
    namespace.enter().map_err(Error::world(what()))?;
    Ok(Command::new(program))
}

impl Lab {
    /// Builds the described lab and starts it.
    pub fn start(description: &Description) -> Result<Self> {
        available().map_err(Error::Misuse)?;
        let paths = route::paths(description)?;
        let hosts = netns::build(description)?;
        let lines = lines(description);
        let shared = |path: Option<Vec<usize>>| path.map(Arc::from);
        let paths = paths
            .into_iter()
            .map(|row| row.into_iter().map(shared).collect())
            .collect();
        let tuns = hosts.iter().map(|host| Arc::clone(&host.tun)).collect();
        let wan = Arc::new(Mutex::new(Wan::new(Clock::start(), tuns, paths, lines)));
        let what = "start the emulator";
        let stop = Stop::new().map_err(Error::world(what))?;
        let lifeline = io::pipe().map_err(Error::world(what))?;
        let mut lab = Self {
            hosts_file: hosts_file(description),
            description: description.clone(),
            hosts,
            wan,
            emulator: None,
            stop,
            lifeline: (lifeline.0, Some(lifeline.1)),
        };
        lab.emulator = Some(lab.emulate().map_err(Error::world(what))?);
        Ok(lab)
    }

    /// Creates a command that will run in `host`, in its own cell. All its processes end with it,
    /// and with this lab.
    pub fn command(&self, host: &str, program: impl AsRef<OsStr>) -> Result<Command> {
        let number = self.number(host)?;
        let names = self.description.hosts();
        let mut command = Command::new(program);
        command.env("LIGHTHAUL_LAB", NAMESPACES);
        for (number, name) in names.iter().enumerate() {
            let name = name.to_ascii_uppercase().replace('-', "_");
            command.env(format!("LIGHTHAUL_LAB_{name}"), address(number).to_string());
        }
        let spaces = self.hosts.iter().map(|host| &host.namespace);
        let cell = Cell {
            namespace: &self.hosts[number].namespace,
            hosts: &self.hosts_file,
            namespaces: names.iter().map(String::as_str).zip(spaces).collect(),
            lifeline: self.lifeline.0.as_raw_fd(),
        };
        namespace::confine(&mut command, &cell).map_err(Error::world("confine a command"))?;
        Ok(command)
    }

    /// Runs a command in `host` until it ends. Returns its status.
    pub fn run(&self, host: &str, words: &[impl AsRef<OsStr>]) -> Result<ExitStatus> {
        let Some((program, rest)) = words.split_first() else {
            return Err(Error::Misuse("no command given".to_owned()));
        };
        let what = format!("run {}", program.as_ref().display());
        self.command(host, program)?
            .args(rest)
            .status()
            .map_err(Error::world(what))
    }

    /// Sets the congestion control of new connections of `host`; `None` restores the default.
    pub fn prefer(&self, host: &str, control: Option<&str>) -> Result<()> {
        let ip = || self.command(host, "ip").map_err(io::Error::other);
        let what = || {
            format!(
                "set the congestion control of {host} to {}",
                control.unwrap_or("its default")
            )
        };
        congestion::prefer_by(ip, control).map_err(Error::world(what()))
    }

    /// Runs `work` on a new thread in `host`, for tests that need sockets in that host.
    pub fn within<T: Send>(
        &self,
        host: &str,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> Result<T> {
        let namespace = &self.hosts[self.number(host)?].namespace;
        namespace
            .within(work)
            .map_err(Error::world(format!("open a socket in the host {host}")))
    }

    /// Returns the address of `host`.
    pub fn address(&self, host: &str) -> Result<Ipv4Addr> {
        self.number(host).map(address)
    }

    /// Returns the counters of all links.
    pub fn counters(&self) -> Counters {
        let wan = lock(&self.wan);
        let mut emulator = wan.emulator();
        let emulated = self
            .description
            .links
            .iter()
            .filter(|l| matches!(l.kind, LinkKind::Wan(_)));
        let ends = emulated.flat_map(|link| [link.between, [link.between[1], link.between[0]]]);
        let active = wan.lines().iter().filter(|line| line.mtu != 0);
        let links = ends.zip(active).map(|(ends, line)| DirectionCounters {
            source: self.description.names[ends[0]].clone(),
            target: self.description.names[ends[1]].clone(),
            seen: *line.machine.counters(),
            too_long: line.too_long,
        });
        let links = links.collect();
        drop(wan);
        emulator.kernel_dropped = self.hosts.iter().map(Host::dropped).sum();
        Counters { links, emulator }
    }

    fn number(&self, host: &str) -> Result<usize> {
        let found = self
            .description
            .hosts()
            .iter()
            .position(|name| name == host);
        found.ok_or_else(|| Error::Misuse(format!("there is no host named {host:?} in this lab")))
    }

    /// Starts the thread that emulates the links.
    fn emulate(&self) -> io::Result<JoinHandle<()>> {
        let (wan, stop) = (Arc::clone(&self.wan), self.stop.clone());
        let fds = self.hosts.iter().map(|host| host.tun.as_fd().as_raw_fd());
        let mut watchers = Watchers::new(fds.chain([stop.waker.as_raw_fd()]));
        thread::Builder::new()
            .name("wan".to_owned())
            .spawn(move || {
                lower_timer_slack();
                raise_priority();
                while !stop.is_set.load(Ordering::Acquire) {
                    let next = lock(&wan).turn(|host| watchers.is_ready(host));
                    let nanos = match next {
                        Next::In(nanos) => Some(nanos),
                        Next::WhenSent => None,
                    };
                    if watchers.wait(nanos).is_err() {
                        break;
                    }
                }
            })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.lifeline.1 = None;
        self.stop.is_set.store(true, Ordering::Release);
        self.stop.waker.raise();
        if let Some(emulator) = self.emulator.take() {
            emulator.join().ok();
        }
    }
}

/// Signal that ends the emulator.
#[derive(Clone, Debug)]
struct Stop {
    is_set: Arc<AtomicBool>,
    waker: Waker,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Self {
            is_set: Arc::default(),
            waker: Waker::new()?,
        })
    }
}

fn lock(wan: &Mutex<Wan>) -> MutexGuard<'_, Wan> {
    wan.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a line for each direction of each link. Those of a veth pair have MTU 0 and are unused.
fn lines(description: &Description) -> Vec<Line> {
    let mut lines = Vec::new();
    for link in &description.links {
        for way in 0..2 {
            let seed = description
                .seed
                .wrapping_mul(1_000_003)
                .wrapping_add(lines.len() as u64);
            lines.push(match &link.kind {
                LinkKind::Wan(configs) => {
                    Line::new(Link::new(configs[way], seed), link.mtu, link.spares_tcp)
                }
                LinkKind::Veth { .. } => Line::new(
                    Link::new(lighthaul_sim::LinkConfig::default(), seed),
                    0,
                    false,
                ),
            });
        }
    }
    lines
}

fn hosts_file(description: &Description) -> String {
    let named = description.hosts().iter().enumerate();
    let own = named.map(|(number, name)| format!("{} {name}\n", address(number)));
    let own = own.collect::<Vec<_>>().concat();
    let real = std::fs::read_to_string("/etc/hosts");
    own + &real.unwrap_or_else(|_| "127.0.0.1 localhost\n".to_owned())
}
