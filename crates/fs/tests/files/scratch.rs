//! Temporary directories for tests, on disk and in memory.

use std::fs;
use std::path::{Path, PathBuf};

use lighthaul_testkit::lacks;

/// Directory that is removed when this value is dropped, unless the test failed.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Creates a directory on the disk of the build.
    pub(crate) fn on_disk(name: &str) -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")), name)
    }

    /// Creates a directory in memory (`/dev/shm`). Returns `None`, and records a skip, without it.
    pub(crate) fn in_memory(name: &str) -> Option<Self> {
        let shm = Path::new("/dev/shm");
        let is_there = shm.is_dir().then_some(()).ok_or("needs /dev/shm");
        (!lacks(name, is_there)).then(|| Self::within(shm, name))
    }

    /// Creates a directory of each kind.
    pub(crate) fn everywhere(name: &str) -> Vec<Self> {
        let memory = Self::in_memory(name).into_iter();
        memory.chain([Self::on_disk(name)]).collect()
    }

    fn within(folder: &Path, name: &str) -> Self {
        let path = folder.join(format!("lighthaul-{name}-{}", std::process::id()));
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Creates a file in the directory, and returns its path.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).ok();
        }
    }
}
