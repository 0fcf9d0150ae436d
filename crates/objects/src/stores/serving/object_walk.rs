//! Entries of a copy from a bucket: its objects, and the directories that their keys name.
//!
//! All keys below a directory follow each other. A directory gets the time of its newest object. Memory holds one page of
//! the list.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use lighthaul_buckets::attributes::{Attributes, Listed, Stamp};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::store::Lister;
use lighthaul_files::filter::{Decision, Rules};
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::options::Options;
use lighthaul_files::walk::Found;
use lighthaul_fs::meta::Meta;
use rustix::fs::FileType;

use crate::stores::content_sums;
use crate::stores::keys::{KeyPath, path_of};
use crate::stores::object_names::unusable;
use crate::stores::serving::client_errors::of_request;
use crate::stores::serving::key_order::KeyOrder;
use crate::stores::serving::known_objects::KnownObjects;
use crate::stores::serving::object_reader::version;
use crate::stores::serving::served_bucket::ServedBucket;

/// Source of a copy.
#[derive(Debug)]
pub(crate) struct Source {
    /// Key of an object, or prefix of a directory.
    pub(crate) key: String,
    /// Path among the entries; empty for the contents of a directory.
    pub(crate) name: String,
    /// Path that clients see.
    pub(crate) place: PathBuf,
    /// Attributes of an object; none for a directory.
    pub(crate) object: Option<Attributes>,
}

/// Iterator over the entries of sources.
#[derive(Debug)]
pub(crate) struct ObjectWalk {
    shared: Arc<ServedBucket>,
    /// Attributes for the readers of the objects.
    known: Arc<KnownObjects>,
    rules: Rules,
    /// Entries have the checksums that the store knows.
    has_sums: bool,
    sources: VecDeque<Source>,
    folder: Option<SourceFolder>,
    ready: VecDeque<Found>,
    /// Path that a rule excluded last.
    excluded: String,
    /// True after the warning about objects without checksums.
    has_warned: bool,
}

/// Directory that is a source.
#[derive(Debug)]
struct SourceFolder {
    source: Source,
    list: Lister,
    order: KeyOrder,
    /// Directories that have not ended, with the times of their newest objects.
    open: Vec<(String, Stamp)>,
}

/// Object of a page.
struct Wanted {
    object: Listed,
    /// Path among the entries.
    path: String,
    place: PathBuf,
}

