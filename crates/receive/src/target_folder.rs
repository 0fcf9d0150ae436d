//! Target directory of a copy, which is opened before the first byte is requested.
//!
//! ```text
//! path of the user --> open: directory, or new name --> prepare: after the naming of the entries
//! ```
//!
//! [`TargetFolder`] decides whether the target path is the directory of the entries or the new name
//! of the only source. It then maps names of entries to paths at the target, and back for rules. If
//! the copy ends before the whole list, a directory that it created is removed if it is empty. A
//! dry run creates nothing.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use lighthaul_copy::error::Fault;
use lighthaul_copy::message::{Landing, Target};
use lighthaul_copy::object_target::{ObjectFolder, ObjectTarget};
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::naming::Naming;
use lighthaul_fs::disk::Root;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::folder::leaves_root;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::{Error, FileAction};
use rustix::fs::FileType;

/// Target directory of a copy, and the names of entries in it.
#[derive(Debug)]
pub struct TargetFolder {
    access: Arc<FileAccess>,
    root: Root,
    dry: bool,
    /// Directory that entries are relative to.
    pub(crate) folder: PathBuf,
    /// New name of the only source, if the user gave one.
    name: Option<Vec<u8>>,
    /// Path of the copied directory below `folder`: its new name, or empty.
    top: PathBuf,
    /// Directory for the contents of a source directory.
    contents: PathBuf,
    /// Directory that was created for the copy.
    made: Option<Made>,
    /// True if the target path is the new name of a source file, but the parent directory of other sources.
    is_usual: bool,
    /// True if the directory was created for an earlier copy that did not finish.
    is_unfinished: bool,
    /// Object store that has the directory, if any.
    store: Option<StoreFolder>,
}

/// Directory in an object store.
#[derive(Debug)]
struct StoreFolder {
    store: Arc<dyn ObjectTarget>,
    /// Path of the store.
    top: PathBuf,
    /// The directory, when its path is known.
    open: Option<Arc<dyn ObjectFolder>>,
}

/// Directory that was created for the copy. It is removed when this value is dropped, if it is empty.
#[derive(Debug)]
struct Made {
    access: Arc<FileAccess>,
    path: PathBuf,
    stays: bool,
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.stays {
            // fails if the directory has contents
            self.access.remove_folder(&self.path).ok();
        }
    }
}

