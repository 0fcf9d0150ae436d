//! Sources of a copy from a bucket: the objects and directories that a client names.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use lighthaul_base::escape::escape_name;
use lighthaul_copy::object_target::SourcePath;
use lighthaul_files::listed::{FoundEntries, SourceEntries};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Options;
use lighthaul_files::source_store::SourceStore;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_session::error::{Code, Error, FileAction};

use crate::fault::Fault;
use crate::stores::keys;
use crate::stores::serving::client_errors::of_request;
use crate::stores::serving::client_paths;
use crate::stores::serving::known_objects::KnownObjects;
use crate::stores::serving::listed_walk::ListedWalk;
use crate::stores::serving::object_reader::ObjectSources;
use crate::stores::serving::object_walk::{ObjectWalk, Source};
use crate::stores::serving::served_bucket::ServedBucket;

/// Directory of a bucket, or all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served<'a> {
    pub(crate) shared: &'a Arc<ServedBucket>,
    pub(crate) prefix: &'a str,
    /// Path that clients see.
    pub(crate) top: &'a Path,
}

impl Served<'_> {
    /// Returns the entries of a copy of these paths.
    pub(crate) fn entries(
        self,
        paths: &[SourcePath],
        options: &Options,
    ) -> Result<SourceEntries, Error> {
        if options.listed {
            return self.listed(paths, options);
        }
        let found = paths.iter().map(|path| self.source(path));
        let sources = found.collect::<Result<Vec<_>, _>>()?;
        check(&sources)?;
        let naming = match sources.as_slice() {
            [one] if one.name.is_empty() => Naming::Contents,
            [one] if one.object.is_none() => Naming::Folder,
            [_] => Naming::File,
            _ => Naming::Several,
        };
        let (store, known) = self.store()?;
        let walk = ObjectWalk::new((self.shared, &known), options, sources);
        Ok(SourceEntries::from_store(store, naming, walk))
    }

    /// Returns the entries of a list that the receiver sends, relative to one path.
    fn listed(self, paths: &[SourcePath], options: &Options) -> Result<SourceEntries, Error> {
        let [SourcePath { path, .. }] = paths else {
            let text = "a list of paths (--files-from) needs exactly one source";
            return Err(Fault::Request(text.to_owned()).into());
        };
        let prefix = if path.as_os_str().is_empty() {
            self.prefix.to_owned()
        } else {
            keys::folder(&client_paths::key(self.prefix, path, self.top)?)
        };
        let (store, known) = self.store()?;
        let walk = ObjectWalk::new((self.shared, &known), options, Vec::new());
        let (shared, place) = (Arc::clone(self.shared), self.top.join(path));
        Ok(SourceEntries::from_receiver_in_store(store, move |names| {
            Box::new(ListedWalk::new(&shared, (prefix, place), names, walk)) as FoundEntries
        }))
    }

    /// Returns the store that a copy reads from, and what it knows of the listed objects.
    fn store(self) -> Result<(Store, Arc<KnownObjects>), Error> {
        let failed = |error| Error::file(FileAction::Open, self.top, &error);
        let access = FileAccess::nowhere().map_err(failed)?;
        let known = Arc::<KnownObjects>::default();
        let store = ObjectSources::new((self.shared, &known), self.prefix, self.top);
        Ok(((access, Arc::new(store)), known))
    }

    /// Looks for the object or the directory at a path.
    fn source(self, SourcePath { path, is_contents }: &SourcePath) -> Result<Source, Error> {
        let place = self.top.join(path);
        let is_all = path.as_os_str().is_empty();
        let key = if is_all {
            self.prefix.to_owned()
        } else {
            client_paths::key(self.prefix, path, self.top)?
        };
        let name = place.file_name().map(|name| name.to_string_lossy());
        let name = name.unwrap_or_default().into_owned();
        // a path with a slash at its end has no name for the directory that is created
        let folder = |name: String| Source {
            key: keys::folder(&key),
            name: if *is_contents { String::new() } else { name },
            place: place.clone(),
            object: None,
        };
        if is_all {
            return Ok(folder(name));
        }
        let url = self.shared.bucket.url(&key);
        let failed = |error| of_request(&error, ("cannot read", &place), &url);
        if !*is_contents {
            let found = self.shared.wait(self.shared.bucket.attributes(&key));
            if let Some(found) = found.map_err(failed)? {
                return Ok(Source {
                    key,
                    name,
                    place: place.clone(),
                    object: Some(found),
                });
            }
        }
        let prefix = keys::folder(&key);
        let any = self.shared.wait(self.shared.bucket.has_any(&prefix));
        if any.map_err(failed)? {
            return Ok(folder(name));
        }
        Err(missing(&place))
    }
}

/// Store of a copy, and no files.
type Store = (FileAccess, Arc<dyn SourceStore>);

/// Refuses sources whose entries would have the same names.
fn check(sources: &[Source]) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    for source in sources {
        if sources.len() > 1 && source.name.is_empty() {
            let text = "a directory whose contents are copied must be the only source";
            return Err(Fault::Request(text.to_owned()).into());
        }
        if !names.insert(source.name.as_str()) {
            let text = format!(
                "several sources have the name {}: copy them one after the other",
                escape_name(source.name.as_bytes())
            );
            return Err(Fault::Request(text).into());
        }
    }
    Ok(())
}

fn missing(place: &Path) -> Error {
    Fault::Failed {
        what: format!("cannot open {}", place.display()),
        why: "there is no such object, and none below it".to_owned(),
        code: Code::Open,
    }
    .into()
}