impl ObjectWalk {
    pub(crate) fn new(
        (shared, known): (&Arc<ServedBucket>, &Arc<KnownObjects>),
        options: &Options,
        sources: Vec<Source>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            known: Arc::clone(known),
            rules: options.rules.clone(),
            has_sums: options.checksum,
            sources: sources.into(),
            folder: None,
            ready: VecDeque::new(),
            excluded: String::new(),
            has_warned: false,
        }
    }

    /// Adds a source, after those that are left.
    pub(crate) fn push(&mut self, source: Source) {
        self.sources.push_back(source);
    }

    /// Begins the next source. Returns false after the last one.
    fn advance(&mut self) -> bool {
        let Some(mut source) = self.sources.pop_front() else {
            return false;
        };
        if self.excludes(&source.name, source.object.is_none()) {
            return true;
        }
        if let Some(known) = source.object.take() {
            self.file(&source.name, (source.place, &source.key), &known);
            return true;
        }
        let mut folder = SourceFolder {
            list: self.shared.bucket.list(&source.key),
            order: KeyOrder::new(),
            open: Vec::new(),
            source,
        };
        if !folder.source.name.is_empty() {
            let path = folder.source.name.clone();
            self.enter(&mut folder, path);
        }
        self.folder = Some(folder);
        true
    }

    /// Takes the next objects of a directory.
    fn page(&mut self, mut folder: SourceFolder) {
        let page = match self.shared.wait(folder.list.next()) {
            Ok(Some(page)) => page,
            Ok(None) => return self.leave(&mut folder, ""),
            Err(error) => return self.give_up(folder, &error),
        };
        let mut wanted = Vec::new();
        for object in page.objects {
            if !folder.order.take(&object.key) {
                let text = "the store lists its objects in no order";
                return self.give_up(folder, &CallError::new(Reason::Broken, text));
            }
            wanted.extend(self.wanted(&folder, object));
        }
        match self.describe(&mut folder, wanted) {
            Ok(()) => self.folder = Some(folder),
            Err(error) => self.give_up(folder, &error),
        }
    }

    /// Ends the list of a directory before its end.
    fn give_up(&mut self, mut folder: SourceFolder, error: &CallError) {
        let source = &folder.source;
        let url = self.shared.bucket.url(&source.key);
        let error = of_request(error, ("cannot list", &source.place), &url);
        let path = source.name.clone().into_bytes();
        self.ready.push_back(Found::Failed(path, error));
        self.leave(&mut folder, "");
    }

    /// Returns an object, unless it is left out.
    fn wanted(&mut self, folder: &SourceFolder, object: Listed) -> Option<Wanted> {
        let source = &folder.source;
        let below = match path_of(&object.key, &source.key, object.size) {
            Ok(KeyPath::Prefix) => return None,
            Ok(KeyPath::File(below) | KeyPath::Folder(below)) => Ok(below),
            Err(why) => Err(why),
        };
        let is_hidden_by_object = folder.order.object_above(&source.key).is_some();
        let below = match below {
            // a mark has no bytes that would be missing
            Ok(_) if is_hidden_by_object && object.key.ends_with('/') => return None,
            Ok(_) if is_hidden_by_object => Err("an object has the name of its directory"),
            below => below,
        };
        let below = match below {
            Ok(below) => below,
            Err(why) => {
                let rest = object.key.strip_prefix(&source.key);
                let rest = rest.unwrap_or(&object.key);
                let place = format!("{}/{rest}", source.place.display());
                let path = joined(&source.name, rest.trim_start_matches('/'));
                if !self.excludes(&path, rest.ends_with('/')) {
                    let failed = Found::Failed(path.into_bytes(), unusable(&place, why));
                    self.ready.push_back(failed);
                }
                return None;
            }
        };
        let path = joined(&source.name, &below.to_string_lossy());
        let is_folder = object.key.ends_with('/');
        (!self.excludes(&path, is_folder)).then(|| Wanted {
            place: source.place.join(below),
            path,
            object,
        })
    }

    /// Adds objects, with the directories above them.
    fn describe(
        &mut self,
        folder: &mut SourceFolder,
        wanted: Vec<Wanted>,
    ) -> Result<(), CallError> {
        let found = self.looks(&wanted)?;
        for (wanted, known) in wanted.into_iter().zip(found) {
            let Wanted {
                object,
                path,
                place,
            } = wanted;
            let is_folder = object.key.ends_with('/');
            let above = if is_folder {
                path.as_str()
            } else {
                path.rsplit_once('/').map_or("", |(above, _)| above)
            };
            self.reach(folder, above);
            match known {
                Ok(_) if is_folder => {}
                Ok(Some(known)) => {
                    for (_, newest) in &mut folder.open {
                        *newest = (*newest).max(known.time());
                    }
                    self.file(&path, (place, &object.key), &known);
                }
                Ok(None) => {
                    let text = "it was removed during the list";
                    self.fail(
                        path,
                        (&place, &object.key),
                        &CallError::new(Reason::Missing, text),
                    );
                }
                // the others have no better luck
                Err(error) if error.is_passing() || error.reason == Reason::Stopped => {
                    return Err(error);
                }
                Err(error) => self.fail(path, (&place, &object.key), &error),
            }
        }
        Ok(())
    }

    /// Reads the attributes of objects, up to the first one for which the store does not answer.
    fn looks(&self, wanted: &[Wanted]) -> Result<Vec<Looked>, CallError> {
        let bucket = &self.shared.bucket;
        let looks = wanted.iter().map(|wanted| async {
            if wanted.object.key.ends_with('/') {
                return Ok(None);
            }
            bucket.attributes(&wanted.object.key).await
        });
        self.shared.run(async {
            let mut looks = stream::iter(looks).buffered(LOOKS_MAX);
            let mut all = Vec::new();
            while let Some(look) = looks.next().await {
                let is_last = matches!(&look, Err(error) if error.is_passing());
                all.push(look);
                if is_last {
                    break;
                }
            }
            all
        })
    }

    /// Adds an object that cannot be read.
    fn fail(&mut self, path: String, (place, key): (&Path, &str), error: &CallError) {
        let url = self.shared.bucket.url(key);
        let error = of_request(error, ("cannot read the attributes of", place), &url);
        let failed = Found::Failed(path.into_bytes(), error);
        self.ready.push_back(failed);
    }

    /// Ends directories and begins others, so that the directory `path` is the last one that is open.
    fn reach(&mut self, folder: &mut SourceFolder, path: &str) {
        self.leave(folder, path);
        let ends = path.match_indices('/').map(|(end, _)| end);
        for end in ends.chain([path.len()]) {
            let is_open = folder.open.iter().any(|(open, _)| open.len() >= end);
            if end > 0 && !is_open {
                self.enter(folder, path[..end].to_owned());
            }
        }
    }

    /// Adds a directory.
    fn enter(&mut self, folder: &mut SourceFolder, path: String) {
        let entry = entry(&path, EntryKind::Folder, Stamp::default());
        let place = folder.source.place.clone();
        self.ready.push_back(Found::Entry(entry, place, None));
        folder.open.push((path, Stamp::default()));
    }

    /// Ends the directories that do not have `path`, which is empty to end all.
    fn leave(&mut self, folder: &mut SourceFolder, path: &str) {
        while let Some((open, newest)) = folder.open.pop() {
            let rest = path.strip_prefix(open.as_str());
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
                folder.open.push((open, newest));
                return;
            }
            let entry = entry(&open, EntryKind::FolderEnd, newest);
            let place = folder.source.place.clone();
            self.ready.push_back(Found::Entry(entry, place, None));
        }
    }

    /// Adds an object.
    fn file(&mut self, path: &str, (place, key): (PathBuf, &str), known: &Attributes) {
        self.known.add(key, known);
        if known.crc.is_none() && known.size > 0 && !self.has_warned {
            self.has_warned = true;
            self.ready.push_back(Found::Noted(UNVERIFIED.to_owned()));
        }
        let version = version(known);
        let meta = Meta {
            kind: FileType::RegularFile,
            size: known.size,
            mode: FILE_MODE,
            user: 0,
            group: 0,
            seconds: version.look.seconds,
            nanos: version.look.nanos,
            changed: version.changed,
            allocated: known.size,
            inode: version.inode,
            names: 1,
        };
        let mut entry = entry(path, EntryKind::File(known.size), known.time());
        if self.has_sums {
            entry.digest = content_sums::of(known).next();
        }
        self.ready.push_back(Found::Entry(entry, place, Some(meta)));
    }

    /// Returns true if a rule excludes a path or a directory above it, and adds that once.
    fn excludes(&mut self, path: &str, is_folder: bool) -> bool {
        if self.rules.is_empty() || path.is_empty() {
            return false;
        }
        let above = path.match_indices('/').map(|(end, _)| (&path[..end], true));
        for (path, is_folder) in above.chain([(path, is_folder)]) {
            let Decision::Exclude(rule) = self.rules.decide(path.as_bytes(), is_folder) else {
                continue;
            };
            if self.excluded != path {
                let excluded = Found::Excluded(path.as_bytes().to_vec(), rule.to_string());
                self.ready.push_back(excluded);
                path.clone_into(&mut self.excluded);
            }
            return true;
        }
        false
    }
}

