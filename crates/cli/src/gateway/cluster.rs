//! A gateway as an element of a cluster.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use lighthaul_gateway::cluster::{Cluster, NoCluster, Settings};
use lighthaul_gateway::kernel::error::Error as Kernel;
use lighthaul_gateway::line::Line;
use lighthaul_transfer::error::{Code, Error};

use crate::grammar::gateway::Gateway;

/// Gateways that share one channel, each with its whole rate for a part of the time.
#[derive(Args, Clone, Debug)]
pub(crate) struct Together {
    /// Where each gateway of a cluster listens for the others, by UDP, as in 10.0.0.1:4811,10.0.0.2:4811; the same list for all of
    /// them, which share the channel of --rate by turns
    #[arg(
        long,
        value_name = "ADDR",
        value_delimiter = ',',
        requires_all = ["peer", "rate", "cluster_listen", "cluster_key"]
    )]
    pub(crate) cluster: Vec<SocketAddr>,
    /// Which of these addresses is this gateway's
    #[arg(long, value_name = "ADDR", requires = "cluster")]
    pub(crate) cluster_listen: Option<SocketAddr>,
    /// The file with the secret that the gateways of a cluster share, at least 16 octets
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub(crate) cluster_key: Option<PathBuf>,
    /// An address of IPv4, in the network of those of --cluster, that all its gateways take and programs find them at, as in
    /// 10.0.0.100: connections are spread over those that live, through doors that listen everywhere, as in --socks 0.0.0.0:1080;
    /// takes root, nft and ip
    #[arg(long, value_name = "ADDR", requires = "cluster")]
    pub(crate) cluster_address: Option<Ipv4Addr>,
}

/// Joins the cluster that there may be, whose elements let `line` send in its turn.
pub(crate) fn join(args: &Gateway, line: &Line) -> Result<Option<Cluster>, Error> {
    let Together {
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
    let starting = |why: NoCluster| {
        let (option, code) = match &why {
            NoCluster::Deaf(..) => ("--cluster", Code::Network),
            NoCluster::Address(Kernel::Misuse(_)) => ("--cluster-address", Code::Usage),
            NoCluster::Address(_) => ("--cluster-address", Code::Permission),
        };
        Error::new(code, format!("{option}: {why}"))
    };
    Cluster::join(&settings, config, line.clone())
        .map(Some)
        .map_err(starting)
}
