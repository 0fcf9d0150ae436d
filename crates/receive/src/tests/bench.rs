//! Copies from one directory to another over loopback, with both sides in this process.
//!
//! `Bench` has a directory `source` and a directory `target`, which are removed at the end. A copy
//! runs sender and receiver as two threads over a real session, and `Outcome` has the results of
//! both. Other tests use its helpers to create files with times and modes, and to look at them.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::{fs, thread};

use lighthaul_copy::broken_part::BROKEN;
use lighthaul_copy::budget::{Budget, Slot};
use lighthaul_copy::message::Target;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_copy::watch::{CopyEvent, Failed, Summary};
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_files::permit::Permit;
use lighthaul_files::walk::Walk;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::net::tcp::with_handshake_timeouts;
use lighthaul_send::{self as send, send};
use lighthaul_session::error::Error;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;
use lighthaul_testkit::Ordinary;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};

use super::checked_list::landing;
use crate::target_folder::TargetFolder;
use crate::{self as receive, receive};

/// Returns the only slot of a set of its own.
pub(super) fn slot() -> Slot {
    let slots = Budget::default().journals();
    slots.take(&ThreadGroup::default()).unwrap()
}

/// A directory with a `source` and a `target`, removed when this value is dropped.
pub(super) struct Bench {
    pub(super) top: PathBuf,
    /// Metadata that the peer may set.
    pub(super) permit: Permit,
    /// Paths of sources that the receiver has requested, if any.
    pub(super) requested: Option<Vec<Vec<u8>>>,
    /// Parts of the sender and of the receiver that panic.
    pub(super) broken: [Option<&'static str>; 2],
}

/// Results of both sides of a copy.
pub(super) struct Outcome {
    pub(super) sender: Result<Summary, Error>,
    pub(super) receiver: Result<Summary, Error>,
}

impl Bench {
    /// Creates both directories, empty.
    pub(super) fn new(name: &str) -> Self {
        let top = std::env::temp_dir().join(format!("bench-{name}-{}", std::process::id()));
        fs::remove_dir_all(&top).ok();
        for folder in ["source", "target"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        let permit = Permit::ALL;
        Self {
            top,
            permit,
            requested: None,
            broken: [None; 2],
        }
    }

    /// Creates both directories for a user without root's rights. The thread has the rights of that
    /// user until the guard is dropped.
    pub(super) fn ordinary(name: &str) -> (Self, Ordinary) {
        let bench = Self::new(name);
        let user = Ordinary::begin();
        let number = user.user();
        drop(user);
        for path in [&bench.top, &bench.source(""), &bench.target("")] {
            chown(path, Some(number), None).unwrap();
        }
        (bench, Ordinary::begin())
    }

    /// A path below the source.
    pub(super) fn source(&self, path: &str) -> PathBuf {
        self.top.join("source").join(path)
    }

    /// A path below the target.
    pub(super) fn target(&self, path: &str) -> PathBuf {
        self.top.join("target").join(path)
    }

    /// Writes a file of the source, and creates the directories above it.
    pub(super) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        write(&self.source(path), bytes.as_ref());
    }

    /// Writes a file of the target, and creates the directories above it.
    pub(super) fn leave(&self, path: &str, bytes: impl AsRef<[u8]>) {
        write(&self.target(path), bytes.as_ref());
    }

    /// Copies the contents of the source to the target.
    pub(super) fn copy(&self, options: &Options) -> Outcome {
        self.copy_to("source/", "target/", options)
    }

    /// Copies `from` to `to`, both below the bench; a slash at the end stands for the contents of a
    /// directory.
    pub(super) fn copy_to(&self, from: &str, to: &str, options: &Options) -> Outcome {
        self.watch((from, to), options, &mut |_| {})
    }

    /// Copies like [`Self::copy_to`], and passes the events of the receiver to `watcher`.
    pub(super) fn watch(
        &self,
        (from, to): (&str, &str),
        options: &Options,
        watcher: &mut dyn FnMut(CopyEvent),
    ) -> Outcome {
        let access = Arc::new(FileAccess::anywhere());
        let walk = Walk::new(access, &[self.top.join(from)], options.rules.clone());
        self.send(
            SourceEntries::from_walk(walk.unwrap()),
            to,
            options,
            watcher,
        )
    }

