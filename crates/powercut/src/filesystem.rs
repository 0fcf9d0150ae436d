//! File systems for the device.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::image::Image;

/// File system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 with an ordered journal.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// All supported file systems.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Returns the name for mount(8).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Reports whether the file system survives writes that are torn within a page. The others have
    /// a checksum over a superblock of several sectors, and need a device that writes whole pages.
    pub const fn survives_torn_pages(self) -> bool {
        matches!(self, Self::Xfs)
    }

    /// Creates an empty file system, with a temporary file in `folder`.
    pub fn make(self, folder: &Path) -> Result<Image, String> {
        let path = folder.join(format!("new.{}", self.name()));
        let failed = |why: std::io::Error| format!("cannot create {}: {why}", path.display());
        let file = File::create(&path).map_err(failed)?;
        file.set_len(DEVICE_LEN).map_err(failed)?;
        let (program, options): (_, &[&str]) = match self {
            Self::Ext4 => (
                "mkfs.ext4",
                &[
                    "-q",
                    "-F",
                    "-E",
                    "lazy_itable_init=0,lazy_journal_init=0",
                    "-J",
                    "size=8",
                ],
            ),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"]),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-f", "-K"]),
        };
        let mut command = Command::new(program);
        let command = command.args(options).arg(&path).stdin(Stdio::null());
        let output = command
            .output()
            .map_err(|why| format!("cannot run {program}: {why}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{program} failed: {}", said.trim()));
        }
        let image = Image::load(&path).map_err(failed);
        std::fs::remove_file(&path).ok();
        image
    }
}

/// Size of the device in bytes, a little above the minimum of mkfs.xfs.
pub const DEVICE_LEN: u64 = 320 << 20;
