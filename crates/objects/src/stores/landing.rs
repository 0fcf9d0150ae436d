//! Local target of a download: its directory, in which no path leads out, and the paths of the sources in it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_files::naming::Naming;
use lighthaul_fs::disk::Root;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::{Error, FileAction};

use crate::stores::job::Job;

/// Local directory of a download.
#[derive(Debug)]
pub(crate) struct Landing {
    root: Mutex<Root>,
    /// Path of the directory for messages.
    folder: PathBuf,
    /// New name of the only source.
    name: Option<PathBuf>,
}

impl Landing {
    /// Opens the target for sources with these names, and creates it if it does not exist. A dry run creates nothing.
    pub(crate) fn open(job: &Job, naming: Naming) -> Result<Self, Error> {
        let access = FileAccess::anywhere();
        let path = PathBuf::from(OsStr::from_bytes(job.target.path()));
        let is_inside = match naming {
            Naming::Contents | Naming::Several => true,
            Naming::Folder => !job.exact,
            Naming::File => !job.exact && (job.is_inside() || access.folder(&path).is_ok()),
        };
        let (folder, name) = match path.file_name().filter(|_| !is_inside) {
            Some(name) => {
                let above = path.parent().filter(|above| !above.as_os_str().is_empty());
                (
                    above.unwrap_or_else(|| Path::new(".")).to_owned(),
                    Some(PathBuf::from(name)),
                )
            }
            None => (path, None),
        };
        let is_dry = job.options.dry_run.is_some();
        let failed = |error| Error::file(FileAction::OpenTarget, &folder, &error);
        if is_inside && !is_dry && access.folder(&folder).is_err() {
            let failed = |error| Error::file(FileAction::CreateTarget, &folder, &error);
            access.make_folder(&folder).map_err(failed)?;
        }
        let root = match access.root(&folder) {
            Err(_) if is_dry => Root::nowhere(),
            root => root,
        };
        let root = root.map_err(failed)?;
        Ok(Self {
            root: Mutex::new(root),
            folder,
            name,
        })
    }

    /// Returns the path of a source with this name below the directory.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.name.clone().unwrap_or_else(|| PathBuf::from(name))
    }

    /// Returns a path below the directory for messages.
    pub(crate) fn place(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// Returns the directory.
    pub(crate) fn root(&self) -> MutexGuard<'_, Root> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a further handle on the directory.
    pub(crate) fn another(&self) -> Result<Root, Error> {
        let another = self.root().another();
        another.map_err(|error| Error::file(FileAction::OpenTarget, &self.folder, &error))
    }

    /// Returns the attributes of what is at a path.
    pub(crate) fn look(&self, path: &Path) -> io::Result<Option<Meta>> {
        match self.root().look(path) {
            // a directory above does not exist
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            looked => looked,
        }
    }

    /// Creates the directory at `path`, and those above it.
    pub(crate) fn make_folder(&self, path: &Path) -> Result<(), Error> {
        let mut root = self.root();
        let mut above: Vec<&Path> = path
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        above.reverse();
        for folder in above {
            let failed =
                |error| Error::file(FileAction::CreateFolder, &self.folder.join(folder), &error);
            root.make_folder(folder).map_err(failed)?;
            let is_folder = root
                .look(folder)
                .map_err(failed)?
                .is_some_and(|meta| !meta.kind.is_file());
            if !is_folder {
                return Err(failed(io::ErrorKind::NotADirectory.into()));
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.root().remove(path)
    }
}
