//! Plan of one lab, passed by the bench to its process inside the lab.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::case::{Data, Loss, Path};

/// Measurements on one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) path: Path,
    pub(crate) loss: Loss,
    pub(crate) file_sets: Vec<FileSet>,
    pub(crate) runs: u32,
    pub(crate) limit_s: f64,
    pub(crate) seconds: f64,
    pub(crate) tools: Tools,
}

/// Locations of programs and of their small files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tools {
    /// Lighthaul binary to measure.
    pub(crate) lighthaul: PathBuf,
    /// Directory that is searched before PATH.
    pub(crate) programs: Option<PathBuf>,
    /// Directory for keys, logs and settings.
    pub(crate) work: PathBuf,
}

/// Set of files with its source, its target, and the programs that copy it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FileSet {
    pub(crate) data: Data,
    /// File, or directory of files.
    pub(crate) source: PathBuf,
    /// Directory to copy into.
    pub(crate) target: PathBuf,
    pub(crate) peers: Vec<String>,
}

/// Run of one program.
#[derive(Clone, Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) path: Path,
    pub(crate) files: &'a FileSet,
    pub(crate) tools: &'a Tools,
    /// Duration of a measurement from memory to memory, in seconds.
    pub(crate) seconds: f64,
    /// Address of the far host.
    pub(crate) address: &'a str,
}

impl Tools {
    /// Searches for the program with this name. Returns `None` if it is not installed.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let usual = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/usr/local/sbin"];
        let path = std::env::var("PATH").unwrap_or_default();
        let own = [Some(self.work.clone()), self.programs.clone()];
        let folders = own
            .into_iter()
            .flatten()
            .chain(std::env::split_paths(&path));
        let mut folders = folders.chain(usual.map(PathBuf::from));
        folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
    }
}

impl Trial<'_> {
    /// Returns a command's arguments: the program with this name, then `rest`.
    pub(crate) fn words(&self, name: &str, rest: &[&str]) -> Vec<String> {
        let program = self.tools.find(name).unwrap_or_else(|| name.into());
        let first = program.to_string_lossy().into_owned();
        std::iter::once(first)
            .chain(rest.iter().map(|&word| word.to_owned()))
            .collect()
    }

    /// Returns the path of the source.
    pub(crate) fn source(&self) -> String {
        self.files.source.to_string_lossy().into_owned()
    }

    /// Returns the path of the target directory.
    pub(crate) fn target(&self) -> String {
        self.files.target.to_string_lossy().into_owned()
    }

    /// Returns the name of the source's file or directory.
    pub(crate) fn name(&self) -> String {
        let name = self.files.source.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}
