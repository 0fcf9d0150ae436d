//! The device as a file in FUSE, and a file system on it by way of a loop device.
//!
//! The loop device turns flushes of the file system into fsync of the file, and detaches itself when its
//! file system is unmounted.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use fuser::{BackgroundSession, Config, Session};

use crate::device::Device;
use crate::filesystem::FileSystem;
use crate::image::Image;
use crate::server::{NAME, Server};

/// A device that can be mounted.
pub struct Rig {
    device: Device,
    file: PathBuf,
    place: PathBuf,
    // the file system of the file goes last
    _session: BackgroundSession,
}

impl fmt::Debug for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rig")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Rig {
    /// A device with this content; `folder` takes the mount points `NAME.fuse` and `NAME`.
    pub fn start(folder: &Path, name: &str, image: Image) -> Result<Self, String> {
        let device = Device::new(image);
        let fuse = folder.join(format!("{name}.fuse"));
        let place = folder.join(name);
        for folder in [&fuse, &place] {
            let made = fs::create_dir_all(folder);
            made.map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
        }
        let server = Server {
            device: device.clone(),
            started: Once::new(),
        };
        let session = Session::new(server, &fuse, &Config::default()).and_then(Session::spawn);
        let session = session.map_err(|why| format!("cannot mount FUSE: {why}"))?;
        Ok(Self {
            device,
            file: fuse.join(NAME),
            place,
            _session: session,
        })
    }

    /// The device itself.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Mounts what is on the device.
    pub fn mount(&self, kind: FileSystem) -> Result<Mounted<'_>, String> {
        let mut mount = Command::new("mount");
        mount.args(["-t", kind.name(), "-o", "loop,noatime"]);
        run(mount.arg(&self.file).arg(&self.place))?;
        Ok(Mounted { rig: self })
    }
}

/// A file system that is mounted until this value goes.
#[derive(Debug)]
pub struct Mounted<'a> {
    rig: &'a Rig,
}

impl Mounted<'_> {
    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.rig.place
    }

    /// Brings all of it to the device.
    pub fn sync(&self) -> Result<(), String> {
        let folder = fs::File::options().read(true).open(self.path());
        folder
            .and_then(|folder| Ok(rustix::fs::syncfs(folder)?))
            .map_err(|why| format!("cannot sync {}: {why}", self.path().display()))
    }

    /// Unmounts it in good order.
    pub fn unmount(self) -> Result<(), String> {
        let done = run(Command::new("umount").arg(self.path()));
        std::mem::forget(self);
        done
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if run(Command::new("umount").arg(self.path())).is_err() {
            // somebody still has a file open in it: it goes when they do
            run(Command::new("umount").arg("-l").arg(self.path())).ok();
        }
    }
}

pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|why| format!("cannot run {program}: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} failed: {}", said.trim()))
}
