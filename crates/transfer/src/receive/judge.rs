//! Looks at each entry of the list: what is in place already, what can be made at once, and what must
//! be sent.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lighthaul_io::control::{Frame, Stream};
use lighthaul_io::disk::Root;
use lighthaul_io::ground::Meta;
use rustix::fs::FileType;

use super::journal::{Journal, Proved, Subject, merged, missing};
use super::landing::Landing;
use super::ledger::{Ledger, Pending, Settled};
use super::names::{self, Writer};
use crate::board::Board;
use crate::crew::Crew;
use crate::error::{Code, Error};
use crate::manifest::{Entry, Kind, unpack};
use crate::message::{Listing, Span, Wanted, decode};
use crate::options::Options;
use crate::session::Session;
use crate::watch::Sight;

/// A file from this size on leaves a journal, so that a later run can go on with it.
const RESUMABLE: u64 = 8 << 20;

/// The most bytes that a file can have.
const FILE_MAX: u64 = i64::MAX as u64;

/// The thread that answers the list.
pub(crate) struct Judge<'a> {
    pub(crate) options: Options,
    pub(crate) crew: &'a Crew,
    pub(crate) session: &'a Session,
    pub(crate) stream: &'a Stream,
    pub(crate) ledger: &'a Ledger,
    pub(crate) board: &'a Board,
    pub(crate) writer: Writer,
    /// See [`Subject`].
    pub(crate) boot: u64,
}

/// Where the judge puts things.
struct Place {
    landing: Landing,
    root: Root,
    /// Entries so far.
    listed: u64,
    /// A folder that could not be made, so that nothing in it can.
    barred: Option<Vec<u8>>,
}

