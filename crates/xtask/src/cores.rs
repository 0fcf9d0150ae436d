//! `cargo xtask cores`: processor time of copies, and the rates of hosts with more processors.
//!
//! A copy runs between two hosts of the lab, joined by a veth pair. Both sides share one processor first, then two. All
//! processors are busy then, so the time of each side gives the bound of a host with any number of processors:
//!
//! ```text
//! rate = min(processors / time of the busier side, lanes / time of the busiest thread, network card)
//! ```
//!
//! The run with two processors checks the model, by which its rate is twice that with one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::wait::pause;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::Lab;

use crate::demo::daemon::{key, run as finish, start};
use crate::demo::{Running, release};
use crate::routes::fill;

/// Size of the copied file.
const BYTES: u64 = 3 << 30;
/// Runs of each case. The table has the median.
const RUNS: usize = 3;
/// Interval between two looks at the processor time of all threads.
const INTERVAL: Duration = Duration::from_millis(20);
/// Processors of hosts in the second table.
const HOSTS: [u64; 4] = [2, 8, 16, 64];
/// Rates of network cards in Gb/s.
const CARDS: [f64; 2] = [100.0, 400.0];
/// Unit of processor time in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;
const GB: f64 = 1e9;
/// Two hosts, joined as fast as the kernel allows.
const DESCRIPTION: &str = r#"
host = [{ name = "a" }, { name = "b" }]
link = [{ between = ["a", "b"], kind = "veth" }]
"#;

/// Kinds of copies: name, options, and true if datagrams leave in lanes.
const CASES: [(&str, &[&str], bool); 3] = [
    (
        "rbudp, encrypted",
        &["--dedicated", "--protocol", "rbudp"],
        true,
    ),
    (
        "sabul-swift, encrypted",
        &["--protocol", "sabul-swift"],
        true,
    ),
    ("tcp, encrypted", &["--protocol", "tcp"], false),
];

/// Measures all cases, and prints both tables. The program is that of the release build, or at the path in `words`.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let program = match words {
        [] => release()?.join("lighthaul"),
        [program] => PathBuf::from(program),
        _ => return Err("usage: cargo xtask cores [PROGRAM]".to_owned()),
    };
    let site = Site::start(&program)?;
    println!(
        "| copy of 3 GiB in memory | processors | Gb/s | of twice the rate of one | sender (s/GB) | receiver (s/GB) | busiest thread (s/GB) |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut models = Vec::new();
    for (name, options, has_lanes) in CASES {
        let one = site.measure("0", options)?;
        let two = site.measure("0,1", options)?;
        for (processors, run) in [(1, &one), (2, &two)] {
            let share = run.gbps / (one.gbps * f64::from(processors));
            println!(
                "| {name} | {processors} | {:.2} | {share:.2} | {:.2} | {:.2} | {:.2} |",
                run.gbps, run.sender, run.receiver, run.thread
            );
        }
        models.push((name, two, has_lanes));
    }
    println!();
    println!(
        "| copy | processors of each host | processors allow (Gb/s) | threads allow (Gb/s) | 100 Gb/s card | 400 Gb/s card |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, run, has_lanes) in models {
        for processors in HOSTS {
            println!(
                "| {name} | {processors} | {} |",
                row(&run, processors, has_lanes)
            );
        }
    }
    Ok(())
}

/// Returns the cells of a host with this number of processors.
fn row(run: &Measured, processors: u64, has_lanes: bool) -> String {
    let lanes = if has_lanes {
        (processors / 2).clamp(2, LANES_MAX as u64)
    } else {
        1
    };
    let all = 8.0 * processors as f64 / run.sender.max(run.receiver);
    // the two lanes of the measured copy had half of the data each
    let measured_lanes = if has_lanes { 2.0 } else { 1.0 };
    let threads = 8.0 * lanes as f64 / (run.thread * measured_lanes);
    let cards = CARDS.map(|card| {
        let (rate, bound) = [(all, "processors"), (threads, "threads"), (card, "card")]
            .into_iter()
            .min_by(|one, other| one.0.total_cmp(&other.0))
            .unwrap_or((card, "card"));
        format!("{rate:.0}, {bound}")
    });
    format!("{all:.0} | {threads:.0} ({lanes}) | {}", cards.join(" | "))
}

/// Processor time and rate of a copy.
#[derive(Clone, Copy)]
struct Measured {
    gbps: f64,
    /// Seconds of processor time for each GB: of both sides, and of the busiest thread.
    sender: f64,
    receiver: f64,
    thread: f64,
}

/// Two hosts, and the files of both.
struct Site {
    lab: Lab,
    program: PathBuf,
    folder: Memory,
    /// Port of the next server.
    port: Cell<u16>,
}

impl Site {
    fn start(program: &Path) -> Result<Self, String> {
        let description = Description::parse(DESCRIPTION).map_err(|e| e.to_string())?;
        let lab = Lab::start(&description).map_err(|e| e.to_string())?;
        let folder = Memory::make()?;
        fill(&folder.0.join("data"), BYTES)?;
        let client = key(program, &folder.0.join("client_key"))?;
        let allow = folder.0.join("allowed");
        finish(
            Command::new(program)
                .arg("allow")
                .arg(client)
                .arg("--allowed")
                .arg(allow),
        )?;
        Ok(Self {
            lab,
            program: program.to_owned(),
            folder,
            port: Cell::new(4810),
        })
    }

