//! Resources that each kind of session uses: memory, threads and files.
//!
//! Each figure is the maximum for such a session, for any messages of its peer. It includes an unfinished frame and the
//! queues of the connection: 1 MiB in each direction until a request is accepted, then [`Cost::queues`]. A copy is
//! faster with more memory and open files. It gets more than its minimum where resources are free.

use lighthaul_copy::budget::Budget;
use lighthaul_files::request::FileRequest;
use lighthaul_io::control::QueueLimit;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_remote_files::server::{serve::WORKERS, shared};
use lighthaul_session::offer;
use lighthaul_session::secrets::JOINS_MAX;
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
    /// Number of sessions.
    pub(crate) sessions: u64,
    /// Connections for packets, in addition to the connections of sessions.
    pub(crate) connections: u64,
    /// MiB of memory.
    pub(crate) memory: u64,
    /// Number of threads.
    pub(crate) threads: u64,
    /// Open files, sockets and other descriptors.
    pub(crate) files: u64,
}

impl Cost {
    /// Client that has sent no request yet: three threads, for the client, its connection and the check of its rights.
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

    /// Returns the minimum and the maximum that `request` uses in addition to the cost of its session.
    pub(crate) fn of(request: &Request) -> (Self, Self) {
        Self::with_lanes(request, lanes())
    }

    /// Returns the minimum and the maximum of [`Cost::of`], where a copy has at most `lanes`.
    fn with_lanes(request: &Request, lanes: u64) -> (Self, Self) {
        let copy = Self {
            memory: 16 + MEMORY_LANE * lanes,
            threads: 7 + 2 * lanes,
            files: 52 + (8 + FILES_LANE) * lanes,
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
            // one buffer and one thread for each connection
            Request::RemoteFiles(_) => {
                let (joined, workers) = (u64::from(JOINS_MAX), WORKERS as u64);
                // a file that is written has its directory and its lock open, too
                let files = 8 + 3 * joined + 3 * shared::FILES_MAX as u64;
                small(QUEUES + 16, 2 + workers + joined, files)
            }
            // the memory of a link is counted by its key
            Request::Gateway(_) => small(QUEUES, 3, 16),
        }
    }

    /// Returns the memory of a message of `len` octets: a list of empty paths takes 64 times its length.
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
            | Request::Gateway(_)
            | Request::RemoteFiles(_) => QueueLimit::Full,
        }
    }

    /// Returns the sum of two costs.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            connections: self.connections + other.connections,
            memory: self.memory + other.memory,
            threads: self.threads + other.threads,
            files: self.files + other.files,
        }
    }

    /// Returns the cost, increased by a part of the `spare` units of each resource, up to `most`.
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

    /// Returns the budget of a copy with this cost, where `least` is the minimum cost of any copy.
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
/// MiB that the queues of a connection need with [`QueueLimit::Full`], beyond [`QueueLimit::Small`]: 3 in each
/// direction, and 2 for messages that join a full outgoing queue.
const QUEUES: u64 = 8;
/// Minimum MiB of a lane.
const MEMORY_LANE: u64 = 4;
/// Minimum number of open files of a lane. Half of them are journals.
const FILES_LANE: u64 = 16;
/// Additional number of open files that makes a lane faster.
const FILES_MORE: u64 = 256;
/// Maximum number of directories that `rm -r` keeps open, one for each level of a tree.
const FILES_TO_REMOVE: u64 = 200;
/// Maximum number of directories that `--delete` keeps open.
const FILES_TO_DELETE: u64 = 400;

#[cfg(test)]
mod tests {
    use lighthaul_copy::message::{Landing, Target};
    use lighthaul_copy::relay::Relay;
    use lighthaul_files::options::Options;
    use lighthaul_gateway::messages::Greeting;
    use lighthaul_session::measure::{MeasureMode, MeasureRequest};
    use lighthaul_stream::frames::Frames;
    use lighthaul_stream::message::{Messages, Objects, StreamRequest};

    use super::*;

    fn target() -> Target {
        Target {
            path: Vec::new(),
            landing: Landing::Inside,
        }
    }

    fn receive(delete: bool) -> Request {
        Request::Receive {
            target: target(),
            options: Options {
                delete,
                ..Options::default()
            },
        }
    }

    fn send() -> Request {
        Request::Send {
            paths: Vec::new(),
            options: Options::default(),
        }
    }

    fn relay() -> Request {
        Request::Relay {
            relay: Relay {
                host: String::new(),
                port: 1,
                key: [0; 32],
                udp: true,
                paths: Vec::new(),
                target: target(),
            },
            options: Options::default(),
        }
    }

    fn expect() -> Request {
        Request::Expect {
            key: [0; 32],
            target: target(),
            options: Options::default(),
        }
    }

    fn measure() -> Request {
        Request::Probe(MeasureRequest {
            mode: MeasureMode::Network,
            bytes: 0,
            millis: 0,
            rate_bps: None,
        })
    }

    fn list() -> Request {
        Request::Files(FileRequest::List {
            path: Vec::new(),
            hidden: false,
            recursive: false,
        })
    }

    fn remove() -> Request {
        Request::Files(FileRequest::Remove {
            paths: Vec::new(),
            recursive: true,
        })
    }

