//! iperf3: the kernel's TCP, from memory to memory.

use std::io;

use serde_json::Value;

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::peer::{Moved, Peer, Service, TrialOutput, need};

/// iperf3 with a congestion control and a number of streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iperf3 {
    pub(crate) name: &'static str,
    pub(crate) control: &'static str,
    pub(crate) streams: u32,
}

impl Peer for Iperf3 {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        need(tools, &["iperf3"], "Debian package iperf3")?;
        let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let known = std::fs::read_to_string(file).unwrap_or_default();
        if known.split_whitespace().any(|name| name == self.control) {
            Ok(())
        } else {
            Err(format!(
                "this kernel has no {}; modprobe tcp_{0}",
                self.control
            ))
        }
    }

    fn moves(&self, data: Data) -> bool {
        data == Data::Memory || data.is_one_file()
    }

    fn control(&self) -> Option<&'static str> {
        Some(self.control)
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let words = trial.words("iperf3", &["-s", "-1", "-J", "-p", "5201"]);
        Ok(Service {
            words,
            ready: "tcp:5201",
            ends_alone: true,
        })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let streams = self.streams.to_string();
        // For memory it runs for a time, for a file until its bytes are sent.
        let (flag, amount) = match trial.files.data.bytes() {
            0 => ("-t", trial.seconds.ceil().to_string()),
            bytes => ("-n", bytes.to_string()),
        };
        let rest = [
            "-c",
            trial.address,
            "-p",
            "5201",
            "-C",
            self.control,
            "-P",
            &streams,
        ];
        let mut words = trial.words("iperf3", &rest);
        words.extend(["-J", flag, &amount].map(str::to_owned));
        words
    }

    fn is_memory_only(&self) -> bool {
        true
    }

    fn moved(&self, _trial: &Trial<'_>, output: &TrialOutput) -> Result<Moved, String> {
        // Only the receiver knows what arrived. It stops when the sender's kernel has all data, so
        // data then in flight counts neither in its bytes nor in its seconds.
        let far: Value =
            serde_json::from_str(&output.far).map_err(|e| format!("its report: {e}"))?;
        let sum = &far["end"]["sum_received"];
        let whole = sum["bytes"].as_u64().zip(sum["seconds"].as_f64());
        let whole = whole.map(|(bytes, seconds)| Moved {
            bytes,
            seconds,
            report: None,
        });
        // After a cut-off, these seconds lack the last interval, but the bytes include it.
        let whole = whole.filter(|_| !output.is_cut);
        whole
            .or_else(|| intervals(&far))
            .ok_or_else(|| "the server reported no bytes".to_owned())
    }
}

/// Adds up the complete intervals of the report.
fn intervals(report: &Value) -> Option<Moved> {
    let sums = || {
        report["intervals"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| &one["sum"])
    };
    let bytes = sums().filter_map(|sum| sum["bytes"].as_u64()).sum();
    let seconds = sums().next_back()?["end"].as_f64()?;
    Some(Moved {
        bytes,
        seconds,
        report: None,
    })
}
