//! Run of the demonstration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use lighthaul_io::host::namespace::ignore_interrupts;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_lab::settings::{LinkSettings, Settings};

use crate::demo::daemon::Daemon;
use crate::demo::table::table;
use crate::demo::{booked, copy, tcp, tree};

/// Copies a tree between two hosts of a lab, sends as many bytes over TCP, and compares the
/// results.
///
/// Another process runs the demonstration, so that this one can clean up after it, even after
/// Ctrl-C.
pub(crate) fn run() -> Result<(), String> {
    available()?;
    let folder = Folder::make(&release()?, "demo")?;
    ignore_interrupts();
    let own = std::env::current_exe();
    let status = own.and_then(|own| {
        Command::new(own)
            .args(["demo", "in"])
            .arg(&folder.0)
            .status()
    });
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the demonstration failed".to_owned()),
        Err(why) => Err(format!("cannot start the demonstration: {why}")),
    }
}

/// Runs the demonstration in `folder`, which the caller removes.
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

/// Returns the directory of release builds, with the `lighthaul` to show and files to copy.
pub(crate) fn release() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
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

/// Directory that is removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a directory beside the build, so that build files can be hard-linked.
    pub(crate) fn make(release: &Path, name: &str) -> Result<Self, String> {
        let path = release.with_file_name(format!("{name}-{}", process::id()));
        fs::create_dir(&path).map_err(|e| format!("cannot create {}: {e}", path.display()))?;
        Ok(Self(path))
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

const RATE: &str = "1Gb/s";
const LINK_BPS: f64 = 1e9;
const RTT: &str = "100ms";
const LOSS: &str = "0.01%";
