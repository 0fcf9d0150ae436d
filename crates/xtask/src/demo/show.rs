//! The demonstration from beginning to end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};

use lighthaul_io::namespace::outlive_interrupts;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_lab::settings::{LinkSettings, Settings};

use crate::demo::daemon::Daemon;
use crate::demo::table::table;
use crate::demo::{booked, copy, tcp, tree};

/// Copies a tree between two hosts of a lab, then sends as many bytes over TCP, and compares.
///
/// Another process does the work, so that this one can clean up behind it even after Ctrl-C.
pub(crate) fn run() -> Result<(), String> {
    available()?;
    let folder = Folder::make(&release()?, "demo")?;
    outlive_interrupts();
    let own = std::env::current_exe();
    let status = own.and_then(|own| {
        Command::new(own)
            .args(["demo", "in"])
            .arg(&folder.0)
            .status()
    });
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the demonstration did not come to its end".to_owned()),
        Err(why) => Err(format!("cannot start the demonstration: {why}")),
    }
}

/// The same in a folder that somebody else will remove.
pub(crate) fn run_in(folder: &Path) -> Result<(), String> {
    let release = release()?;
    let source = folder.join("tree");
    let size = tree::make(&release, &source)?;
    println!(
        "two hosts, {RATE}, {RTT} round trip, {LOSS} of packets lost; {} files, {:.2} GiB",
        size.files,
        size.bytes as f64 / f64::from(1 << 30)
    );
    let lab = lab()?;
    let program = release.join("lighthaul");
    let daemon = Daemon::start(&lab, &program, folder)?;
    let mut rows = vec![copy::copy(&lab, &program, &daemon, &source, size)?];
    rows.extend(tcp::send(&lab, size)?);
    println!("\n{}", table(&rows, LINK_BPS));
    println!("\n{}", booked::compare(&lab, &program, &daemon, folder)?);
    Ok(())
}

fn lab() -> Result<Lab, String> {
    let mut link = LinkSettings::default();
    link.both.rate = Some(RATE.to_owned());
    link.rtt = Some(RTT.to_owned());
    link.both.loss = Some(LOSS.to_owned());
    let description = Description::new(&Settings::pair(link, None)).map_err(|e| e.to_string())?;
    Lab::start(&description).map_err(|e| e.to_string())
}

/// The folder of release builds, whose command is shown and whose files are copied.
pub(crate) fn release() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let release = own
        .parent()
        .and_then(Path::parent)
        .unwrap_or(&own)
        .join("release");
    if release.join("lighthaul").exists() {
        Ok(release)
    } else {
        Err(format!(
            "there is no lighthaul in {}: run `make build` first",
            release.display()
        ))
    }
}

/// A folder that goes when this value goes.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Beside the build, so that its files need only be linked.
    pub(crate) fn make(release: &Path, name: &str) -> Result<Self, String> {
        let path = release.with_file_name(format!("{name}-{}", process::id()));
        fs::create_dir(&path).map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A process that ends when this value goes.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

const RATE: &str = "1Gb/s";
const LINK_BPS: f64 = 1e9;
const RTT: &str = "100ms";
const LOSS: &str = "0.01%";
