//! Temporary directories of tests, and their files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use lighthaul_base::Rng;
use ring::digest;

/// A directory that is removed when this value is dropped, unless the test failed.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A directory for the test `name`. No two tests that run at the same time may have the same.
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let is_new = IN_USE.lock().unwrap().insert(path.clone());
        assert!(is_new, "another test uses {}", path.display());
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A path in the directory.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A new directory in the directory.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.at(name)).unwrap();
        self.at(name)
    }

    /// Creates a file of `len` random bytes.
    pub(crate) fn file(&self, name: &str, len: u64) -> PathBuf {
        let path = self.at(name);
        let mut file = File::create(&path).unwrap();
        let mut rng = Rng::new(len ^ SEED);
        let mut part = vec![0; PART];
        let mut left = len as usize;
        while left > 0 {
            let part = &mut part[..left.min(PART)];
            rng.fill(part);
            file.write_all(part).unwrap();
            left -= part.len();
        }
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).ok();
        }
        IN_USE.lock().unwrap().remove(&self.0);
    }
}

/// Directories of tests that run.
static IN_USE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns random bytes.
pub(crate) fn noise(len: u64, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// Metadata of a path that a copy keeps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Look {
    mode: u32,
    seconds: i64,
    nanos: i64,
    /// The bytes of a file, of a large one its digest; the target of a link.
    content: Vec<u8>,
}

/// Returns the metadata of `path`.
pub(crate) fn look(path: &Path) -> Look {
    let mut meta = fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let content = if meta.is_symlink() {
        fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()
    } else if meta.is_file() {
        let file = File::open(path).unwrap();
        // of the same file, if another one gets its name now
        meta = file.metadata().unwrap();
        content(file, meta.len())
    } else {
        Vec::new()
    };
    let (mode, seconds, nanos) = (meta.mode(), meta.mtime(), meta.mtime_nsec());
    Look {
        mode,
        seconds,
        nanos,
        content,
    }
}

/// Returns the bytes of a file, or the digest of many.
fn content(mut file: File, len: u64) -> Vec<u8> {
    if len <= PART as u64 {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        return bytes;
    }
    let mut context = digest::Context::new(&digest::SHA256);
    let mut part = vec![0; PART];
    loop {
        match file.read(&mut part).unwrap() {
            0 => return context.finish().as_ref().to_vec(),
            len => context.update(&part[..len]),
        }
    }
}

/// Returns all paths below `folder`, including hidden ones.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, Look> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for item in fs::read_dir(inner).unwrap() {
            let item = item.unwrap();
            if item.file_type().unwrap().is_dir() {
                folders.push(item.path());
            }
            let name = item.path().strip_prefix(folder).unwrap().to_owned();
            found.insert(name, look(&item.path()));
        }
    }
    found
}

/// Returns the names in `folder`, including hidden ones.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    lighthaul_testkit::names(folder).unwrap()
}

/// Sets mode and time of a file or directory; the time is `seconds` after 1970 and some nanoseconds.
pub(crate) fn dress(path: &Path, mode: u32, seconds: u64) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// Bytes of a file in memory: a large test program takes long to fork.
const PART: usize = 1 << 16;
/// Seed of the bytes of files.
const SEED: u64 = 20_261_121;
