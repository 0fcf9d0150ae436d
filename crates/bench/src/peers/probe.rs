//! `lighthaul probe`: protocols from memory to memory, and upper limits of path and hosts.

use std::io;

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::lighthaul::{event, login, serve, words};
use super::peer::{Moved, Peer, Service, TrialOutput, bytes_in};

/// Measurement of `lighthaul probe`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    /// Value of `--what`.
    pub(crate) what: &'static str,
}

impl Peer for Probe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        if tools.lighthaul.is_file() {
            Ok(())
        } else {
            Err("cargo build --release".to_owned())
        }
    }

    fn moves(&self, data: Data) -> bool {
        data == Data::Memory
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        serve(trial.tools, !self.what.starts_with("sealed"))
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let time = format!("{}s", trial.seconds);
        // About as long as the raw measurements in the same ratio.
        let size = format!("{}B", bytes_in(45e9, trial.seconds));
        let rest = [
            "--what", self.what, "--time", &time, "--size", &size, "--json",
        ];
        let mut words = words(trial.tools, &["probe", trial.address]);
        words.extend(rest.map(str::to_owned));
        words.extend(login(trial.tools));
        words
    }

    fn is_memory_only(&self) -> bool {
        true
    }

    fn moved(&self, _trial: &Trial<'_>, output: &TrialOutput) -> Result<Moved, String> {
        let event = event(&output.near, "probe").ok_or("the client printed no result")?;
        let bps = event["bps"]
            .as_f64()
            .filter(|bps| *bps > 0.0)
            .ok_or("the result has no rate")?;
        let bytes = event["bytes"].as_u64();
        // The command's time includes the set-up, which is not measured.
        let bytes = bytes.unwrap_or_else(|| bytes_in(bps, output.seconds));
        Ok(Moved {
            bytes,
            seconds: bytes as f64 * 8.0 / bps,
            report: None,
        })
    }
}
