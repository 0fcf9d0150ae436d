//! A daemon to call: its identity, and credentials for it.

use std::env;
use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::Arc;

use crate::paths;
use crate::user::{Unattended, User};

/// Identity of a daemon, and credentials for it.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// Key that the daemon must show.
    pub pin: Option<String>,
    /// True to refuse a daemon whose key is not known yet.
    pub strict: bool,
    /// Token for the daemon.
    pub token: Option<Token>,
    /// File with a token for the daemon.
    pub token_file: Option<PathBuf>,
    /// File with the statement of an authority, instead of the default file.
    pub statement: Option<PathBuf>,
    /// File with the private key of this side, instead of the default file.
    pub key: Option<PathBuf>,
    /// File with the keys of known hosts, instead of the default file.
    pub known_hosts: Option<PathBuf>,
    /// User who is informed about a new key.
    pub user: Arc<dyn User>,
}

/// Token for a daemon, which is not shown in the log.
#[derive(Clone)]
pub struct Token(pub String);

impl Debug for Token {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Daemon {
    /// Returns true if a token is shown to the daemon.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
            || self.token_file.is_some()
            || env::var_os("LIGHTHAUL_TOKEN").is_some()
    }

    /// Returns the file with the keys of known hosts.
    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.known_hosts.clone().unwrap_or_else(paths::known_hosts)
    }
}

impl Default for Daemon {
    fn default() -> Self {
        Self {
            pin: None,
            strict: false,
            token: None,
            token_file: None,
            statement: None,
            key: None,
            known_hosts: None,
            user: Arc::new(Unattended),
        }
    }
}
