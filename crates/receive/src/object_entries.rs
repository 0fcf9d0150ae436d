//! Entries of a copy into an object store: they have no temporary files, and get their names at the store.

use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_copy::error::Fault;
use lighthaul_copy::message::WantedFile;
use lighthaul_copy::object_target::{
    NewObject, ObjectFolder, ObjectUpload, Published, StoredObject, WriteCondition,
};
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::Error;
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::{PendingFile, Settled};
use super::journal::{digest_for, missing};
use super::publish::Publisher;

impl EntryChecker<'_> {
    /// Returns the attributes of the object for `entry`, if there is one. Each path is a directory, if the source has one there.
    pub(super) fn look_at_object(
        place: &mut Place,
        folder: &dyn ObjectFolder,
        entry: &Entry,
    ) -> Result<Option<Meta>, Error> {
        let (kind, there) = match entry.kind {
            EntryKind::File(_) => (FileType::RegularFile, look_once(place, folder, entry)?),
            EntryKind::Folder | EntryKind::FolderEnd => (FileType::Directory, None),
            EntryKind::Link(_) => return Ok(None),
        };
        if kind == FileType::RegularFile && there.is_none() {
            return Ok(None);
        }
        let of_source = (0, entry.seconds, entry.nanos);
        let (size, seconds, nanos) = there.map_or(of_source, |there| {
            let stored = (there.seconds, there.nanos);
            // an object of another program has no time of its source; it is equal unless it is older
            let is_equal = !there.has_source_time
                && there.size == entry.size()
                && stored >= (entry.seconds, entry.nanos);
            if is_equal {
                (there.size, entry.seconds, entry.nanos)
            } else {
                (there.size, there.seconds, there.nanos)
            }
        });
        Ok(Some(Meta {
            kind,
            size,
            // objects have no modes and owners, which therefore do not differ
            mode: entry.mode & 0o7777,
            user: 0,
            group: 0,
            seconds,
            nanos,
            changed: 0,
            allocated: size,
            inode: (0, 0),
            names: 1,
        }))
    }

    /// Begins the upload of a file that differs from its object. Returns the file, unless it is empty.
    pub(super) fn want_object(
        &self,
        folder: &dyn ObjectFolder,
        (place, number): (&Place, u64),
        entry: &Entry,
    ) -> Result<Option<WantedFile>, Error> {
        let size = match entry.kind {
            EntryKind::File(size) => size,
            EntryKind::Link(_) => {
                let place = place.target_folder.folder.join(entry.path());
                return Err(Fault::LinkToStore(place).into());
            }
            EntryKind::Folder | EntryKind::FolderEnd => {
                self.transfer
                    .table
                    .settle(number, entry, Ok(Settled::Before));
                return Ok(None);
            }
        };
        let upload = folder.begin(&NewObject {
            path: entry.path(),
            size,
            time: (entry.seconds, entry.nanos),
            condition: condition(place, entry),
            is_strict: self.transfer.options().update || self.transfer.options().skip.existing,
        })?;
        if size == 0 {
            upload.publish();
            let published = upload.finish()?;
            let options = self.transfer.options();
            let settled = settled(published, (options.update, options.skip.existing));
            let at = || Fault::ObjectOvertaken(place.target_folder.folder.join(entry.path()));
            let settled = settled.ok_or_else(|| at().into());
            self.transfer.table.settle(number, entry, settled);
            return Ok(None);
        }
        let held = upload.held();
        let owed = missing(&held, size);
        let digest = digest_for(&[], self.transfer.options().digest);
        let pending = PendingFile::uploaded(number, entry.clone(), upload);
        pending.expect(&owed);
        pending.expect_digests(&held, digest, Vec::new());
        self.transfer.table.expect(pending);
        Ok(Some(WantedFile {
            number,
            send: (!held.is_empty()).then_some(owed),
            held,
            digest,
            basis: None,
        }))
    }
}

/// Returns the object of the entry. All decisions about one entry are about the same look.
fn look_once(
    place: &mut Place,
    folder: &dyn ObjectFolder,
    entry: &Entry,
) -> Result<Option<StoredObject>, Error> {
    if let Some((path, there)) = &place.object
        && *path == entry.path
    {
        return Ok(there.clone());
    }
    let there = folder.look(entry.path())?;
    place.object = Some((entry.path.clone(), there.clone()));
    Ok(there)
}

/// Returns the condition that the object is still the one about which the copy has decided.
fn condition(place: &Place, entry: &Entry) -> WriteCondition {
    let looked = place.object.as_ref();
    let there = looked.filter(|(path, _)| *path == entry.path);
    match there {
        Some((_, None)) => WriteCondition::Absent,
        Some((_, Some(there))) => there
            .version
            .clone()
            .map_or(WriteCondition::Always, WriteCondition::Unchanged),
        None => WriteCondition::Always,
    }
}

impl Publisher<'_> {
    /// Gives objects their names, after all of their bytes were compared with the source.
    pub(super) fn publish_objects(&mut self, files: &[Arc<PendingFile>]) {
        let uploads = || {
            let files = files.iter().filter(|file| !file.fill().failed);
            files.filter_map(|file| Some((file, file.upload.as_ref()?)))
        };
        // many at a time
        uploads().for_each(|(_, upload)| upload.publish());
        let results: Vec<_> = uploads()
            .map(|(file, upload)| (Arc::clone(file), upload.finish()))
            .collect();
        for (file, result) in results {
            match result {
                Ok(published) => {
                    if published == Published::Unverified {
                        self.warn_unverified();
                    }
                    if let Some(settled) = settled(published, self.keeps) {
                        self.table.settle(file.number, &file.entry, Ok(settled));
                    } else {
                        let at = self.target.join(file.entry.path());
                        self.fail(file.number, Fault::ObjectOvertaken(at).into());
                    }
                }
                Err(error) => self.fail(file.number, error),
            }
        }
    }
}

/// Returns the result of an entry, or none if another program has written the object and no option lets it stay. The options
/// are `--update` and `--ignore-existing`.
const fn settled(published: Published, (updates, ignores): (bool, bool)) -> Option<Settled> {
    match published {
        Published::Verified | Published::Unverified => Some(Settled::Now),
        Published::Overtaken if updates => Some(Settled::Newer),
        Published::Overtaken if ignores => Some(Settled::Before),
        Published::Overtaken => None,
    }
}

impl PendingFile {
    /// Creates a file that goes to an object store, and has no temporary file.
    fn uploaded(number: u64, entry: Entry, upload: Box<dyn ObjectUpload>) -> Self {
        let mut file = Self::new(number, entry, (PathBuf::new(), PathBuf::new()), false);
        file.upload = Some(upload);
        file
    }
}
