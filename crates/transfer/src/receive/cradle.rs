//! Where files are until they are whole.

use std::path::{Path, PathBuf};

use lighthaul_files::options::Options;
use lighthaul_files::temp_names::{Writer, journal, partial};
use lighthaul_session::error::{Code, Error};

/// Where files are until they are whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cradle {
    /// Beside their places, under hidden names.
    #[default]
    Beside,
    /// In a folder of this name there.
    Folder(PathBuf),
    /// In their places, for readers to see them grow.
    Place,
}

impl Cradle {
    /// What somebody asked for.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        match &options.partial_dir {
            _ if options.inplace => Ok(Self::Place),
            None => Ok(Self::Beside),
            Some(name) if is_name(name) => {
                let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
                Ok(Self::Folder(name.into()))
            }
            Some(_) => {
                let text =
                    "--partial-dir takes the name of a folder, which is made beside each file";
                Err(Error::new(Code::Usage, text))
            }
        }
    }

    /// Where file `path` is while parts of it are missing, for whoever writes it next to find.
    pub(crate) fn partial(&self, path: &Path) -> PathBuf {
        match self {
            Self::Place => path.to_owned(),
            Self::Beside | Self::Folder(_) => self.within(partial(path)),
        }
    }

    /// Where entry `number` at `path` is while `writer` writes it.
    pub(crate) fn temporary(&self, writer: &Writer, path: &Path, number: u64) -> PathBuf {
        match self {
            Self::Place => path.to_owned(),
            Self::Beside | Self::Folder(_) => self.within(writer.temporary(path, number)),
        }
    }

    /// Where the journal of file `path` is.
    pub(crate) fn journal(&self, path: &Path) -> PathBuf {
        self.within(journal(path))
    }

    /// The folder of its own that `folder` has for files that are not whole.
    pub(crate) fn folder(&self, folder: &Path) -> Option<PathBuf> {
        match self {
            Self::Folder(name) => Some(folder.join(name)),
            Self::Beside | Self::Place => None,
        }
    }

    /// A file beside its place, or in the folder for such.
    fn within(&self, hidden: PathBuf) -> PathBuf {
        match (self, hidden.file_name()) {
            (Self::Folder(folder), Some(name)) => hidden.with_file_name(folder).join(name),
            _ => hidden,
        }
    }
}

/// Whether a peer's `name` leads nowhere but into a folder.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_where_somebody_wants_them_and_never_elsewhere() {
        let cradle = |inplace, dir: Option<&[u8]>| {
            Cradle::new(&Options {
                inplace,
                partial_dir: dir.map(<[u8]>::to_vec),
                ..Options::default()
            })
        };
        let path = Path::new("a/b");
        let beside = cradle(false, None).unwrap();
        assert_eq!(beside.partial(path).parent(), path.parent());
        assert_eq!(beside.folder(Path::new("a")), None);
        let apart = cradle(false, Some(b".p")).unwrap();
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
        let place = cradle(true, None).unwrap();
        assert_eq!(place.partial(path), path);
        assert_ne!(place.journal(path), path);
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0"] {
            assert!(cradle(false, Some(name)).is_err());
        }
    }
}
