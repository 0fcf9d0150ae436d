//! List of entries on the sending side: entries are sent, and the receiver's answers are handled.
//!
//! ```text
//! thread "walk" --> bounded channel --> send_list: pages --> receiver
//! queue of requested ranges <-- receive_answers <---------- receiver
//! ```
//!
//! `Scan` serves two threads. A page is sent when it has 1000 entries, is large, or has waited for
//! 20 ms. An entry that cannot be read is reported, and the list continues.

use std::mem::take;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::contents::{Content, ContentsLimit};
use lighthaul_copy::error::Fault;
use lighthaul_copy::message::Listing;
use lighthaul_copy::thread_group::CHECK_INTERVAL;
use lighthaul_copy::watch::{CopyEvent, Failed};
use lighthaul_files::content_sum::ContentSum;
use lighthaul_files::list::ListReceiver;
use lighthaul_files::manifest::{Entry, EntryKind, PAGE, pack, version_mark};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::{Action, Detail, Planned};
use lighthaul_files::walk::Found;
use lighthaul_fs::meta::Meta;
use lighthaul_fs::version::Version;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Error, caught};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::topic::decode;

use super::contents::ContentsReader;
use super::holes;
use super::item::Item;
use super::removals::{COARSE_AGE_MIN, FileClock, Removable};
use super::transfer::Transfer;

/// Octets of paths after which a page of the list is full.
const PAGE_BYTES: usize = 1 << 19;
/// Maximum number of items of the walk that wait to be sent.
const FOUND_MAX: usize = 1 << 10;
/// Longest wait of a page that is not full.
const FLUSH: Duration = Duration::from_millis(20);

/// State of the list, shared by its two threads.
pub(super) struct Scan<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) names: Names,
    pub(super) file_clock: FileClock,
}

/// Origin of the names of the entries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Names {
    /// Entries that a walk finds.
    Walked,
    /// Entries of a list on this side, which may be slow, since a user may type it.
    Listed,
    /// A list that the receiver sends.
    Awaited,
}