impl Judge<'_> {
    /// Answers the whole list, whose entries belong in `landing`; tells `landed` where that is once it
    /// is known.
    pub(crate) fn run(
        &self,
        landing: Landing,
        landed: impl FnOnce(&Root, &Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let frame = self.crew.receive(self.stream, self.session.clock)?;
        let Ok(Listing::Begin(named)) = decode(&frame.octets) else {
            return Err(Error::new(Code::Protocol, "the peer listed nothing"));
        };
        let (landing, root) = landing.prepare(named)?;
        landed(&root, &landing.folder)?;
        let mut place = Place {
            landing,
            root,
            listed: 0,
            barred: None,
        };
        self.tidy(&mut place, Path::new(""));
        loop {
            let frame = self.crew.receive(self.stream, self.session.clock)?;
            match decode(&frame.octets) {
                Ok(Listing::Entries(packed)) => {
                    let wanted = self.chunk(&mut place, &packed)?;
                    let listing = Listing::Wanted(wanted);
                    self.stream.send(&Frame::message(listing.encode()))?;
                }
                Ok(Listing::Skipped(text)) => {
                    self.board.show(Sight::Warning(format!("left out: {text}")));
                }
                Ok(Listing::Unreadable(code, text)) => self.board.show(Sight::Failed(code, text)),
                Ok(Listing::End) => {
                    self.ledger.close();
                    return Ok(());
                }
                Ok(Listing::Begin(_) | Listing::Wanted(_)) | Err(_) => {
                    return Err(Error::new(Code::Protocol, "the peer's list makes no sense"));
                }
            }
        }
    }

    fn chunk(&self, place: &mut Place, packed: &[u8]) -> Result<Wanted, Error> {
        let entries = unpack(packed).map_err(|_| {
            let text = "the peer's manifest makes no sense or is unsafe";
            Error::new(Code::Protocol, text)
        })?;
        let mut wanted = Wanted {
            entries: entries.len() as u64,
            files: Vec::new(),
        };
        for entry in entries {
            let number = place.listed;
            place.listed += 1;
            let entry = place.landing.rename(entry);
            if place.bars(&entry) {
                self.ledger.pass_over();
                continue;
            }
            match self.consider(place, number, &entry) {
                Ok(None) => {}
                Ok(Some(spans)) => {
                    let whole = spans == [(0, entry.size())];
                    wanted.files.push((number, (!whole).then_some(spans)));
                }
                Err(error) => {
                    if entry.kind == Kind::Folder {
                        place.barred = Some(entry.path.clone());
                    }
                    self.ledger.settle(number, &entry, Err(error));
                }
            }
        }
        Ok(wanted)
    }

    /// Makes what can be made at once; answers what must be sent, if anything.
    fn consider(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<Option<Vec<Span>>, Error> {
        let path = entry.path();
        if entry.kind == Kind::Leave {
            self.ledger.leave(number, entry.clone());
            return Ok(None);
        }
        let there = place.root.look(path);
        let there = there.map_err(|error| place.fault("cannot look at", entry, &error))?;
        place.landing.check(entry, there)?;
        let settled = match &entry.kind {
            Kind::Folder => {
                if there.is_some() {
                    self.tidy(place, path);
                } else {
                    let made = place.root.make_folder(path);
                    made.map_err(|error| place.fault("cannot make the folder", entry, &error))?;
                }
                there.map_or(Settled::Now, |_| Settled::Before)
            }
            Kind::Link(target) => self.link(place, number, entry, (target, there))?,
            Kind::File(size) if there.is_some_and(|meta| is_same(&meta, entry)) => {
                self.unchanged(place, entry, there)
                    .map_err(|error| place.fault("cannot set the mode of", entry, &error))?;
                debug_assert_eq!(*size, entry.size());
                Settled::Before
            }
            Kind::File(0) => {
                let made = self.empty(place, number, entry, there.is_some());
                made.map_err(|error| place.fault("cannot create", entry, &error))?;
                Settled::Now
            }
            Kind::File(size) if *size > FILE_MAX => {
                let text = format!(
                    "{}: no file can have {size} bytes",
                    place.landing.folder.join(path).display()
                );
                return Err(Error::new(Code::Io, text));
            }
            Kind::File(_) => return self.want(place, number, entry).map(Some),
            Kind::Leave => Settled::Now,
        };
        self.ledger.settle(number, entry, Ok(settled));
        Ok(None)
    }

    /// A file must come; what an earlier run proved of it need not.
    fn want(&self, place: &mut Place, number: u64, entry: &Entry) -> Result<Vec<Span>, Error> {
        let (path, size) = (entry.path(), entry.size());
        let resumable = size >= RESUMABLE;
        let temporary = if resumable {
            names::partial(path)
        } else {
            self.writer.temporary(path, number)
        };
        let pending = Pending::new(number, entry.clone(), temporary, resumable);
        let held = if resumable {
            proved(&mut place.root, &pending, self.subject(&pending))
        } else {
            Vec::new()
        };
        let there = merged(held.iter().map(|(span, _)| *span).collect());
        let mut owed = missing(&there, size);
        if owed.is_empty() {
            // it only has to be published, which happens where bytes arrive: let the last page come again
            let last = size - 1;
            owed = vec![(last, size)];
        }
        pending.expect(owed.clone(), held);
        self.ledger.expect(pending);
        Ok(owed)
    }

    /// What a journal of `pending` is about.
    const fn subject(&self, pending: &Pending) -> Subject {
        Subject {
            look: pending.look(),
            boot: self.boot,
        }
    }

    fn link(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
        (target, there): (&[u8], Option<Meta>),
    ) -> Result<Settled, Error> {
        let same = |meta: &Meta| {
            meta.kind == FileType::Symlink
                && (meta.seconds, meta.nanos) == (entry.seconds, entry.nanos)
        };
        if there.as_ref().is_some_and(same) {
            return Ok(Settled::Before);
        }
        let from = self.writer.temporary(entry.path(), number);
        let root = &mut place.root;
        let made = root
            .make_link(&from, OsStr::from_bytes(target))
            .and_then(|()| root.set_time(&from, entry.seconds, entry.nanos))
            .and_then(|()| root.rename(&from, entry.path()));
        made.map_err(|error| {
            place.root.remove(&from).ok();
            place.fault("cannot make the link", entry, &error)
        })?;
        Ok(Settled::Now)
    }

    fn empty(&self, place: &mut Place, number: u64, entry: &Entry, there: bool) -> io::Result<()> {
        let path = entry.path();
        let temporary = self.writer.temporary(path, number);
        // what nobody could mistake for something else needs no other name first
        let first: &Path = if there { &temporary } else { path };
        let file = place.root.create(first)?;
        file.set_mode(entry.mode)?;
        file.set_time(entry.seconds, entry.nanos)?;
        if there {
            place.root.rename(&temporary, path)?;
        }
        Ok(())
    }

    fn unchanged(&self, place: &mut Place, entry: &Entry, there: Option<Meta>) -> io::Result<()> {
        if there.is_some_and(|meta| meta.mode != entry.mode & 0o7777) {
            place.root.set_mode(entry.path(), entry.mode)?;
        }
        Ok(())
    }

    /// Removes what dead processes left in the folder `path`.
    fn tidy(&self, place: &mut Place, path: &Path) {
        let names = place.root.names(path, names::PREFIX).unwrap_or_default();
        for name in names.iter().filter(|name| self.writer.is_orphan(name)) {
            // somebody else may have been faster
            place.root.remove(&path.join(name)).ok();
        }
    }
}

impl Place {
    /// Whether `entry` lies in the folder that could not be made, or ends it.
    fn bars(&self, entry: &Entry) -> bool {
        let within = |barred: &Vec<u8>| {
            let rest = entry.path.strip_prefix(barred.as_slice());
            rest.is_some_and(|rest| {
                rest.starts_with(b"/") || entry.kind == Kind::Leave && rest.is_empty()
            })
        };
        self.barred.as_ref().is_some_and(within)
    }

    fn fault(&self, what: &str, entry: &Entry, error: &io::Error) -> Error {
        let place: PathBuf = self.landing.folder.join(entry.path());
        Error::file(Code::Open, what, &place, error)
    }
}

/// Whether a file is there that was copied before and has not changed since.
fn is_same(there: &Meta, entry: &Entry) -> bool {
    there.kind == FileType::RegularFile
        && (there.size, there.seconds, there.nanos) == (entry.size(), entry.seconds, entry.nanos)
}

/// What an earlier run proved of a file, if it left a journal and the bytes it speaks of.
fn proved(root: &mut Root, pending: &Pending, subject: Subject) -> Vec<Proved> {
    let journal = names::journal(pending.entry.path());
    let Ok(Some(partial)) = root.look(&pending.temporary) else {
        return Vec::new();
    };
    if partial.kind != FileType::RegularFile || !matches!(root.look(&journal), Ok(Some(_))) {
        return Vec::new();
    }
    let read = root
        .lock(&journal)
        .and_then(|file| Journal::read(&file, subject));
    let mut held = read.unwrap_or_default();
    held.retain(|((_, till), _)| *till <= partial.size);
    held
}
