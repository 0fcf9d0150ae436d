//! Faults of requests, sessions and links that a daemon or a relaying client ends.
//!
//! Each fault has one text and one exit status, wherever it occurs. "There" is the host of the daemon, since the client
//! shows the text to its user.

use std::io;
use std::path::PathBuf;

use lighthaul_base::seats::Full;
use lighthaul_session::error::{Code, Coded, Error};
use lighthaul_session::message::VERSION;

/// Fault that ends a request, a session or a link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// An error that one of the two daemons of a copy reported, with the name of the daemon.
    #[error("{0}: {1}")]
    At(String, Error),
    /// A message arrived that is not the expected message, which the text names.
    #[error("the peer sent an unexpected message instead of {0}")]
    Unexpected(&'static str),
    /// The client has another version of the protocol.
    #[error(
        "the daemon there speaks version {VERSION}, not {0}; install the same version on both sides"
    )]
    Version(u16),
    /// The request belongs to a topic that this daemon does not serve.
    #[error(
        "the daemon there does not support this request; install the same version on both sides"
    )]
    UnknownTopic,
    /// The invitation of the client is for another request.
    #[error("the invitation of this client there is for another request; start the copy again")]
    OtherRequest,
    /// The daemon serves files, not links of gateways.
    #[error("a daemon for files listens there, not a gateway; start `lighthaul gateway` there")]
    NotGateway,
    /// The daemon serves links of gateways, not files.
    #[error("a gateway listens there, not a daemon for files; start `lighthaul serve` there")]
    OnlyGateway,
    /// The key has no right to the gateway.
    #[error(
        "your key may not use the gateway there; the gateway's operator can change that with `lighthaul allow --gateway KEY NAME`"
    )]
    GatewayDenied,
    /// The daemon runs with `--no-relay`.
    #[error("the daemon there does not send files to other daemons (serve --no-relay)")]
    RelayDisabled,
    /// The daemon runs without `--plain`.
    #[error(
        "the daemon there refuses unencrypted packets; omit --plain, or start it with `lighthaul serve --plain`"
    )]
    PlainDisabled,
    /// A copy between two other hosts whose source is an object store.
    #[error(
        "{0} is an object store, and the daemon there sends it to this host only; copy it here first, or use its own URL, as in s3://BUCKET"
    )]
    StoreRelay(String),
    /// A request about a store and other paths.
    #[error("{0} is an object store: name its objects in a command of their own")]
    StoreAndOthers(String),
    /// An option that has no meaning for object stores.
    #[error("{0} does not apply to object stores: omit it")]
    StoreOption(&'static str),
    /// The key may not write.
    #[error(
        "your key may only read there; the daemon's operator can change that with `lighthaul allow`"
    )]
    ReadOnly,
    /// The key may not use devices.
    #[error(
        "{} is a device, which your key may not use there; the daemon's operator can change that with `lighthaul allow --special`",
        .0.display()
    )]
    Device(PathBuf),
    /// The rights of the key were reduced during the session.
    #[error(transparent)]
    Narrowed(#[from] Narrowed),
    /// Two clients invite one key.
    #[error("another client already invited this key there; start the copy again")]
    InvitedTwice,
    /// The proof of a further connection is wrong, or its session has ended.
    #[error("the daemon there has no session that this connection may join; start the copy again")]
    NoSession,
    /// A list of files has several base directories.
    #[error("--files-from needs exactly one source, a directory; its paths are relative to it")]
    FilesFrom,
    /// The rate is zero.
    #[error("the rate is zero; give a rate above zero")]
    ZeroRate,
    /// The timetable of a rate limit is malformed.
    #[error("{text}: {why}")]
    Timetable {
        /// Text of the timetable.
        text: String,
        /// Fault of the text.
        why: String,
    },
    /// The name of the target is too long for a host name.
    #[error("the host name of the target has more than 255 octets")]
    HostName,
    /// An earlier attempt of the same copy still runs.
    #[error("an earlier attempt of this copy has not ended there yet; try again in a moment")]
    EarlierAttempt,
    /// The invited client did not connect.
    #[error("the invited client did not connect within 30 s")]
    NotCalled,
    /// The daemon at the source of a copy is silent.
    #[error("no data from the daemon for 30 s")]
    Silent,
    /// A client that does not read its reports.
    #[error("the client stopped reading the reports about its copy")]
    Unread,
    /// No units of a resource are free.
    #[error("no {what} are free there: {full}; try again later")]
    NoneFree {
        /// Name of the resource.
        what: &'static str,
        /// Limit that was reached.
        full: Full,
    },
    /// The resources of the session went to another client.
    #[error(
        "the daemon ended this session to free resources for other clients: it was the newest of the key with the \
         largest share; try again later"
    )]
    Revoked,
    /// A newer attempt of the same copy replaced the session.
    #[error("a newer attempt of the same copy has replaced this one")]
    Replaced,
    /// The daemon or gateway is being stopped.
    #[error("the {0} there is being stopped; try again in a moment")]
    Stopping(&'static str),
    /// The thread of a link cannot be started.
    #[error("cannot start a link: {0}")]
    LinkStart(io::Error),
    /// A later connection of the same link replaced the session.
    #[error("a later connection of the same link has replaced this one")]
    LinkReplaced,
    /// The link ended before its connection.
    #[error("the link has ended")]
    LinkEnded,
    /// The target of a relay is not reachable, or is another host.
    #[error("the source cannot reach {host} port {port}, or finds another key there than expected")]
    Unreachable {
        /// Host name of the target.
        host: String,
        /// Port of the target.
        port: u16,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// Standard input does not begin with the key of the client.
    #[error("cannot read the key of the client from standard input: {0}")]
    ClientKey(String),
    /// No port can be opened.
    #[error("cannot listen on a port: {0}")]
    Listen(io::Error),
    /// The listener failed.
    #[error("cannot accept a connection: {0}")]
    Accept(io::Error),
    /// The thread of the only session is gone.
    #[error("the session ended without a result")]
    NoResult,
}

/// Reduction of rights during a session that used them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Narrowed {
    /// The root is another directory.
    #[error(
        "the operator of the daemon changed the root directory of your key: run the command again"
    )]
    Root,
    /// The right `owners` was removed.
    #[error("your right to give files to other users there was removed")]
    Owners,
    /// The right `special` was removed.
    #[error("your right to set special bits and attributes there was removed")]
    Special,
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::At(_, error) => error.code(),
            Self::Unexpected(_) | Self::Version(_) | Self::UnknownTopic | Self::ClientKey(_) => {
                Code::Protocol
            }
            Self::OtherRequest
            | Self::NotGateway
            | Self::OnlyGateway
            | Self::GatewayDenied
            | Self::RelayDisabled
            | Self::PlainDisabled
            | Self::ReadOnly
            | Self::Device(_)
            | Self::Narrowed(_)
            | Self::InvitedTwice
            | Self::NoSession => Code::Permission,
            Self::StoreRelay(_)
            | Self::StoreAndOthers(_)
            | Self::StoreOption(_)
            | Self::FilesFrom
            | Self::ZeroRate
            | Self::Timetable { .. }
            | Self::HostName => Code::Usage,
            Self::EarlierAttempt | Self::NotCalled | Self::Silent | Self::Unread => Code::TimedOut,
            Self::NoneFree { .. }
            | Self::Revoked
            | Self::Replaced
            | Self::LinkStart(_)
            | Self::LinkReplaced
            | Self::LinkEnded
            | Self::Unreachable { .. }
            | Self::Listen(_)
            | Self::Accept(_)
            | Self::NoResult => Code::Network,
            Self::Stopping(_) => Code::Stopping,
            Self::Thread(_) => Code::Io,
        }
    }
}
