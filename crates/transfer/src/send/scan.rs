//! The list on the sending side: what is found is told, and what is wanted of it is heard.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_files::digest::{self, Digest, Taking};
use lighthaul_files::list::Heard;
use lighthaul_files::manifest::{Entry, Kind, PAGE, pack};
use lighthaul_files::options::{Action, Detail, Planned};
use lighthaul_files::walk::Found;
use lighthaul_io::control::Frame;
use lighthaul_io::error::Error as World;
use lighthaul_io::fs::meta::Meta;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::topic::decode;

use super::queue::Item;
use super::transfer::Transfer;
use crate::crew::LOOK;
use crate::message::Listing;
use crate::watch::{Failed, Sight};

/// Octets of paths in a page of the list, after which it is full.
const PAGE_BYTES: usize = 1 << 19;
/// What was found and has not been told yet.
const FOUND_MAX: usize = 1 << 12;
/// A page that is not full leaves after this.
const FLUSH: Duration = Duration::from_millis(20);

/// What both threads of the list need.
pub(super) struct Scan<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) names: Names,
}

/// Origin of the names that are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Names {
    /// A walk finds them.
    Walked,
    /// A list of this side, perhaps as somebody types it.
    Listed,
    /// A list of the receiver.
    Awaited,
}

impl Scan<'_> {
    /// Tells all that is `found`.
    pub(crate) fn tell(
        &self,
        named: bool,
        found: Box<dyn Iterator<Item = Found> + Send>,
    ) -> Result<(), Error> {
        self.say(&Listing::Begin { named })?;
        let mut page = Page::default();
        let found = look_around(found)?;
        let work = &self.transfer.crew.work;
        let mut walk = None;
        loop {
            match (found.recv_timeout(FLUSH), self.names) {
                (Ok(found), _) => {
                    walk = None;
                    self.take(found?, &mut page)?;
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

    /// Takes what was found into the page, or tells it at once.
    fn take(&self, found: Found, page: &mut Page) -> Result<(), Error> {
        match found {
            Found::Entry(mut entry, place, meta) => {
                let alone = self.transfer.queue.totals().entries == 0
                    && matches!(entry.kind, Kind::File(_));
                if self.transfer.options().expects() && !alone {
                    let text = "--hash with a value is for one file: leave the value out for more";
                    return Err(Error::new(Code::Usage, text));
                }
                if self.transfer.options().checksum {
                    let _step = self.transfer.crew.work.begin();
                    entry.digest = self.digest(&entry, &place, meta.as_ref());
                }
                let item = matches!(entry.kind, Kind::File(_)).then(|| Item {
                    place,
                    size: entry.size(),
                    version: meta.map_or(0, |meta| meta.version().mark()),
                });
                self.transfer.queue.list(&self.transfer.crew, item)?;
                page.bytes += entry.weight();
                page.entries.push(entry);
            }
            Found::Skipped(text) => {
                self.transfer
                    .board
                    .show(Sight::Warning(format!("left out: {text}")));
                self.say(&Listing::Skipped { why: text })?;
            }
            Found::Noted(text) => {
                self.transfer.board.show(Sight::Warning(text.clone()));
                self.say(&Listing::Warning { text })?;
            }
            Found::Excluded(path, rule) => self.exclude(path, rule)?,
            Found::Failed(path, error) => {
                let code = error.code as u8;
                let why = error.text;
                self.say(&Listing::Unreadable {
                    path: path.clone(),
                    code,
                    why: why.clone(),
                })?;
                self.transfer
                    .board
                    .show(Sight::Failed(Failed { path, code, why }));
            }
        }
        Ok(())
    }

    /// Tells what a rule leaves out, if anybody wants to know.
    fn exclude(&self, path: Vec<u8>, rule: String) -> Result<(), Error> {
        if self.transfer.options().dry_run != Some(Detail::Explain) {
            return Ok(());
        }
        let planned = Planned {
            action: Action::Exclude,
            path,
            bytes: 0,
            kept: 0,
            why: rule,
        };
        self.transfer.board.show(Sight::Planned(planned.clone()));
        self.say(&Listing::Planned(vec![planned]))
    }

    /// Digest of a file; nothing if it cannot be read or has changed since it was listed, which fails when it is sent.
    fn digest(&self, entry: &Entry, place: &Path, meta: Option<&Meta>) -> Option<Digest> {
        let Kind::File(size) = entry.kind else {
            return None;
        };
        let file = self.transfer.ground.file(place).ok()?;
        let read = |at: u64, buffer: &mut [u8]| file.read_at(buffer, at);
        let digest = Taking::of(digest::Kind::Blake3, size, read).ok()?;
        let is_unchanged = file.version().ok()? == meta?.version();
        is_unchanged.then_some(digest)
    }

    fn flush(&self, page: &mut Page) -> Result<(), Error> {
        self.transfer.crew.check()?;
        if !page.entries.is_empty() {
            self.say(&Listing::Entries(pack(&page.entries)?))?;
            page.entries.clear();
            page.bytes = 0;
        }
        Ok(())
    }

    fn say(&self, listing: &Listing) -> Result<(), Error> {
        Ok(self
            .transfer
            .stream
            .send(&Frame::message(listing.encode()))?)
    }

    /// Hears what is wanted, until the receiver has looked at everything; asks for its list, if that is what counts.
    pub(crate) fn hear(&self, mut list: Option<Heard>) -> Result<(), Error> {
        while !self.transfer.queue.is_answered() {
            if let Some(list) = &mut list {
                list.ask(|| self.say(&Listing::Which))?;
            }
            let until = self.transfer.session.clock.now() + LOOK;
            let frame = match self
                .transfer
                .stream
                .receive(self.transfer.session.clock, until)
            {
                Err(World::TimedOut(_)) => {
                    self.transfer.crew.check()?;
                    continue;
                }
                // a receiver that has answered everything may be done, and gone
                Err(_) if self.transfer.queue.is_answered() => return Ok(()),
                frame => frame?,
            };
            self.transfer.crew.work.advance();
            match (decode(&frame.octets), &mut list) {
                (Ok(Listing::Wanted(wanted)), _) => self.transfer.queue.want(wanted)?,
                (Ok(Listing::Compared(compared)), _) => self.transfer.queue.compared(compared)?,
                (Ok(Listing::Planned(planned)), _) => {
                    for planned in planned {
                        self.transfer.board.show(Sight::Planned(planned));
                    }
                }
                (Ok(Listing::Removed(paths)), _) => self.transfer.board.show(Sight::Removed(paths)),
                (Ok(Listing::Take(page)), Some(list)) => list.take(page)?,
                (Err(error), _) => return Err(error),
                _ => return Err(Error::new(Code::Protocol, "the peer spoke out of turn")),
            }
        }
        Ok(())
    }
}

/// Looks for what there is in a thread of its own, which nobody waits for: a list may come from somebody
/// who thinks, and a disk that hangs must not keep us from saying so.
fn look_around(
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
            // a list that ends early would look whole
            told.send(Err(error)).ok();
        }
    };
    let thread = thread::Builder::new().name("walk".into()).spawn(looking);
    let failed = |error| World::world("starting to look for files", error);
    thread.map_err(failed)?;
    Ok(heard)
}

/// Entries that have not been told yet.
struct Page {
    entries: Vec<Entry>,
    bytes: usize,
    begun: Instant,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            bytes: 0,
            begun: Instant::ZERO,
        }
    }
}
