//! Checks from a name to a session.
//!
//! [`examine`] is `lighthaul doctor`: it runs the steps in the order in which a copy needs them,
//! and stops at the first one that fails:
//!
//! ```text
//! name -> TCP (every address) -> TLS -> key -> allowed -> checks of the path
//! gateway ---------------------->
//! ```
//!
//! Each step is reported with the remedy of its fault. The key of an unknown daemon is only shown,
//! never trusted, and no token is sent to it. Hosts behind ssh are examined in `ssh`.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::Fault;
use lighthaul_daemon::client::through;
use lighthaul_daemon::known_hosts::KeyCheck;
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::crypto::tls::Side;
use lighthaul_io::net::dial::{dial, resolve};
use lighthaul_io::net::hops::hops;
use lighthaul_io::net::tcp::{device_mtu, with_handshake_timeouts};
use lighthaul_session::checkup;
use lighthaul_session::credential::Credential;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::session::Session;

use crate::credential;
use crate::dial::{judge, load_key, name, unclear};
use crate::paths;
use crate::place::Place;
use crate::reach::agreed;

use super::path::{self, SessionRoute};
use super::report::{Check, Diagnosis, Report};
use super::settings::Doctor;
use super::ssh;

/// Runs the checks until one fails that the next needs. Each result goes to `tell`.
pub fn examine(doctor: &Doctor, tell: &mut dyn FnMut(Check<'_>)) -> Result<Diagnosis, Error> {
    if let Some(ssh) = ssh::way(doctor)? {
        let mut report = Report::new(tell);
        ssh::examine(doctor, ssh, &mut report)?;
        return Ok(report.finish());
    }
    let text = if doctor.host.starts_with("lh://") {
        doctor.host.clone()
    } else {
        format!("lh://{}/", doctor.host)
    };
    let Place::Daemon { host, port, .. } = Place::parse(&text)? else {
        return Err(Fault::NoHost.into());
    };
    let mut steps = Steps {
        doctor,
        host,
        port,
        device_mtu: None,
        report: Report::new(tell),
    };
    if let Some(session) = steps.session()? {
        let way = match doctor.gateway {
            Some(_) => SessionRoute::Gateway,
            None => SessionRoute::Direct,
        };
        let (mtu, report) = (steps.device_mtu, &mut steps.report);
        path::examine(doctor, &session, (way, mtu), report);
    }
    Ok(steps.report.finish())
}

struct Steps<'a> {
    doctor: &'a Doctor,
    host: String,
    port: u16,
    /// MTU of the device on the route to the host.
    device_mtu: Option<u32>,
    report: Report<'a>,
}

