//! Connections to a daemon: directly, or through gateways.

use std::net::TcpStream;
use std::sync::Arc;

use lighthaul_capture::target::{Host, Target};
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_gateway::proxy_route::ProxyRoute;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::net::tcp;
use lighthaul_session::error::Error;
use lighthaul_session::session::{Call, Session};

use crate::call_error::CallError;

/// Connects to the daemon at `host` and `port`. The caller checks the daemon's key.
pub fn call(host: &str, port: u16, identity: &Identity) -> Result<Session, Error> {
    Session::start(tcp::connect(host, port)?, Side::Client, identity)
}

/// Connects through gateways for all connections of the session. The first gateway takes SOCKS5 at `gateway`.
pub fn call_through(
    gateway: &ProxyAddress,
    host: &str,
    port: u16,
    identity: &Identity,
) -> Result<Session, Error> {
    Session::start_by(through(gateway, host, port)?, identity)
}

/// Returns the route through gateways to the daemon at `host` and `port`.
pub fn through(gateway: &ProxyAddress, host: &str, port: u16) -> Result<Arc<dyn Call>, Error> {
    let named = Host::new(host).filter(|_| port > 0);
    let host = named.ok_or_else(|| CallError::Target {
        host: host.to_owned(),
        port,
    })?;
    let route = ProxyRoute {
        gateway: gateway.clone(),
        target: Target { host, port },
    };
    Ok(Arc::new(Through(route)))
}

/// Route to a daemon through gateways.
#[derive(Debug)]
struct Through(ProxyRoute);

impl Call for Through {
    fn call(&self) -> Result<TcpStream, Error> {
        Ok(tcp::with_handshake_timeouts(
            self.0.open().map_err(CallError::Proxy)?,
        )?)
    }
}
