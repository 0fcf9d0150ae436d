//! Membership of a gateway in a cluster.

use lighthaul_gateway::cluster::Cluster;
use lighthaul_gateway::link_handle::LinkHandle;
use lighthaul_session::error::Error;

use super::settings::Peer;
use crate::error::Fault;

/// Joins the configured cluster, if any. Its elements take turns to send; `line` sends in the turns of this element.
pub(super) fn join(peer: &Peer, line: &LinkHandle) -> Result<Option<Cluster>, Error> {
    let Some(settings) = &peer.cluster else {
        return Ok(None);
    };
    let config = settings.config().map_err(Fault::ClusterSettings)?;
    let cluster = Cluster::join(settings, config, line.clone()).map_err(Fault::Cluster)?;
    Ok(Some(cluster))
}
