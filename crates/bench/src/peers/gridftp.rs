//! `GridFTP`: `globus-url-copy` to `globus-gridftp-server`, without encryption and login.

use std::io;

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::peer::{Peer, Service, need};

/// `GridFTP` with several streams; for a tree, with several files in parallel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GridFtp {
    pub(crate) name: &'static str,
    pub(crate) streams: u32,
}

impl Peer for GridFtp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        need(
            tools,
            &["globus-url-copy"],
            "Debian package globus-gass-copy-progs",
        )?;
        need(
            tools,
            &["globus-gridftp-server"],
            "Debian package globus-gridftp-server-progs",
        )
    }

    fn moves(&self, data: Data) -> bool {
        data != Data::Memory
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let own = trial.address;
        let rest = [
            "-aa",
            "-anonymous-user",
            "root",
            "-allow-root",
            "-p",
            "2811",
        ];
        let mut words = trial.words("globus-gridftp-server", &rest);
        let where_to = [
            "-control-interface",
            own,
            "-data-interface",
            own,
            "-d",
            "ERROR",
        ];
        words.extend(where_to.map(str::to_owned));
        Ok(Service {
            words,
            ready: "tcp:2811",
            ends_alone: false,
        })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let streams = self.streams.to_string();
        let base = format!(
            "ftp://{}:2811{}/{}",
            trial.address,
            trial.target(),
            trial.name()
        );
        let from = format!("file://{}", trial.source());
        if trial.files.data == Data::Tree {
            let rest = ["-fast", "-pp", "-cc", &streams, "-r", "-cd"];
            let ends = [format!("{from}/"), format!("{base}/")];
            return [trial.words("globus-url-copy", &rest), ends.to_vec()].concat();
        }
        trial.words("globus-url-copy", &["-fast", "-p", &streams, &from, &base])
    }
}
