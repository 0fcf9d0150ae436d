//! Checks of a host that ssh logs in to: its configuration, the login, and the route of the data.

use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::net::dial::resolve;
use lighthaul_session::checkup;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::Hello;
use lighthaul_session::session::Session;

use super::path::{self, SessionRoute};
use super::report::Report;
use super::settings::Doctor;
use crate::place::Place;
use crate::reach::agreed;
use crate::ssh::command::Ssh;
use crate::ssh::reach::connect;
use crate::ssh::route::SshRoute;
use crate::ssh::start::{PATIENCE, Started, Wanted, start};

/// Returns the ssh command for the host to check, if ssh is the way to it: the host is written as for a copy
/// (`HOST:`, `USER@HOST`), or it is only a name in the configuration of ssh.
pub(super) fn way(doctor: &Doctor) -> Result<Option<Ssh>, Error> {
    let text = doctor.host.as_str();
    if text.starts_with("lh://") || doctor.gateway.is_some() {
        return Ok(None);
    }
    let has_user = text.contains('@') && !text.contains(':');
    let written = if has_user {
        format!("{text}:")
    } else {
        text.to_owned()
    };
    if let Place::Ssh { host, path } = Place::parse(&written)? {
        let is_port = !path.is_empty() && path.iter().all(u8::is_ascii_digit);
        return if is_port {
            Ok(None)
        } else {
            Ok(Some(Ssh::new(&doctor.ssh, &host)?))
        };
    }
    if text.starts_with('-') || resolve(text, 0).is_ok_and(|found| !found.is_empty()) {
        return Ok(None);
    }
    let ssh = Ssh::new(&doctor.ssh, text)?;
    let config = &ssh.config;
    let is_alias =
        config.via.is_some() || config.hostname.as_deref().is_some_and(|name| name != text);
    Ok(Some(ssh).filter(|_| is_alias))
}

/// Checks the host of `ssh`, and reports every step.
pub(super) fn examine(doctor: &Doctor, ssh: Ssh, report: &mut Report<'_>) -> Result<(), Error> {
    report.fine("name", &described(&ssh));
    let identity = Identity::generate();
    let port = ssh.config.port.unwrap_or(22);
    let wanted = Wanted {
        program: &doctor.program,
        ports: doctor.ports,
        install: doctor.install,
        patience: PATIENCE,
        user: &*doctor.daemon.user,
    };
    let route = SshRoute::new(&ssh, &doctor.program, false);
    let started = match start(ssh, wanted, &identity) {
        Ok(started) => started,
        Err(error) if error.code() == Code::Interrupted => return Err(error),
        Err(error) => {
            let advice = if error.code() == Code::Network {
                format!("TCP port {port} must be open")
            } else {
                String::new()
            };
            report.fail(error.code(), "ssh", &error.text(), &advice);
            return Ok(());
        }
    };
    report.fine(
        "ssh",
        &format!("ssh logs in, and {} runs there", started.program),
    );
    let found = match connect(&started, route, (doctor.ports, false), &identity) {
        Ok(found) => found,
        Err(error) if error.code() == Code::Interrupted => return Err(error),
        Err(error) => {
            report.fail(error.code(), "tcp", &error.text(), "");
            return Ok(());
        }
    };
    let way = match &found.through {
        None => {
            let text = format!("{} port {} answers", started.host, started.port);
            report.fine("tcp", &text);
            SessionRoute::Direct
        }
        Some((_, closed)) => {
            closed_port(&started, &closed.text(), doctor, report);
            SessionRoute::Ssh
        }
    };
    if is_welcome(&found.session, report) {
        path::examine(doctor, &found.session, (way, None), report);
    }
    Ok(())
}

/// Returns a sentence about the host in the configuration of ssh.
fn described(ssh: &Ssh) -> String {
    let (host, address) = (&ssh.host, ssh.address());
    let port = ssh.config.port.unwrap_or(22);
    let via = ssh.config.via.as_ref();
    let via = via.map_or_else(String::new, |via| format!(", through {via}"));
    format!("{host} is {address} port {port}{via}, in the configuration of ssh")
}

/// Reports that the daemon's port is closed, so that the data goes through ssh.
fn closed_port(started: &Started, why: &str, doctor: &Doctor, report: &mut Report<'_>) {
    let (host, port) = (&started.host, started.port);
    let text = format!("{host} port {port} is closed ({why}); data goes through ssh");
    let advice = match doctor.ports {
        Some(ports) => format!("let TCP and UDP ports {ports} through to there for the full rate"),
        None => "let some TCP and UDP ports through to there, and name them with --port-range FROM-TO, for the full rate".to_owned(),
    };
    report.warn("tcp", &text, &advice);
}

/// Asks for a checkup.
fn is_welcome(session: &Session, report: &mut Report<'_>) -> bool {
    let asked =
        session.ask::<checkup::message::Message>(Hello::about::<checkup::message::Message>(&()));
    match asked.and_then(|()| agreed(session)) {
        Ok(()) => true,
        Err(error) => {
            let advice = "install the same version of lighthaul on both sides";
            report.fail(error.code(), "version", &error.text(), advice);
            false
        }
    }
}