    fn stream(kind: StreamKind) -> Request {
        Request::Stream(StreamRequest {
            path: Vec::new(),
            to: true,
            frames: Frames::Lines,
            kind,
        })
    }

    fn messages() -> Request {
        stream(StreamKind::Messages(Messages {
            code: String::new(),
            linger_us: 0,
            deadline_us: None,
            drop: false,
        }))
    }

    fn objects() -> Request {
        stream(StreamKind::Objects(Objects {
            object_len: 1,
            micro_per_second: 1,
            delay_us: 1,
            blasts: 1,
        }))
    }

    fn link() -> Request {
        Request::Gateway(Greeting {
            link: [0; 16],
            received: None,
            window: 1,
            datagram_len: 1472,
        })
    }

    fn remote_files() -> Request {
        Request::RemoteFiles(lighthaul_remote_files::message::Request {
            joins: true,
            changes: true,
        })
    }

    /// The table of the guide's page about the daemon, for a host with four lanes.
    #[test]
    fn sessions_use_the_resources_that_the_guide_states() {
        let table = [
            // memory, most memory, threads, files, most files
            (send(), [36, 292, 18, 156, 1180]),
            (receive(false), [36, 292, 18, 156, 1180]),
            (receive(true), [36, 292, 18, 556, 1580]),
            (relay(), [140, 396, 86, 548, 1572]),
            (list(), [4, 4, 3, 16, 16]),
            (expect(), [4, 4, 3, 16, 16]),
            (remove(), [4, 4, 3, 216, 216]),
            (measure(), [68, 68, 17, 56, 56]),
            (Request::Checkup, [68, 68, 17, 56, 56]),
            (messages(), [68, 68, 17, 56, 56]),
            (objects(), [324, 324, 17, 56, 56]),
            (link(), [12, 12, 6, 24, 24]),
            (remote_files(), [28, 28, 42, 1648, 1648]),
        ];
        for (request, figures) in table {
            let (least, most) = Cost::with_lanes(&request, 4);
            let (least, most) = (Cost::SESSION.plus(least), Cost::SESSION.plus(most));
            let [memory, memory_max, threads, files, files_max] = figures;
            assert_eq!(least.uses(), [1, 0, memory, threads, files], "{request:?}");
            let max = [1, 0, memory_max, threads, files_max];
            assert_eq!(most.uses(), max, "{request:?}");
        }
        assert_eq!(Cost::CLIENT.uses(), [0, 1, 4, 3, 8]);
        assert_eq!(Cost::CONNECTION.uses(), [0, 1, 3, 2, 12]);
    }

    #[test]
    fn sum_of_costs_has_every_resource_of_both() {
        let [session, connection] = [Cost::SESSION, Cost::CONNECTION];
        let both = session.plus(connection).plus(connection);
        assert_eq!(both.uses(), [1, 2, 10, 7, 32]);
        let two = session.plus(session).uses();
        assert_eq!(two, session.uses().map(|units| 2 * units));
    }

    #[test]
    fn cost_of_a_copy_includes_the_lanes_of_this_host() {
        let lanes = offer::lanes(None, false) as u64;
        assert_eq!(Cost::of(&send()), Cost::with_lanes(&send(), lanes));
    }

    #[test]
    fn cost_of_a_long_message_includes_its_paths_before_decoding() {
        for (len, memory) in [(0, 0), (16_000, 0), (1 << 14, 1), (1 << 20, 64)] {
            let cost = Cost::of_message(len);
            assert_eq!(cost.uses(), [0, 0, memory, 0, 0], "{len}");
        }
    }

    #[test]
    fn only_sessions_that_carry_data_have_full_queues() {
        for request in [list(), remove(), expect()] {
            assert_eq!(Cost::queues(&request), QueueLimit::Small, "{request:?}");
        }
        let carrying = [
            send(),
            receive(true),
            relay(),
            measure(),
            Request::Checkup,
            messages(),
            objects(),
            link(),
            remote_files(),
        ];
        for request in carrying {
            assert_eq!(Cost::queues(&request), QueueLimit::Full, "{request:?}");
        }
    }

    #[test]
    fn copy_gets_a_quarter_of_spare_resources_up_to_its_maximum() {
        let (least, most) = Cost::with_lanes(&send(), 4);
        let shared = |memory, files| {
            let spare = |resource: usize| [0, 0, memory, 0, files][resource];
            let gets = least.shared(most, spare);
            assert_eq!((gets.sessions, gets.threads), (0, least.threads));
            (gets.memory - least.memory, gets.files - least.files)
        };
        // a part stays free for the minimum of further sessions
        assert_eq!(shared(0, 0), (0, 0));
        assert_eq!(shared(1024, 4096), (0, 0));
        assert_eq!(shared(1024 + 400, 4096 + 2000), (100, 500));
        assert_eq!(shared(1 << 20, 1 << 20), (256, 1024));
    }

    #[test]
    fn budget_of_a_copy_is_the_share_of_its_lanes_plus_all_above_the_minimum() {
        let (least, most) = Cost::of(&send());
        let lanes = offer::lanes(None, false);
        let minimum = least.budget(least);
        assert_eq!((minimum.memory, minimum.files), (lanes << 22, lanes * 16));
        let maximum = most.budget(least);
        assert_eq!(maximum.memory - minimum.memory, 256 << 20);
        assert_eq!(maximum.files - minimum.files, 256 * lanes);
    }
}
