//! Object stores that a daemon serves as directories of its root.
//!
//! A store has a name, which clients see as a directory of the root. Rights count as they do for a directory of this
//! name: a client that sees only another directory does not reach the store.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use lighthaul_copy::message::Target;
use lighthaul_copy::object_options;
use lighthaul_copy::object_target::{ObjectTarget, SourcePath};
use lighthaul_files::digest::DigestKind;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::{DeltaMode, Options};
use lighthaul_files::request::{FileInfo, FileKind, FileRequest};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_fs::reserved_names::ReservedNames;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_session::error::{Error, FileAction};

use crate::error::Fault;
use crate::request::Request;
use crate::rights::Rights;
use crate::settings::Settings;

/// Opens the target of a copy, if it is in a store, and limits the options to those that stores have.
pub(crate) fn open(
    settings: &Settings,
    rights: &Rights,
    (target, options): (&Target, &mut Options),
) -> Result<Option<TargetFolder>, Error> {
    let Some((name, store, path)) = find(settings, rights, as_path(&target.path)) else {
        return Ok(None);
    };
    check(options)?;
    // the store has the bytes when it answers
    options.sync = false;
    options.delta = DeltaMode::Never;
    let place = (store, Path::new("/").join(name));
    TargetFolder::in_store((&path, target.landing), place).map(Some)
}

/// Opens the directory that a client sees as `/`. No file there can get the name of a store, however its path is spelled.
pub(crate) fn access(settings: &Settings, rights: &Rights) -> Result<FileAccess, Error> {
    let access = rights.access()?;
    if settings.stores.is_empty() {
        return Ok(access);
    }
    let root = top(settings);
    let names = settings.stores.keys().map(OsString::from);
    let reserved = ReservedNames::of(root, names, "an object store has this name");
    let reserved = reserved.map_err(|error| Error::file(FileAction::OpenRoot, root, &error))?;
    Ok(access.reserving(reserved))
}

/// Returns the directory that has the names of the stores.
fn top(settings: &Settings) -> &Path {
    settings.root.as_deref().unwrap_or_else(|| Path::new("/"))
}

/// Returns the entries of a copy from a store, if the paths are in one. Limits the options to those that stores have.
pub(crate) fn sources(
    settings: &Settings,
    rights: &Rights,
    (paths, options): (&[Vec<u8>], &mut Options),
) -> Result<Option<SourceEntries>, Error> {
    let Some((store, inside)) = of_request(settings, rights, paths)? else {
        return Ok(None);
    };
    if options.listed && inside.len() != 1 {
        return Err(Fault::FilesFrom.into());
    }
    refuse(options, &[])?;
    options.delta = DeltaMode::Never;
    let is_contents = paths.iter().map(|path| path.ends_with(b"/"));
    let paths = inside.into_iter().zip(is_contents);
    let paths: Vec<_> = paths
        .map(|(path, is_contents)| SourcePath { path, is_contents })
        .collect();
    store.sources(&paths, options).map(Some)
}

/// Returns the store that has all of these paths, with the paths in it, or none if no store has any of them.
pub(crate) fn of_request(
    settings: &Settings,
    rights: &Rights,
    paths: &[Vec<u8>],
) -> Result<Option<StoreOfPaths>, Error> {
    let mut found = paths
        .iter()
        .map(|path| find(settings, rights, as_path(path)));
    let Some(Some((name, store, first))) = found.next() else {
        return match found.flatten().next() {
            Some((name, ..)) => Err(Fault::StoreAndOthers(name.to_owned()).into()),
            None => Ok(None),
        };
    };
    let mut inside = vec![first];
    for other in found {
        match other {
            Some((of, _, path)) if of == name => inside.push(path),
            Some(_) | None => return Err(Fault::StoreAndOthers(name.to_owned()).into()),
        }
    }
    Ok(Some((store, inside)))
}

/// Store, and paths in it.
type StoreOfPaths = (Arc<dyn ObjectTarget>, Vec<PathBuf>);

/// Refuses requests that stores do not serve: copies to other daemons, and requests that also name other paths.
pub(crate) fn check_request(
    settings: &Settings,
    rights: &Rights,
    request: &Request,
) -> Result<(), Error> {
    let paths: Vec<&[u8]> = match request {
        Request::Send { paths, .. } => return of_request(settings, rights, paths).map(|_| ()),
        Request::Relay { relay, .. } => relay.paths.iter().map(Vec::as_slice).collect(),
        Request::Files(request) => {
            return of_request(settings, rights, request.paths()).map(|_| ());
        }
        Request::Receive { .. }
        | Request::Expect { .. }
        | Request::Probe(_)
        | Request::Checkup
        | Request::Stream(_)
        | Request::Gateway(_)
        | Request::RemoteFiles(_) => return Ok(()),
    };
    let found = paths
        .into_iter()
        .find_map(|path| find(settings, rights, as_path(path)));
    match found {
        Some((name, ..)) => Err(Fault::StoreRelay(name.to_owned()).into()),
        None => Ok(()),
    }
}

/// Returns the store with the path that a client names, its name, and the path in it.
fn find<'a>(
    settings: &'a Settings,
    rights: &Rights,
    path: &Path,
) -> Option<(&'a str, Arc<dyn ObjectTarget>, PathBuf)> {
    if settings.stores.is_empty() {
        return None;
    }
    let whole = whole(settings, rights, path)?;
    let mut names = whole.components();
    let first = names.next()?.as_os_str().to_str()?;
    let (name, store) = settings.stores.get_key_value(first)?;
    Some((name, Arc::clone(store), names.as_path().to_owned()))
}

