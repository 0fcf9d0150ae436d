//! From the paths that somebody named to the entries of a manifest.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Code, Error};
use crate::manifest::{Entry, Kind};

/// The files of a transfer on the sending side.
#[derive(Debug, Default)]
pub struct Tree {
    /// What is sent.
    pub entries: Vec<Entry>,
    /// Where each entry is here.
    pub places: Vec<PathBuf>,
    /// Whether entries are named after their source, rather than being the contents of one folder.
    pub named: bool,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

/// Lists `sources`; a folder written with a slash at its end stands for its contents.
pub fn walk(sources: &[PathBuf]) -> Result<Tree, Error> {
    let mut tree = Tree {
        named: true,
        ..Tree::default()
    };
    let mut names: Vec<Vec<u8>> = Vec::new();
    for source in sources {
        let look = |error| Error::file(Code::Open, "cannot open", source, &error);
        let meta = fs::symlink_metadata(source).map_err(look)?;
        if source.as_os_str().as_bytes().ends_with(b"/") && meta.is_dir() {
            if sources.len() > 1 {
                let text = format!(
                    "{} means the contents of a folder, which only goes alone: copy it by itself, or drop the slash",
                    source.display()
                );
                return Err(Error::new(Code::Usage, text));
            }
            tree.named = false;
            tree.folder(source, b"")?;
            continue;
        }
        let name = name_of(source)?;
        if names.contains(&name) {
            let name = String::from_utf8_lossy(&name);
            let text = format!("two sources are called {name}: copy them one at a time");
            return Err(Error::new(Code::Usage, text));
        }
        tree.add(source, &name, &meta)?;
        names.push(name);
    }
    Ok(tree)
}

/// The name that `source` has, also where it is written as `.` or `..`.
fn name_of(source: &Path) -> Result<Vec<u8>, Error> {
    let full = match source.file_name() {
        Some(_) => source.to_owned(),
        None => fs::canonicalize(source)
            .map_err(|error| Error::file(Code::Open, "cannot open", source, &error))?,
    };
    let name = full.file_name().map(|name| name.as_bytes().to_vec());
    name.ok_or_else(|| {
        Error::new(
            Code::Usage,
            "/ has no name: write it as // for its contents",
        )
    })
}

impl Tree {
    fn add(&mut self, place: &Path, path: &[u8], meta: &Metadata) -> Result<(), Error> {
        let failed = |error| Error::file(Code::Open, "cannot read", place, &error);
        let kind = if meta.is_dir() {
            Kind::Folder
        } else if meta.is_symlink() {
            Kind::Link(
                fs::read_link(place)
                    .map_err(failed)?
                    .as_os_str()
                    .as_bytes()
                    .to_vec(),
            )
        } else if meta.is_file() {
            Kind::File(meta.len())
        } else {
            self.skipped.push(format!(
                "{} is neither file, folder nor link",
                place.display()
            ));
            return Ok(());
        };
        let folder = kind == Kind::Folder;
        self.entries.push(Entry {
            path: path.to_vec(),
            kind,
            mode: meta.mode() & 0o7777,
            seconds: meta.mtime(),
            nanos: u32::try_from(meta.mtime_nsec()).unwrap_or(0),
        });
        self.places.push(place.to_owned());
        if folder {
            self.folder(place, path)
        } else {
            Ok(())
        }
    }

    /// Adds what is in `place`, in the order of names.
    fn folder(&mut self, place: &Path, path: &[u8]) -> Result<(), Error> {
        let failed = |error| Error::file(Code::Open, "cannot read", place, &error);
        let mut names = Vec::new();
        for item in fs::read_dir(place).map_err(failed)? {
            names.push(item.map_err(failed)?.file_name());
        }
        names.sort_unstable();
        for name in names {
            let place = place.join(&name);
            let mut path = path.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            match fs::symlink_metadata(&place) {
                Ok(meta) => self.add(&place, &path, &meta)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    self.skipped.push(format!("{} vanished", place.display()));
                }
                Err(error) => return Err(Error::file(Code::Open, "cannot read", &place, &error)),
            }
        }
        Ok(())
    }
}
