//! Where files land: found before the first byte is asked for.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lighthaul_io::fs::disk::Root;
use lighthaul_io::fs::ground::Ground;
use lighthaul_io::fs::meta::Meta;
use rustix::fs::FileType;

use crate::error::{Code, Error};
use crate::manifest::{Entry, Kind};
use crate::message::Target;

/// A place that files can be put into, found before the first byte is asked for.
#[derive(Debug)]
pub struct Landing {
    ground: Arc<Ground>,
    root: Root,
    dry: bool,
    /// Where entries are relative to.
    pub(crate) folder: PathBuf,
    /// The name that a named source gets instead of its own.
    name: Option<Vec<u8>>,
    /// Where the contents of a folder go, if that is what comes.
    contents: PathBuf,
    /// The folder that was made for all that.
    made: Option<Made>,
    /// It was made for an earlier copy that never came to its end.
    begun: bool,
}

/// A folder that goes when this value goes, if nothing has come to it.
#[derive(Debug)]
struct Made {
    ground: Arc<Ground>,
    path: PathBuf,
    stays: bool,
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.stays {
            // unless something is in it
            self.ground.remove_folder(&self.path).ok();
        }
    }
}

impl Landing {
    /// Looks where `target` is on `ground`. A `dry` landing makes nothing.
    pub fn find(target: &Target, ground: &Arc<Ground>, dry: bool) -> Result<Self, Error> {
        let path = PathBuf::from(OsStr::from_bytes(&target.path));
        let made = if target.into {
            make_folder(ground, &path, dry)?
        } else {
            None
        };
        let landing = |folder: PathBuf, name: Option<&OsStr>| {
            Ok(Self {
                root: open(ground, &folder, dry)?,
                dry,
                ground: Arc::clone(ground),
                folder,
                name: name.map(|name| name.as_bytes().to_vec()),
                contents: path.clone(),
                made,
                begun: false,
            })
        };
        if target.into {
            return landing(path.clone(), None);
        }
        let Some(name) = path.file_name() else {
            return landing(path.clone(), None);
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        landing(folder, Some(name))
    }

    /// Gets ready for entries that are `named` after their source, or for the contents of a folder.
    /// Answers where they go.
    pub(crate) fn prepare(mut self, named: bool) -> Result<(Self, Root), Error> {
        if !named {
            let made = make_folder(&self.ground, &self.contents, self.dry)?;
            self.made = self.made.or(made);
            self.root = open(&self.ground, &self.contents, self.dry)?;
            self.folder.clone_from(&self.contents);
            self.name = None;
        }
        let root = self.root.another();
        let root = root.map_err(|e| Error::file(Code::Io, "cannot open", &self.folder, &e))?;
        Ok((self, root))
    }

    /// Something may have come: the folder stays that was made for it.
    pub(crate) const fn stay(&mut self) {
        if let Some(made) = &mut self.made {
            made.stays = true;
        }
    }

    /// The folder that entries go to was made for a copy that never came to its end.
    pub(crate) const fn go_on(&mut self) {
        self.begun = true;
    }

    /// Whether the folder that entries go to was made for them.
    pub(crate) const fn is_new(&self) -> bool {
        self.made.is_some() || self.begun
    }

    /// Whether the folder that entries go to is there, which a dry run does not make.
    pub(crate) fn is_there(&self) -> bool {
        self.ground.folder(&self.folder).is_ok()
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

    /// The path that `path` has at the source, whose first name there is `first`.
    pub(crate) fn at_source(&self, path: &[u8], first: &[u8]) -> Vec<u8> {
        let rest = self
            .name
            .as_ref()
            .and_then(|name| path.strip_prefix(name.as_slice()));
        match rest {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => [first, rest].concat(),
            _ => path.to_vec(),
        }
    }

    /// What keeps `entry` from its place: a folder where none is to be, or something else where one is to be.
    /// Refuses a file whose name somebody wrote without a slash, and that belongs to a folder.
    pub(crate) fn obstacle(
        &self,
        entry: &Entry,
        there: Option<Meta>,
    ) -> Result<Option<String>, Error> {
        let Some(there) = there else { return Ok(None) };
        let at = self.folder.join(entry.path());
        let is_folder = there.kind == FileType::Directory;
        let place = at.display();
        if self.name.as_ref() == Some(&entry.path) && is_folder && entry.kind != Kind::Folder {
            let text = format!("{place} is a folder: write {place}/ to copy into it");
            return Err(Error::new(Code::Open, text));
        }
        let is_link = there.kind == FileType::Symlink && matches!(entry.kind, Kind::File(_));
        if self.name.as_ref() == Some(&entry.path) && is_link && self.ground.folder(&at).is_ok() {
            let text = format!("{place} is a link to a folder: write {place}/ to copy into it");
            return Err(Error::new(Code::Open, text));
        }
        let (old, new) = match (is_folder, &entry.kind) {
            (true, Kind::File(_)) => ("folder", "file"),
            (true, Kind::Link(_)) => ("folder", "link"),
            (false, Kind::Folder) if there.kind == FileType::Symlink => ("link", "folder"),
            (false, Kind::Folder) => ("file", "folder"),
            _ => return Ok(None),
        };
        let text = format!("{place} is a {old}, and a {new} is to be copied there");
        Ok(Some(text))
    }
}

fn open(ground: &Ground, path: &Path, dry: bool) -> Result<Root, Error> {
    let root = match ground.root(path) {
        // what would be made is empty
        Err(error) if dry && error.kind() == ErrorKind::NotFound => Root::nowhere(),
        root => root,
    };
    root.map_err(|e| Error::file(Code::Open, "cannot open the target folder", path, &e))
}

/// Makes the folder at `path`, unless it is there, or a dry run makes nothing.
fn make_folder(ground: &Arc<Ground>, path: &Path, dry: bool) -> Result<Option<Made>, Error> {
    if dry {
        return Ok(None);
    }
    let made = ground.make_folder(path);
    let made =
        made.map_err(|e| Error::file(Code::Open, "cannot make the target folder", path, &e))?;
    Ok(made.then(|| Made {
        ground: Arc::clone(ground),
        path: path.to_owned(),
        stays: false,
    }))
}
