//! Where files land: found before the first byte is asked for.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path as FilePath, PathBuf};

use lighthaul_io::disk::Root;

use crate::error::{Code, Error};
use crate::manifest::{Entry, Kind};
use crate::message::{Offer, Target};

/// A place that files can be put into, found before the first byte is asked for.
#[derive(Debug)]
pub struct Landing {
    root: Root,
    /// Where entries are relative to.
    pub(crate) folder: PathBuf,
    /// The name that a named source gets instead of its own.
    name: Option<Vec<u8>>,
    /// Where the contents of a folder go, if that is what comes.
    contents: PathBuf,
}

impl Landing {
    /// Looks where `target` is; a relative path starts from `home`.
    pub fn find(target: &Target, home: &FilePath) -> Result<Self, Error> {
        let path = home.join(OsStr::from_bytes(&target.path));
        if target.into {
            make_folder(&path)?;
            let root = Self::open(&path)?;
            return Ok(Self {
                root,
                folder: path.clone(),
                name: None,
                contents: path,
            });
        }
        let Some(name) = path.file_name() else {
            let root = Self::open(&path)?;
            return Ok(Self {
                root,
                folder: path.clone(),
                name: None,
                contents: path,
            });
        };
        let name = name.as_bytes().to_vec();
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self {
            root: Self::open(&folder)?,
            folder,
            name: Some(name),
            contents: path,
        })
    }

    fn open(path: &FilePath) -> Result<Root, Error> {
        Root::open(path)
            .map_err(|e| Error::file(Code::Open, "cannot open the target folder", path, &e))
    }

    /// Gets ready for what `offer` says will come.
    pub(crate) fn prepare(mut self, offer: &Offer) -> Result<Self, Error> {
        if !offer.named {
            make_folder(&self.contents)?;
            self.root = Self::open(&self.contents)?;
            self.folder.clone_from(&self.contents);
            self.name = None;
        }
        Ok(self)
    }

    /// The entry under the name that it gets here.
    pub(crate) fn rename(&self, mut entry: Entry) -> Entry {
        if let Some(name) = &self.name {
            let rest = entry.path.iter().position(|octet| *octet == b'/');
            let rest = rest.map_or(Vec::new(), |at| entry.path[at..].to_vec());
            entry.path = [name.as_slice(), &rest].concat();
        }
        entry
    }

    /// Refuses a file whose name belongs to a folder, and the other way round.
    pub(crate) fn check(&mut self, entry: &Entry) -> Result<(), Error> {
        let path = entry.path();
        let folder = entry.kind == Kind::Folder;
        let there = self.root.kind(path).ok().flatten();
        let place = self.folder.join(path);
        match there {
            Some(true) if !folder => Err(Error::new(
                Code::Open,
                format!(
                    "{0} is a folder: write {0}/ to copy into it",
                    place.display()
                ),
            )),
            Some(false) if folder => Err(Error::new(
                Code::Open,
                format!(
                    "{} is a file, and a folder is to be copied there",
                    place.display()
                ),
            )),
            _ => Ok(()),
        }
    }
}

fn make_folder(path: &FilePath) -> Result<(), Error> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::file(
            Code::Open,
            "cannot make the target folder",
            path,
            &error,
        )),
        _ => Ok(()),
    }
}