impl Iterator for ObjectWalk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(found) = self.ready.pop_front() {
                return Some(found);
            }
            match self.folder.take() {
                Some(folder) => self.page(folder),
                None if self.advance() => {}
                None => return None,
            }
        }
    }
}

/// Attributes of an object, or none if it was removed.
type Looked = Result<Option<Attributes>, CallError>;

/// Returns an entry with this path and time.
pub(crate) fn entry(path: &str, kind: EntryKind, time: Stamp) -> Entry {
    let mode = match kind {
        EntryKind::File(_) => FILE_MODE,
        EntryKind::Folder | EntryKind::FolderEnd | EntryKind::Link(_) => FOLDER_MODE,
    };
    Entry {
        kind,
        mode,
        seconds: time.seconds,
        nanos: time.nanos,
        ..Entry::bare(path.as_bytes().to_vec())
    }
}

/// Returns a path below a directory, which has no name if its contents are copied.
fn joined(folder: &str, below: &str) -> String {
    Path::new(folder).join(below).to_string_lossy().into_owned()
}

/// Modes of files and directories: objects have none.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;
/// Objects of which attributes are read in parallel.
const LOOKS_MAX: usize = 32;
/// Warning about objects without checksums.
const UNVERIFIED: &str =
    "the store reports no checksums of some objects, so the daemon cannot verify their bytes";
