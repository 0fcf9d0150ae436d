//! Resources that each kind of session uses: memory, threads and files.
//!
//! Each figure is the maximum for such a session, whatever its peer sends. It includes an unfinished frame and the queues
//! of the connection: 1 MiB in each direction until a request is accepted, then [`Cost::queues`]. A copy is faster with
//! more memory and open files. It gets more than its minimum where resources are free.

use lighthaul_copy::budget::Budget;
use lighthaul_files::request::FileRequest;
use lighthaul_io::control::QueueLimit;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_session::offer;
use lighthaul_stream::message::StreamKind;

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

/// Resources of a session or connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Sessions.
    pub(crate) sessions: u64,
    /// Connections for packets in addition to those of sessions.
    pub(crate) connections: u64,
    /// MiB of memory.
    pub(crate) memory: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Open files, sockets and other descriptors.
    pub(crate) files: u64,
}

impl Cost {
    /// Client that has sent no request yet: its thread, and those of its connection and of the check of its rights.
    pub(crate) const CLIENT: Self = Self {
        sessions: 0,
        connections: 1,
        ..Self::SESSION
    };
    /// Session without a request.
    pub(crate) const SESSION: Self = Self {
        sessions: 1,
        connections: 0,
        memory: 4,
        threads: 3,
        files: 8,
    };
    /// Further connection of a session, with 1 MiB in each direction.
    pub(crate) const CONNECTION: Self = Self {
        sessions: 0,
        connections: 1,
        memory: 3,
        threads: 2,
        files: 4 + LANES_MAX as u64,
    };

    /// Returns the minimum and the maximum that `request` uses in addition to its session.
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
            // a relay has a connection to the target with further connections
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
                    StreamKind::Messages(_) => 64,
                    // the longest payload, and as much read in advance
                    StreamKind::Objects(_) => 320,
                };
                small(memory, 6 + 2 * lanes, 16 + 8 * lanes)
            }
            // the memory of a link is counted by its key
            Request::Gateway(_) => small(QUEUES, 3, 16),
        }
    }

    /// Returns the memory of a message of `len` octets: a list of empty paths takes 32 times its length, twice.
    pub(crate) const fn of_message(len: usize) -> Self {
        Self {
            sessions: 0,
            connections: 0,
            memory: (len as u64 * 64) >> 20,
            threads: 0,
            files: 0,
        }
    }

    /// Returns the limit of the queues of a connection that serves `request`.
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

    /// Returns the sum of this and `other`.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            connections: self.connections + other.connections,
            memory: self.memory + other.memory,
            threads: self.threads + other.threads,
            files: self.files + other.files,
        }
    }

    /// Returns this minimum with a part of the `spare` units of each resource, at most `most`.
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

    /// Returns the units of each resource in the order of the limits.
    pub(crate) const fn uses(self) -> [u64; RESOURCES] {
        [
            self.sessions,
            self.connections,
            self.memory,
            self.threads,
            self.files,
        ]
    }

    /// Returns the budget of a copy with this cost, where `least` is the minimum cost of such a copy.
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

/// Returns the maximum number of lanes of one copy on this host.
fn lanes() -> u64 {
    offer::lanes(None, false) as u64
}

/// Indexes into [`Cost::uses`].
const MEMORY: usize = 2;
const FILES: usize = 4;
/// Divisor of the spare units: one session gets at most one part. Units for minimum sessions are not spare.
const PART: u64 = 4;
const MEMORY_KEPT: u64 = 1024;
const FILES_KEPT: u64 = 4096;
/// MiB above the minimum that make a copy faster.
const MEMORY_MORE: u64 = 256;
/// MiB of a connection's queues with [`QueueLimit::Full`] beyond those of [`QueueLimit::Small`]: 3 in each direction, and
/// 2 for messages that join a full outgoing queue.
const QUEUES: u64 = 8;
/// Minimum MiB of a lane.
const MEMORY_LANE: u64 = 4;
/// Minimum number of open files of a lane, and the additional number that makes it faster. Half of them are journals.
const FILES_LANE: u64 = 16;
const FILES_MORE: u64 = 256;
/// Directories that are open while a tree is removed, one for each level: by `rm -r`, and by `--delete`.
const FILES_TO_REMOVE: u64 = 200;
const FILES_TO_DELETE: u64 = 400;
