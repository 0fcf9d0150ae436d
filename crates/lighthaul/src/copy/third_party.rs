//! Copies between two other hosts.

use lighthaul_copy::relay::{self, Relay};
use lighthaul_copy::watch::Summary;
use lighthaul_daemon::third_party::{self, Daemon};
use lighthaul_remote::error::Fault as RemoteFault;
use lighthaul_remote::place::{PORT, Place};
use lighthaul_remote::reach::reach;
use lighthaul_session::error::Error;

use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::fault::Fault;

/// Makes the host of `sources` send to the host of `target`.
pub(crate) fn copy(job: &Job, reporter: &mut Reporter<'_>) -> Result<Summary, Error> {
    let (from, target) = (&job.request.sources[0], &job.request.target);
    check(job, from, target)?;
    let names = job.names()?;
    let there = reach(job.route(), target)?;
    let (host, port) = match (&there.started, target) {
        (Some(started), _) => (started.host.clone(), started.port),
        (None, Place::Daemon { host, port, .. }) => (host.clone(), *port),
        (None, _) => return Err(RemoteFault::NotRemote.into()),
    };
    let relay = Relay {
        host,
        port,
        key: *there.session.peer.octets(),
        udp: job.request.udp,
        paths: job.paths(),
        target: job.target(),
    };
    let here = reach(job.route(), from)?;
    // times of a vector count from this request
    let options = job.options()?;
    let asked = relay::Request::Send {
        relay: relay.clone(),
        options: options.clone(),
    };
    let hello = job.hello::<relay::Message>(&asked);
    let called = [from, target].map(name);
    let source = Daemon {
        session: &here.session,
        name: &called[0],
    };
    let target = Daemon {
        session: &there.session,
        name: &called[1],
    };
    let hello = (&hello, &options);
    third_party::copy([source, target], (relay, names), hello, &mut |sight| {
        reporter.watch(sight);
    })
}

/// Refuses settings for one daemon, since two take part.
fn check(job: &Job, from: &Place, target: &Place) -> Result<(), Error> {
    let route = job.route();
    if route.gateway.is_some() {
        return Err(Fault::GatewayBetween.into());
    }
    let is_daemon = |place: &Place| matches!(place, Place::Daemon { .. });
    if !is_daemon(from) || !is_daemon(target) || from.is_with(target) {
        return Ok(());
    }
    if route.daemon.pin.is_some() {
        return Err(Fault::PinForTwo.into());
    }
    if route.daemon.has_token() {
        return Err(Fault::TokenForTwo.into());
    }
    Ok(())
}

/// Returns the name of the host of `place` for messages.
fn name(place: &Place) -> String {
    match place {
        Place::Here(_) => "here".to_owned(),
        Place::Ssh { host, .. } => host.clone(),
        Place::Daemon { host, port, .. } if *port == PORT => host.clone(),
        Place::Daemon { host, port, .. } => format!("{host}:{port}"),
        Place::Object { bucket, .. } => bucket.clone(),
    }
}
