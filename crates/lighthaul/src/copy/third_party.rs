//! Copies between two other hosts.

use std::env;

use lighthaul_copy::relay::{self, Relay};
use lighthaul_copy::watch::Summary;
use lighthaul_daemon::third_party::{self, Daemon};
use lighthaul_grammar::copy::Cp;
use lighthaul_remote::place::{PORT, Place};
use lighthaul_remote::reach::reach;
use lighthaul_session::error::Error;

use crate::copy::options::{hello, names, one_base, options, to};
use crate::copy::printer::Printer;
use crate::error::usage;
use crate::shared_options;

/// Makes the host of `sources` send to the host of `target`.
pub(crate) fn copy(
    args: &Cp,
    sources: &[Place],
    target: &Place,
    printer: &mut Printer,
) -> Result<Summary, Error> {
    let from = &sources[0];
    check(args, from, target)?;
    let names = names(&args.choice)?;
    if names.is_some() && sources.len() > 1 {
        return Err(one_base());
    }
    let there = reach(&shared_options::route(&args.via), target)?;
    let (host, port) = match (&there.started, target) {
        (Some(started), _) => (started.host.clone(), started.port),
        (None, Place::Daemon { host, port, .. }) => (host.clone(), *port),
        (None, _) => return Err(usage("the target is not remote")),
    };
    let relay = Relay {
        host,
        port,
        key: *there.session.peer.octets(),
        udp: !args.no_udp,
        paths: sources.iter().map(|place| place.path().to_vec()).collect(),
        target: to(args, target, sources.len()),
    };
    let here = reach(&shared_options::route(&args.via), from)?;
    // times of a vector count from this request
    let options = options(args)?;
    let asked = relay::Request::Send {
        relay: relay.clone(),
        options: options.clone(),
    };
    let hello = hello::<relay::Message>(args, &asked);
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
        printer.watch(sight);
    })
}

/// Refuses options for one daemon, since two take part.
fn check(args: &Cp, from: &Place, target: &Place) -> Result<(), Error> {
    let refuse = |text: &'static str| Err(usage(text));
    if args.via.through.is_any() {
        return refuse(
            "--gateway needs a source or target on this host: between two remote hosts no data crosses it",
        );
    }
    let is_daemon = |place: &Place| matches!(place, Place::Daemon { .. });
    if !is_daemon(from) || !is_daemon(target) || from.is_with(target) {
        return Ok(());
    }
    if args.via.far.pin.is_some() {
        return refuse("--pin names one key, but this copy has two daemons: use `lighthaul trust`");
    }
    if args.via.far.token_file.is_some() || env::var_os("LIGHTHAUL_TOKEN").is_some() {
        return refuse(
            "a token is for one daemon, but this copy has two: use a key that both allow",
        );
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
    }
}
