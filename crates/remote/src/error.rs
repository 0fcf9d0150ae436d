//! Faults of places and of connections to other hosts.

use std::io;
use std::path::PathBuf;

use lighthaul_booking_client::client::ClientError;
use lighthaul_domains::control::ControlError;
use lighthaul_session::error::{Code, Coded, Error};

use crate::control_code;

/// Fault of a place or of a connection to another host.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A malformed URL of a daemon.
    #[error("invalid place {0}: write lh://HOST[:PORT]/PATH")]
    DaemonUrl(String),
    /// A list of hosts that is too long or names a host twice.
    #[error("invalid place {0}: name each host once, and at most 64")]
    Hosts(String),
    /// A URL with another scheme.
    #[error(
        "invalid place {0}: write lh://HOST[:PORT]/PATH, HOST:PATH for ssh, or s3://BUCKET/KEY"
    )]
    Scheme(String),
    /// A malformed URL of an object.
    #[error(
        "invalid place {0}: write s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY or https://HOST/PATH"
    )]
    ObjectUrl(String),
    /// A malformed URL of a local file.
    #[error("invalid place {0}: write file:///PATH")]
    FileUrl(String),
    /// An object store where a host is needed.
    #[error("{0} is in an object store, which this command cannot use: copy it to a host first")]
    ObjectStore(String),
    /// A host name that ssh would take for an option.
    #[error("{0} begins with -, as no host's name does: write ./{0} for a file here")]
    HostOption(String),
    /// A path in the home of another user.
    #[error("{0} names the home of another user: write its path in full")]
    OtherHome(String),
    /// A malformed URL of a scheduler.
    #[error("{0} is not the URL of a scheduler: write it as in https://HOST:4811")]
    SchedulerUrl(String),
    /// A key for a scheduler that is reached without TLS.
    #[error(
        "{0} has no TLS, so the key of the scheduler cannot be checked: use https://, or omit the pin and LIGHTHAUL_PIN"
    )]
    PinWithoutTls(String),
    /// A failed request to a scheduler.
    #[error("{0}")]
    Scheduler(ClientError),
    /// A question that the service of a domain cannot be asked.
    #[error("{0}")]
    Control(ControlError),
    /// An answer of the service of a domain to another question.
    #[error(
        "the service of the domain answered another request; use the same version of lighthaul for both"
    )]
    Answer,
    /// A key that cannot be compared.
    #[error("{0}")]
    KeyText(String),
    /// The key of a host is unknown or has changed.
    #[error("{0}")]
    HostKey(String),
    /// A malformed line in the list of known hosts.
    #[error("line {nth} of {} has a malformed key for {name}: correct or remove it", .path.display())]
    KnownLine {
        /// Path of the list of known hosts.
        path: PathBuf,
        /// Number of the line.
        nth: usize,
        /// Name of the host.
        name: String,
    },
    /// A malformed statement.
    #[error("cannot use {}: {why}", .path.display())]
    Statement {
        /// Path of the file.
        path: PathBuf,
        /// Fault in the statement's text.
        why: String,
    },
    /// The session leads to another host.
    #[error("another host answered in its place")]
    OtherHost,
    /// Both places are on this host.
    #[error("neither side is remote: write one as HOST:PATH")]
    NotRemote,
    /// The doctor has no host.
    #[error("give a host, as in HOST:PORT")]
    NoHost,
    /// The peer's first message was not an answer to the request.
    #[error("the peer did not accept the request")]
    NotAccepted,
    /// Standard input does not begin with a port.
    #[error("the first line of standard input is no port: name the port as an argument")]
    NoPort,
    /// A port of this host does not answer.
    #[error("cannot connect to port {port} of this host: {error}")]
    LocalPort {
        /// Port.
        port: u16,
        /// Error of the connection.
        error: io::Error,
    },
    /// A connection to this host broke.
    #[error("the connection to port {port} of this host broke: {error}")]
    LocalBroken {
        /// Port.
        port: u16,
        /// Error of the connection.
        error: io::Error,
    },
    /// The direct attempt is slower than ssh.
    #[error("it did not answer in time")]
    Slow,
    /// The threads that connect are gone.
    #[error("an attempt to connect ended without a result")]
    NoResult,
    /// A range that begins past the end of its file.
    #[error("cannot read that range of {path}: the file has {size} bytes")]
    PastEnd {
        /// Path of the file.
        path: String,
        /// Size in bytes.
        size: u64,
    },
    /// An error whose text names the host.
    #[error("{text}")]
    Named {
        /// Kind of the error.
        code: Code,
        /// Sentence.
        text: String,
    },
    /// Neither the port nor ssh carries the data.
    #[error(
        "the data cannot get to {host}: port {port} is closed ({closed}), and ssh does not carry the data ({refused}); \
         {advice}, or run `lighthaul serve` on a port that is open"
    )]
    NoWay {
        /// Name of the host.
        host: String,
        /// Port.
        port: u16,
        /// Error of the direct attempt.
        closed: Error,
        /// Error of the attempt through ssh.
        refused: Error,
        /// Ports to open.
        advice: String,
    },
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::DaemonUrl(_)
            | Self::Hosts(_)
            | Self::Scheme(_)
            | Self::ObjectUrl(_)
            | Self::FileUrl(_)
            | Self::ObjectStore(_)
            | Self::HostOption(_)
            | Self::OtherHome(_)
            | Self::SchedulerUrl(_)
            | Self::PinWithoutTls(_)
            | Self::KeyText(_)
            | Self::NotRemote
            | Self::PastEnd { .. }
            | Self::NoHost => Code::Usage,
            Self::Scheduler(failure) => match failure {
                ClientError::ClearText { .. } => Code::Usage,
                ClientError::Untrusted { .. } => Code::Permission,
                ClientError::Network { .. } => Code::Network,
                ClientError::Protocol { .. } => Code::Protocol,
                ClientError::Problem(problem) => match problem.status {
                    401 | 403 => Code::Permission,
                    409 => Code::Refused,
                    429 | 502..=504 => Code::Network,
                    // a fault of the scheduler that does not pass
                    500.. => Code::Io,
                    _ => Code::Usage,
                },
            },
            Self::Control(why) => control_code::code(why),
            Self::HostKey(_)
            | Self::KnownLine { .. }
            | Self::Statement { .. }
            | Self::OtherHost => Code::Permission,
            Self::NotAccepted | Self::NoPort | Self::Answer => Code::Protocol,
            Self::LocalPort { .. } | Self::LocalBroken { .. } | Self::NoWay { .. } => Code::Network,
            Self::Slow => Code::TimedOut,
            Self::NoResult => Code::Io,
            Self::Named { code, .. } => *code,
        }
    }
}
