//! Membership of a gateway in a cluster.

use lighthaul_capture::kernel::error::Error as Kernel;
use lighthaul_gateway::cluster::{Cluster, ClusterError};
use lighthaul_gateway::link_handle::LinkHandle;
use lighthaul_session::error::{Code, Error};

use super::settings::Peer;

/// Joins the configured cluster, if any. Its elements take turns to send; `line` sends in the turns of this one.
pub(super) fn join(peer: &Peer, line: &LinkHandle) -> Result<Option<Cluster>, Error> {
    let Some(settings) = &peer.cluster else {
        return Ok(None);
    };
    let unclear = |why| Error::new(Code::Usage, format!("--cluster: {why}"));
    let config = settings.config().map_err(unclear)?;
    let starting = |why: ClusterError| {
        let (option, code) = match &why {
            ClusterError::Listen(..) => ("--cluster", Code::Network),
            ClusterError::Address(Kernel::Misuse(_)) => ("--cluster-address", Code::Usage),
            ClusterError::Address(_) => ("--cluster-address", Code::Permission),
        };
        Error::new(code, format!("{option}: {why}"))
    };
    Cluster::join(settings, config, line.clone())
        .map(Some)
        .map_err(starting)
}
