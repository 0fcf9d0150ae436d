//! The same points with real programs, over a link of the lab.
//!
//! Each transfer has a lab of its own: `lighthaul serve` on host `b`, `lighthaul cp` on host `a`, and
//! iperf3 as the neighbor. The file is in memory, and as long as the link carries in the time of the
//! point. A copy that takes longer is ended, and counts with the bytes that it had reported.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_lab::settings::{LinkSettings, Settings};
use lighthaul_session::protocol::Protocol;
use serde_json::Value;

use super::plan::GridPlan;
use super::point::{Choice, Condition, Point};
use super::results::Results;
use super::table::{Column, Row};

/// Measures the missing points, one after the other.
pub(crate) fn run(plan: &GridPlan, results: &mut Results<'_>, lighthaul: &Path) -> io::Result<()> {
    available().map_err(io::Error::other)?;
    let missing = results.missing();
    let folder = Folder::create()?;
    let keys = Keys::create(lighthaul, &folder)?;
    for point in &missing {
        let time = plan.time(point);
        let mut row = Row::new(*point);
        for choice in point.condition.choices() {
            let trial = Trial {
                lighthaul,
                folder: &folder,
                keys: &keys,
                point,
                time,
                seed: plan.seed,
            };
            trial.measure(choice, &mut row)?;
        }
        results.add(row, missing.len())?;
    }
    Ok(())
}

/// Parameters of the transfers at one point of the grid.
struct Trial<'a> {
    lighthaul: &'a Path,
    folder: &'a Folder,
    keys: &'a Keys,
    point: &'a Point,
    time: Duration,
    seed: u64,
}

