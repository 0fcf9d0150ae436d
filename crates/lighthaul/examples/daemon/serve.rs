//! Daemon for the examples.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;

use lighthaul_daemon::serve::Server;
use lighthaul_daemon::settings::{AccessPolicy, Limits, Settings};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls;

/// Starts a daemon for one client. Returns its port and its key.
pub(crate) fn serve(root: &Path, client: &Identity) -> Result<(u16, String), Box<dyn Error>> {
    let identity = Identity::generate();
    let key = tls::fingerprint(&identity)?.to_string();
    let server = Server::listen(Settings {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        ports: None,
        identity,
        access: AccessPolicy::Only(tls::fingerprint(client)?),
        root: Some(root.to_owned()),
        plain: false,
        stores: BTreeMap::new(),
        relay: false,
        gateway: None,
        limits: Limits::default(),
    })?;
    let port = server.address()?.port();
    thread::spawn(move || server.run());
    Ok((port, key))
}
