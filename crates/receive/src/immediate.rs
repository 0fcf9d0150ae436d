//! Entries that are created without data from the sender: links, and files without data.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use lighthaul_copy::error::Fault;
use lighthaul_files::hash::RunningHashes;
use lighthaul_files::manifest::Entry;
use lighthaul_fs::sparse;
use lighthaul_session::error::{Error, FileAction};

use super::entry_checker::{EntryChecker, Place};

impl EntryChecker<'_> {
    /// Creates a symbolic link.
    pub(super) fn link(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
        target: &[u8],
    ) -> Result<(), Error> {
        let from = self.writer.temporary(entry.path(), number);
        let root = &mut place.root;
        let made = root
            .make_link(&from, OsStr::from_bytes(target))
            .and_then(|()| root.set_time(&from, entry.seconds, entry.nanos))
            .and_then(|()| self.metadata.set(root, &from, entry).map(drop))
            .and_then(|()| root.rename(&from, entry.path()));
        made.map_err(|error| {
            place.root.remove(&from).ok();
            place.fault(FileAction::CreateLink, entry, &error)
        })
    }

    /// Creates a file without data. It gets its name when its size and metadata are set.
    pub(super) fn empty(&self, place: &mut Place, number: u64, entry: &Entry) -> Result<(), Error> {
        self.expect_nothing(place, entry)?;
        let made = self.create_empty(place, number, entry);
        made.map_err(|error| place.fault(FileAction::Create, entry, &error))
    }

    fn create_empty(&self, place: &mut Place, number: u64, entry: &Entry) -> io::Result<()> {
        let temporary = self.writer.temporary(entry.path(), number);
        let root = &mut place.root;
        let file = root.create(&temporary)?;
        let mut complete = || {
            if entry.data.is_some() {
                sparse::set_len(&file, entry.size())?;
            }
            if !self.metadata.set(root, &temporary, entry)? {
                file.set_mode(entry.mode)?;
                file.set_time(entry.seconds, entry.nanos)?;
            }
            root.rename(&temporary, entry.path())
        };
        complete().inspect_err(|_| {
            root.remove(&temporary).ok();
        })
    }

    /// Rejects an empty file if its hash differs from the expected hash.
    fn expect_nothing(&self, place: &Place, entry: &Entry) -> Result<(), Error> {
        let asked = &self.transfer.options().hash;
        let hashes = RunningHashes::new(&asked.iter().map(|asked| asked.kind).collect::<Vec<_>>());
        let hashes = hashes.finish();
        let mut checks = asked.iter().map(|asked| asked.check(&hashes));
        checks.find_map(Result::err).map_or(Ok(()), |error| {
            let place = place.target_folder.folder.join(entry.path());
            Err(Fault::Unpublished {
                place,
                error,
                outcome: "",
            }
            .into())
        })
    }
}
