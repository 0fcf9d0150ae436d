//! Comparison of each listed entry with the target.
//!
//! Entries that are in place stay, directories, links and empty files are created at once, and the rest
//! is requested from the sender.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use lighthaul_base::Instant;
use lighthaul_copy::error::Fault;
use lighthaul_copy::message::{Listing, WantedFile, WantedFiles};
use lighthaul_copy::object_target::StoredObject;
use lighthaul_copy::watch::{CopyEvent, Failed};
use lighthaul_files::folder_set::FolderSet;
use lighthaul_files::list::ListSender;
use lighthaul_files::list_check::ListCheck;
use lighthaul_files::manifest::{Entry, EntryKind, Linked, unpack};
use lighthaul_files::names::{FoldedNames, NameFault};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Action;
use lighthaul_files::permit::SPECIAL;
use lighthaul_files::special::special;
use lighthaul_files::temp_names::{self as names, Writer};
use lighthaul_files::waiting_links::Name;
use lighthaul_files::writer_lock::WriterLocks;
use lighthaul_fs::disk::Root;
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::{Code, Error, FileAction};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::topic::decode;

use super::contents::{Contents, ContentsWriter};
use super::deletions::Deletions;
use super::entry_table::{EntryTable, Settled};
use super::job::Job;
use super::metadata::MetadataWriter;
use super::references::References;
use super::staged_files::StagedFiles;
use super::target_folder::TargetFolder;
use super::temp_files::TempFiles;
use super::transfer::Transfer;
use lighthaul_copy::source_names::SourceNames;
use lighthaul_files::free_space::FreeSpace;

/// Maximum number of bytes of a file.
const FILE_MAX: u64 = i64::MAX as u64;

/// Thread that handles the list of entries.
pub(super) struct EntryChecker<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    /// Paths that the sender must walk, if the receiver has a list.
    pub(super) list: Option<&'a ListSender>,
    pub(super) metadata: &'a MetadataWriter<'a>,
    pub(super) writer: Writer,
    /// Queue of the publisher, for contents that come with the list.
    pub(super) jobs: Sender<Job>,
}

/// Target of the entries, and the state of the list.
// fields: state of one thread
pub(super) struct Place {
    pub(super) target_folder: TargetFolder,
    pub(super) root: Root,
    /// Entries so far.
    listed: u64,
    /// First name of the entries at the source.
    pub(super) first: Vec<u8>,
    /// Directories that could not be created, so that their contents are skipped.
    pub(super) skipped: FolderSet,
    list_check: ListCheck,
    /// Paths at the source, for the directories of the list that have not ended.
    pub(super) source_names: SourceNames,
    pub(super) free_space: FreeSpace,
    /// Deadline of waiting for files that other copies write; it is set at the first such file.
    pub(super) waits_until: Option<Instant>,
    /// Lock files of other writers.
    locks: WriterLocks,
    folded: FoldedNames,
    /// Reason why a dry run expects the whole copy to be rejected.
    pub(super) rejection: Option<Error>,
    /// Directories that would replace other items, in a dry run.
    pub(super) emptied: FolderSet,
    /// Directories with files to link to.
    pub(super) references: References,
    /// Metadata of the target directory before the copy.
    pub(super) top: Option<Meta>,
    pub(super) deletions: Deletions,
    /// Ranges that parts of a striped copy have written.
    pub(super) staged: StagedFiles,
    /// Path of the entry that is being handled, and its object if there is one, in a copy into an object store. All
    /// decisions about the entry, and the condition of its upload, are about this version.
    pub(super) object: Option<(Vec<u8>, Option<StoredObject>)>,
}

/// Returns the error of a peer whose list is invalid.
fn invalid_list() -> Error {
    PeerFault::Invalid("an invalid list of entries").into()
}

