//! Faults of a `PostgreSQL` server and of its URL, each with its remedy.

/// Fault of the URL of a database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    /// The URL cannot be parsed.
    #[error("{0}: name the server as in postgres://user@host/books")]
    Form(String),
    /// The encryption mode is unknown.
    #[error("unknown sslmode={0}: use disable, prefer or verify-full")]
    SslMode(String),
    /// The file of trusted authorities cannot be read.
    #[error("cannot use {path}: {why}; sslrootcert names a PEM file of certificates")]
    Roots {
        /// Path of the file.
        path: String,
        /// Fault.
        why: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The program knows only files.
    #[error("this program was built without PostgreSQL; build it with `--features scheduler`")]
    NotBuilt,
}

/// Failure of an action at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// Message of the server.
    pub why: String,
    /// Fault.
    pub fault: ServerFault,
}

/// Reason for which a database server cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFault {
    /// The disk is full.
    DiskFull,
    /// The database does not exist.
    NoDatabase,
    /// The user or the password is wrong.
    Credentials,
    /// The user may not create tables.
    Privilege,
    /// The TLS connection failed.
    Tls,
    /// The server cannot be reached, or is shutting down.
    Away,
    /// Another session holds a lock, or a statement took too long.
    Busy,
    /// Another transaction was in the way, and the same transaction may succeed now.
    Conflict,
    /// Another fault.
    Other,
}

impl ServerFault {
    /// Returns true if the server may be used again later, without a change of settings.
    pub const fn may_pass(self) -> bool {
        match self {
            Self::DiskFull | Self::Away | Self::Busy | Self::Conflict => true,
            Self::NoDatabase | Self::Credentials | Self::Privilege | Self::Tls | Self::Other => {
                false
            }
        }
    }

    /// Returns the remedy.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::DiskFull => "free space on its disk, and try again",
            Self::NoDatabase => "create the database with createdb",
            Self::Credentials => "check the user and the password in its URL",
            Self::Privilege => "permit the user to create tables in this database",
            Self::Tls => "check its certificate, and sslmode and sslrootcert in its URL",
            Self::Away => "check that the server runs, and try again",
            Self::Busy => {
                "another program holds a lock, or the server is overloaded: see pg_stat_activity there, and try again"
            }
            Self::Conflict => "try again",
            Self::Other => "see its log",
        }
    }
}