    /// Returns the median of several copies with both sides on `processors`.
    fn measure(&self, processors: &str, options: &[&str]) -> Result<Measured, String> {
        let mut serve = self.pinned("b", processors)?;
        serve.args(["serve", "--root"]).arg(&self.folder.0);
        serve.arg("--key").arg(self.file("host_key"));
        serve.arg("--allowed").arg(self.file("allowed"));
        let port = self.port.replace(self.port.get() + 1);
        serve.arg("--listen").arg(format!("[::]:{port}"));
        let server = start(&mut serve, "listening")?;
        let runs = (0..RUNS).map(|_| self.copy((&server, port), processors, options));
        let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
        runs.sort_by(|one, other| one.gbps.total_cmp(&other.gbps));
        Ok(runs[RUNS / 2])
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    /// Returns the program on `host`, on these processors only.
    fn pinned(&self, host: &str, processors: &str) -> Result<Command, String> {
        let command = self.lab.command(host, "taskset");
        let mut command = command.map_err(|e| e.to_string())?;
        command.args(["-c", processors]).arg(&self.program);
        Ok(command)
    }

    fn copy(
        &self,
        (server, port): (&Running, u16),
        processors: &str,
        options: &[&str],
    ) -> Result<Measured, String> {
        let address = self.lab.address("b").map_err(|e| e.to_string())?;
        let mut cp = self.pinned("a", processors)?;
        cp.env("XDG_CONFIG_HOME", self.file("settings"))
            .env("XDG_CACHE_HOME", self.file("settings"))
            .args(["cp", "--json", "--key"])
            .arg(self.file("client_key"))
            .args(options)
            .arg(self.file("data"))
            .arg(format!("lh://{address}:{port}/arrived"))
            .stdout(Stdio::piped());
        let before = ticks(&innermost(server.0.id()));
        let mut client = cp.spawn().map(Running).map_err(|e| e.to_string())?;
        let output = client.0.stdout.take().ok_or("no standard output")?;
        let told = thread::spawn(move || std::io::read_to_string(output));
        let mut spent = [Spent::default(), Spent::default()];
        while client.0.try_wait().map_err(|e| e.to_string())?.is_none() {
            spent[0].look(client.0.id());
            spent[1].look(server.0.id());
            pause(INTERVAL);
        }
        spent[1].look(server.0.id());
        let told = told.join().map_err(|_| "the reader panicked")?;
        let told = told.map_err(|e| e.to_string())?;
        let last = told.lines().last().unwrap_or_default();
        let summary: serde_json::Value = serde_json::from_str(last).map_err(|e| e.to_string())?;
        if summary["verified"] != true {
            return Err(format!("the copy failed: {last}"));
        }
        fs::remove_file(self.file("arrived")).map_err(|e| e.to_string())?;
        let seconds = summary["moving_s"].as_f64().unwrap_or(f64::INFINITY);
        let per_gb = |ticks: u64| ticks as f64 / TICKS_PER_SECOND * GB / BYTES as f64;
        let [sender, receiver] = &spent;
        Ok(Measured {
            gbps: BYTES as f64 * 8.0 / seconds / GB,
            sender: per_gb(sender.whole),
            receiver: per_gb(receiver.whole - before.unwrap_or(0)),
            thread: per_gb(sender.busiest().max(receiver.busiest())),
        })
    }
}

/// Processor time of a process and its threads, in ticks.
#[derive(Default)]
struct Spent {
    whole: u64,
    threads: BTreeMap<PathBuf, u64>,
}

impl Spent {
    /// Reads the present times. A process or thread that has ended keeps its last ones.
    fn look(&mut self, process: u32) {
        let folder = innermost(process);
        if let Some(ticks) = ticks(&folder) {
            self.whole = self.whole.max(ticks);
        }
        for entry in fs::read_dir(folder.join("task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            if let Some(ticks) = ticks(&entry.path()) {
                self.threads.insert(entry.path(), ticks);
            }
        }
    }

    fn busiest(&self) -> u64 {
        self.threads.values().copied().max().unwrap_or(0)
    }
}

/// Returns the folder in `/proc` of the program that the lab's processes, which begin with `process`, have started.
fn innermost(process: u32) -> PathBuf {
    let mut folder = PathBuf::from(format!("/proc/{process}"));
    while let Ok(children) =
        fs::read_to_string(folder.join(format!("task/{}/children", name(&folder))))
        && let Some(child) = children.split_whitespace().next()
    {
        folder.set_file_name(child);
    }
    folder
}

fn name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the ticks of user and system time of the process or thread at `path`.
fn ticks(path: &Path) -> Option<u64> {
    let stat = fs::read_to_string(path.join("stat")).ok()?;
    // the name may have spaces; user and system time are the fields 14 and 15 of the line
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

/// Directory in memory, removed on drop.
struct Memory(PathBuf);

impl Memory {
    fn make() -> Result<Self, String> {
        let path = PathBuf::from(format!("/dev/shm/lighthaul-cores-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("cannot create {}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
