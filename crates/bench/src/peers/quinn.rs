//! quinn's performance tool: QUIC from memory to memory.

use std::io;

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::peer::{Moved, Peer, Service, TrialOutput, bytes_in, need};

/// `quinn-perf` with one connection and one upload at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quinn;

impl Peer for Quinn {
    fn name(&self) -> &'static str {
        "quinn-perf"
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        let source = "not in any registry: build the package `perf` of quinn's repository and \
                      name its directory by --programs";
        need(tools, &["quinn-perf"], source)
    }

    fn moves(&self, data: Data) -> bool {
        data == Data::Memory
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let listen = format!("{}:4433", trial.address);
        let mut words = trial.words("quinn-perf", &["server", "--listen", &listen]);
        words.extend(BUFFERS.map(str::to_owned));
        Ok(Service {
            words,
            ready: "udp:4433",
            ends_alone: false,
        })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let host = format!("{}:4433", trial.address);
        let seconds = trial.seconds.ceil().to_string();
        let rest = [
            "client",
            &host,
            "--duration",
            &seconds,
            "--download-size",
            "0",
        ];
        let mut words = trial.words("quinn-perf", &rest);
        words.extend(["--upload-size", "500M"].map(str::to_owned));
        words.extend(BUFFERS.map(str::to_owned));
        words
    }

    fn is_memory_only(&self) -> bool {
        true
    }

    fn moved(&self, _trial: &Trial<'_>, output: &TrialOutput) -> Result<Moved, String> {
        let bps = average(&output.near).ok_or("cannot parse the client's output")?;
        let bytes = bytes_in(bps, output.seconds);
        Ok(Moved {
            bytes,
            seconds: output.seconds,
            report: None,
        })
    }
}

/// Parses the last average upload rate, in bits per second. It is the first number with a unit of
/// rate in the last line that starts with `AVG`.
fn average(output: &str) -> Option<f64> {
    let line = output
        .lines()
        .rev()
        .find(|line| line.trim_start().starts_with("AVG"))?;
    let scale = |unit: &str| match unit {
        "Kb/s" => Some(1e3),
        "Mb/s" => Some(1e6),
        "Gb/s" => Some(1e9),
        _ => None,
    };
    let words: Vec<&str> = line
        .split(['│', '|', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    let found = words.windows(2).find_map(|pair| {
        let number: f64 = pair[0].parse().ok()?;
        Some(number * scale(pair[1])?)
    });
    found.filter(|bps| *bps > 0.0)
}

const BUFFERS: [&str; 12] = [
    "--initial-mtu",
    "1452",
    "--send-buffer-size",
    "8M",
    "--recv-buffer-size",
    "8M",
    "--stream-receive-window",
    "64M",
    "--receive-window",
    "64M",
    "--send-window",
    "64M",
];
