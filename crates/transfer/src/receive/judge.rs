//! Looks at each entry of the list: what is in place already, what can be made at once, and what must
//! be sent.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lighthaul_base::Instant;
use lighthaul_files::hash::Hashes;
use lighthaul_files::list::Told;
use lighthaul_files::manifest::{Entry, Kind, Linked, unpack};
use lighthaul_files::names::{Folded, Trouble};
use lighthaul_files::options::Action;
use lighthaul_files::special::special;
use lighthaul_files::temp_names::{self as names, Writer};
use lighthaul_io::control::Frame;
use lighthaul_io::fs::disk::Root;
use lighthaul_io::fs::meta::Meta;
use lighthaul_io::fs::sparse;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::topic::decode;

use super::claim::{Claims, is_made};
use super::dress::Wardrobe;
use super::landing::Landing;
use super::ledger::Settled;
use super::links::Name;
use super::permit::SPECIAL;
use super::room::Room;
use super::sieve::Sieve;
use super::transfer::Transfer;
use crate::message::{Listing, Wanted, WantedFile};
use crate::watch::{Failed, Sight};

/// The most bytes that a file can have.
const FILE_MAX: u64 = i64::MAX as u64;

/// The thread that answers the list.
pub(super) struct Judge<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    /// What the sender is to look for, if not all.
    pub(super) list: Option<&'a Told>,
    pub(super) wardrobe: &'a Wardrobe<'a>,
    pub(super) writer: Writer,
}

/// Where the judge puts things.
pub(super) struct Place {
    pub(super) landing: Landing,
    pub(super) root: Root,
    /// Entries so far.
    listed: u64,
    /// The first name that the entries have at the source.
    pub(super) first: Vec<u8>,
    /// A folder that could not be made, so that nothing in it can.
    barred: Option<Vec<u8>>,
    /// What the source has, of the folders that the list is in.
    pub(super) sieve: Sieve,
    pub(super) room: Room,
    /// How long files that others write are waited for, once one was met.
    pub(super) waits_until: Option<Instant>,
    /// Whose leavings may go.
    claims: Claims,
    folded: Folded,
    /// In a dry run, why the copy would be refused as a whole.
    unfit: Option<Error>,
    /// In a dry run, a folder that would take the place of something else.
    pub(super) fresh: Option<Vec<u8>>,
}

/// What is said of a peer that lists what nobody can understand.
fn nonsense() -> Error {
    Error::new(Code::Protocol, "the peer's list makes no sense")
}

