//! What one lab is to measure, told by the bench to the part of it that is inside.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::case::{Data, Loss, Path};

/// Everything that is measured on one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) path: Path,
    pub(crate) loss: Loss,
    pub(crate) lots: Vec<Lot>,
    pub(crate) runs: u32,
    pub(crate) limit_s: f64,
    pub(crate) seconds: f64,
    pub(crate) tools: Tools,
}

/// Where programs are, and room for their small files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tools {
    /// The lighthaul that is measured.
    pub(crate) lighthaul: PathBuf,
    /// A folder that is searched before PATH.
    pub(crate) programs: Option<PathBuf>,
    /// Where keys, logs and settings go.
    pub(crate) work: PathBuf,
}

/// One set of files, where it comes from and goes to, and who moves it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Lot {
    pub(crate) data: Data,
    /// A file, or a folder of files.
    pub(crate) source: PathBuf,
    /// A folder to copy into.
    pub(crate) target: PathBuf,
    pub(crate) peers: Vec<String>,
}

/// One run of one program.
#[derive(Clone, Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) path: Path,
    pub(crate) lot: &'a Lot,
    pub(crate) tools: &'a Tools,
    /// How long a measurement from memory to memory lasts.
    pub(crate) seconds: f64,
    /// The address of the far host.
    pub(crate) address: &'a str,
}

impl Tools {
    /// Where the program of this name is, if it is anywhere.
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
    /// The words of a command: the program of this name, then `rest`.
    pub(crate) fn words(&self, name: &str, rest: &[&str]) -> Vec<String> {
        let program = self.tools.find(name).unwrap_or_else(|| name.into());
        let first = program.to_string_lossy().into_owned();
        std::iter::once(first)
            .chain(rest.iter().map(|&word| word.to_owned()))
            .collect()
    }

    /// What is moved, as text.
    pub(crate) fn source(&self) -> String {
        self.lot.source.to_string_lossy().into_owned()
    }

    /// Where it goes, as text.
    pub(crate) fn target(&self) -> String {
        self.lot.target.to_string_lossy().into_owned()
    }

    /// The name that the file or folder has.
    pub(crate) fn name(&self) -> String {
        let name = self.lot.source.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}
