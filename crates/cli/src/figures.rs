//! `lighthaul lab figures`: the papers' figures, simulated, and on request emulated with this command.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use lighthaul_io::host::namespace::ignore_interrupts;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::Lab;
use lighthaul_lab::error::Error as LabError;
use lighthaul_lab::figures::figures;
use lighthaul_lab::plan::Case;
use lighthaul_lab::settings::{LinkSettings, Settings};
use lighthaul_transfer::error::{Code, Error};
use serde_json::Value;

use crate::args::LabFigures;
use crate::print::{print, say};

/// Draws the figures of a folder again, and says what is not as it was accepted.
pub(crate) fn run(args: &LabFigures) -> Result<u8, Error> {
    let mut emulate = |case: &Case| emulate(case);
    if args.emulate {
        ignore_interrupts();
    }
    let drawn = figures(&args.folder, args.emulate.then_some(&mut emulate));
    let drawn = drawn.map_err(|e| Error::new(Code::Io, e.to_string()))?;
    let mut is_as_accepted = true;
    for figure in drawn {
        print(&figure.picture.display().to_string());
        for difference in figure.differences {
            is_as_accepted = false;
            say(&format!("  not as accepted: {difference}"));
        }
    }
    Ok(if is_as_accepted {
        0
    } else {
        Code::Partial as u8
    })
}

/// Goodput in Mb/s of a case between two hosts of a lab; nothing for a slow host, which this one is not.
fn emulate(case: &Case) -> Result<Option<f64>, LabError> {
    if case.absorb.is_some() {
        return Ok(None);
    }
    let folder = Folder::make()?;
    let lab = Lab::start(&describe(case)?)?;
    let _server = serve(&lab, &folder)?;
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

/// The median of few runs, which a disturbance does not reach; the mean of many, which luck differs in.
fn typical(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    if seconds.len() as u64 > RUNS_MIN {
        seconds.iter().sum::<f64>() / seconds.len() as f64
    } else {
        seconds[seconds.len() / 2]
    }
}

fn describe(case: &Case) -> Result<Description, LabError> {
    let mut link = LinkSettings {
        rtt: Some(format!("{}ns", case.rtt.as_nanos())),
        ..LinkSettings::default()
    };
    link.both.rate = Some(format!("{}b/s", case.link.as_bps()));
    link.both.queue = Some(format!("{}B", case.queue_bytes_max));
    // as the model has it, done signals and tallies are not lost
    link.spare_tcp = Some(true);
    link.forward.loss = (case.loss_ppb > 0).then(|| format!("{}%", case.loss_ppb as f64 / 1e7));
    Description::new(&Settings::pair(link, None))
}

fn serve(lab: &Lab, folder: &Folder) -> Result<Running, LabError> {
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
    let mut server = serve.spawn().map_err(LabError::world("serve in a lab"))?;
    let pipe = server.stderr.take().map(BufReader::new);
    let mut server = Running(server, pipe);
    let mut line = String::new();
    if let Some(pipe) = &mut server.1 {
        pipe.read_line(&mut line)
            .map_err(LabError::world("serve in a lab"))?;
    }
    if line.contains("listening") {
        Ok(server)
    } else {
        Err(LabError::Misuse(line))
    }
}

/// How many seconds RBUDP takes for a case.
fn probe(lab: &Lab, folder: &Folder, case: &Case) -> Result<f64, LabError> {
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
    seconds.ok_or_else(|| LabError::Misuse(format!("a probe printed {text:?}")))
}

fn own() -> Result<PathBuf, LabError> {
    std::env::current_exe().map_err(LabError::world("find this program"))
}

/// What a command of ours prints.
fn ours(command: &mut Command) -> Result<String, LabError> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(LabError::world("run lighthaul"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(LabError::Misuse(format!(
            "lighthaul ended with {}",
            output.status
        )))
    }
}

/// A folder for keys that goes when this value goes.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, LabError> {
        let path = std::env::temp_dir().join(format!("lighthaul-figures-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(LabError::world("make a folder for keys"))?;
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

/// A process that ends when this value goes, and what it says.
struct Running(Child, Option<BufReader<ChildStderr>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
        let said = self
            .1
            .take()
            .into_iter()
            .flat_map(BufRead::lines)
            .map_while(Result::ok);
        said.filter(|line| line.contains("panicked"))
            .for_each(|line| say(&line));
    }
}

/// Small payloads are a matter of luck: they run until this much has crossed, or so often.
const RUN_BYTES: u64 = 200_000_000;
const RUNS_MAX: u64 = 30;
const RUNS_MIN: u64 = 3;
/// What a plain packet of ours carries of the object, and what it has on the wire of 1500 bytes.
const PACKET_LEN: u32 = 1440;
const WIRE_LEN: u32 = 1484;
