//! rsync with an rsync daemon.

use std::{fs, io};

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::peer::{Peer, Service, need};

/// rsync with an rsync daemon, without ssh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rsync;

impl Peer for Rsync {
    fn name(&self) -> &'static str {
        "rsync"
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        need(tools, &["rsync"], "Debian package rsync")
    }

    fn moves(&self, data: Data) -> bool {
        data != Data::Memory
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let config = trial.tools.work.join("rsyncd.conf");
        let text = "use chroot = no\nuid = root\ngid = root\n[target]\nread only = no\npath = ";
        fs::write(&config, format!("{text}{}\n", trial.target()))?;
        let config = config.to_string_lossy();
        let log = trial.tools.work.join("rsyncd.log");
        let log = format!("--log-file={}", log.display());
        let rest = [
            "--daemon",
            "--no-detach",
            "--port=8730",
            "--config",
            &config,
            &log,
        ];
        Ok(Service {
            words: trial.words("rsync", &rest),
            ready: "tcp:8730",
            ends_alone: false,
        })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let target = format!("rsync://{}:8730/target/", trial.address);
        trial.words("rsync", &["-a", &trial.source(), &target])
    }
}
