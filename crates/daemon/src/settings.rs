//! Settings of a daemon.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_base::{PortRange, seats};
use lighthaul_copy::object_target::ObjectTarget;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};

use crate::gateway_links::GatewayLinks;

/// Object stores by name.
pub type Stores = BTreeMap<String, Arc<dyn ObjectTarget>>;

/// Settings of a daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address of the listeners, for TCP and UDP.
    pub address: SocketAddr,
    /// Range of ports to choose from if the address has port 0; none for any port.
    pub ports: Option<PortRange>,
    /// Key of the daemon.
    pub identity: Identity,
    /// Clients that may call.
    pub access: AccessPolicy,
    /// Directory that clients see as `/`.
    pub root: Option<PathBuf>,
    /// Object stores that clients see as directories of the root.
    pub stores: Stores,
    /// True if datagrams may be unencrypted when the client asks for it.
    pub plain: bool,
    /// True if clients may request that files are sent to other daemons.
    pub relay: bool,
    /// Links of a gateway. A daemon without them serves files.
    pub gateway: Option<Arc<GatewayLinks>>,
    /// Resources for clients.
    pub limits: Limits,
}

impl Settings {
    /// Returns the path of the record of recent hosts, in the directory of the list of keys.
    pub(crate) fn recent_hosts(&self) -> Option<PathBuf> {
        let name = match &self.gateway {
            Some(_) => "recent_hosts_of_gateway",
            None => "recent_hosts",
        };
        match &self.access {
            AccessPolicy::Listed { keys, .. } => Some(keys.with_file_name(name)),
            AccessPolicy::Only(_) => None,
        }
    }
}

/// Resources for the clients of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent sessions.
    pub sessions: seats::Limits,
    /// Connections for packets (ptcp), in addition to the connections of sessions.
    pub connections: seats::Limits,
    /// Bytes of memory.
    pub memory: u64,
    /// Maximum number of threads.
    pub threads: u64,
    /// Open files; limited by the system, without the files of clients that are not admitted yet.
    pub files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let limits = |all, identity, host, site| seats::Limits {
            all,
            identity,
            authority: host,
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

/// Clients that may call.
#[derive(Clone, Debug)]
pub enum AccessPolicy {
    /// Clients in the given lists.
    Listed {
        /// List of keys and authorities.
        keys: PathBuf,
        /// List of tokens.
        tokens: PathBuf,
    },
    /// Only the client with the given key.
    Only(Fingerprint),
}