impl Judge<'_> {
    /// Answers the whole list, whose entries belong in `landing`; tells `landed` where that is once it
    /// is known, and whether it is to look like the source though it does not yet.
    pub(crate) fn run(
        &self,
        landing: Landing,
        landed: impl FnOnce(&Root, &Path, bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (board, options) = (&self.transfer.board, self.transfer.options());
        let Listing::Begin { named } = self.hear()? else {
            return Err(Error::new(Code::Protocol, "the peer listed nothing"));
        };
        let (landing, root) = self.prepare(landing, named)?;
        let mut place = Place {
            landing,
            root,
            listed: 0,
            first: Vec::new(),
            barred: None,
            sieve: Sieve::new(named),
            room: Room::default(),
            waits_until: None,
            claims: Claims::default(),
            folded: Folded::default(),
            fresh: None,
            unfit: None,
        };
        let tops = !named && !options.listed;
        if tops && options.dry_run.is_none() && is_made(&mut place.root) {
            place.landing.go_on();
        }
        if tops && self.takes_top(&place) {
            self.open_up(&mut place, Path::new(""));
        }
        let made = tops && place.landing.is_new();
        landed(&place.root, &place.landing.folder, made)?;
        self.tidy(&mut place, Path::new(""));
        loop {
            match self.hear()? {
                Listing::Entries(packed) => {
                    let first = place.listed;
                    let wanted = self.page(&mut place, &packed)?;
                    self.tell_wanted(wanted, first)?;
                }
                Listing::Skipped { why: text } => {
                    board.show(Sight::Warning(format!("left out: {text}")));
                }
                Listing::Warning { text } => board.show(Sight::Warning(text)),
                Listing::Unreadable { path, code, why } => {
                    place.sieve.doubt();
                    let code = Code::from_number(code) as u8;
                    board.show(Sight::Failed(Failed { path, code, why }));
                }
                Listing::Planned(planned) => {
                    for planned in planned {
                        board.show(Sight::Planned(planned));
                    }
                }
                Listing::End => {
                    self.remove(&mut place, None)?;
                    if options.dry_run.is_none() {
                        place.claims.clear(&mut place.root);
                    }
                    place.landing.stay();
                    self.transfer.ledger.close();
                    return Ok(());
                }
                Listing::Begin { .. }
                | Listing::Wanted(_)
                | Listing::Compared(_)
                | Listing::Removed(_)
                | Listing::Take(_)
                | Listing::Which => {
                    return Err(nonsense());
                }
            }
        }
    }

    /// What the sender says next of its list; that it has room for ours is for who tells ours.
    fn hear(&self) -> Result<Listing, Error> {
        loop {
            let frame = self
                .transfer
                .crew
                .receive(&self.transfer.stream, self.transfer.session.clock)?;
            self.transfer.crew.work.advance();
            match (decode(&frame.octets), self.list) {
                (Ok(Listing::Which), Some(list)) => list.ask(),
                (heard, _) => return heard,
            }
        }
    }

    /// Tells the sender what is wanted of entries of which `first` is the first.
    fn tell_wanted(&self, wanted: Wanted, first: u64) -> Result<(), Error> {
        for wanted in wanted.parts(first) {
            let listing = Listing::Wanted(wanted);
            self.transfer
                .stream
                .send(&Frame::message(listing.encode()))?;
        }
        Ok(())
    }

    /// Prepares the place where entries land.
    fn prepare(&self, landing: Landing, named: bool) -> Result<(Landing, Root), Error> {
        let _step = self.transfer.crew.work.begin();
        landing.prepare(named)
    }

    fn page(&self, place: &mut Place, packed: &[u8]) -> Result<Wanted, Error> {
        let _step = self.transfer.crew.work.begin();
        let entries = unpack(packed)?;
        self.transfer.ledger.list(entries.len() as u64)?;
        let mut wanted = Wanted {
            entries: entries.len() as u64,
            files: Vec::new(),
        };
        for entry in entries {
            let number = place.listed;
            place.listed += 1;
            if place.first.is_empty() {
                let first = entry.path.split(|octet| *octet == b'/').next();
                place.first = first.unwrap_or_default().to_vec();
            }
            if entry.is_top() && !place.sieve.is_whole() {
                // where it lands is not its folder
                return Err(nonsense());
            }
            let mut entry = place.landing.rename(entry);
            let withheld = self
                .transfer
                .settings
                .permit
                .apply(&mut entry, self.transfer.options().keep);
            self.wardrobe.tell(withheld);
            self.keep_special_bits(place, &mut entry);
            if place.bars(&entry) {
                if entry.kind == Kind::Leave {
                    place.sieve.end(&entry.path, Vec::new());
                }
                self.transfer.ledger.pass_over();
                continue;
            }
            let considered = self.consider(place, number, &entry);
            if let Some(error) = place.unfit.take() {
                return Err(error);
            }
            match considered {
                Ok(None) => {}
                Ok(Some(file)) => {
                    self.fit(place, &entry)?;
                    wanted.files.push(file);
                }
                Err(error) => {
                    if entry.kind == Kind::Folder {
                        place.barred = Some(entry.path.clone());
                    }
                    self.transfer.ledger.settle(number, &entry, Err(error));
                }
            }
        }
        Ok(wanted)
    }

    /// Leaves a folder the special bits that it has here, as a set-group-ID bit from the folder it is in, if the peer may set
    /// none.
    fn keep_special_bits(&self, place: &mut Place, entry: &mut Entry) {
        let is_folder = matches!(entry.kind, Kind::Folder | Kind::Leave);
        if self.transfer.settings.permit.special || !is_folder {
            return;
        }
        // what cannot be looked at cannot be changed, either
        if let Ok(Some(there)) = Self::look(place, entry) {
            entry.mode |= there.mode & SPECIAL;
        }
    }

    /// Makes what can be made at once; answers what must be sent, if anything.
    fn consider(
        &self,
        place: &mut Place,
        number: u64,
        entry: &Entry,
    ) -> Result<Option<WantedFile>, Error> {
        let path = entry.path();
        if self.prunes() {
            place.sieve.take(entry);
        }
        if entry.kind == Kind::Leave {
            place.folded.leave(&entry.path);
            self.remove(place, Some(entry))?;
            self.leave(place, number, entry)?;
            return Ok(None);
        }
        if self.transfer.options().expects() {
            self.transfer.ledger.expect_of(entry);
        }
        self.admit(place, number, entry)?;
        let there = Self::look(place, entry)?;
        self.spare_special(place, entry, there)?;
        let there = self.make_room(place, entry, there)?;
        let (action, why) = self.decide(place, entry, there);
        if self.transfer.options().dry_run.is_some() {
            let is_link =
                self.transfer.options().hard_links && matches!(entry.linked, Linked::To(_));
            let is_new = matches!(entry.kind, Kind::File(_)) && action != Action::Keep;
            let kept = if is_new && !is_link {
                place.unfit = self.fit(place, entry).err();
                self.would_keep(place, number, entry)
            } else {
                0
            };
            let settled = self.rehearse(place, entry, (there, action, why), kept)?;
            self.transfer.ledger.settle(number, entry, Ok(settled));
            return Ok(None);
        }
        if !self.spares(there, entry) && self.is_linked(number, entry) {
            return Ok(None);
        }
        if action == Action::Keep {
            self.keep(place, entry, there)?;
            self.transfer
                .ledger
                .settle(number, entry, Ok(Settled::Before));
            return Ok(None);
        }
        match &entry.kind {
            Kind::Folder => {
                let made = place.root.make_folder(path);
                made.map_err(|error| place.fault("cannot make the folder", entry, &error))?;
            }
            Kind::Link(target) => self.link(place, number, entry, target)?,
            Kind::File(size) if *size > FILE_MAX => {
                let place = place.landing.folder.join(path);
                let text = format!("{}: no file can have {size} bytes", place.display());
                return Err(Error::new(Code::Io, text));
            }
            Kind::File(_) if entry.data().is_empty() => {
                self.expect_nothing(place, entry)?;
                let made = self.empty(place, number, entry, there.is_some());
                made.map_err(|error| place.fault("cannot create", entry, &error))?;
            }
            Kind::File(_) => return Ok(Some(self.want(place, number, entry))),
            Kind::Leave => {}
        }
        self.transfer.ledger.settle(number, entry, Ok(Settled::Now));
        Ok(None)
    }

    /// Refuses to put anything in the place of a device, FIFO or socket, unless that was asked for and may be done.
    fn spare_special(
        &self,
        place: &Place,
        entry: &Entry,
        there: Option<Meta>,
    ) -> Result<(), Error> {
        let Some(what) = there.and_then(|there| special(there.kind)) else {
            return Ok(());
        };
        if self.replaces_special() {
            return Ok(());
        }
        let at = place.landing.folder.join(entry.path());
        let advice = if self.transfer.settings.permit.special {
            "copy elsewhere, or replace it with --replace-special"
        } else {
            "copy elsewhere; your key may not replace it there (`lighthaul allow --special`)"
        };
        let text = format!(
            "{} is a {what}, which is not replaced: {advice}",
            at.display()
        );
        Err(Error::new(Code::Open, text))
    }

    /// Whether devices, FIFOs and sockets are replaced and removed as files are.
    pub(super) const fn replaces_special(&self) -> bool {
        self.transfer.options().replace_special && self.transfer.settings.permit.special
    }

    /// What is there now.
    fn look(place: &mut Place, entry: &Entry) -> Result<Option<Meta>, Error> {
        if place.is_fresh(&entry.path) {
            return Ok(None);
        }
        match place.root.look(entry.path()) {
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {
                let trouble = Trouble::Long(entry.path.clone());
                Err(Error::new(Code::Open, trouble.to_string()))
            }
            // a dry run makes no folders, so that what is in them is not there either
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            there => there.map_err(|error| place.fault("cannot look at", entry, &error)),
        }
    }

    /// What is there stays, with the mode and the time that it has at the source.
    fn keep(&self, place: &mut Place, entry: &Entry, there: Option<Meta>) -> Result<(), Error> {
        match entry.kind {
            Kind::Folder => {
                self.open_up(place, entry.path());
                self.tidy(place, entry.path());
                Ok(())
            }
            Kind::File(_) if self.spares(there, entry) => Ok(()),
            Kind::File(_) if entry.extras.is_none() => place
                .mend(entry, there)
                .map_err(|error| place.fault("cannot set mode and time of", entry, &error)),
            Kind::File(_) | Kind::Link(_) => self
                .wardrobe
                .mend(&mut place.root, entry)
                .map_err(|error| place.fault("cannot open", entry, &error)),
            Kind::Leave => Ok(()),
        }
    }

    /// Whether `entry` is one file with an earlier one, so that it only needs its name when that is there.
    fn is_linked(&self, number: u64, entry: &Entry) -> bool {
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
                self.transfer.ledger.link(first, name)
            }
            Linked::First(left) => {
                self.transfer.ledger.begin_links(number, entry, left);
                false
            }
            Linked::Alone => false,
        }
    }

    /// Refuses a name that the target takes for an earlier one.
    fn admit(&self, place: &mut Place, number: u64, entry: &Entry) -> Result<(), Error> {
        let (path, alike) = (entry.path(), place.folded.take(&entry.path));
        if !alike || self.transfer.options().dry_run.is_some() {
            return Ok(());
        }
        let naming = place
            .root
            .name_rules(path, self.writer.number(path, number));
        // a folder that cannot be tried cannot be written, either
        if naming.is_ok_and(|naming| naming.folds_case) {
            let trouble = Trouble::Same(entry.path.clone());
            return Err(Error::new(Code::Open, trouble.to_string()));
        }
        Ok(())
    }

    /// Refuses a file without bytes if others are expected of it.
    fn expect_nothing(&self, place: &Place, entry: &Entry) -> Result<(), Error> {
        let asked = &self.transfer.options().hash;
        let hashes = Hashes::new(&asked.iter().map(|asked| asked.kind).collect::<Vec<_>>());
        let hashes = hashes.finish();
        let mut checks = asked.iter().map(|asked| asked.check(&hashes));
        checks.find_map(Result::err).map_or(Ok(()), |error| {
            let place = place.landing.folder.join(entry.path());
            let text = format!("{} was not published: {error}", place.display());
            Err(Error::new(error.code, text))
        })
    }

    /// A folder has been listed to its end.
    fn leave(&self, place: &mut Place, number: u64, entry: &Entry) -> Result<(), Error> {
        if entry.is_top() && !self.takes_top(place) {
            self.transfer.ledger.settle(number, entry, Ok(Settled::Now));
            return Ok(());
        }
        if self.transfer.options().dry_run.is_none() {
            self.transfer.ledger.leave(number, entry.clone());
            return Ok(());
        }
        if entry.is_top() && place.landing.is_there() {
            let there = Self::look(place, entry)?;
            let (action, why) = self.decide(place, entry, there);
            self.rehearse(place, entry, (there, action, why), 0)?;
        }
        self.transfer.ledger.settle(number, entry, Ok(Settled::Now));
        Ok(())
    }

    /// Whether the target is to look like the folder whose contents are copied. One that was there may have others in it, as
    /// /tmp has, and looks so only for who asks for all that there is.
    const fn takes_top(&self, place: &Place) -> bool {
        place.landing.is_new() || self.transfer.options().keep.owner
    }

    fn link(
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
            .and_then(|()| self.wardrobe.dress(root, &from, entry).map(drop))
            .and_then(|()| root.rename(&from, entry.path()));
        made.map_err(|error| {
            place.root.remove(&from).ok();
            place.fault("cannot make the link", entry, &error)
        })
    }

    fn empty(&self, place: &mut Place, number: u64, entry: &Entry, there: bool) -> io::Result<()> {
        let path = entry.path();
        let temporary = self.writer.temporary(path, number);
        // what nobody could mistake for something else needs no other name first
        let first: &Path = if there { &temporary } else { path };
        let file = place.root.create(first)?;
        if let Some(data) = &entry.data {
            debug_assert!(data.is_empty());
            sparse::stretch(&file, entry.size())?;
        }
        if !self.wardrobe.dress(&mut place.root, first, entry)? {
            file.set_mode(entry.mode)?;
            file.set_time(entry.seconds, entry.nanos)?;
        }
        if there {
            place.root.rename(&temporary, path)?;
        }
        Ok(())
    }

    /// Lets us fill the folder `path` if it is ours, until it gets its mode when all in it is in place.
    fn open_up(&self, place: &mut Place, path: &Path) {
        if self.transfer.options().dry_run.is_none() {
            // somebody else's folder may let us all the same, or what goes there fails
            place.root.open_up(path).ok();
        }
    }

    /// Removes what dead processes left in the folder `path`.
    fn tidy(&self, place: &mut Place, path: &Path) {
        if self.transfer.options().dry_run.is_some() {
            return;
        }
        let _step = self.transfer.crew.work.begin();
        let folders = [Some(path.to_owned()), self.transfer.cradle.folder(path)];
        for folder in folders.into_iter().flatten() {
            let names = place.root.names(&folder, names::PREFIX);
            for name in names.unwrap_or_default() {
                if self.writer.is_orphan(&name) || place.claims.is_orphan(&mut place.root, &name) {
                    // somebody else may have been faster
                    place.root.remove(&folder.join(name)).ok();
                }
            }
        }
    }
}

impl Place {
    /// Gives the file that is there the mode and the time that it has at the source.
    fn mend(&mut self, entry: &Entry, there: Option<Meta>) -> io::Result<()> {
        let Some(there) = there else { return Ok(()) };
        if there.mode != entry.mode & 0o7777 {
            self.root.set_mode(entry.path(), entry.mode)?;
        }
        // a digest may say that the bytes are the same where the time does not
        if (there.seconds, there.nanos) != (entry.seconds, entry.nanos) {
            self.root
                .set_time(entry.path(), entry.seconds, entry.nanos)?;
        }
        Ok(())
    }

    /// Whether `path` lies in a folder that a dry run takes for empty.
    pub(super) fn is_fresh(&self, path: &[u8]) -> bool {
        let fresh = self.fresh.as_ref();
        let rest = fresh.and_then(|fresh| path.strip_prefix(fresh.as_slice()));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

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

    pub(super) fn fault(&self, what: &str, entry: &Entry, error: &io::Error) -> Error {
        let place: PathBuf = self.landing.folder.join(entry.path());
        Error::file(Code::Open, what, &place, error)
    }
}