impl TargetFolder {
    /// Opens the target below `access`. Creates nothing if `dry` is true.
    pub fn open(target: &Target, access: &Arc<FileAccess>, dry: bool) -> Result<Self, Error> {
        let path = PathBuf::from(OsStr::from_bytes(&target.path));
        let into = match target.landing {
            Landing::Inside => true,
            Landing::Usual => access.folder(&path).is_ok(),
            Landing::Exact => false,
        };
        let made = if into {
            make_folder(access, &path, dry)?
        } else {
            None
        };
        let target_folder = |folder: PathBuf, name: Option<&OsStr>| {
            Ok(Self {
                root: open_root(access, &folder, dry)?,
                dry,
                access: Arc::clone(access),
                folder,
                name: name.map(|name| name.as_bytes().to_vec()),
                top: PathBuf::new(),
                contents: path.clone(),
                made,
                is_usual: target.landing == Landing::Usual,
                is_unfinished: false,
                store: None,
            })
        };
        if into {
            return target_folder(path.clone(), None);
        }
        let Some(name) = path.file_name() else {
            return target_folder(path.clone(), None);
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        target_folder(folder, Some(name))
    }

    /// Opens the target `path` in an object store, which clients see at the path `top`. Nothing is created on this host.
    pub fn in_store(
        (path, landing): (&Path, Landing),
        (store, top): (Arc<dyn ObjectTarget>, PathBuf),
    ) -> Result<Self, Error> {
        let into = match landing {
            Landing::Inside => true,
            Landing::Usual => store.is_folder(path)?,
            Landing::Exact => false,
        };
        let failed = |e| Error::file(FileAction::OpenTarget, &top.join(path), &e);
        let access = FileAccess::nowhere().map_err(failed)?;
        let root = Root::nowhere().map_err(failed)?;
        let whole = top.join(path);
        let name = path.file_name().filter(|_| !into);
        let folder = match (name, path.parent()) {
            (Some(_), Some(parent)) => top.join(parent),
            _ => whole.clone(),
        };
        Ok(Self {
            access: Arc::new(access),
            root,
            dry: true,
            folder,
            name: name.map(|name| name.as_bytes().to_vec()),
            top: PathBuf::new(),
            contents: whole,
            made: None,
            is_usual: landing == Landing::Usual,
            is_unfinished: false,
            store: Some(StoreFolder {
                store,
                top,
                open: None,
            }),
        })
    }

    /// Returns the directory in an object store, if the target is there.
    pub(crate) fn objects(&self) -> Option<Arc<dyn ObjectFolder>> {
        self.store.as_ref()?.open.clone()
    }

    /// Prepares the target for entries named by `naming`. Returns the root of the entries.
    pub(crate) fn prepare(mut self, naming: Naming) -> Result<(Self, Root), Error> {
        let is_folder = match naming {
            Naming::Contents => true,
            Naming::Folder | Naming::Several => self.is_usual,
            Naming::File => false,
        };
        if is_folder {
            let made = make_folder(&self.access, &self.contents, self.dry)?;
            self.made = self.made.or(made);
            self.root = open_root(&self.access, &self.contents, self.dry)?;
            self.folder.clone_from(&self.contents);
            self.name = None;
        }
        if let (Naming::Folder, Some(name)) = (naming, &self.name) {
            self.top = PathBuf::from(OsStr::from_bytes(name));
        }
        if let Some(StoreFolder { store, top, open }) = &mut self.store {
            let path = self.folder.strip_prefix(top).unwrap_or(&self.folder);
            *open = Some(store.folder(path)?.into());
        }
        let root = self.root.another();
        let root = root.map_err(|e| Error::file(FileAction::Open, &self.folder, &e))?;
        Ok((self, root))
    }

    /// Returns the part of the file system with the target.
    pub(crate) const fn access(&self) -> &Arc<FileAccess> {
        &self.access
    }

    /// Returns the path of the copied directory below `folder`: its new name, or an empty path.
    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the directory that relative paths of options start at.
    pub(crate) fn top_place(&self) -> PathBuf {
        self.folder.join(self.top())
    }

    /// Returns the entry with its path relative to the copied directory.
    pub(crate) fn below_top<'a>(&self, entry: &'a Entry) -> Cow<'a, Entry> {
        let top = self.top();
        match entry.path().strip_prefix(top) {
            Ok(path) if !top.as_os_str().is_empty() => {
                let path = path.as_os_str().as_bytes().to_vec();
                Cow::Owned(Entry {
                    path,
                    ..entry.clone()
                })
            }
            _ => Cow::Borrowed(entry),
        }
    }

    /// Keeps the directory that was created for the copy.
    pub(crate) const fn keep(&mut self) {
        if let Some(made) = &mut self.made {
            made.stays = true;
        }
    }

    /// Records that the directory was created for an earlier copy that did not finish.
    pub(crate) const fn mark_unfinished(&mut self) {
        self.is_unfinished = true;
    }

    /// Returns true if this copy or an unfinished copy created the directory.
    pub(crate) const fn is_new(&self) -> bool {
        self.made.is_some() || self.is_unfinished
    }

    /// Returns true if the directory exists. A dry run does not create it.
    pub(crate) fn is_there(&self) -> bool {
        self.access.folder(&self.folder).is_ok()
    }

    /// Returns the entry with its name at the target.
    pub(crate) fn rename(&self, mut entry: Entry) -> Entry {
        if let Some(name) = &self.name {
            let rest = entry.path.iter().position(|octet| *octet == b'/');
            let rest = rest.map_or(Vec::new(), |at| entry.path[at..].to_vec());
            entry.path = [name.as_slice(), &rest].concat();
        }
        entry
    }

    /// Returns the path at the source of the target path `path`. `first` is the first name at the
    /// source.
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

    /// Returns the type of a special file behind the link at the target, if the user named the link and `entry` is not
    /// a link. A link to an open file, as `/dev/stdout` is, counts although that file may be ordinary.
    pub(crate) fn special_link(&self, entry: &Entry, there: Meta) -> Option<&'static str> {
        let is_named = self.name.as_ref() == Some(&entry.path);
        let is_link = matches!(entry.kind, EntryKind::Link(_));
        if !is_named || is_link || there.kind != FileType::Symlink {
            return None;
        }
        let at = self.folder.join(entry.path());
        let (folder, name) = self.access.parent(&at).ok()??;
        let text = PathBuf::from(folder.link(name).ok()?);
        match (self.access.look_through(&at), outside(&text)) {
            (Ok(meta), _) if linked(meta.kind).is_some() => linked(meta.kind),
            (Ok(meta), _) if meta.kind == FileType::Directory => None,
            (_, Some(b"proc")) => Some("link into /proc"),
            // the kernel does not follow it out of a daemon's root
            (Err(error), Some(b"dev")) if leaves_root(&error) => Some("link to a device"),
            _ => None,
        }
    }

    /// Returns a description of the item that blocks `entry`: a directory instead of a file or link, or the reverse.
    /// Fails if the user named a directory as the new name of a file.
    pub(crate) fn obstacle(
        &self,
        entry: &Entry,
        there: Option<Meta>,
    ) -> Result<Option<String>, Error> {
        let Some(there) = there else { return Ok(None) };
        let at = self.folder.join(entry.path());
        let is_folder = there.kind == FileType::Directory;
        if self.name.as_ref() == Some(&entry.path) && is_folder && entry.kind != EntryKind::Folder {
            return Err(Fault::FolderInTheWay(at, "a directory").into());
        }
        let is_link = there.kind == FileType::Symlink && matches!(entry.kind, EntryKind::File(_));
        if self.name.as_ref() == Some(&entry.path) && is_link && self.access.folder(&at).is_ok() {
            return Err(Fault::FolderInTheWay(at, "a link to a directory").into());
        }
        let (old, new) = match (is_folder, &entry.kind) {
            (true, EntryKind::File(_)) => ("directory", "file"),
            (true, EntryKind::Link(_)) => ("directory", "link"),
            (false, EntryKind::Folder) if there.kind == FileType::Symlink => ("link", "directory"),
            (false, EntryKind::Folder) => ("file", "directory"),
            _ => return Ok(None),
        };
        let text = format!("{} is a {old}, and a {new} replaces it", at.display());
        Ok(Some(text))
    }
}

