//! `XRootD`: `xrdcp` to its daemon, with checksums of both sides compared.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;

use super::super::case::Data;
use super::super::plan::{Tools, Trial};
use super::peer::{Peer, Service, need};

/// `xrdcp` without encryption and login, run as an ordinary user, because its daemon refuses root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Xrdcp;

impl Peer for Xrdcp {
    fn name(&self) -> &'static str {
        "xrdcp"
    }

    fn available(&self, tools: &Tools) -> Result<(), String> {
        need(
            tools,
            &["xrdcp", "xrootd"],
            "Debian packages xrootd-client and xrootd-server",
        )
    }

    fn moves(&self, data: Data) -> bool {
        data.is_one_file()
    }

    fn serve(&self, trial: &Trial<'_>) -> io::Result<Service> {
        let own = trial.tools.work.join("xrootd");
        fs::create_dir_all(&own)?;
        for folder in [&own, &trial.files.target] {
            fs::set_permissions(folder, Permissions::from_mode(0o777))?;
        }
        let own = own.display();
        let config = trial.tools.work.join("xrootd.cfg");
        let text = format!(
            "all.export /\nall.adminpath {own}\nall.pidpath {own}\nxrd.port 1095\nxrootd.chksum adler32\n"
        );
        fs::write(&config, text)?;
        let config = config.to_string_lossy();
        let log = format!("{own}/log");
        let rest = ["-R", "nobody", "-c", &config, "-l", &log];
        Ok(Service {
            words: trial.words("xrootd", &rest),
            ready: "tcp:1095",
            ends_alone: false,
        })
    }

    fn send(&self, trial: &Trial<'_>) -> Vec<String> {
        let source = trial.source();
        let target = format!(
            "root://{}:1095/{}/{}",
            trial.address,
            trial.target(),
            trial.name()
        );
        trial.words("xrdcp", &["-N", "--cksum", "adler32", &source, &target])
    }
}
