//! Entries of a copy from a bucket whose paths a list names: objects, and prefixes with all objects below them.
//!
//! Directories above a path are added once, before it. They end after the whole list, with the time of their newest
//! object.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use lighthaul_buckets::attributes::{Attributes, Stamp};
use lighthaul_buckets::call_error::CallError;
use lighthaul_files::list::PathList;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::walk::Found;
use lighthaul_session::error::Error;

use crate::stores::listed_objects::{self, Failure, Found as Listed, Why};
use crate::stores::object_names::unusable;
use crate::stores::serving::client_errors::of_request;
use crate::stores::serving::object_walk::{ObjectWalk, Source, entry};
use crate::stores::serving::served_bucket::ServedBucket;

/// Iterator over the entries that a list names.
pub(crate) struct ListedWalk {
    shared: Arc<ServedBucket>,
    /// Prefix to which the paths are relative, and its path that clients see.
    prefix: String,
    place: PathBuf,
    /// Objects of the list, until its end.
    listed: Option<BoxStream<'static, Listed>>,
    walk: ObjectWalk,
    /// Directories above paths of the list, with the times of their newest objects.
    above: BTreeMap<String, Stamp>,
    ready: VecDeque<Found>,
}

impl ListedWalk {
    /// Creates an iterator over the list `names`, whose paths `walk` walks.
    pub(crate) fn new(
        shared: &Arc<ServedBucket>,
        (prefix, place): (String, PathBuf),
        names: PathList,
        walk: ObjectWalk,
    ) -> Self {
        let mut ready = VecDeque::new();
        let listed = listed_objects::find(&shared.bucket, &prefix, names);
        let listed = listed.map_err(|error| ready.push_back(Found::Failed(Vec::new(), error)));
        Self {
            shared: Arc::clone(shared),
            prefix,
            place,
            listed: listed.ok(),
            walk,
            above: BTreeMap::new(),
            ready,
        }
    }

    /// Begins the next path. Returns false at the end of the list.
    fn advance(&mut self) -> bool {
        let Some(listed) = &mut self.listed else {
            return false;
        };
        match self.shared.run(listed.next()) {
            Ok(Some(Listed::Object(object, known))) => self.walk(object.key, Some(known)),
            Ok(Some(Listed::Folder(prefix))) => self.walk(prefix, None),
            Ok(Some(Listed::Failed(failure))) => self.fail(failure),
            Ok(None) => self.listed = None,
            Err(error) => {
                self.listed = None;
                let url = self.shared.bucket.url(&self.prefix);
                let error = of_request(&error, ("cannot list", &self.place), &url);
                self.ready.push_back(Found::Failed(Vec::new(), error));
            }
        }
        true
    }

    /// Walks an object, or all objects below a prefix.
    fn walk(&mut self, key: String, object: Option<Attributes>) {
        let name = key.strip_prefix(&self.prefix).unwrap_or_default();
        let name = name.trim_end_matches('/').to_owned();
        for (end, _) in name.match_indices('/') {
            self.enter(&name[..end]);
        }
        self.walk.push(Source {
            place: self.place.join(&name),
            key,
            name,
            object,
        });
    }

    /// Adds a directory above a path, unless it was added before.
    fn enter(&mut self, path: &str) {
        if self.above.contains_key(path) {
            return;
        }
        let entry = entry(path, EntryKind::Folder, Stamp::default());
        let found = Found::Entry(entry, self.place.join(path), None);
        self.ready.push_back(found);
        self.above.insert(path.to_owned(), Stamp::default());
    }

    /// Adds a path that is not copied.
    fn fail(&mut self, failure: Failure) {
        let place = self.place.join(&failure.path);
        let error: Error = match failure.why {
            Why::List(error) => error,
            Why::Name(why) => unusable(&place.to_string_lossy(), why),
            Why::Request(key, error) => self.unread(&error, (&place, &key)),
        };
        let failed = Found::Failed(failure.path.into_bytes(), error);
        self.ready.push_back(failed);
    }

    fn unread(&self, error: &CallError, (place, key): (&Path, &str)) -> Error {
        of_request(error, ("cannot read", place), &self.shared.bucket.url(key))
    }

    /// Updates the times of the directories above an object.
    fn pass(&mut self, entry: &Entry) {
        let time = Stamp {
            seconds: entry.seconds,
            nanos: entry.nanos,
        };
        if !matches!(entry.kind, EntryKind::File(_)) {
            return;
        }
        let path = String::from_utf8_lossy(&entry.path);
        for (end, _) in path.match_indices('/') {
            if let Some(newest) = self.above.get_mut(&path[..end]) {
                *newest = (*newest).max(time);
            }
        }
    }
}

impl Iterator for ListedWalk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(found) = self.ready.pop_front() {
                return Some(found);
            }
            if let Some(found) = self.walk.next() {
                if let Found::Entry(entry, ..) = &found {
                    self.pass(entry);
                }
                return Some(found);
            }
            if !self.advance() {
                // the deepest directory ends first
                let (path, newest) = self.above.pop_last()?;
                let entry = entry(&path, EntryKind::FolderEnd, newest);
                return Some(Found::Entry(entry, self.place.join(&path), None));
            }
        }
    }
}
