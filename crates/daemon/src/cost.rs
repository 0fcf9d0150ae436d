//! The weights of sessions: memory, threads and files of the daemon's host, by request.
//!
//! Each figure is the most that such a session can hold, whatever its peer says. The queues of its connection are a part
//! of it: 1 MiB each way until a request is accepted, then [`Cost::queues`], and an unfinished frame. What a copy is
//! faster with, memory and open files, it gets as far as there is room beyond the least.

use lighthaul_files::request::FileRequest;
use lighthaul_io::control::QueueLimit;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_session::offer;
use lighthaul_stream::message::Kind;
use lighthaul_transfer::budget::Budget;

use crate::request::Request;

/// Number of resources that are counted.
pub(crate) const RESOURCES: usize = 5;

/// Names of the resources, in the order of [`Cost::uses`].
pub(crate) const NAMES: [&str; RESOURCES] = [
    "sessions",
    "connections",
    "MiB of memory",
    "threads",
    "open files",
];

/// Resources that a session or connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Sessions.
    pub(crate) sessions: u64,
    /// Connections that carry packets besides those of sessions.
    pub(crate) connections: u64,
    /// MiB of memory.
    pub(crate) memory: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Open files, sockets and other descriptors.
    pub(crate) files: u64,
}

impl Cost {
    /// A caller that has said nothing yet: its thread, that of its connection, and the one that judges it.
    pub(crate) const CALLER: Self = Self {
        sessions: 0,
        connections: 1,
        ..Self::SESSION
    };
    /// A session that has asked for nothing yet.
    pub(crate) const SESSION: Self = Self {
        sessions: 1,
        connections: 0,
        memory: 4,
        threads: 3,
        files: 8,
    };
    /// A further connection of a session, with 1 MiB each way.
    pub(crate) const CONNECTION: Self = Self {
        sessions: 0,
        connections: 1,
        memory: 3,
        threads: 2,
        files: 4 + LANES_MAX as u64,
    };

    /// The least that `request` uses besides, and the most that it has use for.
    pub(crate) fn of(request: &Request) -> (Self, Self) {
        let lanes = lanes();
        let copy = Self {
            memory: 8 + MEMORY_LANE * lanes,
            threads: 6 + 2 * lanes,
            files: 48 + (8 + FILES_LANE) * lanes,
            ..Self::default()
        };
        let more = |least: Self, memory| {
            let most = Self {
                memory: least.memory + memory,
                files: least.files + FILES_MORE * lanes,
                ..least
            };
            (least, most)
        };
        let small = |memory, threads, files| {
            let cost = Self {
                memory,
                threads,
                files,
                ..Self::default()
            };
            (cost, cost)
        };
        match request {
            Request::Receive { options, .. } => {
                let removing = u64::from(options.delete) * FILES_TO_DELETE;
                let files = copy.files + removing;
                more(Self { files, ..copy }, MEMORY_MORE)
            }
            Request::Send { .. } => more(copy, MEMORY_MORE),
            // which calls, and brings its own further connections
            Request::Relay { .. } => {
                let joined = 32;
                let relay = Self {
                    memory: copy.memory + QUEUES + joined * Self::CONNECTION.memory,
                    threads: copy.threads + 4 + 2 * joined,
                    files: copy.files + 8 + joined * Self::CONNECTION.files,
                    ..copy
                };
                more(relay, MEMORY_MORE)
            }
            Request::Files(FileRequest::Remove { .. }) => small(0, 0, 8 + FILES_TO_REMOVE),
            Request::Files(_) | Request::Expect { .. } => small(0, 0, 8),
            Request::Probe(_) | Request::Checkup => small(64, 6 + 2 * lanes, 16 + 8 * lanes),
            Request::Stream(wanted) => {
                let memory = match wanted.kind {
                    Kind::Messages(_) => 64,
                    // the longest payload, and what is read ahead of it
                    Kind::Objects(_) => 320,
                };
                small(memory, 6 + 2 * lanes, 16 + 8 * lanes)
            }
            // what the link takes for sessions it shares with others of its key
            Request::Gateway(_) => small(QUEUES, 3, 16),
        }
    }

    /// Memory of a message of `len` octets in this process: a list of empty paths takes 32 times as much, twice.
    pub(crate) const fn of_message(len: usize) -> Self {
        Self {
            sessions: 0,
            connections: 0,
            memory: (len as u64 * 64) >> 20,
            threads: 0,
            files: 0,
        }
    }

    /// Limit of the queues of a connection on which `request` is answered.
    pub(crate) const fn queues(request: &Request) -> QueueLimit {
        match request {
            Request::Files(_) | Request::Expect { .. } => QueueLimit::Small,
            Request::Receive { .. }
            | Request::Send { .. }
            | Request::Relay { .. }
            | Request::Probe(_)
            | Request::Checkup
            | Request::Stream(_)
            | Request::Gateway(_) => QueueLimit::Full,
        }
    }

    /// Returns this and `other` together.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            connections: self.connections + other.connections,
            memory: self.memory + other.memory,
            threads: self.threads + other.threads,
            files: self.files + other.files,
        }
    }

    /// Returns this, the least, with a part of what is `spare` of each resource, up to `most`.
    pub(crate) fn shared(self, most: Self, spare: impl Fn(usize) -> u64) -> Self {
        let part = |least: u64, most: u64, (resource, kept)| {
            let spare = spare(resource).saturating_sub(kept);
            least + (spare / PART).min(most - least)
        };
        Self {
            memory: part(self.memory, most.memory, (MEMORY, MEMORY_KEPT)),
            files: part(self.files, most.files, (FILES, FILES_KEPT)),
            ..self
        }
    }

    /// As seats count it.
    pub(crate) const fn uses(self) -> [u64; RESOURCES] {
        [
            self.sessions,
            self.connections,
            self.memory,
            self.threads,
            self.files,
        ]
    }

    /// Returns the budget of a copy with this cost, where `least` is the least cost of such a copy.
    pub(crate) fn budget(self, least: Self) -> Budget {
        let lanes = lanes();
        let memory = (MEMORY_LANE * lanes + self.memory - least.memory) << 20;
        let files = FILES_LANE * lanes + self.files - least.files;
        Budget {
            memory: usize::try_from(memory).unwrap_or(usize::MAX),
            files: usize::try_from(files).unwrap_or(usize::MAX),
        }
    }
}

/// The most that move objects of one copy at a time on this host.
fn lanes() -> u64 {
    offer::lanes(None, false) as u64
}

/// Places in [`Cost::uses`].
const MEMORY: usize = 2;
const FILES: usize = 4;
/// The part of what is spare that one session gets, but for what is kept for sessions that need the least.
const PART: u64 = 4;
const MEMORY_KEPT: u64 = 1024;
const FILES_KEPT: u64 = 4096;
/// MiB with which a copy is as fast as it gets.
const MEMORY_MORE: u64 = 256;
/// MiB of a connection's queues with [`QueueLimit::Full`] beyond those of [`QueueLimit::Small`].
const QUEUES: u64 = 6;
/// MiB with which a lane moves, though slowly.
const MEMORY_LANE: u64 = 4;
/// Files that a lane of a copy has open at least, and those that it has use for besides: half are data, half journals.
const FILES_LANE: u64 = 16;
const FILES_MORE: u64 = 256;
/// Folders that are open while a tree is removed, one for each level: by `rm -r`, and by `--delete`.
const FILES_TO_REMOVE: u64 = 200;
const FILES_TO_DELETE: u64 = 400;
