//! Faults of copies that are not faults of files, of the network or of the peer.

use std::io;
use std::net::IpAddr;

use lighthaul_packing::Error as PackingError;
use lighthaul_session::error::{Code, Coded, Error};
use lighthaul_session::protocol::Protocol;

/// Fault of a request, or of the host that a copy runs on. [`Error::fault`] finds it in an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No source.
    #[error("give a source and a target")]
    NoSource,
    /// Sources on several hosts.
    #[error("all sources must be on one host")]
    SeveralHosts,
    /// An exact target for several sources.
    #[error("an exact target is the new name of one source: give one source, or another target")]
    ExactTarget,
    /// A request that names too many places.
    #[error("too many paths for one request: name fewer paths at a time")]
    ManyPlaces,
    /// A list of paths with several sources.
    #[error("a list of paths needs exactly one source, a directory: its paths are relative to it")]
    ListBase,
    /// A list that was read before.
    #[error("cannot read the list of paths twice, because it is a stream: pass a file instead")]
    ListTaken,
    /// A gateway for a copy without a side on this host.
    #[error("a gateway does not apply to a copy between two remote hosts: omit the gateway")]
    GatewayBetween,
    /// One pinned key for two daemons.
    #[error("one pinned key does not fit two daemons: put both keys into the known hosts")]
    PinForTwo,
    /// One token for two daemons.
    #[error("a token is for one daemon, but this copy has two: use a key that both allow")]
    TokenForTwo,
    /// A circuit behind a gateway.
    #[error("circuits need datagrams, which do not pass a gateway: omit one of them")]
    CircuitThroughGateway,
    /// A protocol with datagrams behind a gateway.
    #[error("{0} needs datagrams, which do not pass a gateway: use tcp, ptcp or auto")]
    DatagramsThroughGateway(Protocol),
    /// An option that a striped copy cannot have.
    #[error("a copy over several hosts cannot have {0}: omit it, or name one host on each side")]
    NotStriped(&'static str),
    /// Sources in several directories, for a striped copy.
    #[error("all sources of a copy over several hosts must be in one directory")]
    SeveralFolders,
    /// A target host that cannot publish its files.
    #[error("{name}: {files} not in place: {error}; the same command copies them")]
    NotPlaced {
        /// Names of the hosts.
        name: String,
        /// Number of entries.
        files: String,
        /// Reason of the failure.
        error: Error,
    },
    /// All pairs of hosts have failed.
    #[error(
        "nothing was published, because all hosts failed, the last with: {0}; the same command resumes the copy"
    )]
    AllMoversFailed(Error),
    /// A booking for a list that can be read only once.
    #[error("the size of a list that is read once is unknown: give the size of the booking")]
    ListSize,
    /// A path for files on another host.
    #[error(
        "the size of files on another host is unknown before the path starts: give the size of the booking"
    )]
    PathSize,
    /// A circuit without a scheduler.
    #[error("the client has no scheduler to book with: set one")]
    NoScheduler,
    /// This host has no name.
    #[error("this host has no name: give its name in the topology")]
    NoName,
    /// Packets that cannot be named.
    #[error("{0}")]
    Packets(String),
    /// A wait that failed.
    #[error("cannot wait: {0}")]
    Wait(io::Error),
    /// A thread that cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A host without an address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// An address without a route.
    #[error("no route leads to {far}: {error}; check its address")]
    NoRoute {
        /// Address.
        far: IpAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// A copy that was stopped at the time that the user gave.
    #[error("stopped at the given time; the same request resumes the copy")]
    StopTime,
    /// A refused reservation, whose copy would end later than its data.
    #[error(
        "{refused} (verification needs {epilogue:.1} s more{})",
        deadline.as_ref().map_or_else(String::new, |by| format!(": the earliest deadline is {by}"))
    )]
    LateEnd {
        /// Answer of the scheduler.
        refused: Error,
        /// Seconds from the end of the data to the end of the copy.
        epilogue: f64,
        /// Earliest deadline that the copy can meet, in local time.
        deadline: Option<String>,
    },
    /// A local socket that cannot be created.
    #[error("cannot create a socket: {0}")]
    Socket(io::Error),
    /// A message for the other direction of a stream.
    #[error("this stream goes in the other direction: open a second one for answers")]
    OtherDirection,
    /// A message after the end of its stream.
    #[error("the stream has ended: open another one")]
    StreamEnded,
    /// A line feed within a message that is framed as a line.
    #[error("a message with a line feed is two lines: use another framing, or omit it")]
    LineFeed,
    /// A message whose length differs from that of all others.
    #[error(
        "a message has {len} bytes, but each except the last has {expected}: use another framing"
    )]
    MessageLen {
        /// Length in bytes.
        len: usize,
        /// Length of each message in bytes.
        expected: usize,
    },
    /// A message that is longer than its length field allows.
    #[error("a message has 4 GiB or more: send it in parts")]
    HugeMessage,
    /// A typed message that cannot be packed or read.
    #[error(transparent)]
    Packing(PackingError),
    /// A typed message of another schema than that of its stream.
    #[error("the message has another schema than its stream: make it with the stream")]
    OtherSchema,
    /// Typed messages with a framing for text.
    #[error("typed messages need the prefixed framing: set it on both sides")]
    TypedFrames,
    /// Objects without a rate.
    #[error("the number of objects per second must be above zero")]
    ObjectRate,
    /// A reservation that cannot be used.
    #[error("cannot use reservation {id}: {why}")]
    Reservation {
        /// Number of the reservation.
        id: String,
        /// Reason of the failure.
        why: String,
    },
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::Packing(why) if why.is_of_peer() => Code::Protocol,
            Self::NoSource
            | Self::SeveralHosts
            | Self::ExactTarget
            | Self::ManyPlaces
            | Self::ListBase
            | Self::ListTaken
            | Self::GatewayBetween
            | Self::PinForTwo
            | Self::TokenForTwo
            | Self::NotStriped(_)
            | Self::SeveralFolders
            | Self::CircuitThroughGateway
            | Self::DatagramsThroughGateway(_)
            | Self::ListSize
            | Self::PathSize
            | Self::NoScheduler
            | Self::NoName
            | Self::OtherDirection
            | Self::StreamEnded
            | Self::LineFeed
            | Self::MessageLen { .. }
            | Self::HugeMessage
            | Self::ObjectRate
            | Self::OtherSchema
            | Self::TypedFrames
            | Self::Packing(_)
            | Self::Packets(_) => Code::Usage,
            Self::AllMoversFailed(error) | Self::NotPlaced { error, .. } => error.code(),
            Self::Wait(_) | Self::Thread(_) | Self::Socket(_) => Code::Io,
            Self::NoAddress(_) | Self::NoRoute { .. } => Code::Network,
            Self::StopTime => Code::TimedOut,
            Self::LateEnd { .. } => Code::Refused,
            Self::Reservation { .. } => Code::Protocol,
        }
    }
}
