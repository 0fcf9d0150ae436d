//! How to serve: whom, where, and how much.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_base::seats;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};

use crate::gateway_links::GatewayLinks;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen, for TCP and UDP.
    pub address: SocketAddr,
    /// The daemon's key.
    pub identity: Identity,
    /// Who may call.
    pub access: AccessPolicy,
    /// Paths start here; nothing outside can be named.
    pub root: Option<PathBuf>,
    /// Datagrams may be plain if the client wants that, too.
    pub plain: bool,
    /// Clients may have files sent to other daemons.
    pub relay: bool,
    /// Sessions of programs that come in from other gateways; without one, files are served.
    pub gateway: Option<Arc<GatewayLinks>>,
    /// How much callers may use.
    pub limits: Limits,
}

/// How much the callers of a daemon may use together and each.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions at a time.
    pub sessions: seats::Limits,
    /// Connections that carry packets besides those of sessions (ptcp).
    pub connections: seats::Limits,
    /// Bytes of memory.
    pub memory: u64,
    /// Threads.
    pub threads: u64,
    /// Open files; never more than the system allows, but for what callers use before they are let in.
    pub files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let limits = |all, identity, host, site| seats::Limits {
            all,
            identity,
            host,
            site,
        };
        Self {
            sessions: limits(256, 64, 192, 224),
            connections: limits(2048, 512, 1024, 1536),
            memory: 4 << 30,
            threads: 8192,
            files: u64::MAX,
        }
    }
}

/// Who may call.
#[derive(Clone, Debug)]
pub enum AccessPolicy {
    /// Whoever these files let in.
    Listed {
        /// Keys, and authorities that vouch for others.
        keys: PathBuf,
        /// Tokens.
        tokens: PathBuf,
    },
    /// This one alone.
    Only(Fingerprint),
}
