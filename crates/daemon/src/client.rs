//! Connections to a daemon: directly, through gateways, or to a daemon that ssh starts.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use lighthaul_capture::target::{Host, Target};
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_gateway::proxy_route::ProxyRoute;
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::host::interrupt;
use lighthaul_io::net::tcp;
use lighthaul_session::error::Error;
use lighthaul_session::session::{Call, Session};

use crate::call_error::CallError;
use crate::greeting::GREETING;

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

/// Daemon that ssh started; it ends when this is dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// Host to connect to.
    pub host: String,
    /// Port to connect to.
    pub port: u16,
    /// Key of the daemon.
    pub key: Fingerprint,
}

impl Drop for Started {
    fn drop(&mut self) {
        // the end of its standard input ends the remote daemon
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

/// Starts the program `remote` (a `lighthaul`) on `host` over ssh. Only `identity` may connect to it.
pub fn start_over_ssh(
    ssh: &[String],
    host: &str,
    remote: &str,
    identity: &Identity,
) -> Result<Started, Error> {
    let (program, options) = ssh.split_first().ok_or(CallError::NoCommand)?;
    let failed = |error: std::io::Error| {
        let program = program.clone();
        CallError::NotStarted { program, error }
    };
    let mut child = Command::new(program)
        .args(options)
        .args([host, "--", remote, "serve", "--once"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(input) = &mut child.stdin {
        let line = format!("{}\n", tls::fingerprint(identity)?);
        input
            .write_all(line.as_bytes())
            .and_then(|()| input.flush())
            .ok();
    }
    let output = child.stdout.take();
    let greeting = output.and_then(read_greeting);
    let (Some((port, key)), address) = (greeting, resolve(ssh, host)) else {
        let status = child.wait().map_err(failed)?;
        // Ctrl-C ends ssh, too
        interrupt::check()?;
        let (remote, host) = (remote.to_owned(), host.to_owned());
        return Err(Error::from(match status.code() {
            Some(127) => CallError::NotInstalled { remote, host },
            Some(255) => CallError::NoLogin { host },
            _ => CallError::NoGreeting { remote, host },
        }));
    };
    Ok(Started {
        child,
        host: address,
        port,
        key,
    })
}

/// Reads the line with the port and the key of the remote daemon.
fn read_greeting(output: ChildStdout) -> Option<(u16, Fingerprint)> {
    let mut lines = BufReader::new(output).lines();
    // a login shell may print other lines first
    for _ in 0..100 {
        let line = lines.next()?.ok()?;
        let mut words = line.split_whitespace();
        if words.next() == Some(GREETING) {
            return Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?));
        }
    }
    None
}

/// Returns the address of `host` in the configuration of ssh.
fn resolve(ssh: &[String], host: &str) -> String {
    let bare = host
        .rsplit_once('@')
        .map_or(host, |(_, bare)| bare)
        .to_owned();
    let Some((program, options)) = ssh.split_first() else {
        return bare;
    };
    let output = Command::new(program)
        .args(options)
        .args(["-G", host])
        .output();
    let Ok(output) = output else { return bare };
    let text = String::from_utf8_lossy(&output.stdout);
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("hostname ").map(str::to_owned));
    name.unwrap_or(bare)
}
