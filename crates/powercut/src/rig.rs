//! Device as a file in FUSE, with a file system on a loop device.
//!
//! The loop device turns the file system's flushes into fsync calls on the file. It detaches itself
//! when the file system is unmounted.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use fuser::{BackgroundSession, Config, Session};
use rustix::thread::{Timespec, nanosleep};

use crate::device::Device;
use crate::filesystem::FileSystem;
use crate::image::Image;
use crate::server::{NAME, Server};

/// Mountable device.
pub struct Rig {
    device: Device,
    file: PathBuf,
    place: PathBuf,
    // Dropped last, since it serves the file.
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
    /// Creates a device with the given contents. Creates its mount points `NAME.fuse` and `NAME` in `folder`.
    pub fn start(folder: &Path, name: &str, image: Image) -> Result<Self, String> {
        let device = Device::new(image);
        let fuse = folder.join(format!("{name}.fuse"));
        let place = folder.join(name);
        for folder in [&fuse, &place] {
            let made = fs::create_dir_all(folder);
            made.map_err(|why| format!("cannot create {}: {why}", folder.display()))?;
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

    /// Returns the device.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Mounts the device with the file system `kind`.
    pub fn mount(&self, kind: FileSystem) -> Result<Mounted<'_>, String> {
        self.wait_until_detached()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", kind.name(), "-o", "loop,noatime"]);
        run(mount.arg(&self.file).arg(&self.place))?;
        Ok(Mounted { rig: self })
    }
}

impl Rig {
    /// Waits until no loop device has the file. The kernel detaches one some time after its file system is unmounted;
    /// mount(8) would use it again until then, with pages that it has kept of the earlier content.
    fn wait_until_detached(&self) -> Result<(), String> {
        for _ in 0..1000 {
            let mut losetup = Command::new("losetup");
            let output = losetup.arg("--associated").arg(&self.file).output();
            let output = output.map_err(|why| format!("cannot run losetup: {why}"))?;
            if output.stdout.is_empty() {
                return Ok(());
            }
            // a signal only ends the pause early
            let _ = nanosleep(&PAUSE);
        }
        Err(format!("a loop device keeps {}", self.file.display()))
    }
}

/// File system that stays mounted until this value is dropped.
#[derive(Debug)]
pub struct Mounted<'a> {
    rig: &'a Rig,
}

impl Mounted<'_> {
    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.rig.place
    }

    /// Writes all changes to the device.
    pub fn sync(&self) -> Result<(), String> {
        let folder = fs::File::options().read(true).open(self.path());
        folder
            .and_then(|folder| Ok(rustix::fs::syncfs(folder)?))
            .map_err(|why| format!("cannot sync {}: {why}", self.path().display()))
    }

    /// Unmounts the file system. Fails if a file in it is open.
    pub fn unmount(self) -> Result<(), String> {
        let done = run(Command::new("umount").arg(self.path()));
        std::mem::forget(self);
        done
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if run(Command::new("umount").arg(self.path())).is_err() {
            // A process still has a file open: unmount when it is closed.
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

/// Pause between two looks at the loop devices.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