/// Returns the description of a link to a special file of type `kind`.
const fn linked(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::BlockDevice | FileType::CharacterDevice => Some("link to a device"),
        FileType::Fifo => Some("link to a FIFO"),
        FileType::Socket => Some("link to a socket"),
        FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown => None,
    }
}

/// Returns the first name of a link's `text` that leads out of the link's directory, as in `/dev/null` or
/// `../dev/null`.
fn outside(text: &Path) -> Option<&[u8]> {
    let leaves = |part: &Component<'_>| matches!(part, Component::RootDir | Component::ParentDir);
    text.components().next().filter(leaves)?;
    let first = text.components().find(|part| !leaves(part))?;
    Some(first.as_os_str().as_bytes())
}

fn open_root(access: &FileAccess, path: &Path, dry: bool) -> Result<Root, Error> {
    let root = match access.root(path) {
        // a directory that would be created is empty
        Err(error) if dry && error.kind() == ErrorKind::NotFound => Root::nowhere(),
        root => root,
    };
    root.map_err(|e| Error::file(FileAction::OpenTarget, path, &e))
}

/// Creates the directory at `path`. Returns none if it exists, or in a dry run.
fn make_folder(access: &Arc<FileAccess>, path: &Path, dry: bool) -> Result<Option<Made>, Error> {
    if dry {
        return Ok(None);
    }
    let made = access.make_folder(path);
    let made = made.map_err(|e| Error::file(FileAction::CreateTarget, path, &e))?;
    Ok(made.then(|| Made {
        access: Arc::clone(access),
        path: path.to_owned(),
        stays: false,
    }))
}
