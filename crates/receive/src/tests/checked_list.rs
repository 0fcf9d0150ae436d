//! Receiver that handles a list of entries from the test, without data.
//!
//! The test is the sender: it gives entries or raw messages to an `EntryChecker` over a real
//! session. `CheckedList` has all that came back: requested files, planned actions, events and
//! failures. No file data moves, so requested files never get their names.

use std::sync::Arc;
use std::sync::mpsc::channel;

use lighthaul_copy::message::{Failure, LIST, Landing, Listing, Target, WantedFile};
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::manifest::{Entry, EntryKind, pack};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::{Options, Planned};
use lighthaul_files::temp_names::Writer;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::control::Frame;
use lighthaul_session::error::Error;
use lighthaul_session::topic::decode;

use super::bench::{Bench, SECONDS, sessions};
use crate::claims::Claims;
use crate::entry_checker::EntryChecker;
use crate::entry_table::EntryTable;
use crate::metadata::MetadataWriter;
use crate::settings::Settings;
use crate::target_folder::TargetFolder;
use crate::transfer::Transfer;

/// Result of handling a list.
pub(super) struct CheckedList {
    pub(super) result: Result<(), Error>,
    /// Files that the receiver requests.
    pub(super) wanted: Vec<WantedFile>,
    /// Actions of a dry run.
    pub(super) planned: Vec<Planned>,
    /// Events for the user of the receiver.
    pub(super) events: Vec<CopyEvent>,
    pub(super) failures: Vec<Failure>,
    pub(super) table: EntryTable,
    pub(super) claims: Arc<Claims>,
    /// True if the target was created for the copy; none if the list ended before that was known.
    pub(super) made: Option<bool>,
}

impl CheckedList {
    /// Returns the numbers of the requested files. Fails if an entry has failed.
    pub(super) fn wants(&self) -> Vec<u64> {
        assert_eq!(self.result, Ok(()));
        assert_eq!(self.failures, []);
        self.wanted.iter().map(|file| file.number).collect()
    }

    /// Returns the only failure.
    pub(super) fn failure(&self) -> (String, u8, &str) {
        assert_eq!(self.result, Ok(()));
        let [failure] = self.failures.as_slice() else {
            panic!("{:?}", self.failures);
        };
        let path = String::from_utf8_lossy(&failure.path).into_owned();
        (path, failure.code, &failure.why)
    }

    /// Returns the number of entries in place, and of entries that were in place before.
    pub(super) fn settled(&self) -> (u64, u64) {
        let counts = self.table.counts();
        (counts.entries, counts.unchanged)
    }
}

/// Returns the meaning of a target: a directory if it ends with a slash, and otherwise a new name.
pub(super) fn landing(to: &str) -> Landing {
    if to.ends_with('/') {
        Landing::Inside
    } else {
        Landing::Exact
    }
}

impl Bench {
    /// Lets a receiver handle `entries` for the target `to`. If they are not `named` after their
    /// source, they are the contents of a directory.
    pub(super) fn check_list(
        &self,
        (to, named): (&str, bool),
        entries: &[Entry],
        options: &Options,
    ) -> CheckedList {
        let entries = Listing::Entries(pack(entries).unwrap());
        let naming = if named {
            Naming::Several
        } else {
            Naming::Contents
        };
        let list = [Listing::Begin { naming }, entries, Listing::End];
        self.check_messages(to, &list, options)
    }

    /// Lets a receiver handle any messages of a sender about the list.
    pub(super) fn check_messages(
        &self,
        to: &str,
        list: &[Listing],
        options: &Options,
    ) -> CheckedList {
        let [sender, receiver] = sessions();
        let said = sender.control.open(LIST).unwrap();
        for listing in list {
            said.send(&Frame::message(listing.encode())).unwrap();
        }
        let settings = Settings {
            options: options.clone(),
            permit: self.permit,
            requested: self.requested.clone(),
            ..Settings::default()
        };
        let mut transfer = Transfer::new(&receiver, settings).unwrap();
        transfer.boot = 0;
        let (threads, stream) = (&transfer.threads, &transfer.stream);
        let metadata = MetadataWriter::new(self.permit.limit(options.keep), &transfer.monitor);
        let checker = EntryChecker {
            jobs: channel().0,
            transfer: &transfer,
            list: None,
            metadata: &metadata,
            writer: writer(),
        };
        let target = Target {
            path: self.top.join(to).into_os_string().into_encoded_bytes(),
            landing: landing(to),
        };
        let access = Arc::new(FileAccess::anywhere());
        let target_folder =
            TargetFolder::open(&target, &access, options.dry_run.is_some()).unwrap();
        let mut made = None;
        let result = checker.run(target_folder, |_, _, new| {
            made = Some(new);
            Ok(())
        });
        let end = Frame::message(Listing::End.encode());
        stream.send(&end).unwrap();
        let (mut wanted, mut planned) = (Vec::new(), Vec::new());
        loop {
            let frame = threads.receive(&said, sender.clock).unwrap();
            let listing: Listing = decode(&frame.octets).unwrap();
            if listing == Listing::End {
                break;
            }
            if let Listing::Wanted(answer) = listing {
                wanted.extend(answer.files);
            } else if let Listing::Planned(answer) = listing {
                planned.extend(answer);
            }
        }
        CheckedList {
            result,
            wanted,
            planned,
            events: transfer.monitor.take_events(),
            failures: transfer.table.take_settled().1,
            claims: Arc::clone(&transfer.claims),
            table: transfer.table,
            made,
        }
    }
}

/// Returns the writer of temporary files in these tests.
pub(super) fn writer() -> Writer {
    Writer::new(u64::MAX)
}

/// Returns a file of this size.
pub(super) fn file(path: &str, size: u64) -> Entry {
    entry(path, EntryKind::File(size))
}

/// Returns a directory.
pub(super) fn folder(path: &str) -> Entry {
    entry(path, EntryKind::Folder)
}

/// Returns the end of a directory.
pub(super) fn leave(path: &str) -> Entry {
    entry(path, EntryKind::FolderEnd)
}

/// Returns an entry of a source that changed long ago.
pub(super) fn entry(path: &str, kind: EntryKind) -> Entry {
    let is_folder = matches!(kind, EntryKind::Folder | EntryKind::FolderEnd);
    Entry {
        kind,
        // with the bits of the file type, as the system returns them
        mode: if is_folder { 0o40_750 } else { 0o100_640 },
        seconds: SECONDS,
        nanos: 5,
        ..Entry::bare(path.into())
    }
}
/// Target for the contents of a directory.
pub(super) const CONTENTS: (&str, bool) = ("target/", false);
/// Numbers of the requested files if all entries are in place.
pub(super) const NOTHING: [u64; 0] = [];
