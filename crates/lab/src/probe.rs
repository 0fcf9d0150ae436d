//! Cases of figures between two hosts of a lab, measured with the `lighthaul` command.
//!
//! [`emulate`] starts a lab for a [`Case`], runs `lighthaul serve` on host `b`, and `lighthaul
//! probe` on host `a`. The programs are the running executable itself, so the goodput is that of
//! this build. Small objects are sent up to 30 times. Three runs give their median, and more runs
//! their mean. Keys are in a temporary directory, which is removed at the end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::description::Description;
use crate::emulate::Lab;
use crate::error::{Error, Result};
use crate::plan::Case;
use crate::settings::{LinkSettings, Settings};

/// Measures the goodput of a case in Mb/s, with the running program. Returns `None` for a case with
/// a slow host, which a lab cannot emulate. Lines about the progress go to `say`.
pub fn emulate(case: &Case, say: fn(&str)) -> Result<Option<f64>> {
    if case.absorb.is_some() {
        return Ok(None);
    }
    let folder = Folder::make()?;
    let lab = Lab::start(&describe(case)?)?;
    let _server = serve(&lab, &folder, say)?;
    let runs = (RUN_BYTES / case.object_len.max(1)).clamp(RUNS_MIN, RUNS_MAX);
    let mut seconds = Vec::new();
    for _ in 0..runs {
        seconds.push(probe(&lab, &folder, case)?);
    }
    let seconds = typical(&mut seconds);
    let goodput = case.object_len as f64 * 8.0 / seconds / 1e6;
    say(&format!(
        "{} bytes at {}: {goodput:.1} Mb/s ({runs} runs)",
        case.object_len, case.rate
    ));
    Ok(Some(goodput))
}

/// Returns the median of few runs, which ignores a disturbance, or the mean of many runs, which averages random
/// results.
fn typical(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    if seconds.len() as u64 > RUNS_MIN {
        seconds.iter().sum::<f64>() / seconds.len() as f64
    } else {
        seconds[seconds.len() / 2]
    }
}

fn describe(case: &Case) -> Result<Description> {
    let mut link = LinkSettings {
        rtt: Some(format!("{}ns", case.rtt.as_nanos())),
        ..LinkSettings::default()
    };
    link.both.rate = Some(format!("{}b/s", case.link.as_bps()));
    link.both.queue = Some(format!("{}B", case.queue_bytes_max));
    // the model loses no done signals and no tallies
    link.spare_tcp = Some(true);
    link.forward.loss = (case.loss_ppb > 0).then(|| format!("{}%", case.loss_ppb as f64 / 1e7));
    Description::new(&Settings::pair(link, None))
}

fn serve(lab: &Lab, folder: &Folder, say: fn(&str)) -> Result<Running> {
    let caller = ours(
        Command::new(own()?)
            .arg("key")
            .arg("--key")
            .arg(folder.file("key")),
    )?;
    ours(
        Command::new(own()?)
            .args(["allow", caller.trim(), "--allowed"])
            .arg(folder.file("allowed")),
    )?;
    let mut serve = lab.command("b", own()?)?;
    serve
        .args(["serve", "--root", "/", "--plain", "--key"])
        .arg(folder.file("host_key"));
    serve
        .arg("--allowed")
        .arg(folder.file("allowed"))
        .stderr(Stdio::piped());
    let mut server = serve.spawn().map_err(Error::world("serve in a lab"))?;
    let pipe = server.stderr.take().map(BufReader::new);
    let mut server = Running(server, pipe, say);
    let mut line = String::new();
    if let Some(pipe) = &mut server.1 {
        pipe.read_line(&mut line)
            .map_err(Error::world("serve in a lab"))?;
    }
    if line.contains("listening") {
        Ok(server)
    } else {
        Err(Error::Misuse(line))
    }
}

/// Returns the seconds that RBUDP takes for a case.
fn probe(lab: &Lab, folder: &Folder, case: &Case) -> Result<f64> {
    let host = ours(
        Command::new(own()?)
            .arg("key")
            .arg("--key")
            .arg(folder.file("host_key")),
    )?;
    let mut probe = lab.command("a", own()?)?;
    probe.args([
        "probe",
        "lh://b/",
        "--json",
        "--what",
        "place",
        "--pin",
        host.trim(),
    ]);
    probe.arg("--key").arg(folder.file("key"));
    probe.arg("--rate").arg(format!(
        "{}b/s",
        case.rate.scaled(WIRE_LEN, PACKET_LEN).as_bps()
    ));
    let text = ours(probe.arg("--size").arg(format!("{}B", case.object_len)))?;
    let event: Value = serde_json::from_str(&text).unwrap_or_default();
    let seconds = event["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
    seconds.ok_or_else(|| Error::Misuse(format!("a probe printed {text:?}")))
}

fn own() -> Result<PathBuf> {
    std::env::current_exe().map_err(Error::world("find this program"))
}

/// Returns the output of a command of this program.
fn ours(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(Error::world("run lighthaul"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::Misuse(format!(
            "lighthaul ended with {}",
            output.status
        )))
    }
}

/// Directory for keys that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("lighthaul-figures-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(Error::world("make a directory for keys"))?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.0).join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Process that ends on drop, and its output.
struct Running(Child, Option<BufReader<ChildStderr>>, fn(&str));

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
        let said = self
            .1
            .take()
            .into_iter()
            .flat_map(BufRead::lines)
            .map_while(std::result::Result::ok);
        said.filter(|line| line.contains("panicked"))
            .for_each(|line| (self.2)(&line));
    }
}

/// Bytes that all runs of a case send together. Results of small objects vary, so these are sent
/// more often.
const RUN_BYTES: u64 = 200_000_000;
const RUNS_MAX: u64 = 30;
const RUNS_MIN: u64 = 3;
/// Bytes of the object in an unencrypted packet.
const PACKET_LEN: u32 = 1440;
/// Length of this packet on the wire in bytes, with an MTU of 1500 bytes.
const WIRE_LEN: u32 = 1484;
