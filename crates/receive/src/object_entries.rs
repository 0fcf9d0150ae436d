//! Entries of a copy into an object store: they have no temporary files, and get their names at the store.

use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_copy::error::Fault;
use lighthaul_copy::message::WantedFile;
use lighthaul_copy::object_target::{
    NewObject, ObjectFolder, ObjectUpload, Published, WriteCondition,
};
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::Error;
use rustix::fs::FileType;

use super::entry_checker::{EntryChecker, Place};
use super::entry_table::{PendingFile, Settled};
use super::journal::digest_for;
use super::publish::Publisher;

impl EntryChecker<'_> {
    /// Returns the attributes of the object for `entry`, if there is one. Each path is a directory, if the source has one there.
    pub(super) fn look_at_object(
        folder: &dyn ObjectFolder,
        entry: &Entry,
    ) -> Result<Option<Meta>, Error> {
        let (kind, there) = match entry.kind {
            EntryKind::File(_) => (FileType::RegularFile, folder.look(entry.path())?),
            EntryKind::Folder | EntryKind::FolderEnd => (FileType::Directory, None),
            EntryKind::Link(_) => return Ok(None),
        };
        if kind == FileType::RegularFile && there.is_none() {
            return Ok(None);
        }
        let (size, seconds, nanos) = there.map_or((0, entry.seconds, entry.nanos), |there| {
            (there.size, there.seconds, there.nanos)
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
        folder: &Arc<dyn ObjectFolder>,
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
            condition: self.condition(folder, entry)?,
        })?;
        if size == 0 {
            upload.publish();
            let published = upload.finish()?;
            let settled = settled(published, self.transfer.options().update);
            self.transfer.table.settle(number, entry, Ok(settled));
            return Ok(None);
        }
        let pending = PendingFile::uploaded(number, entry.clone(), upload);
        pending.expect(&[(0, size)]);
        self.transfer.table.expect(pending);
        Ok(Some(WantedFile {
            number,
            send: None,
            held: Vec::new(),
            digest: digest_for(&[], self.transfer.options().digest),
            basis: None,
        }))
    }

    /// Returns the condition under which the file replaces its object.
    fn condition(
        &self,
        folder: &Arc<dyn ObjectFolder>,
        entry: &Entry,
    ) -> Result<WriteCondition, Error> {
        let options = self.transfer.options();
        if !options.update && !options.skip.existing {
            return Ok(WriteCondition::Always);
        }
        Ok(match folder.look(entry.path())? {
            None => WriteCondition::Absent,
            Some(there) => there
                .version
                .map_or(WriteCondition::Always, WriteCondition::Unchanged),
        })
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
                    let settled = settled(published, self.updates);
                    self.table.settle(file.number, &file.entry, Ok(settled));
                }
                Err(error) => self.fail(file.number, error),
            }
        }
    }
}

fn settled(published: Published, updates: bool) -> Settled {
    match published {
        Published::Verified | Published::Unverified => Settled::Now,
        Published::Overtaken if updates => Settled::Newer,
        Published::Overtaken => Settled::Before,
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
