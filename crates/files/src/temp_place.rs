//! Place of files until they are complete.

use std::path::{Path, PathBuf};

use lighthaul_fs::version::Look;
use lighthaul_session::error::Error;

use crate::error::Fault;
use crate::options::Options;
use crate::temp_names::{Writer, journal, partial, staged};

/// Place of files until they are complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TempPlace {
    /// In the directory of the file, under hidden names.
    #[default]
    Beside,
    /// In a directory of the given name beside the file.
    Folder(PathBuf),
    /// Under their final names, so that readers see incomplete files.
    InPlace,
}

impl TempPlace {
    /// Returns the place that the options select.
    pub fn new(options: &Options) -> Result<Self, Error> {
        match &options.partial_dir {
            _ if options.inplace => Ok(Self::InPlace),
            None => Ok(Self::Beside),
            Some(name) if is_name(name) => {
                let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
                Ok(Self::Folder(name.into()))
            }
            Some(_) => Err(Fault::PartialDir.into()),
        }
    }

    /// Returns the temporary path of a partial file for `path`, which a later run finds.
    pub fn partial(&self, path: &Path) -> PathBuf {
        match self {
            Self::InPlace => path.to_owned(),
            Self::Beside | Self::Folder(_) => self.within(partial(path)),
        }
    }

    /// Returns the temporary path of entry `number` at `path` for `writer`.
    pub fn temporary(&self, writer: &Writer, path: &Path, number: u64) -> PathBuf {
        match self {
            Self::InPlace => path.to_owned(),
            Self::Beside | Self::Folder(_) => self.within(writer.temporary(path, number)),
        }
    }

    /// Returns the temporary path of version `look` of the file `path` in a striped copy.
    pub fn staged(&self, path: &Path, look: Look) -> PathBuf {
        self.within(staged(path, look))
    }

    /// Returns the path of the journal of file `path`.
    pub fn journal(&self, path: &Path) -> PathBuf {
        self.within(journal(path))
    }

    /// Returns the subdirectory of `folder` for temporary files, if any.
    pub fn folder(&self, folder: &Path) -> Option<PathBuf> {
        match self {
            Self::Folder(name) => Some(folder.join(name)),
            Self::Beside | Self::InPlace => None,
        }
    }

    /// Returns the path of a temporary file, in the subdirectory if one is configured.
    fn within(&self, hidden: PathBuf) -> PathBuf {
        match (self, hidden.file_name()) {
            (Self::Folder(folder), Some(name)) => hidden.with_file_name(folder).join(name),
            _ => hidden,
        }
    }
}

/// Returns true if a peer's `name` is a plain name of a directory.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_at_the_selected_place_only() {
        let temp_place = |inplace, dir: Option<&[u8]>| {
            TempPlace::new(&Options {
                inplace,
                partial_dir: dir.map(<[u8]>::to_vec),
                ..Options::default()
            })
        };
        let path = Path::new("a/b");
        let beside = temp_place(false, None).unwrap();
        assert_eq!(beside.partial(path).parent(), path.parent());
        assert_eq!(beside.folder(Path::new("a")), None);
        let apart = temp_place(false, Some(b".p")).unwrap();
        let folder = apart.folder(Path::new("a")).unwrap();
        assert_eq!(folder, Path::new("a/.p"));
        for place in [
            apart.partial(path),
            apart.journal(path),
            apart.temporary(&Writer::new(1), path, 2),
        ] {
            assert_eq!(place.parent(), Some(folder.as_path()));
        }
        assert_eq!(
            apart.partial(Path::new("b")).parent(),
            Some(Path::new(".p"))
        );
        let place = temp_place(true, None).unwrap();
        assert_eq!(place.partial(path), path);
        assert_ne!(place.journal(path), path);
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
            assert!(temp_place(false, Some(name)).is_err());
        }
    }
}
