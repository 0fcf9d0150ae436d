//! Settings of the checks.

use lighthaul_base::{PortRange, Rate};
use lighthaul_gateway::proxy_address::ProxyAddress;

use crate::daemon::Daemon;
use crate::ssh::install::Install;

/// Host to check, and the path to it.
#[derive(Clone, Debug)]
pub struct Doctor {
    /// Host, as HOST, HOST:PORT or an `lh://` URL; for ssh as HOST:, USER@HOST or an alias.
    pub host: String,
    /// ssh command and its options.
    pub ssh: String,
    /// Program that ssh starts there.
    pub program: String,
    /// Permission to install a copy of this program, if there is none.
    pub install: Install,
    /// Ports for that program.
    pub ports: Option<PortRange>,
    /// Rate of the copies to come, in place of the rate that the path is measured at.
    pub rate: Option<Rate>,
    /// Gateway on the way.
    pub gateway: Option<ProxyAddress>,
    /// Identity of the daemon, and credentials for it.
    pub daemon: Daemon,
}