impl Scan<'_> {
    /// Sends the list of all items in `found`.
    pub(crate) fn send_list(
        &self,
        naming: Naming,
        found: Box<dyn Iterator<Item = Found> + Send>,
    ) -> Result<(), Error> {
        self.say(&Listing::Begin { naming })?;
        let mut page = Page::default();
        let mut contents = self.contents();
        let found = start_walk(found)?;
        let work = &self.transfer.threads.work;
        let mut walk = None;
        loop {
            match (found.recv_timeout(FLUSH), self.names) {
                (Ok(found), _) => {
                    walk = None;
                    self.take(found?, &mut page, &mut contents)?;
                }
                (Err(RecvTimeoutError::Timeout), names) => {
                    match names {
                        Names::Walked => walk = walk.or_else(|| Some(work.begin())),
                        Names::Listed => work.wait(),
                        Names::Awaited => {}
                    }
                    self.flush(&mut page)?;
                }
                (Err(RecvTimeoutError::Disconnected), _) => break,
            }
            let now = self.transfer.session.clock.now();
            let full = page.entries.len() >= PAGE || page.bytes >= PAGE_BYTES;
            if full || now.since(page.begun) >= FLUSH {
                self.flush(&mut page)?;
                page.begun = now;
            }
        }
        drop(walk);
        self.flush(&mut page)?;
        self.transfer.queue.close();
        self.say(&Listing::End)
    }

    /// Returns the reader of contents for the list. It reads none if the user has selected a
    /// protocol, which then moves all bytes.
    fn contents(&self) -> ContentsReader<'_> {
        let options = self.transfer.options();
        let is_chosen = matches!(self.transfer.settings.asked(), Ok(None));
        let limit = if is_chosen && options.dry_run.is_none() && options.trc.is_empty() {
            ContentsLimit::default()
        } else {
            ContentsLimit::none()
        };
        ContentsReader {
            sources: &self.transfer.sources,
            digest: options.digest,
            limit,
        }
    }

    /// Adds an item of the walk to the page, or reports it at once.
    fn take(
        &self,
        found: Found,
        page: &mut Page,
        contents: &mut ContentsReader<'_>,
    ) -> Result<(), Error> {
        match found {
            Found::Entry(mut entry, place, meta) => {
                self.settle(page, meta.as_ref())?;
                let alone = self.transfer.queue.totals().entries == 0
                    && matches!(entry.kind, EntryKind::File(_));
                if self.transfer.options().expects() && !alone {
                    return Err(Fault::OneHash.into());
                }
                // a store may know it
                if self.transfer.options().checksum && entry.digest.is_none() {
                    let _step = self.transfer.threads.work.begin();
                    entry.digest = self.digest(&entry, &place, meta.as_ref());
                }
                let options = self.transfer.options();
                // a range without its holes is no file
                if options.reads_holes() && !options.stages() {
                    let all = (&*self.transfer.sources.access, &self.transfer.threads);
                    holes::check(all, &mut entry, (&place, meta.as_ref()))?;
                }
                self.list_removable(&entry, &place, meta.as_ref())?;
                if options.striped.is_some() {
                    entry.mark = meta.as_ref().and_then(|meta| mark(&meta.version()));
                }
                if matches!(entry.kind, EntryKind::File(_)) {
                    let number = self.transfer.queue.totals().entries;
                    let from = (&*place, meta.as_ref());
                    page.contents.extend(contents.read(number, &entry, from));
                }
                let item = matches!(entry.kind, EntryKind::File(_)).then(|| Item {
                    place,
                    size: entry.size(),
                    version: meta.map_or(0, |meta| meta.version().mark()),
                });
                self.transfer.queue.list(&self.transfer.threads, item)?;
                page.bytes += entry.encoded_len();
                page.entries.push(entry);
            }
            Found::Mount(entry, place) => {
                self.say(&Listing::Mount(entry.path.clone()))?;
                self.take(Found::Entry(entry, place, None), page, contents)?;
            }
            Found::Skipped(text) => {
                self.transfer
                    .monitor
                    .show(CopyEvent::Warning(format!("not copied: {text}")));
                self.say(&Listing::Skipped { why: text })?;
            }
            Found::Noted(text) => {
                self.transfer.monitor.show(CopyEvent::Warning(text.clone()));
                self.say(&Listing::Warning { text })?;
            }
            Found::Excluded(path, rule) => self.report_excluded(path, rule)?,
            Found::Failed(path, error) => {
                let code = error.code() as u8;
                let why = error.text();
                self.say(&Listing::Unreadable {
                    path: path.clone(),
                    code,
                    why: why.clone(),
                })?;
                self.transfer
                    .monitor
                    .show(CopyEvent::Failed(Failed { path, code, why }));
            }
        }
        Ok(())
    }

    /// Waits until each further change of a file gets another time, if the copy removes source files.
    fn settle(&self, page: &mut Page, meta: Option<&Meta>) -> Result<(), Error> {
        let options = self.transfer.options();
        let Some(meta) = meta.filter(|_| options.remove_source && options.dry_run.is_none()) else {
            return Ok(());
        };
        let left = self
            .file_clock
            .time_to_settle(&meta.version(), unix_nanos());
        if left.is_zero() {
            return Ok(());
        }
        self.flush(page)?;
        let _step = self.transfer.threads.work.begin();
        let clock = self.transfer.session.clock;
        let until = clock.now() + left;
        loop {
            self.transfer.threads.check()?;
            let left = until.since(clock.now());
            if left.is_zero() {
                return Ok(());
            }
            pause(left.min(CHECK_INTERVAL));
        }
    }

    /// Records the next entry, if the copy removes source files.
    fn list_removable(
        &self,
        entry: &Entry,
        place: &Path,
        meta: Option<&Meta>,
    ) -> Result<(), Error> {
        let options = self.transfer.options();
        let is_file = matches!(entry.kind, EntryKind::File(_) | EntryKind::Link(_));
        let Some(meta) = meta.filter(|_| is_file) else {
            return Ok(());
        };
        if !options.remove_source || options.dry_run.is_some() {
            return Ok(());
        }
        let number = self.transfer.queue.totals().entries;
        let file = Removable::new(entry, place, meta);
        let threads = &self.transfer.threads;
        self.transfer.removals.list(threads, number, file)
    }

    /// Reports an excluded entry, if a dry run explains all entries.
    fn report_excluded(&self, path: Vec<u8>, rule: String) -> Result<(), Error> {
        if self.transfer.options().dry_run != Some(Detail::Explain) {
            return Ok(());
        }
        let planned = Planned {
            action: Action::Exclude,
            path,
            bytes: 0,
            kept: 0,
            why: rule,
            item: None,
        };
        self.transfer
            .monitor
            .show(CopyEvent::Planned(planned.clone()));
        self.say(&Listing::Planned(vec![planned]))
    }

    /// Returns the digest of a file, or none if it cannot be read or has changed. Sending it will
    /// then fail.
    fn digest(&self, entry: &Entry, place: &Path, meta: Option<&Meta>) -> Option<ContentSum> {
        let EntryKind::File(size) = entry.kind else {
            return None;
        };
        let file = self.transfer.sources.file(place).ok()?;
        let read = |at: u64, buffer: &mut [u8]| file.read_in(buffer, at, Some(size));
        let digest = ContentSum::blake3(size, read).ok()?;
        let is_unchanged = file.version().ok()? == meta?.version();
        is_unchanged.then_some(digest)
    }

    fn flush(&self, page: &mut Page) -> Result<(), Error> {
        self.transfer.threads.check()?;
        if !page.contents.is_empty() {
            self.say(&Listing::Contents(take(&mut page.contents)))?;
        }
        if !page.entries.is_empty() {
            self.say(&Listing::Entries(pack(&page.entries)?))?;
            page.entries.clear();
            page.bytes = 0;
        }
        Ok(())
    }

    fn say(&self, listing: &Listing) -> Result<(), Error> {
        let threads = &self.transfer.threads;
        threads.send(&self.transfer.stream, listing.encode())
    }

    /// Handles the receiver's answers to all entries, and requests its list of paths, if any.
    pub(crate) fn receive_answers(&self, mut list: Option<ListReceiver>) -> Result<(), Error> {
        while !self.transfer.queue.is_answered() {
            if let Some(list) = &mut list {
                list.request_pages(|| self.say(&Listing::RequestPaths))?;
            }
            let until = self.transfer.session.clock.now() + CHECK_INTERVAL;
            let frame = match self
                .transfer
                .stream
                .receive(self.transfer.session.clock, until)
            {
                Err(World::TimedOut(_)) => {
                    self.transfer.threads.check()?;
                    continue;
                }
                // a receiver that has answered everything may have closed
                Err(_) if self.transfer.queue.is_answered() => return Ok(()),
                frame => frame?,
            };
            self.transfer.threads.work.advance();
            match (decode(&frame.octets), &mut list) {
                (Ok(Listing::Wanted(wanted)), _) => self.transfer.queue.want(wanted)?,
                (Ok(Listing::Compared(compared)), _) => {
                    let differ = self.transfer.queue.compared(compared)?;
                    self.transfer.monitor.delta().differ(differ);
                }
                (Ok(Listing::Sums(sums)), _) => self.transfer.queue.receive_sums(&sums)?,
                (Ok(Listing::Planned(planned)), _) => {
                    for planned in planned {
                        self.transfer.monitor.show(CopyEvent::Planned(planned));
                    }
                }
                (Ok(Listing::Removed(paths)), _) => {
                    self.transfer.monitor.show(CopyEvent::Removed(paths));
                }
                (Ok(Listing::Paths(page)), Some(list)) => list.receive(page)?,
                (Err(error), _) => return Err(error),
                _ => return Err(PeerFault::Unexpected("the next message about the list").into()),
            }
        }
        Ok(())
    }
}

