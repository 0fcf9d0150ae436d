//! Files of the bench: creation, removal and comparison.
//!
//! `BenchFolders` chooses one directory in memory and one on disk, named after the process ID. A
//! new bench removes the directories of processes that have ended. `make` creates files of random
//! bytes, with a number of its own in each whole page of 4096 bytes. `compare` checks each file of
//! a copy byte by byte. It does not check metadata, and does not find files that only the target
//! has.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;

use super::case::Data;

/// Directories for the bench's files. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct BenchFolders {
    /// Directory in memory (`/dev/shm`).
    pub(crate) memory: PathBuf,
    /// Directory for temporary files, usually on a disk.
    pub(crate) disk: PathBuf,
}

impl BenchFolders {
    /// Chooses unique directories, and removes the directories of benches that were killed.
    pub(crate) fn new() -> Self {
        let bases = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        for base in &bases {
            clear_stale(base);
        }
        let [memory, disk] = bases.map(|base| base.join(format!("{PREFIX}{}", std::process::id())));
        Self { memory, disk }
    }

    /// Returns a directory with space for `data` twice, preferably in memory. Returns `None` if there
    /// is none.
    pub(crate) fn for_data(&self, data: Data) -> Option<&Path> {
        let needed = data.bytes() * 2 + SPARE_BYTES;
        let fits = |folder: &&PathBuf| {
            let base = folder.parent().unwrap_or(folder);
            statvfs(base).is_ok_and(|s| s.blocks_available() * s.fragment_size() >= needed)
        };
        let memory = Some(&self.memory)
            .filter(fits)
            .filter(|_| memory_bytes() >= needed);
        memory
            .or_else(|| Some(&self.disk).filter(fits))
            .map(PathBuf::as_path)
    }

    /// Removes both directories.
    pub(crate) fn clear(&self) {
        for folder in [&self.memory, &self.disk] {
            fs::remove_dir_all(folder).ok();
        }
    }
}

/// Removes the directories in `base` of processes that have ended.
fn clear_stale(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// Returns the memory in bytes that is available without swapping.
fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Creates the files of `data` in `folder`, unless the files exist. Returns the path of the file or of the directory
/// with the files.
pub(crate) fn make(data: Data, folder: &Path) -> io::Result<PathBuf> {
    let source = folder.join("source").join(data.name());
    let (count, bytes) = data.files();
    if source.exists() || count == 0 {
        return Ok(source);
    }
    let mut block = vec![0; BLOCK_BYTES.min(bytes) as usize];
    File::open("/dev/urandom")?.read_exact(&mut block)?;
    if count == 1 {
        fs::create_dir_all(folder.join("source"))?;
        write(&source, bytes, &mut block, 0)?;
        return Ok(source);
    }
    for number in 0..count {
        let sub = source.join(format!("{}", number / 1000));
        if number % 1000 == 0 {
            fs::create_dir_all(&sub)?;
        }
        write(&sub.join(format!("{number:05}")), bytes, &mut block, number)?;
    }
    Ok(source)
}

/// Writes a file that repeats the block, with a unique number in each page.
fn write(path: &Path, bytes: u64, block: &mut [u8], number: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut left = bytes;
    while left > 0 {
        for (i, page) in block.chunks_exact_mut(4096).enumerate() {
            let stamp = (number << 40) ^ (left << 8) ^ i as u64;
            page[..8].copy_from_slice(&stamp.to_le_bytes());
        }
        let len = left.min(block.len() as u64);
        file.write_all(&block[..len as usize])?;
        left -= len;
    }
    Ok(())
}

/// Empties the target directory.
pub(crate) fn clear(target: &Path) -> io::Result<()> {
    if target.exists() {
        fs::remove_dir_all(target)?;
    }
    fs::create_dir_all(target)
}

/// Allocates memory for a target of `data` in memory, and frees it.
///
/// A virtual machine's host may have reclaimed unused memory, which makes the first writes slow.
pub(crate) fn warm(target: &Path, data: Data) -> io::Result<()> {
    if data.bytes() == 0 || statfs(target)?.filesystem_type() != TMPFS_MAGIC {
        return Ok(());
    }
    let path = target.join("warm");
    let bytes = data.bytes() + SPARE_BYTES;
    write(&path, bytes, &mut vec![0; BLOCK_BYTES as usize], 0)?;
    fs::remove_file(path)
}

/// Returns the allocated bytes in and under `path`.
pub(crate) fn bytes_in(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return 0;
    };
    if !meta.is_dir() {
        return meta.len().min(meta.blocks() * 512);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| bytes_in(&entry.path())).sum()
}

/// Compares the copy with its source by content. Returns the first difference as an error.
pub(crate) fn compare(source: &Path, target: &Path) -> Result<(), String> {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    if !source.is_dir() {
        return match is_same(source, target) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{name} differs")),
            Err(error) => Err(format!("{name}: {error}")),
        };
    }
    let unread = |error: io::Error| format!("{name}: {error}");
    for entry in fs::read_dir(source).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        compare(&entry.path(), &target.join(entry.file_name()))?;
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let mut files = [File::open(one)?, File::open(other)?];
    let size = files[0].metadata()?.len();
    if size != files[1].metadata()?.len() {
        return Ok(false);
    }
    let mut blocks = [vec![0; 1 << 20], vec![0; 1 << 20]];
    let mut left = size;
    while left > 0 {
        let len = left.min(1 << 20) as usize;
        for (file, block) in files.iter_mut().zip(&mut blocks) {
            file.read_exact(&mut block[..len])?;
        }
        if blocks[0][..len] != blocks[1][..len] {
            return Ok(false);
        }
        left -= len as u64;
    }
    Ok(true)
}

const PREFIX: &str = "lighthaul-bench-";
const BLOCK_BYTES: u64 = 64 << 20;
/// Free memory in bytes that this host needs in addition to the files.
const SPARE_BYTES: u64 = 3 << 29;