    /// Copies the entries in `finds` like [`Self::watch`].
    pub(super) fn send(
        &self,
        finds: SourceEntries,
        to: &str,
        options: &Options,
        watcher: &mut dyn FnMut(CopyEvent),
    ) -> Outcome {
        let access = Arc::new(FileAccess::anywhere());
        let target = Target {
            path: self.top.join(to).into_os_string().into_encoded_bytes(),
            landing: landing(to),
        };
        let target_folder = TargetFolder::open(&target, &access, options.dry_run.is_some());
        let [caller, called] = sessions();
        let settings = send::Settings {
            plain: true,
            options: options.clone(),
            ..send::Settings::default()
        };
        let [broken_sender, broken_receiver] = self.broken;
        let sender = thread::spawn(move || {
            BROKEN.set(broken_sender);
            let role = Role::Client(false);
            send(&caller, role, finds, settings, &mut |_: CopyEvent| {})
                .inspect_err(|error| caller.give_up(error))
        });
        let settings = receive::Settings {
            plain: true,
            options: options.clone(),
            permit: self.permit,
            requested: self.requested.clone(),
            ..receive::Settings::default()
        };
        let (arrivals, joins) = (channel().1, channel().1);
        let role = Role::Server(arrivals, joins);
        BROKEN.set(broken_receiver);
        let received = target_folder
            .and_then(|target_folder| receive(&called, role, target_folder, settings, watcher))
            .inspect_err(|error| called.give_up(error));
        BROKEN.set(None);
        drop(called);
        Outcome {
            sender: sender.join().unwrap(),
            receiver: received,
        }
    }

    /// Returns the names in a directory of the target, in order.
    pub(super) fn names(&self, folder: &str) -> Vec<OsString> {
        let found = fs::read_dir(self.target(folder)).unwrap();
        let mut names: Vec<_> = found.map(|found| found.unwrap().file_name()).collect();
        names.sort();
        names
    }

    /// Returns the bytes of a file of the target.
    pub(super) fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.target(path)).unwrap()
    }

    /// Returns mode and modification time of a file or directory of the target.
    pub(super) fn look(&self, path: &str) -> (u32, i64, i64) {
        look(&self.target(path))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.top).ok();
    }
}

impl Outcome {
    /// Returns the summary of the receiver. Fails if a side or an entry has failed.
    pub(super) fn whole(self) -> Summary {
        let (sender, receiver) = (self.sender.unwrap(), self.receiver.unwrap());
        assert_eq!((sender.failures, &receiver.failures), (vec![], &vec![]));
        receiver
    }

    /// Returns the failures of a copy, which must be the same on both sides.
    pub(super) fn failed(self) -> Vec<Failed> {
        let (sender, receiver) = (self.sender.unwrap(), self.receiver.unwrap());
        assert_eq!(sender.failures, receiver.failures);
        receiver.failures
    }
}

/// Returns mode and modification time of the item at `path`.
pub(super) fn look(path: &Path) -> (u32, i64, i64) {
    let there = fs::symlink_metadata(path).unwrap();
    (there.mode() & 0o7777, there.mtime(), there.mtime_nsec())
}

/// Returns octets for a file that compress badly and do not repeat.
pub(super) fn octets(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = lighthaul_base::Rng::new(seed);
    let mut octets = vec![0; len];
    for word in octets.chunks_mut(8) {
        word.copy_from_slice(&rng.below(u64::MAX).to_le_bytes()[..word.len()]);
    }
    octets
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Returns both ends of a session: the client, and the server.
#[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
pub(super) fn sessions() -> [Session; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let start = |tcp, side| {
        Session::start(
            with_handshake_timeouts(tcp).unwrap(),
            side,
            &Identity::generate(),
        )
    };
    thread::scope(|scope| {
        let caller = scope.spawn(|| start(TcpStream::connect(address).unwrap(), Side::Client));
        let called = start(listener.accept().unwrap().0, Side::Server);
        [caller.join().unwrap().unwrap(), called.unwrap()]
    })
}

/// Sets the modification time of the item at `path` to that of listed entries.
pub(super) fn age(path: &Path) {
    set_time(path, SECONDS);
}

/// Sets the modification time of the item at `path`, without following links.
pub(super) fn set_time(path: &Path, seconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 5,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Sets the mode of the item at `path`.
pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Creates a FIFO.
pub(super) fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

/// Modification time of listed entries.
pub(super) const SECONDS: i64 = 1_000_000_000;
