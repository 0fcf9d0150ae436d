//! SRT in file mode: `srt-file-transmit` on both sides.

use std::io;

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::peer::{Peer, Service, need};

/// SRT's file mode, with windows for long paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Srt;

impl Peer for Srt {
    fn name(&self) -> &'static str {
        "srt"
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        need(tools, &["srt-file-transmit"], "Debian package srt-tools")
    }

    fn moves(&self, data: Data) -> bool {
        data.is_one_file()
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let from = format!("srt://:7000?mode=listener&{OPTIONS}");
        let to = format!("file://{}/", trial.target());
        let words = trial.words("srt-file-transmit", &["-chunk:1456", &from, &to]);
        Ok(Service {
            words,
            ready: "udp:7000",
            ends_alone: true,
        })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let from = format!("file://{}", trial.source());
        let to = format!("srt://{}:7000?mode=caller&{OPTIONS}", trial.address);
        trial.words("srt-file-transmit", &["-chunk:1456", &from, &to])
    }
}

const OPTIONS: &str = "transtype=file&messageapi=false&fc=250000&sndbuf=268435456\
                       &rcvbuf=268435456&udpsndbuf=8388608&udprcvbuf=8388608";
