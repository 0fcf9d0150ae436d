//! Lighthaul as a program of the bench: `lighthaul cp` to `lighthaul serve`.
//!
//! `Lighthaul` covers the variants of the table: defaults, without encryption, other options, and
//! a protocol with a busy receiver, which copies 700 MB at a fixed rate. Its server runs without
//! `CAP_NET_ADMIN`, so that the system limits its socket buffers. The result comes from the JSON
//! events of the client. Functions that other peers share are here too: keys, login, and the
//! daemon.

use std::process::Command;
use std::{fs, io};

use lighthaul_proto::rbudp::model;
use serde_json::Value;

use super::super::case::Data;
use super::super::outcome::LighthaulReport;
use super::super::plan::{Tools, Trial};
use super::peer::{Moved, Peer, Service, TrialOutput};

/// Lighthaul with its defaults, or with other options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lighthaul {
    pub(crate) name: &'static str,
    /// True to send the data without encryption.
    pub(crate) plain: bool,
    /// Protocol to use, with a busy receiver.
    pub(crate) protocol: Option<&'static str>,
    /// Further options.
    pub(crate) options: &'static [&'static str],
}

impl Peer for Lighthaul {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        if self.protocol.is_some() && tools.find("setpriv").is_none() {
            return Err("no setpriv; Debian package util-linux".to_owned());
        }
        let is_there = tools.lighthaul.is_file();
        let missing = || format!("no {}; cargo build --release", tools.lighthaul.display());
        if is_there { Ok(()) } else { Err(missing()) }
    }

    fn moves(&self, data: Data) -> bool {
        data != Data::Memory
            && self.protocol.is_some() == (data == Data::SevenHundredMegabytes)
            && !(self.plain && data.is_long())
            && (self.options.is_empty() || data == Data::File)
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let service = serve(trial.tools, self.plain)?;
        if self.protocol.is_none() {
            return Ok(service);
        }
        // Without privileges, so that the system limits its socket buffers.
        let mut words = trial.words("setpriv", &["--bounding-set", "-net_admin", "--"]);
        words.extend(service.words);
        Ok(Service { words, ..service })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let mut words = words(trial.tools, &["cp", "--json"]);
        words.extend(login(trial.tools));
        words.extend(self.plain.then(|| "--plain".to_owned()));
        words.extend(self.options.iter().map(|&option| option.to_owned()));
        if let Some(protocol) = self.protocol {
            words.extend(["--protocol", protocol, "--rate", BUSY_RATE].map(str::to_owned));
        }
        words.extend([
            trial.source(),
            format!("lh://{}{}/", trial.address, trial.target()),
        ]);
        words
    }

    fn moved(&self, trial: &Trial<'_>, output: &TrialOutput) -> Result<Moved, String> {
        let number = |event: &Value, name: &str| event[name].as_f64();
        let seconds = output.seconds;
        if output.is_cut {
            // The target's space is reserved at the start, so its size shows no progress.
            let last = event(&output.near, "progress");
            let bytes = last.and_then(|event| event["bytes"].as_u64()).unwrap_or(0);
            return Ok(Moved {
                bytes,
                seconds,
                report: None,
            });
        }
        let summary = event(&output.near, "summary").ok_or("the client printed no summary")?;
        let bytes = summary["bytes"]
            .as_u64()
            .ok_or("the summary has no bytes")?;
        let report = || {
            let start = event(&output.near, "start")?;
            let resent = number(&summary, "packets_resent")?;
            let sent_once = number(&summary, "packets")? - resent;
            Some(LighthaulReport {
                moving_s: number(&summary, "moving_s")?,
                goodput_bps: number(&summary, "goodput_bps")?,
                predicted_bps: predict(&start, trial),
                resent: resent / sent_once.max(1.0),
                sent_once,
            })
        };
        Ok(Moved {
            bytes,
            seconds,
            report: report(),
        })
    }
}

/// Returns the goodput that equation 5 predicts for one file at the rate used.
fn predict(start: &Value, trial: &Trial<'_>) -> Option<f64> {
    let rate = start["rate_bps"].as_f64()? * start["packet_bytes"].as_f64()? / 1500.0;
    let total = trial.files.data.bytes() as f64;
    let predicted = rate * model::efficiency(total, rate, trial.path.rtt());
    trial.files.data.is_one_file().then_some(predicted)
}

/// Prepares a daemon that allows one user.
pub(super) fn serve(tools: &Tools, plain: bool) -> io::Result<Service> {
    let allowed = file(tools, "allowed");
    let user = key(tools, "user.key")?;
    fs::write(&allowed, format!("{user} bench\n"))?;
    key(tools, "host.key")?;
    let mut words = words(
        tools,
        &["serve", "--root", "/", "--listen", "0.0.0.0:4810", "--key"],
    );
    words.extend([file(tools, "host.key"), "--allowed".to_owned(), allowed]);
    words.extend(plain.then(|| "--plain".to_owned()));
    Ok(Service {
        words,
        ready: "tcp:4810",
        ends_alone: false,
    })
}

/// Returns the flags by which the user of the bench and the daemon authenticate each other.
pub(super) fn login(tools: &Tools) -> [String; 4] {
    let pin = key(tools, "host.key").unwrap_or_default();
    [
        "--key".to_owned(),
        file(tools, "user.key"),
        "--pin".to_owned(),
        pin,
    ]
}

/// Returns the last event of the type `kind` in the output.
pub(super) fn event(output: &str, kind: &str) -> Option<Value> {
    let events = output
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut wanted = events.filter(|event: &Value| event["type"] == kind);
    wanted.next()
}

/// Returns the arguments of a lighthaul command, with the program first.
pub(super) fn words(tools: &Tools, rest: &[&str]) -> Vec<String> {
    let program = tools.lighthaul.to_string_lossy().into_owned();
    std::iter::once(program)
        .chain(rest.iter().map(|&word| word.to_owned()))
        .collect()
}

/// Returns the public key in a key file, which is created if missing.
fn key(tools: &Tools, name: &str) -> io::Result<String> {
    let output = Command::new(&tools.lighthaul)
        .args(["key", "--key", &file(tools, name)])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text.is_empty() {
        Err(io::Error::other("lighthaul key printed no key"))
    } else {
        Ok(text)
    }
}

fn file(tools: &Tools, name: &str) -> String {
    tools.work.join(name).to_string_lossy().into_owned()
}

/// Send rate at which RBUDP loses 5% or more with a busy receiver.
const BUSY_RATE: &str = "4Gb/s";
