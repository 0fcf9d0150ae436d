//! Lab with two edges, two gateways and the path between them.
//!
//! ```text
//! c (client) -- ga (ingress gateway) ==== path ==== gb (egress gateway) -- s (server)
//! ```
//!
//! On a veth pair, the gateways run on hosts c and s. `Site::start` waits until the link between
//! the gateways carries data, and dropping a `Site` ends them. Before each measurement,
//! `Site::control` waits until TCP sockets of earlier programs hold little memory, since all hosts
//! share the kernel's limit.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use lighthaul_io::host::wait::pause;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::Lab;

use super::args::Args;
use super::path::Path;
use super::route::Route;
use crate::demo::daemon::{key, run, start};
use crate::demo::running::Running;

/// Lab with running gateways.
pub(super) struct Site {
    pub(super) lab: Lab,
    /// Gateways near the client and near the server.
    pub(super) ingress: Running,
    pub(super) egress: Running,
    /// Address of the gateway's entrances for the client.
    pub(super) entry: String,
    /// Lighthaul binary.
    pub(super) lighthaul: PathBuf,
    _folder: Folder,
}

impl Site {
    /// Starts the lab and its gateways.
    pub(super) fn start(args: &Args, path: &Path) -> Result<Self, String> {
        let world = |why: std::io::Error| format!("cannot prepare the measurement: {why}");
        let description = Description::parse(&path.description).map_err(|e| e.to_string())?;
        let lab = Lab::start(&description).map_err(|e| e.to_string())?;
        let folder = Folder::new().map_err(world)?;
        let file = |name: &str| folder.0.join(name);
        let (ga, gb) = if path.is_near() {
            ("c", "s")
        } else {
            ("ga", "gb")
        };
        let ours = key(&args.lighthaul, &file("a"))?;
        let pin = key(&args.lighthaul, &file("b"))?;
        run(Command::new(&args.lighthaul)
            .args(["allow", &ours, "ingress", "--gateway", "--allowed"])
            .arg(file("allowed")))?;
        let address = |host: &str| lab.address(host).map_err(|e| e.to_string());
        let server = address("s")?;
        let common = |host: &str, key: &str| {
            let mut command = lab
                .command(host, &args.lighthaul)
                .map_err(|e| e.to_string())?;
            command.arg("gateway").arg("--key").arg(file(key));
            command.args(["--slab", &args.slab, "--rate", path.rate]);
            if args.plain {
                command.arg("--plain");
            }
            command.stdout(Stdio::null());
            Ok::<_, String>(command)
        };
        let mut serve = common(gb, "b")?;
        serve.args([
            "--listen",
            "0.0.0.0:4810",
            "--allow",
            &format!("{server}:*"),
        ]);
        serve.arg("--allowed").arg(file("allowed"));
        let egress = start(&mut serve, "listening")?;
        let mut call = common(ga, "a")?;
        let gateway = address(gb)?;
        call.args(["--peer", &format!("{gateway}:4810"), "--pin", &pin]);
        call.args(["--socks", &format!("0.0.0.0:{SOCKS}")]);
        if path.streamed {
            call.args(["--direct", &format!("{server}:*")]);
        }
        for port in PORTS {
            call.args([
                "--forward",
                &format!("0.0.0.0:{port}={server}:{}", port - SHIFT),
            ]);
        }
        let ingress = start(&mut call, "the link carries")?;
        let entry = address(ga)?.to_string();
        Ok(Self {
            lab,
            ingress,
            egress,
            entry,
            lighthaul: args.lighthaul.clone(),
            _folder: folder,
        })
    }

    /// Waits until the host's TCP sockets hold little memory. All namespaces share one memory
    /// limit, and near it, TCP windows stay closed.
    fn await_room() -> Result<(), String> {
        for _ in 0..ROOM_TRIES {
            let (held, low) = socket_pages()
                .ok_or("cannot read the memory of TCP sockets in /proc/net/sockstat")?;
            if held < low / 2 {
                return Ok(());
            }
            settle();
        }
        Err("other programs' TCP sockets hold too much memory; stop them and repeat the measurement".to_owned())
    }

    /// Sets the congestion control of the senders: the client, and the gateway near its target.
    pub(super) fn control(&self, route: Route) -> Result<(), String> {
        Self::await_room()?;
        for host in ["c", "gb"] {
            // On a veth pair, the gateway runs in its target's host.
            if self.lab.address(host).is_ok() {
                let preferred = self.lab.prefer(host, Some(route.control()));
                preferred.map_err(|why| why.to_string())?;
            }
        }
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for gateway in [&mut self.ingress, &mut self.egress] {
            gateway.0.kill().ok();
        }
        settle();
    }
}

/// Waits one second, so that hosts refuse the last packets for ended programs. Otherwise the peers'
/// sockets keep their bytes for minutes, which count against the host's memory limit of TCP.
pub(super) fn settle() {
    pause(Duration::from_secs(1));
}

/// Returns the number of pages that TCP sockets hold, and the number below which the kernel does not limit them.
fn socket_pages() -> Option<(u64, u64)> {
    let held = fs::read_to_string("/proc/net/sockstat").ok()?;
    let held = held.lines().find(|line| line.starts_with("TCP:"))?;
    let held = held.split_whitespace().next_back()?.parse().ok()?;
    let limits = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").ok()?;
    let low = limits.split_whitespace().next()?.parse().ok()?;
    Some((held, low))
}

/// Returns the CPU seconds that a process has used, user and system.
pub(super) fn cpu_seconds(running: &Running) -> f64 {
    let path = format!("/proc/{}/stat", process(running));
    let stat = fs::read_to_string(path).unwrap_or_default();
    let words: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
    let ticks = |nth: usize| words.get(nth).and_then(|word| word.parse::<f64>().ok());
    (ticks(12).unwrap_or(0.0) + ticks(13).unwrap_or(0.0)) / 100.0
}

/// Returns the peak memory of a process, in MiB.
pub(super) fn memory_mib(running: &Running) -> u64 {
    let path = format!("/proc/{}/status", process(running));
    let status = fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// Returns the innermost process of `running`, which may only be a wrapper.
pub(super) fn process(running: &Running) -> u32 {
    let mut pid = running.0.id();
    loop {
        match children(pid).first() {
            Some(child) => pid = *child,
            None => return pid,
        }
    }
}

/// Returns the IDs of `running` and all its descendants.
pub(super) fn within(running: &Running) -> Vec<u32> {
    let mut pids = vec![running.0.id()];
    let mut nth = 0;
    while let Some(pid) = pids.get(nth) {
        pids.extend(children(*pid));
        nth += 1;
    }
    pids
}

/// Returns the IDs of the children of a process's first thread.
fn children(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Directory that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("lighthaul-gateways-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Seconds to wait for the sockets of earlier programs.
const ROOM_TRIES: u32 = 180;
/// Ports of the ingress gateway. The server's ports are lower by [`SHIFT`].
pub(super) const PORTS: [u16; 3] = [15_201, 17_001, 17_002];
/// Port of the gateway's SOCKS5 proxy.
pub(super) const SOCKS: u16 = 1080;
/// Difference between a gateway's port and the server's.
pub(super) const SHIFT: u16 = 10_000;
