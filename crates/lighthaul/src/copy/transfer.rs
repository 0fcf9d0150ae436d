//! One attempt of a copy.
//!
//! `copy` chooses the direction from the places: to another host, from it, or between two others.
//! `with_session` connects, sends the request, and runs the sender or receiver of this side. If
//! this side fails, it reports the error to the peer before it returns. Further attempts are made
//! by `retry`, and reservations by `circuit`.

use std::path::PathBuf;
use std::sync::Arc;

use lighthaul_copy::budget::Budget;
use lighthaul_copy::message::{self, Way};
use lighthaul_copy::watch::{CopyEvent, Summary};
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_files::permit::Permit;
use lighthaul_files::walk::Walk;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_grammar::copy::Cp;
use lighthaul_receive as receive;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_remote::error::Fault as RemoteFault;
use lighthaul_remote::known_paths::KnownPaths;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::{Agreement, Reached, Route, open};
use lighthaul_send as send;
use lighthaul_session::error::Error;
use lighthaul_session::known_path::{PathEnds, PathMemory};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::role::Role;

use crate::copy::options::{hello, names, one_base, options, to};
use crate::copy::printer::Printer;
use crate::copy::{gateway, third_party};
use crate::error::usage;
use crate::shared_options;

/// Copies once.
pub(crate) fn copy(args: &Cp, printer: &mut Printer) -> Result<Summary, Error> {
    let places: Vec<Place> = args
        .paths
        .iter()
        .map(|text| Place::parse(text))
        .collect::<Result<_, _>>()?;
    let Some((target, sources)) = places.split_last() else {
        return Err(usage("give a source and a target"));
    };
    let from = &sources[0];
    if sources.iter().any(|source| !source.is_with(from)) {
        return Err(usage("all sources must be on one host"));
    }
    if sources.len() > 1 && args.no_target_directory {
        let text = "-T gives one source a new name; omit it to copy several into a directory";
        return Err(usage(text));
    }
    match (from, target) {
        (Place::Here(_), Place::Here(_)) => Err(RemoteFault::NotRemote.into()),
        (Place::Here(_), _) => push(args, sources, target, printer),
        (_, Place::Here(_)) => pull(args, sources, target, printer),
        _ => third_party::copy(args, sources, target, printer),
    }
}

fn push(
    args: &Cp,
    sources: &[Place],
    target: &Place,
    printer: &mut Printer,
) -> Result<Summary, Error> {
    let paths: Vec<PathBuf> = sources
        .iter()
        .map(|place| PathBuf::from(os(place.path())))
        .collect();
    let finds = finds(args, paths)?;
    with_session(
        args,
        target,
        &Way::Receive(to(args, target, sources.len())),
        |reached, options| {
            let session = &reached.session;
            // a program that ssh starts has another key each time
            let known = reached.started.is_none().then(known_paths);
            let before = known
                .as_ref()
                .and_then(|known| known.recall(PathEnds::of(session)));
            printer.know_path(before);
            let settings = send::Settings {
                plain: args.plain,
                rate: args.rate,
                limit: args.later.limit.as_ref().map(|limit| limit.table.clone()),
                options,
                said: session.clock.now(),
                budget: Budget::default(),
                known,
            };
            printer.connected(reached.started.is_some());
            gateway::tell(args, printer)?;
            let mut watcher = |sight| watch(printer, reached, sight);
            send::send(
                session,
                client_role(args, reached),
                finds,
                settings,
                &mut watcher,
            )
        },
    )
}

fn pull(
    args: &Cp,
    sources: &[Place],
    target: &Place,
    printer: &mut Printer,
) -> Result<Summary, Error> {
    let landing = TargetFolder::open(
        &to(args, target, sources.len()),
        &Arc::new(FileAccess::anywhere()),
        args.choice.dry_run.is_some(),
    )?;
    let names = names(&args.choice)?;
    if names.is_some() && sources.len() > 1 {
        return Err(one_base());
    }
    let way = Way::Send(
        sources
            .iter()
            .map(|source| source.path().to_vec())
            .collect(),
    );
    with_session(args, &sources[0], &way, |reached, options| {
        let settings = receive::Settings {
            plain: args.plain,
            options,
            names,
            permit: Permit::ALL,
            budget: Budget::default(),
        };
        printer.connected(reached.started.is_some());
        gateway::tell(args, printer)?;
        let mut watcher = |sight| watch(printer, reached, sight);
        let role = client_role(args, reached);
        receive::receive(&reached.session, role, landing, settings, &mut watcher)
    })
}

/// Returns the memory of paths to daemons.
fn known_paths() -> Arc<dyn PathMemory> {
    Arc::new(KnownPaths::of_user())
}

/// Returns the role of this side: a client, with datagrams only on a direct path.
fn client_role(args: &Cp, reached: &Reached) -> Role {
    let is_direct = !args.via.through.is_any() && reached.through_ssh.is_none();
    Role::Client(!args.no_udp && is_direct)
}

/// Shows one event. The start also names the route of the data through ssh, since its connections
/// are open then.
fn watch(printer: &mut Printer, reached: &Reached, sight: CopyEvent) {
    if let CopyEvent::Started(start) = &sight
        && let Some(route) = reached.route()
    {
        printer.show_route(&start.protocol, &route);
    }
    printer.watch(sight);
}

/// Connects, sends the request and does `work`. The peer learns of a failure on this side.
fn with_session(
    args: &Cp,
    far: &Place,
    way: &Way,
    work: impl FnOnce(&Reached, Options) -> Result<Summary, Error>,
) -> Result<Summary, Error> {
    let mut route = Route {
        is_bulk: args.choice.dry_run.is_none(),
        ..shared_options::route(&args.via)
    };
    if let Some(patience) = args.later.stall_timeout {
        route.patience = patience;
    }
    let plain = options(args)?;
    let options = |reached: &Reached| {
        let mut options = plain.clone();
        if reached.through_ssh.is_some() && args.protocol.is_none() && options.trc.is_empty() {
            options.protocol = Protocol::Ptcp.to_string();
        }
        options
    };
    let request = |reached: &Reached| {
        let options = options(reached);
        let way = way.clone();
        let request = message::Request { way, options };
        Ok(hello::<message::Message>(args, &request))
    };
    let reached = open::<message::Message>(&route, far, request, Agreement::Expected)?;
    let result = work(&reached, options(&reached));
    if let Err(error) = &result {
        reached.session.give_up(error);
    }
    result.map_err(|error| reached.name_host(error))
}

/// Returns the entries to send of these paths.
fn finds(args: &Cp, mut paths: Vec<PathBuf>) -> Result<SourceEntries, Error> {
    let options = options(args)?;
    let access = Arc::new(options.sources(FileAccess::anywhere()));
    let walk = options.walk();
    let Some(names) = names(&args.choice)? else {
        return Ok(SourceEntries::from_walk(Walk::new(access, &paths, walk)?));
    };
    match (paths.pop(), paths.is_empty()) {
        (Some(base), true) => Ok(SourceEntries::from_list(access, base, names, walk)),
        _ => Err(one_base()),
    }
}

fn os(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}
