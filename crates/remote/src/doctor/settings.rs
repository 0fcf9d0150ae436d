//! Settings of the checks.

use lighthaul_base::{PortRange, Rate};
use lighthaul_gateway::proxy_address::ProxyAddress;

use crate::daemon::Daemon;
use crate::ssh::install::Install;

/// Host to check, and options of the connection.
#[derive(Clone, Debug)]
pub struct Doctor {
    /// Host, as HOST, HOST:PORT or an `lh://` URL; for ssh as HOST:, USER@HOST or an alias.
    pub host: String,
    /// ssh command and its options.
    pub ssh: String,
    /// Program that ssh starts on the host.
    pub program: String,
    /// Permission to install a copy of this program, if the host has none.
    pub install: Install,
    /// Ports for that program.
    pub ports: Option<PortRange>,
    /// Rate that later copies should reach, instead of the measured rate of the path.
    pub rate: Option<Rate>,
    /// Gateway on the path.
    pub gateway: Option<ProxyAddress>,
    /// Identity of the daemon, and credentials for it.
    pub daemon: Daemon,
}
