//! UDT 4, by a small program with its library, which the bench compiles.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::peer::{Peer, Service, need};

/// UDT's `sendfile` and `recvfile`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Udt;

impl Peer for Udt {
    fn name(&self) -> &'static str {
        "udt"
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        need(
            tools,
            &[PROGRAM],
            "needs the Debian packages libudt-dev and g++",
        )
    }

    fn moves(&self, data: Data) -> bool {
        data.is_one_file()
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let bytes = trial.files.data.bytes().to_string();
        let file = trial.files.target.join(trial.name());
        let words = trial.words(
            PROGRAM,
            &["receive", "9000", &file.to_string_lossy(), &bytes],
        );
        Ok(Service {
            words,
            ready: "udp:9000",
            ends_alone: true,
        })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        trial.words(PROGRAM, &["send", trial.address, "9000", &trial.source()])
    }
}

/// Compiles the program into `folder`. Does nothing if the library or the compiler is missing.
pub(crate) fn compile(folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/udt.cpp");
    let mut command = Command::new("g++");
    command
        .args(["-O2", "-o"])
        .arg(folder.join(PROGRAM))
        .arg(source);
    command
        .args(["-ludt", "-lpthread"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command.status().ok();
}

const PROGRAM: &str = "lighthaul-bench-udt";