/// Walks the sources in a thread that no other thread waits for. A list may come from a slow program, and a disk that
/// hangs must not stop keepalives.
fn start_walk(
    mut found: Box<dyn Iterator<Item = Found> + Send>,
) -> Result<Receiver<Result<Found, Error>>, Error> {
    let (told, heard) = sync_channel(FOUND_MAX);
    let looking = move || {
        let looked = caught("walk", || {
            let tell = |found| told.send(Ok(found)).is_ok();
            found.by_ref().all(tell);
            Ok(())
        });
        if let Err(error) = looked {
            // an early end would look like a complete list
            told.send(Err(error)).ok();
        }
    };
    let thread = thread::Builder::new().name("walk".into()).spawn(looking);
    let failed = |error| World::world("cannot start the walk of the sources", error);
    thread.map_err(failed)?;
    Ok(heard)
}

/// Entries that were not sent yet.
struct Page {
    entries: Vec<Entry>,
    /// Contents of some of the entries.
    contents: Vec<Content>,
    bytes: usize,
    begun: Instant,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            contents: Vec::new(),
            bytes: 0,
            begun: Instant::ZERO,
        }
    }
}
/// Returns the mark of a version, unless the file was changed just now. Further changes could then have the same time.
fn mark(version: &Version) -> Option<u64> {
    let now = i64::try_from(unix_nanos()).unwrap_or(i64::MAX);
    let is_old = version.changed <= now.saturating_sub(COARSE_AGE_MIN);
    is_old.then(|| version_mark(version))
}