impl Trial<'_> {
    /// Measures a choice, and fills its cells in the row.
    fn measure(&self, choice: Choice, row: &mut Row) -> io::Result<()> {
        let lab = Lab::start(&self.describe()?).map_err(io::Error::other)?;
        let _server = self.serve(&lab)?;
        let neighbor = self.neighbor(&lab)?;
        let copied = self.copy(&lab, choice)?;
        row.set(Column::Goodput(choice), copied.mbps);
        if let Some(neighbor) = neighbor {
            row.set(Column::Neighbor(choice), neighbor.mbps(self.time)?);
        }
        if choice == Choice::Auto {
            row.protocol = copied.protocol;
        }
        if choice == Choice::Auto && self.point.condition.is_shared() {
            let lab = Lab::start(&self.describe()?).map_err(io::Error::other)?;
            let equals = [self.neighbor(&lab)?, self.neighbor_on(&lab, SECOND_PORT)?];
            pause(self.time);
            for (nth, equal) in equals.into_iter().flatten().enumerate() {
                let mbps = equal.mbps(self.time)?;
                if nth == 0 {
                    row.set(Column::Equals, mbps);
                }
            }
        }
        Ok(())
    }

    fn describe(&self) -> io::Result<Description> {
        let point = self.point;
        let mut link = LinkSettings {
            rtt: Some(format!("{}ns", point.rtt.as_nanos())),
            mtu: Some(point.mtu()),
            ..LinkSettings::default()
        };
        link.both.rate = Some(format!("{}b/s", point.rate.as_bps()));
        link.both.queue = Some(format!("{}B", point.queue_bytes()));
        link.forward.loss = (point.loss_ppb > 0).then(|| format!("{}%", point.loss_percent()));
        let settings = Settings::pair(link, Some(self.seed));
        Description::new(&settings).map_err(io::Error::other)
    }

    fn serve(&self, lab: &Lab) -> io::Result<Process> {
        let mut serve = self.command(lab, "b", self.lighthaul)?;
        serve.args(["serve", "--root", "/", "--key"]);
        serve
            .arg(&self.keys.host)
            .arg("--allowed")
            .arg(&self.keys.allowed);
        serve.stderr(fs::File::create(self.folder.file("served"))?);
        let server = Process(serve.spawn()?);
        let log = self.folder.file("served");
        becomes_true("lighthaul serve listens", || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains("listening"))
        })?;
        Ok(server)
    }

    /// Starts the neighboring flow of the point, and waits while it warms up.
    fn neighbor(&self, lab: &Lab) -> io::Result<Option<Neighbor>> {
        self.neighbor_on(lab, FIRST_PORT)
    }

    fn neighbor_on(&self, lab: &Lab, port: &str) -> io::Result<Option<Neighbor>> {
        let control = match self.point.condition {
            Condition::Cubic => "cubic",
            Condition::Bbr => "bbr",
            Condition::Alone | Condition::Untold | Condition::Loaded | Condition::Changing => {
                return Ok(None);
            }
        };
        let mut serve = self.command(lab, "b", "iperf3")?;
        serve.args(["-s", "-1", "-p", port]);
        let server = Process(serve.spawn()?);
        let report = self.folder.file(&format!("neighbor-{port}"));
        let seconds = (self.time + warm_up(self.point)).as_secs_f64().ceil() + 1.0;
        // the server listens after a moment
        pause(Duration::from_millis(300));
        let mut call = self.command(lab, "a", "iperf3")?;
        let address = lab.address("b").map_err(io::Error::other)?.to_string();
        call.args(["-c", &address, "-p", port, "-C", control, "-J", "-t"]);
        call.arg(seconds.to_string()).args(["-i", "0.1"]);
        call.stdout(fs::File::create(&report)?);
        let client = Process(call.spawn()?);
        pause(warm_up(self.point));
        Ok(Some(Neighbor {
            client,
            _server: server,
            report,
            from: warm_up(self.point),
        }))
    }

    fn copy(&self, lab: &Lab, choice: Choice) -> io::Result<Copied> {
        let bytes = self.point.rate.bytes_in(self.time);
        let source = self.folder.file("source");
        fs::File::create(&source)?.set_len(0)?;
        noise(&source, bytes)?;
        let (target, events) = (self.folder.file("target"), self.folder.file("events"));
        fs::remove_file(&target).ok();
        let mut copy = self.command(lab, "a", self.lighthaul)?;
        copy.args(["cp", "--json", "--key"]).arg(&self.keys.user);
        copy.args(["--pin", self.keys.pin.trim()]);
        if let Choice::Fixed(protocol) = choice {
            copy.args(["--protocol", protocol.name()]);
        } else if self.point.condition.is_told_dedicated() {
            copy.arg("--dedicated");
        }
        copy.arg(&source).arg(format!("lh://b{}", target.display()));
        copy.stdout(fs::File::create(&events)?);
        let clock = Clock::start();
        let mut child = Process(copy.spawn()?);
        let limit = Instant::ZERO + self.time;
        while child.0.try_wait()?.is_none() && clock.now() < limit {
            pause(Duration::from_millis(5));
        }
        let seconds = clock.now().as_secs_f64();
        drop(child);
        fs::remove_file(&target).ok();
        Copied::read(&fs::read_to_string(&events)?, seconds)
    }

    fn command(
        &self,
        lab: &Lab,
        host: &str,
        program: impl AsRef<std::ffi::OsStr>,
    ) -> io::Result<Command> {
        let mut command = lab.command(host, program).map_err(io::Error::other)?;
        command.env("XDG_CONFIG_HOME", self.folder.0.join("config"));
        command.env("XDG_CACHE_HOME", self.folder.0.join("cache"));
        command.env("XDG_STATE_HOME", self.folder.0.join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        Ok(command)
    }
}

/// Result of a copy.
#[derive(Debug)]
struct Copied {
    mbps: f64,
    protocol: Option<Protocol>,
}

