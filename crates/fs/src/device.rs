//! Files read from their device instead of the page cache.
//!
//! [`DeviceFile`] returns the bytes that would be there after a restart of the host, to verify a
//! copy. It uses direct I/O (`O_DIRECT`) with an aligned buffer of 1 MiB, so callers may read any
//! range. File systems without direct I/O have fallbacks, which each function describes. A cache
//! inside the device is not bypassed.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use lighthaul_io::store::block::{Block, PAGE};
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::io::Errno;

use crate::beneath;
use crate::disk::{InputFile, Root};
use crate::proc_path::magic;
use crate::sparse;

/// Size of the read buffer, in bytes.
const BLOCK: usize = 1 << 20;

/// File that is read from its device, with direct I/O if the file system supports it.
#[derive(Debug)]
pub struct DeviceFile {
    file: File,
    block: Block,
}

impl DeviceFile {
    /// Opens the file `path`, which must not be a symbolic link.
    ///
    /// Without direct I/O, drops the file's pages from the page cache first. A file in memory
    /// (tmpfs) has no device and is read as it is.
    pub fn open(root: &mut Root, path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let (folder, name) = root.parent(path)?;
        let file = match beneath::open(folder, name, flags | OFlags::DIRECT, Mode::empty()) {
            Err(Errno::INVAL) => beneath::open(folder, name, flags, Mode::empty())?,
            file => file?,
        };
        fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(Self {
            file: File::from(file),
            block: Block::new(BLOCK),
        })
    }

    /// Opens `file` a second time. Without direct I/O, reads it through the page cache.
    pub fn again(file: &InputFile) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECT;
        let file = match rustix::fs::open(magic(file), flags, Mode::empty()) {
            Ok(direct) => direct,
            Err(_) => file.as_fd().try_clone_to_owned()?,
        };
        Ok(Self {
            file: File::from(file),
            block: Block::new(BLOCK),
        })
    }

    /// Returns true if `range` reads as zeros, up to the end of the file.
    pub fn is_zero(&mut self, range: Range<u64>) -> io::Result<bool> {
        let mut at = range.start;
        while at < range.end {
            let skipped = (at % PAGE as u64) as usize;
            let count = read(&self.file, &mut self.block[..], at - skipped as u64)?;
            let end = count.min((range.end - at) as usize + skipped);
            if end <= skipped {
                break;
            }
            if !sparse::is_zero(&self.block[skipped..end]) {
                return Ok(false);
            }
            at += (end - skipped) as u64;
        }
        Ok(true)
    }

    /// Fills `buffer` from `offset`. Returns the number of bytes read, which is less than the
    /// buffer's length only at the end of the file.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let skipped = (at % PAGE as u64) as usize;
            let wanted = (skipped + buffer.len() - done).next_multiple_of(PAGE);
            let block = &mut self.block[..wanted.min(BLOCK)];
            let count = read(&self.file, block, at - skipped as u64)?;
            let part = count.saturating_sub(skipped).min(buffer.len() - done);
            if part == 0 {
                break;
            }
            buffer[done..done + part].copy_from_slice(&self.block[skipped..skipped + part]);
            done += part;
        }
        Ok(done)
    }
}

/// Fills `block` from `offset` up to the end of the file. Both are multiples of a page.
fn read(file: &File, block: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(block, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unaligned_ranges_are_read_from_the_device() {
        let folder = std::env::temp_dir().join(format!("device-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let bytes: Vec<u8> = (0..3_000_001_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(folder.join("x"), &bytes).unwrap();
        let mut root = Root::open(&folder).unwrap();
        let mut file = DeviceFile::open(&mut root, Path::new("x")).unwrap();
        for (from, len) in [(0, 10), (5, 2_500_000), (4096, 4096), (2_999_999, 100)] {
            let mut buffer = vec![0; len];
            let count = file.read_at(&mut buffer, from as u64).unwrap();
            assert_eq!(count, len.min(bytes.len() - from));
            assert_eq!(buffer[..count], bytes[from..from + count]);
        }
        assert_eq!(file.read_at(&mut [0; 9], 3_000_001).unwrap(), 0);
        let open = InputFile::open(&folder.join("x")).unwrap();
        let mut again = DeviceFile::again(&open).unwrap();
        let mut buffer = vec![0; 1000];
        assert_eq!(again.read_at(&mut buffer, 77).unwrap(), 1000);
        assert_eq!(buffer, bytes[77..1077]);
        std::os::unix::fs::symlink("x", folder.join("y")).unwrap();
        DeviceFile::open(&mut root, Path::new("y")).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn single_byte_in_zeros_is_found() {
        let path = std::env::temp_dir().join(format!("zeros-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.set_len(5_000_000).unwrap();
        file.write_all_at(b"x", 3_000_000).unwrap();
        let open = InputFile::open(&path).unwrap();
        let mut again = DeviceFile::again(&open).unwrap();
        let mut is_zero = |range| again.is_zero(range).unwrap();
        assert!(is_zero(0..3_000_000) && is_zero(3_000_001..5_000_000));
        assert!(is_zero(4_999_999..9_000_000), "the file ends before");
        for range in [
            0..5_000_000,
            0..3_000_001,
            3_000_000..3_000_001,
            2_999_999..4_000_000,
        ] {
            assert!(!is_zero(range));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
