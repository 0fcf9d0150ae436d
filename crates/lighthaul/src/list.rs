//! Lists of paths that select the entries of a copy.

use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use lighthaul_files::filter::{FilesFrom, Separator};
use lighthaul_files::list::PathList;
use lighthaul_session::error::{Error, FileAction};

use crate::fault::Fault;

/// List of paths relative to the source of a copy, one in each line, or with NUL after each.
#[derive(Clone)]
pub struct List {
    input: Input,
    separator: Separator,
}

#[derive(Clone)]
enum Input {
    File(PathBuf),
    /// Paths with NUL after each.
    Paths(Arc<[u8]>),
    Reader(Arc<Mutex<Option<Box<dyn BufRead + Send>>>>),
    /// Paths and ranges that are chosen while the copy runs.
    Units(Arc<dyn Fn() -> PathList + Send + Sync>),
}

impl List {
    /// Returns the list in a file, which each attempt of the copy reads.
    pub fn in_file(path: impl Into<PathBuf>, separator: Separator) -> Self {
        let input = Input::File(path.into());
        Self { input, separator }
    }

    /// Returns the list that `reader` reads. It is read once, so the copy has one attempt.
    pub fn read_once(reader: impl BufRead + Send + 'static, separator: Separator) -> Self {
        let input = Input::Reader(Arc::new(Mutex::new(Some(Box::new(reader)))));
        Self { input, separator }
    }

    /// Returns a list of the given paths.
    pub fn of_paths<P: AsRef<[u8]>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut text = Vec::new();
        for path in paths {
            text.extend_from_slice(path.as_ref());
            text.push(0);
        }
        Self {
            input: Input::Paths(text.into()),
            separator: Separator::Nul,
        }
    }

    /// Returns a list whose paths and ranges are chosen while the copy runs; `open` is called for each attempt.
    pub(crate) fn of_units(open: impl Fn() -> PathList + Send + Sync + 'static) -> Self {
        Self {
            input: Input::Units(Arc::new(open)),
            separator: Separator::Nul,
        }
    }

    /// Returns true if the list cannot be read again.
    pub(crate) const fn is_read_once(&self) -> bool {
        matches!(self.input, Input::Reader(_))
    }

    /// Opens the list.
    #[expect(clippy::disallowed_methods, reason = "a list is a file of the user")]
    pub(crate) fn open(&self) -> Result<PathList, Error> {
        match &self.input {
            Input::File(path) => {
                let file = File::open(path);
                let file = file.map_err(|e| Error::file(FileAction::Open, path, &e))?;
                let reader = BufReader::new(file);
                Ok(PathList::new(FilesFrom::new(reader, self.separator)))
            }
            Input::Paths(text) => {
                let reader = Cursor::new(Arc::clone(text));
                Ok(PathList::new(FilesFrom::new(reader, self.separator)))
            }
            Input::Reader(reader) => {
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                let reader = reader.take().ok_or(Fault::ListTaken)?;
                Ok(PathList::new(FilesFrom::new(reader, self.separator)))
            }
            Input::Units(open) => Ok(open()),
        }
    }
}

impl Debug for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.input {
            Input::File(path) => write!(f, "List({})", path.display()),
            Input::Paths(_) | Input::Reader(_) | Input::Units(_) => write!(f, "List"),
        }
    }
}