impl Copied {
    /// Reads the events of a copy that ran for `seconds`.
    fn read(events: &str, seconds: f64) -> io::Result<Self> {
        let events: Vec<Value> = events
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let last = |kind: &str| events.iter().rfind(|event| event["type"] == kind);
        let moved = last("summary").or_else(|| last("progress"));
        let bytes = moved.and_then(|event| event["bytes"].as_u64()).unwrap_or(0);
        if let Some(error) = last("error") {
            return Err(io::Error::other(format!("a copy failed: {error}")));
        }
        let protocol = last("start").and_then(|start| start["protocol"].as_str());
        Ok(Self {
            mbps: bytes as f64 * 8.0 / seconds / 1e6,
            protocol: protocol.and_then(Protocol::named),
        })
    }
}

/// Neighbor of a transfer.
struct Neighbor {
    client: Process,
    _server: Process,
    report: PathBuf,
    /// Start of the transfer, as a time after the start of the neighbor.
    from: Duration,
}

impl Neighbor {
    /// Returns the goodput of the neighbor while the transfer ran.
    fn mbps(mut self, time: Duration) -> io::Result<f64> {
        self.client.0.wait()?;
        let report: Value = serde_json::from_str(&fs::read_to_string(&self.report)?)?;
        let (from, till) = (self.from, self.from + time);
        let during = |sum: &&Value| {
            let middle = sum["start"].as_f64().zip(sum["end"].as_f64());
            let middle = middle.map(|(start, end)| f64::midpoint(start, end));
            middle.is_some_and(|at| at >= from.as_secs_f64() && at < till.as_secs_f64())
        };
        let intervals = report["intervals"].as_array().into_iter().flatten();
        let sums = intervals.map(|one| &one["sum"]).filter(during);
        let bytes: u64 = sums.filter_map(|sum| sum["bytes"].as_u64()).sum();
        Ok(bytes as f64 * 8.0 / time.as_secs_f64() / 1e6)
    }
}

/// Keys of both sides.
struct Keys {
    user: PathBuf,
    host: PathBuf,
    allowed: PathBuf,
    /// Public key of the host.
    pin: String,
}

impl Keys {
    fn create(lighthaul: &Path, folder: &Folder) -> io::Result<Self> {
        let key = |file: &Path| {
            let output = Command::new(lighthaul)
                .args(["key", "--key"])
                .arg(file)
                .output()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if text.is_empty() {
                return Err(io::Error::other("lighthaul key printed no key"));
            }
            Ok(text)
        };
        let (user, host) = (folder.file("user.key"), folder.file("host.key"));
        let allowed = folder.file("allowed");
        fs::write(&allowed, format!("{} grid\n", key(&user)?))?;
        Ok(Self {
            pin: key(&host)?,
            user,
            host,
            allowed,
        })
    }
}

/// Process that ends when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Directory in memory that is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn create() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        let temporary = std::env::temp_dir();
        let base = if memory.is_dir() { memory } else { &temporary };
        let path = base.join(format!("lighthaul-grid-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Writes incompressible bytes.
fn noise(file: &Path, bytes: u64) -> io::Result<()> {
    let mut rng = lighthaul_base::Rng::new(bytes);
    let block: Vec<u8> = (0..NOISE_LEN / 8)
        .flat_map(|_| rng.next_u64().to_ne_bytes())
        .collect();
    let mut out = fs::File::create(file)?;
    let mut left = bytes;
    while left > 0 {
        let len = left.min(NOISE_LEN as u64);
        io::Write::write_all(&mut out, &block[..len as usize])?;
        left -= len;
    }
    Ok(())
}

/// Waits for at most ten seconds.
fn becomes_true(what: &str, mut is_true: impl FnMut() -> bool) -> io::Result<()> {
    let clock = Clock::start();
    while clock.now().as_secs_f64() < 10.0 {
        if is_true() {
            return Ok(());
        }
        pause(Duration::from_millis(10));
    }
    Err(io::Error::other(format!(
        "timeout after ten seconds: {what}"
    )))
}

/// Returns the time that a neighbor has before the transfer.
fn warm_up(point: &Point) -> Duration {
    Duration::from_secs(2) + point.rtt * 10
}

const FIRST_PORT: &str = "5201";
const SECOND_PORT: &str = "5202";
const NOISE_LEN: usize = 1 << 20;
