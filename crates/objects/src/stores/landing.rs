//! Local target of a download: its directory, in which no path leads out, and the paths of the sources in it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_files::naming::Naming;
use lighthaul_files::temp_names::is_hidden;
use lighthaul_fs::disk::Root;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::{Code, Error, FileAction};

use crate::fault::Fault;
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
    pub(crate) fn look(&self, path: &Path) -> Result<Option<Meta>, Error> {
        let mut root = self.root();
        for folder in above(path) {
            if !self.is_folder(&mut root, folder)? {
                return Ok(None);
            }
        }
        let failed = |error| Error::file(FileAction::ReadMetadata, &self.place(path), &error);
        looked(&mut root, path).map_err(failed)
    }

    /// Returns true if the path is a directory. Fails if it is another kind of entry, such as a link, which could lead
    /// to another place of the same copy.
    fn is_folder(&self, root: &mut Root, path: &Path) -> Result<bool, Error> {
        let failed = |error| Error::file(FileAction::ReadMetadata, &self.place(path), &error);
        let Some(there) = looked(root, path).map_err(failed)? else {
            return Ok(false);
        };
        if there.kind.is_dir() {
            return Ok(true);
        }
        let what = if there.kind.is_symlink() {
            "a symbolic link"
        } else {
            "a file"
        };
        let fault = Fault::Failed {
            what: format!("cannot write below {}", self.place(path).display()),
            why: format!("it is {what}, not a directory; remove it, or copy to another place"),
            code: Code::Open,
        };
        Err(fault.into())
    }

    /// Passes each file and link below the directory `top` to `take`. Links to directories are not followed.
    pub(crate) fn files(&self, top: &Path, take: &mut dyn FnMut(&Path)) -> Result<(), Error> {
        let mut root = self.root();
        let mut folders = Vec::new();
        if top.as_os_str().is_empty() || matches!(self.is_folder(&mut root, top), Ok(true)) {
            folders.push(top.to_owned());
        }
        while let Some(folder) = folders.pop() {
            let failed = |error| Error::file(FileAction::Open, &self.place(&folder), &error);
            for name in root.names(&folder, b"").map_err(failed)? {
                let path = folder.join(&name);
                let failed =
                    |error| Error::file(FileAction::ReadMetadata, &self.place(&path), &error);
                match looked(&mut root, &path).map_err(failed)? {
                    Some(there) if there.kind.is_dir() => folders.push(path),
                    Some(there) if is_hidden(&name) || is_special(&there) => {}
                    Some(_) => take(&path),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Creates the directory at `path`, and those above it.
    pub(crate) fn make_folder(&self, path: &Path) -> Result<(), Error> {
        let mut root = self.root();
        for folder in above(path).into_iter().chain([path]) {
            if folder.as_os_str().is_empty() {
                continue;
            }
            let failed = |error| Error::file(FileAction::CreateFolder, &self.place(folder), &error);
            root.make_folder(folder).map_err(failed)?;
            if !self.is_folder(&mut root, folder)? {
                return Err(failed(io::ErrorKind::NotFound.into()));
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.root().remove(path)
    }
}

/// Returns the directories above a path, the topmost first.
fn above(path: &Path) -> Vec<&Path> {
    let above = path.ancestors().skip(1);
    let mut above: Vec<&Path> = above.filter(|path| !path.as_os_str().is_empty()).collect();
    above.reverse();
    above
}

/// Returns the attributes of the entry at a path, if it exists.
fn looked(root: &mut Root, path: &Path) -> io::Result<Option<Meta>> {
    match root.look(path) {
        // a parent directory does not exist
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => looked,
    }
}

fn is_special(meta: &Meta) -> bool {
    !meta.kind.is_file() && !meta.kind.is_symlink()
}
