//! Two edges, two gateways and the path between them, in the lab.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::Lab;

use super::args::Args;
use crate::demo::daemon::{key, run, start};
use crate::demo::show::Running;

/// What lies between the gateways.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Its name.
    pub(super) name: String,
    description: String,
    /// What the channel may take.
    rate: Option<&'static str>,
    /// The round-trip time from edge to edge, in milliseconds.
    pub(super) rtt_ms: u32,
}

impl Path {
    /// 1 Gb/s between the gateways, and edges 10 ms from them.
    pub(super) fn wan(rtt_ms: u32, loss: &str) -> Self {
        let link = |between: &str, rest: &str| format!("[[link]]\nbetween = [{between}]\n{rest}\n");
        let lossy = if loss == "0" {
            String::new()
        } else {
            format!("loss = \"{loss}\"\n")
        };
        let description = [
            "host = [{name=\"c\"}, {name=\"ga\"}, {name=\"gb\"}, {name=\"s\"}]\n".to_owned(),
            "router = [{name=\"r1\"}, {name=\"r2\"}]\n".to_owned(),
            link("\"c\", \"r1\"", "rtt = \"10ms\""),
            link("\"ga\", \"r1\"", ""),
            link("\"gb\", \"r2\"", ""),
            link("\"s\", \"r2\"", "rtt = \"10ms\""),
            link(
                "\"r1\", \"r2\"",
                &format!("rate = \"1Gb/s\"\nrtt = \"{rtt_ms}ms\"\n{lossy}"),
            ),
        ]
        .concat();
        Self {
            name: format!("1 Gb/s {rtt_ms} ms {loss}"),
            description,
            rate: Some("990Mb/s"),
            rtt_ms: rtt_ms + 20,
        }
    }

    /// A plain pair: programs are where their gateway is.
    pub(super) fn near() -> Self {
        let description = "host = [{name=\"c\"}, {name=\"s\"}]\n\
                           [[link]]\nbetween = [\"c\", \"s\"]\nkind = \"veth\"\n";
        Self {
            name: "veth".to_owned(),
            description: description.to_owned(),
            rate: Some("40Gb/s"),
            rtt_ms: 0,
        }
    }

    fn is_near(&self) -> bool {
        self.rtt_ms == 0
    }
}

/// A lab with gateways at work.
pub(super) struct Site {
    pub(super) lab: Lab,
    /// The one near the client, and the one near the server.
    pub(super) ingress: Running,
    pub(super) egress: Running,
    /// Where the client finds the ways in.
    pub(super) entry: String,
    _folder: Folder,
}

impl Site {
    /// Starts one.
    pub(super) fn start(args: &Args, path: &Path) -> Result<Self, String> {
        let world = |why: std::io::Error| format!("the measurement could not be prepared: {why}");
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
            command.args(["--slab", &args.slab]);
            command.args(path.rate.iter().flat_map(|rate| ["--rate", rate]));
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
            _folder: folder,
        })
    }
}

/// CPU seconds of a process so far, user's and kernel's.
pub(super) fn cpu_seconds(running: &Running) -> f64 {
    let path = format!("/proc/{}/stat", process(running));
    let stat = fs::read_to_string(path).unwrap_or_default();
    let words: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
    let ticks = |nth: usize| words.get(nth).and_then(|word| word.parse::<f64>().ok());
    (ticks(12).unwrap_or(0.0) + ticks(13).unwrap_or(0.0)) / 100.0
}

/// The largest that a process has been, in MiB.
pub(super) fn memory_mib(running: &Running) -> u64 {
    let path = format!("/proc/{}/status", process(running));
    let status = fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// The process itself: what was started may only keep it.
pub(super) fn process(running: &Running) -> u32 {
    let mut pid = running.0.id();
    loop {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let first = children.unwrap_or_default();
        match first.split(' ').next().and_then(|word| word.parse().ok()) {
            Some(child) => pid = child,
            None => return pid,
        }
    }
}

/// A folder that goes when this is dropped.
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

/// Ports at the gateway near the client; those of the server are so much less.
pub(super) const PORTS: [u16; 3] = [15_201, 17_001, 17_002];
/// The difference.
pub(super) const SHIFT: u16 = 10_000;