impl Steps<'_> {
    /// Returns a session whose peer agreed to a checkup, or `None` if a step failed.
    fn session(&mut self) -> Result<Option<Session>, Error> {
        let path = self.doctor.daemon.key.clone();
        let identity = load_key(&path.unwrap_or_else(paths::user_key))?;
        let tcp = match &self.doctor.gateway {
            Some(gateway) => self.gateway(gateway)?,
            None => self.name().and_then(|addresses| self.tcp(&addresses)),
        };
        let Some(tcp) = tcp else {
            return Ok(None);
        };
        self.device_mtu = device_mtu(&tcp);
        let session = with_handshake_timeouts(tcp)
            .map_err(Error::from)
            .and_then(|tcp| Session::start(tcp, Side::Client, &identity));
        let session = match session {
            Ok(session) => session,
            Err(error) => {
                let advice = format!(
                    "check that `lighthaul serve` listens on port {} there",
                    self.port
                );
                self.report
                    .fail(error.code(), "tls", &error.text(), &advice);
                return Ok(None);
            }
        };
        self.report.fine("tls", "TLS 1.3 between both keys");
        let Some(known) = self.key(session.peer)? else {
            return Ok(None);
        };
        let credential = credential::ours(&self.doctor.daemon)?;
        // the receiver of a token can use it, so it is not sent to an unknown daemon
        let credential = credential.filter(|c| known || !matches!(c, Credential::Token(_)));
        Ok(self.welcome(&session, credential).then_some(session))
    }

    /// Returns a connection through the gateway.
    fn gateway(&mut self, gateway: &ProxyAddress) -> Result<Option<TcpStream>, Error> {
        let (host, port) = (&self.host, self.port);
        match through(gateway, host, port)?.call() {
            Ok(tcp) => {
                let text = format!("the gateway at {gateway} leads to {host} port {port}");
                self.report.fine("gateway", &text);
                Ok(Some(tcp))
            }
            Err(error) if error.code() == Code::Interrupted => Err(error),
            Err(error) => {
                self.report.fail(error.code(), "gateway", &error.text(), "");
                Ok(None)
            }
        }
    }

    fn name(&mut self) -> Option<Vec<SocketAddr>> {
        let found = resolve(&self.host, self.port).and_then(|addresses| {
            if addresses.is_empty() {
                Err(ErrorKind::NotFound.into())
            } else {
                Ok(addresses)
            }
        });
        match found {
            Ok(addresses) => {
                let list: Vec<String> = addresses.iter().map(|a| a.ip().to_string()).collect();
                let text = format!("{} is {}", self.host, list.join(", "));
                self.report.fine("name", &text);
                Some(addresses)
            }
            Err(error) => {
                let text = format!("{} cannot be resolved: {error}", self.host);
                let advice = "check the spelling, /etc/hosts and the name server";
                self.report.fail(Code::Network, "name", &text, advice);
                None
            }
        }
    }

    /// Returns a connection to the first address that answers. Every address is tried.
    fn tcp(&mut self, addresses: &[SocketAddr]) -> Option<TcpStream> {
        let mut first = None;
        let mut refused = Vec::new();
        for address in addresses {
            match dial(*address, PATIENCE) {
                Ok((tcp, time)) => {
                    let ms = time.as_secs_f64() * 1e3;
                    let text = format!("{address} answers in {ms:.1} ms");
                    self.report.fine("tcp", &text);
                    first = first.or(Some(tcp));
                }
                Err(error) => refused.push((*address, error)),
            }
        }
        for (address, error) in refused {
            let text = format!("cannot reach {address}: {}", plain(&error));
            if first.is_some() {
                let advice = "copies take an address that answers; remove this one from the name, or repair its route";
                self.report.warn("tcp", &text, advice);
            } else {
                let advice = advice(address, error.kind());
                self.report.fail(Code::Network, "tcp", &text, &advice);
            }
        }
        first
    }

    /// Checks the daemon's key. Returns true if it is the known one, false if none is known, and
    /// `None` if it is another.
    fn key(&mut self, shown: Fingerprint) -> Result<Option<bool>, Error> {
        let name = name(&self.host, self.port);
        match judge(
            &self.doctor.daemon.known_hosts(),
            self.doctor.daemon.pin.as_deref(),
            true,
            (&name, shown),
        )? {
            KeyCheck::Matches => {
                self.report.fine("key", "the daemon has the known key");
                Ok(Some(true))
            }
            KeyCheck::Changed(known) => {
                let text = format!("the daemon has the key {shown}, but {known} is expected");
                let advice = format!(
                    "another host may be answering in its place; if its key has changed, `lighthaul trust --replace {name} {shown}`"
                );
                self.report.fail(Code::Permission, "key", &text, &advice);
                Ok(None)
            }
            KeyCheck::Malformed(nth) => Err(unclear(&self.doctor.daemon.known_hosts(), nth, &name)),
            KeyCheck::New => {
                let text = format!("the daemon has the key {shown}, which is not known here");
                let advice = format!(
                    "compare it with `lighthaul key --host` there, then `lighthaul trust {name} {shown}`"
                );
                self.report.warn("key", &text, &advice);
                Ok(Some(false))
            }
        }
    }

    /// Checks that the daemon admits this user and speaks this version.
    fn welcome(&mut self, session: &Session, credential: Option<Credential>) -> bool {
        let shown = credential.map_or(Ok(()), |c| session.say(&Message::Credential(c)));
        let asked = shown.and_then(|()| {
            session.say(&Message::Hello(Hello::about::<checkup::message::Message>(
                &(),
            )))
        });
        match asked.and_then(|()| agreed(session)) {
            Ok(()) => {
                self.report
                    .fine("allowed", "the daemon accepts this user's key");
                true
            }
            Err(error) if error.code() == Code::Permission => {
                let code = Code::Permission;
                self.report.fail(code, "allowed", &error.text(), "");
                false
            }
            Err(error) => {
                let advice = "install the same version of lighthaul on both sides";
                self.report
                    .fail(error.code(), "version", &error.text(), advice);
                false
            }
        }
    }
}

/// Returns the remedy where TCP does not get through.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other kinds mean that no answer arrived"
)]
fn advice(address: SocketAddr, kind: ErrorKind) -> String {
    let port = address.port();
    match kind {
        ErrorKind::ConnectionRefused => format!(
            "no process listens on TCP port {port} there, or a firewall rejects it: start `lighthaul serve` there"
        ),
        ErrorKind::PermissionDenied => {
            format!("a firewall of this host rejects it: allow TCP port {port} there")
        }
        ErrorKind::NetworkUnreachable => {
            "this host has no route there: see `ip route`, or `ip -6 route` for an IPv6 address"
                .to_owned()
        }
        _ => format!(
            "{}: allow TCP and UDP port {port} at that hop and after it",
            last_hop(address)
        ),
    }
}

/// Returns a sentence about the last hop on the path to `address` that answers.
fn last_hop(address: SocketAddr) -> String {
    let found = hops(address, HOPS_PATIENCE).unwrap_or_default();
    match found.last() {
        None => "no hop on the path answers".to_owned(),
        Some(hop) if hop.address == address.ip() => {
            format!("the host itself answers, {} hops away", hop.distance)
        }
        Some(hop) => format!(
            "the last hop that answers is {}, {} hops away",
            hop.address, hop.distance
        ),
    }
}

/// Returns the text of a system error without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or(&text);
    words.to_lowercase()
}

/// Timeout of a connection to one address.
const PATIENCE: Duration = Duration::from_secs(3);
/// Timeout of the search for hops.
const HOPS_PATIENCE: Duration = Duration::from_secs(2);