impl EntryChecker<'_> {
    /// Handles the whole list. Calls `opened` with the target directory when it is known; its last
    /// argument is true if the directory must get the metadata of the source at the end.
    pub(crate) fn run(
        &self,
        target_folder: TargetFolder,
        opened: impl FnOnce(&Root, &Path, bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (monitor, options) = (&self.transfer.monitor, self.transfer.options());
        let Listing::Begin { naming } = self.receive()? else {
            return Err(PeerFault::Unexpected("the start of the list of entries").into());
        };
        let mut place = self.prepare(target_folder, naming)?;
        self.begin(&mut place);
        let tops = !naming.is_named() && options.has_whole_target();
        let made = tops && self.begin_top(&mut place);
        opened(&place.root, &place.target_folder.folder, made)?;
        self.tidy(&mut place, Path::new(""));
        self.begin_staging(&mut place)?;
        let mut contents = (Contents::default(), None);
        loop {
            match self.receive()? {
                Listing::Entries(packed) => self.take_page(&mut place, &packed, &mut contents)?,
                Listing::Contents(files) if options.dry_run.is_none() => {
                    contents.0.receive(files, place.listed)?;
                    if contents.1.is_none() {
                        contents.1 = Some(self.contents_writer(&place)?);
                    }
                }
                Listing::Skipped { why: text } => {
                    monitor.show(CopyEvent::Warning(format!("not copied: {text}")));
                }
                Listing::Warning { text } => monitor.show(CopyEvent::Warning(text)),
                Listing::Unreadable { path, code, why } => {
                    place.source_names.mark_incomplete();
                    let code = Code::from_number(code) as u8;
                    monitor.show(CopyEvent::Failed(Failed { path, code, why }));
                }
                Listing::Planned(planned) => {
                    for planned in planned {
                        monitor.show(CopyEvent::Planned(planned));
                    }
                }
                // only deletion asks what a directory lacks
                Listing::Mount(_) if !self.prunes() => {}
                Listing::Mount(path) => {
                    let path = place.target_folder.rename(Entry::bare(path)).path;
                    place.source_names.leave_unlisted(path)?;
                }
                Listing::End => {
                    self.remove(&mut place, None)?;
                    self.report_limit(&place);
                    self.clear_staged(&mut place);
                    if options.dry_run.is_none() {
                        place.locks.clear(&mut place.root);
                    }
                    place.target_folder.keep();
                    self.transfer.table.close();
                    return Ok(());
                }
                Listing::Begin { .. }
                | Listing::Wanted(_)
                | Listing::Compared(_)
                | Listing::Sums(_)
                | Listing::Removed(_)
                | Listing::Paths(_)
                | Listing::Contents(_)
                | Listing::RequestPaths => {
                    return Err(invalid_list());
                }
            }
        }
    }

    /// Returns a writer of contents of small files.
    fn contents_writer(&self, place: &Place) -> Result<ContentsWriter, Error> {
        let folder = place.target_folder.folder.clone();
        let files = TempFiles::new(self.transfer, &place.root, folder)?;
        ContentsWriter::new(self.transfer, &files, self.jobs.clone())
    }

    /// Handles a page of entries: writes the contents of wanted files, and requests other wanted files.
    fn take_page(
        &self,
        place: &mut Place,
        packed: &[u8],
        (contents, writer): &mut (Contents, Option<ContentsWriter>),
    ) -> Result<(), Error> {
        let first = place.listed;
        self.await_table(EntryTable::is_full)?;
        let mut wanted = self.check_page(place, packed)?;
        self.sync_stage_log(place)?;
        if let Some(writer) = writer {
            let _step = self.transfer.threads.work.begin();
            writer.write(self.transfer, contents, &mut wanted)?;
        }
        self.send_wanted(wanted, first)
    }

    /// Returns the sender's next message about the list. Requests for pages of our list are counted.
    fn receive(&self) -> Result<Listing, Error> {
        loop {
            let frame = self
                .transfer
                .threads
                .receive(&self.transfer.stream, self.transfer.session.clock)?;
            self.transfer.threads.work.advance();
            match (decode(&frame.octets), self.list) {
                (Ok(Listing::RequestPaths), Some(list)) => list.request(),
                (heard, _) => return heard,
            }
        }
    }

    /// Sends the wanted files of a page of entries whose first number is `first`.
    fn send_wanted(&self, wanted: WantedFiles, first: u64) -> Result<(), Error> {
        for wanted in wanted.parts(first) {
            let listing = Listing::Wanted(wanted);
            let threads = &self.transfer.threads;
            threads.send(&self.transfer.stream, listing.encode())?;
        }
        Ok(())
    }

    /// Prepares the directory where entries land.
    fn prepare(&self, folder: TargetFolder, naming: Naming) -> Result<Place, Error> {
        let _step = self.transfer.threads.work.begin();
        let requested = self.transfer.settings.requested.as_deref();
        let list_check = ListCheck::new(requested, self.transfer.options());
        list_check.begin(naming)?;
        let (target_folder, root) = folder.prepare(naming)?;
        Ok(Place::new(target_folder, root, naming, list_check))
    }

    /// Handles a page of entries. Returns the files that must be sent.
    fn check_page(&self, place: &mut Place, packed: &[u8]) -> Result<WantedFiles, Error> {
        let _step = self.transfer.threads.work.begin();
        let entries = unpack(packed)?;
        self.transfer.table.list(entries.len() as u64)?;
        let mut wanted = WantedFiles {
            entries: entries.len() as u64,
            taken: 0,
            files: Vec::new(),
        };
        for entry in entries {
            let number = place.listed;
            place.listed += 1;
            place.list_check.check(&entry)?;
            if place.first.is_empty() {
                let first = entry.path.split(|octet| *octet == b'/').next();
                place.first = first.unwrap_or_default().to_vec();
            }
            if entry.is_top() && !place.source_names.is_whole() {
                // the target directory does not correspond to one source directory
                return Err(invalid_list());
            }
            let mut entry = place.target_folder.rename(entry);
            let withheld = self
                .transfer
                .settings
                .permit
                .apply(&mut entry, self.transfer.options().keep);
            self.metadata.report(withheld);
            self.keep_special_bits(place, &mut entry);
            self.transfer.table.hold(&entry);
            if place.skips(&entry) {
                if entry.kind == EntryKind::FolderEnd {
                    place
                        .source_names
                        .end_folder(&entry.path, Vec::new(), &mut |_| {});
                    place.skipped.remove(&entry.path);
                }
                self.transfer.table.skip(number, &entry);
                continue;
            }
            let result = self.check(place, number, &entry);
            if let Some(error) = place.rejection.take() {
                return Err(error);
            }
            match result {
                Ok(None) => {}
                Ok(Some(file)) => {
                    self.fit(place, &entry)?;
                    wanted.files.push(file);
                }
                Err(error) => {
                    if entry.kind == EntryKind::Folder {
                        place.skipped.add(&entry.path)?;
                    }
                    self.transfer.table.settle(number, &entry, Err(error));
                }
            }
        }
        Ok(wanted)
    }

    /// Keeps the special bits of a directory at the target, such as an inherited set-group-ID bit, if the peer may not
    /// set special bits.
    fn keep_special_bits(&self, place: &mut Place, entry: &mut Entry) {
        let is_folder = matches!(entry.kind, EntryKind::Folder | EntryKind::FolderEnd);
        if self.transfer.settings.permit.special || !is_folder {
            return;
        }
        // a directory that cannot be read cannot be changed, either
        if let Ok(Some(there)) = Self::look(place, entry) {
            entry.mode |= there.mode & SPECIAL;
        }
    }

    /// Handles an entry: creates a directory or link at once, and returns a file that must be sent.
    pub(super) fn check_entry(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<Option<WantedFile>, Error> {
        let path = entry.path();
        if self.prunes() {
            place.source_names.add(entry)?;
        }
        if let Some(backups) = self.transfer.table.backups.get() {
            backups.list(&entry.path);
        }
        if entry.kind == EntryKind::FolderEnd {
            place.folded.remove_folder(&entry.path);
            self.remove(place, Some(entry))?;
            self.leave(place, number, entry)?;
            return Ok(None);
        }
        if self.transfer.options().stages() {
            return self.stage_entry(place, number, entry);
        }
        if self.transfer.options().expects() {
            self.transfer.table.set_expected(entry);
        }
        self.check_name(place, number, entry)?;
        let there = Self::look(place, entry)?;
        self.protect_special(place, entry, there)?;
        let there = self.make_room(place, entry, there)?;
        let (action, why) = self.decide(place, entry, there);
        if self.transfer.options().dry_run.is_some() {
            self.report_planned(place, number, entry, (there, action, why))?;
            return Ok(None);
        }
        self.itemize(place, number, entry, (there, action))?;
        let newer = self.keeps_newer(there, entry);
        if !newer && self.is_linked(number, entry) {
            return Ok(None);
        }
        if action == Action::Keep && self.may_keep(entry, there) {
            self.keep(place, entry, there)?;
            self.remove_journal(place, entry);
            let settled = if newer {
                Settled::Newer
            } else {
                Settled::Before
            };
            self.transfer.table.settle(number, entry, Ok(settled));
            return Ok(None);
        }
        self.back_up(place, entry)?;
        if let Some(folder) = place.target_folder.objects() {
            return self.want_object(&*folder, (&*place, number), entry);
        }
        match &entry.kind {
            EntryKind::Folder => {
                let made = place.root.make_folder_for(path, entry.mode);
                made.map_err(|error| place.fault(FileAction::CreateFolder, entry, &error))?;
            }
            EntryKind::Link(target) => self.link(place, number, entry, target)?,
            EntryKind::File(size) if *size > FILE_MAX => {
                let place = place.target_folder.folder.join(path);
                return Err(Fault::TooLarge { place, size: *size }.into());
            }
            EntryKind::File(_) if entry.data().is_empty() => {
                self.empty(place, number, entry)?;
            }
            EntryKind::File(_) => return Ok(self.take_staged_or_want(place, number, entry)),
            EntryKind::FolderEnd => {}
        }
        self.transfer.table.settle(number, entry, Ok(Settled::Now));
        Ok(None)
    }

    /// Fails if `entry` would replace a device, FIFO or socket without permission, or a link to one
    /// that the user named as the target.
    fn protect_special(
        &self,
        place: &Place,
        entry: &Entry,
        there: Option<Meta>,
    ) -> Result<(), Error> {
        let Some(there) = there.filter(|_| !self.replaces_special()) else {
            return Ok(());
        };
        let linked = || place.target_folder.special_link(entry, there);
        let Some(what) = special(there.kind).or_else(linked) else {
            return Ok(());
        };
        let place = place.target_folder.folder.join(entry.path());
        let advice = if self.transfer.settings.permit.special {
            "copy to another place, or use --replace-special to replace it"
        } else {
            "copy to another place; your key has no right to replace it (`lighthaul allow --special` grants it)"
        };
        Err(Fault::SpecialInTheWay {
            place,
            what,
            advice,
        }
        .into())
    }

    /// Returns true if devices, FIFOs and sockets are replaced and removed like files.
    pub(super) const fn replaces_special(&self) -> bool {
        self.transfer.options().replace_special && self.transfer.settings.permit.special
    }

    /// Returns the metadata of the item at the target, if it exists.
    pub(super) fn look(place: &mut Place, entry: &Entry) -> Result<Option<Meta>, Error> {
        if place.is_emptied(&entry.path) {
            return Ok(None);
        }
        if let Some(folder) = place.target_folder.objects() {
            return Self::look_at_object(place, &*folder, entry);
        }
        match place.root.look(entry.path()) {
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {
                let trouble = NameFault::TooLong(entry.path.clone());
                Err(Fault::Name(trouble).into())
            }
            // a dry run creates no directories, so their contents do not exist, either
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            there => there.map_err(|error| place.fault(FileAction::ReadMetadata, entry, &error)),
        }
    }

    /// Returns false if this copy writes the existing file under another name.
    fn may_keep(&self, entry: &Entry, there: Option<Meta>) -> bool {
        let is_file = matches!(entry.kind, EntryKind::File(_));
        let shared = there.filter(|there| is_file && there.names > 1);
        let is_free = |there: Meta| self.transfer.claims.keep(there.inode);
        !self.transfer.options().inplace || shared.is_none_or(is_free)
    }

    /// Keeps the item at the target, and sets its metadata to the values of the source.
    fn keep(&self, place: &mut Place, entry: &Entry, there: Option<Meta>) -> Result<(), Error> {
        match entry.kind {
            EntryKind::Folder => {
                self.make_writable(place, entry.path());
                self.tidy(place, entry.path());
                Ok(())
            }
            EntryKind::File(_) if self.keeps_newer(there, entry) => Ok(()),
            EntryKind::File(_) if place.target_folder.objects().is_some() => Ok(()),
            EntryKind::File(_) if entry.extras.is_none() => place
                .mend(entry, there)
                .map_err(|error| place.fault(FileAction::SetMetadata, entry, &error)),
            EntryKind::File(_) | EntryKind::Link(_) => self
                .metadata
                .update(&mut place.root, entry)
                .map_err(|error| place.fault(FileAction::Open, entry, &error)),
            EntryKind::FolderEnd => Ok(()),
        }
    }

    /// Returns true if `entry` is a hard link to an earlier entry, and only has to wait for that entry.
    pub(super) fn is_linked(&self, number: u64, entry: &Entry) -> bool {
        if !self.transfer.options().hard_links {
            return false;
        }
        match entry.linked {
            Linked::To(first) => {
                let name = Name {
                    number,
                    entry: entry.clone(),
                    temporary: self.writer.temporary(entry.path(), number),
                };
                self.transfer.table.link(first, name)
            }
            Linked::First(left) => {
                self.transfer.table.begin_links(number, entry, left);
                false
            }
            Linked::Alone => false,
        }
    }

    /// Rejects a name that the target regards as equal to an earlier one.
    pub(super) fn check_name(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<(), Error> {
        let (path, alike) = (entry.path(), place.folded.add(&entry.path));
        if !alike || self.transfer.options().dry_run.is_some() {
            return Ok(());
        }
        let naming = place
            .root
            .name_rules(path, self.writer.number(path, number));
        // a directory that cannot be tested cannot be written, either
        if naming.is_ok_and(|naming| naming.folds_case) {
            let trouble = NameFault::Collides(entry.path.clone());
            return Err(Fault::Name(trouble).into());
        }
        Ok(())
    }

    /// Removes temporary files of dead writers from the directory `path`.
    fn tidy(&self, place: &mut Place, path: &Path) {
        if self.transfer.options().dry_run.is_some() {
            return;
        }
        let _step = self.transfer.threads.work.begin();
        let folders = [Some(path.to_owned()), self.transfer.temp_place.folder(path)];
        for folder in folders.into_iter().flatten() {
            let names = place.root.names(&folder, names::PREFIX);
            for name in names.unwrap_or_default() {
                if self.writer.is_orphan(&name) || place.locks.is_orphan(&mut place.root, &name) {
                    // another copy may have removed it
                    place.root.remove(&folder.join(name)).ok();
                }
            }
        }
    }
}

impl Place {
    fn new(target_folder: TargetFolder, root: Root, naming: Naming, list_check: ListCheck) -> Self {
        Self {
            target_folder,
            root,
            listed: 0,
            first: Vec::new(),
            skipped: FolderSet::default(),
            list_check,
            source_names: SourceNames::new(naming.is_named()),
            free_space: FreeSpace::default(),
            waits_until: None,
            locks: WriterLocks::default(),
            folded: FoldedNames::default(),
            emptied: FolderSet::default(),
            rejection: None,
            references: References::default(),
            top: None,
            deletions: Deletions::default(),
            staged: StagedFiles::default(),
            object: None,
        }
    }

    /// Sets mode and time of the existing file to the values of the source.
    fn mend(&mut self, entry: &Entry, there: Option<Meta>) -> io::Result<()> {
        let Some(there) = there else { return Ok(()) };
        if there.mode != entry.mode & 0o7777 {
            self.root.set_mode(entry.path(), entry.mode)?;
        }
        // files with equal digests may have different times
        if (there.seconds, there.nanos) != (entry.seconds, entry.nanos) {
            self.root
                .set_time(entry.path(), entry.seconds, entry.nanos)?;
        }
        Ok(())
    }

    /// Returns true if `path` is in a directory that a dry run regards as empty.
    pub(super) fn is_emptied(&self, path: &[u8]) -> bool {
        self.emptied.contains(path) || self.emptied.has_above(path)
    }

    /// Returns true if `entry` is in a directory that could not be created, or is the end of that directory.
    fn skips(&self, entry: &Entry) -> bool {
        let is_end = entry.kind == EntryKind::FolderEnd && self.skipped.contains(&entry.path);
        is_end || self.skipped.has_above(&entry.path)
    }

    pub(super) fn fault(&self, action: FileAction, entry: &Entry, error: &io::Error) -> Error {
        let place: PathBuf = self.target_folder.folder.join(entry.path());
        Error::file(action, &place, error)
    }
}
