//! A daemon to call: its identity, and credentials for it.

use std::path::PathBuf;

/// Identity of a daemon, and credentials for it.
#[derive(Clone, Debug, Default)]
pub struct Daemon {
    /// Key that the daemon must show.
    pub pin: Option<String>,
    /// True to refuse a daemon whose key is not known yet.
    pub strict: bool,
    /// File with a token for the daemon.
    pub token_file: Option<PathBuf>,
    /// File with the statement of an authority, in place of the default.
    pub statement: Option<PathBuf>,
    /// File with the private key of this side, in place of the default.
    pub key: Option<PathBuf>,
}
