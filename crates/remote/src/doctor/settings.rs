//! Settings of the checks.

use lighthaul_base::Rate;
use lighthaul_gateway::proxy_address::ProxyAddress;

use crate::daemon::Daemon;

/// Host to check, and the path to it.
#[derive(Clone, Debug)]
pub struct Doctor {
    /// Host, as HOST, HOST:PORT or an `lh://` URL.
    pub host: String,
    /// Rate of the intended copies, instead of the measured rate of the path.
    pub rate: Option<Rate>,
    /// Gateway on the way.
    pub gateway: Option<ProxyAddress>,
    /// Identity of the daemon, and credentials for it.
    pub daemon: Daemon,
}