/// Returns the stores that the list of a directory has, beside its files.
pub(crate) fn listed(settings: &Settings, rights: &Rights, request: &FileRequest) -> Vec<FileInfo> {
    let FileRequest::List { path, hidden, .. } = request else {
        return Vec::new();
    };
    let whole = whole(settings, rights, as_path(path));
    if whole.is_none_or(|whole| !whole.as_os_str().is_empty()) {
        return Vec::new();
    }
    let names = settings.stores.keys();
    let names = names.filter(|name| *hidden || !name.starts_with('.'));
    let folder = |name: &String| FileInfo {
        path: name.as_bytes().to_vec(),
        kind: FileKind::Folder,
        size: 0,
        mode: 0,
        user: 0,
        group: 0,
        seconds: 0,
        nanos: 0,
    };
    names.map(folder).collect()
}

/// Returns a path of a client below the directory with the names of the stores, if it is there.
fn whole(settings: &Settings, rights: &Rights, path: &Path) -> Option<PathBuf> {
    let top = top(settings);
    let own = match &rights.root {
        Some(root) => root.strip_prefix(top).ok()?,
        None => Path::new(""),
    };
    let within = rights.within.as_deref().unwrap_or_else(|| Path::new(""));
    let mut whole = PathBuf::new();
    for part in [own, within, path] {
        for name in part.components() {
            match name {
                Component::Normal(name) => whole.push(name),
                Component::CurDir | Component::RootDir => {}
                // the directories of this host resolve it
                Component::ParentDir | Component::Prefix(_) => return None,
            }
        }
    }
    Some(whole)
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Refuses options without a meaning for objects that are written.
fn check(options: &Options) -> Result<(), Error> {
    refuse(
        options,
        &[
            (options.digest == DigestKind::None, "--digest=none"),
            (options.delete, "--delete"),
            // a digest needs all bytes of the object
            (options.checksum, "--checksum"),
            // unencrypted data has this digest, too
            (
                options.digest == DigestKind::Blake3,
                "--digest=blake3 or --plain",
            ),
        ],
    )
}

/// Refuses options without a meaning for objects, and those of `more` that are set.
fn refuse(options: &Options, more: &[(bool, &'static str)]) -> Result<(), Error> {
    let common = [(options.striped.is_some(), "a copy over several hosts")];
    let refused = object_options::refused(options);
    let refused = refused.or_else(|| object_options::first(&common));
    match refused.or_else(|| object_options::first(more)) {
        Some(name) => Err(Fault::StoreOption(name).into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lighthaul_copy::object_target::{ObjectFolder, StoreRequest};
    use lighthaul_files::request::FileReply;
    use lighthaul_io::crypto::identity::Identity;

    use super::*;
    use crate::settings::{AccessPolicy, Limits, Stores};

    /// Store that is only found.
    #[derive(Debug)]
    struct Found;

    impl ObjectTarget for Found {
        fn is_folder(&self, _: &Path) -> Result<bool, Error> {
            Ok(false)
        }

        fn folder(&self, _: &Path) -> Result<Box<dyn ObjectFolder>, Error> {
            Err(Fault::NoResult.into())
        }

        fn sources(&self, _: &[SourcePath], _: &Options) -> Result<SourceEntries, Error> {
            Err(Fault::NoResult.into())
        }

        fn execute(
            &self,
            _: &StoreRequest<'_>,
            _: &mut dyn FnMut(FileReply) -> Result<(), Error>,
        ) -> Result<u64, Error> {
            Err(Fault::NoResult.into())
        }

        fn close(&self, _: Duration) {}
    }

    #[test]
    fn store_is_reached_like_a_directory_of_the_root() {
        let store: Arc<dyn ObjectTarget> = Arc::new(Found);
        let settings = |root: Option<&str>| Settings {
            address: ([127, 0, 0, 1], 0).into(),
            ports: None,
            identity: Identity::generate(),
            access: AccessPolicy::Listed {
                keys: "/keys".into(),
                tokens: "/tokens".into(),
            },
            root: root.map(PathBuf::from),
            stores: Stores::from([("data".to_owned(), Arc::clone(&store))]),
            plain: false,
            relay: false,
            gateway: None,
            limits: Limits::default(),
        };
        for (root, own, within, path, expected) in [
            (Some("/srv"), None, None, "/data/x/y", Some("x/y")),
            (Some("/srv"), None, None, "data", Some("")),
            (Some("/srv"), None, None, "./data//x/", Some("x")),
            (Some("/srv"), None, None, "/other/data/x", None),
            (Some("/srv"), None, None, "/database/x", None),
            (Some("/srv"), None, None, "/data/../x", None),
            (Some("/srv"), Some("alice"), None, "/data/x", None),
            (
                Some("/srv"),
                Some("data/alice"),
                None,
                "/x",
                Some("alice/x"),
            ),
            (Some("/srv"), Some("data"), Some("a/b"), "x", Some("a/b/x")),
            (Some("/srv"), Some("/else"), None, "/data/x", None),
            (Some("/srv"), Some("data/.."), None, "/data/x", None),
            (None, None, None, "/data/x", Some("x")),
            (None, Some("/home"), None, "/data/x", None),
        ] {
            let settings = settings(root);
            let rights = Rights {
                root: own.map(PathBuf::from),
                within: within.map(PathBuf::from),
                ..Rights::default()
            };
            let rights = rights.beneath(settings.root.as_deref());
            let found = find(&settings, &rights, Path::new(path));
            let found = found.map(|(_, _, path)| path);
            assert_eq!(found, expected.map(PathBuf::from), "{own:?} {path}");
        }
    }
}
