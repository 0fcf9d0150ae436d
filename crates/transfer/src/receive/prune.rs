//! Removes what the target has and the source does not, if somebody wants that.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lighthaul_files::filter::Verdict;
use lighthaul_files::manifest::{Entry, Kind};
use lighthaul_files::options::Action;
use lighthaul_files::special::special;
use lighthaul_io::control::Frame;
use lighthaul_io::fs::meta::Meta;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::{Code, Error};
use rustix::fs::FileType;

use super::cradle::Cradle;
use super::judge::{Judge, Place};
use crate::crew::LOOK;
use crate::message::{Listing, in_parts};
use crate::watch::{Failed, Sight};

/// Removed paths that are told together.
const REMOVED_MAX: usize = 200;

impl Judge<'_> {
    /// Whether what the source does not have goes. A list names only parts of folders, so it says nothing
    /// of the rest.
    pub(super) const fn prunes(&self) -> bool {
        self.transfer.options().delete && !self.transfer.options().listed
    }

    /// Removes what a folder has and its source does not; without one, of the target's own. What a rule
    /// leaves out at the source stays here, too.
    pub(super) fn remove(&self, place: &mut Place, folder: Option<&Entry>) -> Result<(), Error> {
        if !self.prunes() {
            return Ok(());
        }
        let path = folder.map_or(&[][..], |entry| &entry.path);
        let there = match place.root.names(Path::new(OsStr::from_bytes(path)), b"") {
            // a dry run makes no folders
            _ if place.is_fresh(path) => Vec::new(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            there => there.map_err(|error| failed(place, &error, path))?,
        };
        for gone in place.sieve.end(path, there) {
            self.prune(place, gone)?;
        }
        if let Some(why) = place.sieve.doubts() {
            self.transfer.board.tell(why);
        }
        Ok(())
    }

    /// Removes what is at `path`, or tells that it would go.
    fn prune(&self, place: &mut Place, path: Vec<u8>) -> Result<(), Error> {
        let at = Path::new(OsStr::from_bytes(&path));
        if self.transfer.options().dry_run.is_some() {
            let there = place.root.look(at).ok().flatten();
            if there.is_some_and(|meta| self.keeps(place, &path, meta.kind)) {
                return Ok(());
            }
            let entry = Entry::gone(path);
            return self.plan(Action::Delete, &entry, "the source does not have it");
        }
        if let Err(error) = self.remove_tree(place, &path) {
            let error = failed(place, &error, &path);
            self.transfer.board.show(Sight::Failed(Failed {
                path,
                code: error.code as u8,
                why: error.text,
            }));
        }
        Ok(())
    }

    /// What is there once what is of another kind than `entry` has made room for it, as what is deleted does.
    pub(super) fn make_room(
        &self,
        place: &mut Place,
        entry: &Entry,
        there: Option<Meta>,
    ) -> Result<Option<Meta>, Error> {
        let Some(obstacle) = place.landing.obstacle(entry, there)? else {
            return Ok(there);
        };
        if !self.prunes() {
            let text = format!("{obstacle}: remove it, or copy with --delete");
            return Err(Error::new(Code::Open, text));
        }
        if self.transfer.options().dry_run.is_some() {
            if entry.kind == Kind::Folder {
                place.fresh = Some(entry.path.clone());
            }
            return Ok(there);
        }
        if let Err(error) = self.remove_tree(place, &entry.path) {
            return Err(failed(place, &error, &entry.path));
        }
        let there = place.root.look(entry.path());
        if !matches!(there, Ok(None)) {
            let text = format!("{obstacle}, but the rules keep something there");
            return Err(Error::new(Code::Open, text));
        }
        Ok(None)
    }

    /// Removes what is at `path`, but for what rules leave alone, and tells both sides what went.
    fn remove_tree(&self, place: &mut Place, path: &[u8]) -> io::Result<()> {
        let mut root = place.root.another()?;
        let gone = RefCell::new(Vec::new());
        let removed = {
            // a transfer that has failed, or whose caller may no longer write, removes nothing more
            let keep = |path: &[u8], kind| {
                self.transfer.crew.work.advance();
                self.transfer.crew.check().is_err() || self.keeps(place, path, kind)
            };
            let note = |path: &[u8]| {
                gone.borrow_mut().push(path.to_vec());
                if gone.borrow().len() >= REMOVED_MAX {
                    self.tell_removed(gone.take());
                }
            };
            root.remove_tree(Path::new(OsStr::from_bytes(path)), &keep, &note)
        };
        self.tell_removed(gone.take());
        removed
    }

    /// Tells both sides what was removed, as fast as the sender takes it.
    fn tell_removed(&self, paths: Vec<Vec<u8>>) {
        if paths.is_empty() {
            return;
        }
        while !self.transfer.stream.has_room() && self.transfer.crew.check().is_ok() {
            pause(LOOK);
        }
        for paths in in_parts(paths) {
            let listing = Listing::Removed(paths.clone());
            // a connection that is lost is noticed by who hears from it
            self.transfer
                .stream
                .send(&Frame::message(listing.encode()))
                .ok();
            self.transfer.board.show(Sight::Removed(paths));
        }
    }

    /// Whether `path` stays though the source does not have it.
    fn keeps(&self, place: &Place, path: &[u8], kind: FileType) -> bool {
        let at = place.landing.folder.join(OsStr::from_bytes(path));
        let path = place.landing.at_source(path, &place.first);
        let folder = kind == FileType::Directory;
        if self.is_partial(&path)
            || self.transfer.options().rules.verdict(&path, folder) != Verdict::Take
        {
            return true;
        }
        let Some(what) = special(kind).filter(|_| !self.replaces_special()) else {
            return false;
        };
        self.transfer
            .board
            .tell(format!("{} stays: it is a {what}", at.display()));
        true
    }

    /// Whether `path` is a folder for files that are not whole.
    fn is_partial(&self, path: &[u8]) -> bool {
        match &self.transfer.cradle {
            Cradle::Folder(name) => {
                path.rsplit(|octet| *octet == b'/').next() == Some(name.as_os_str().as_bytes())
            }
            Cradle::Beside | Cradle::Place => false,
        }
    }
}

fn failed(place: &Place, error: &io::Error, path: &[u8]) -> Error {
    let place = place.landing.folder.join(OsStr::from_bytes(path));
    Error::file(Code::Io, "cannot remove", &place, error)
}
