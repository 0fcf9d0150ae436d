//! A gateway as an element of a cluster.

use std::fs;

use lighthaul_gateway::cluster::{Cluster, ClusterError, Settings};
use lighthaul_gateway::kernel::error::Error as Kernel;
use lighthaul_gateway::link_handle::LinkHandle;
use lighthaul_session::error::{Code, Error};

use crate::grammar::gateway::{ClusterArgs, Gateway};

/// Joins the cluster that there may be, whose elements let `line` send in its turn.
pub(crate) fn join(args: &Gateway, line: &LinkHandle) -> Result<Option<Cluster>, Error> {
    let ClusterArgs {
        cluster,
        cluster_listen,
        cluster_key,
        cluster_address,
    } = &args.together;
    let (Some(listen), Some(key), Some(rate)) = (cluster_listen, cluster_key, args.rate) else {
        return Ok(None);
    };
    let failed = |e| Error::file(Code::Open, "cannot read", key, &e);
    let settings = Settings {
        members: cluster.clone(),
        listen: *listen,
        secret: fs::read(key).map_err(failed)?.trim_ascii().to_vec(),
        rate,
        address: *cluster_address,
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
    Cluster::join(&settings, config, line.clone())
        .map(Some)
        .map_err(starting)
}
