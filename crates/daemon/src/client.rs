//! Calling a daemon, or a far side that ssh starts.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use lighthaul_gateway::capture::refusal::Refusal;
use lighthaul_gateway::entrance::Entrance;
use lighthaul_gateway::passage::{NoPassage, Passage};
use lighthaul_gateway::target::{Host, Target};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::net::tcp;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::session::{Call, Session};

use crate::greeting::GREETING;

/// Calls the daemon at `host` and `port`. Whether its key is right is for the caller to decide.
pub fn call(host: &str, port: u16, identity: &Identity) -> Result<Session, Error> {
    Session::start(tcp::connect(host, port)?, Side::Client, identity)
}

/// The same through gateways, of which the first takes SOCKS5 at `gateway`, for all connections of the session.
pub fn call_through(
    gateway: &Entrance,
    host: &str,
    port: u16,
    identity: &Identity,
) -> Result<Session, Error> {
    Session::start_by(through(gateway, host, port)?, identity)
}

/// How the daemon at `host` and `port` is called through gateways.
pub fn through(gateway: &Entrance, host: &str, port: u16) -> Result<Arc<dyn Call>, Error> {
    let named = Host::new(host).filter(|_| port > 0);
    let host = named.ok_or_else(|| {
        let text = format!("no gateway takes {host:?} with port {port} for a target");
        Error::new(Code::Usage, text)
    })?;
    let passage = Passage {
        gateway: gateway.clone(),
        target: Target { host, port },
    };
    Ok(Arc::new(Through(passage)))
}

/// Calls a daemon through gateways.
#[derive(Debug)]
struct Through(Passage);

impl Call for Through {
    fn call(&self) -> Result<TcpStream, Error> {
        Ok(tcp::with_handshake_timeouts(
            self.0.open().map_err(no_passage)?,
        )?)
    }
}

/// Why no session leads to a daemon, and what to do about it.
fn no_passage(error: NoPassage) -> Error {
    let text = error.to_string();
    let (code, advice) = match error {
        NoPassage::World(error) => return error.into(),
        NoPassage::Silent(..) => (Code::Network, ""),
        NoPassage::Locked(_) | NoPassage::Unknown(_) => (Code::Permission, ""),
        NoPassage::Foreign(_) => (Code::Protocol, ""),
        NoPassage::Refused { why, .. } => match why {
            Refusal::NotAllowed => (Code::Permission, ""),
            Refusal::Refused => (Code::Network, "; is `lighthaul serve` running there?"),
            Refusal::Busy | Refusal::Broken | Refusal::Rejected => (
                Code::Network,
                "; `lighthaul gateway status` there shows whether they have a link",
            ),
            Refusal::Unreachable | Refusal::TimedOut | Refusal::Unresolved => (Code::Network, ""),
        },
    };
    Error::new(code, format!("{text}{advice}"))
}

/// A far side that ssh started; it ends when this is dropped.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// Where to call.
    pub host: String,
    /// On which port.
    pub port: u16,
    /// Who will answer.
    pub key: Fingerprint,
}

impl Drop for Started {
    fn drop(&mut self) {
        // closing its input tells the far side to end
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

/// Starts `remote` (a `lighthaul`) on `host` over ssh, and lets only `identity` call it.
pub fn start_over_ssh(
    ssh: &[String],
    host: &str,
    remote: &str,
    identity: &Identity,
) -> Result<Started, Error> {
    let (program, options) = ssh
        .split_first()
        .ok_or_else(|| Error::new(Code::Usage, "the ssh command is empty"))?;
    let failed = |error: std::io::Error| {
        Error::new(
            Code::Network,
            format!("{program} could not be started: {error}"),
        )
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
        let (code, why) = match status.code() {
            Some(127) => (Code::Open, format!("{remote} is not installed on {host}")),
            Some(255) => (
                Code::Network,
                format!("ssh could not reach {host} or log in there"),
            ),
            _ => (Code::Protocol, format!("{remote} on {host} did not answer")),
        };
        return Err(Error::new(code, why));
    };
    Ok(Started {
        child,
        host: address,
        port,
        key,
    })
}

/// The line with which the far side says where it listens.
fn read_greeting(output: ChildStdout) -> Option<(u16, Fingerprint)> {
    let mut lines = BufReader::new(output).lines();
    // a login shell may say things of its own first
    for _ in 0..100 {
        let line = lines.next()?.ok()?;
        let mut words = line.split_whitespace();
        if words.next() == Some(GREETING) {
            return Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?));
        }
    }
    None
}

/// The address that ssh's configuration has for `host`.
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
