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
use lighthaul_receive as receive;
use lighthaul_receive::target_folder::TargetFolder;
use lighthaul_remote::error::Fault as RemoteFault;
use lighthaul_remote::known_paths::KnownPaths;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::{Agreement, Reached, open};
use lighthaul_send as send;
use lighthaul_session::error::Error;
use lighthaul_session::known_path::{PathEnds, PathMemory};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::role::Role;

use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::{gateway, third_party};
use crate::fault::Fault;

/// Copies once.
pub(crate) fn copy(job: &Job, reporter: &mut Reporter<'_>) -> Result<Summary, Error> {
    let (sources, target) = (&job.request.sources, &job.request.target);
    let from = sources.first().ok_or(Fault::NoSource)?;
    if sources.iter().any(|source| !source.is_with(from)) {
        return Err(Fault::SeveralHosts.into());
    }
    if sources.len() > 1 && job.request.exact {
        return Err(Fault::ExactTarget.into());
    }
    match (from, target) {
        (Place::Here(_), Place::Here(_)) => Err(RemoteFault::NotRemote.into()),
        (Place::Here(_), _) => push(job, reporter),
        (_, Place::Here(_)) => pull(job, reporter),
        _ => third_party::copy(job, reporter),
    }
}

fn push(job: &Job, reporter: &mut Reporter<'_>) -> Result<Summary, Error> {
    let entries = entries(job)?;
    let way = Way::Receive(job.target());
    with_session(job, &job.request.target, &way, |reached, options| {
        let session = &reached.session;
        // a program that ssh starts has another key each time
        let known = reached.started.is_none().then(|| known_paths(job));
        let before = known
            .as_ref()
            .and_then(|known| known.recall(PathEnds::of(session)));
        reporter.know_path(before);
        let settings = send::Settings {
            plain: job.request.plain,
            rate: job.request.rate,
            limit: job.request.limit.as_ref().map(|limit| limit.table.clone()),
            options,
            said: session.clock.now(),
            budget: Budget::default(),
            known,
        };
        reporter.connected(reached.started.is_some());
        gateway::tell(&job.request, &job.settings, reporter)?;
        let mut watcher = |sight| watch(reporter, reached, sight);
        let role = client_role(job, reached);
        send::send(session, role, entries, settings, &mut watcher)
    })
}

fn pull(job: &Job, reporter: &mut Reporter<'_>) -> Result<Summary, Error> {
    let landing = TargetFolder::open(
        &job.target(),
        &Arc::new(FileAccess::anywhere()),
        job.request.options.dry_run.is_some(),
    )?;
    let names = job.names()?;
    let way = Way::Send(job.paths());
    with_session(job, &job.request.sources[0], &way, |reached, options| {
        let settings = receive::Settings {
            plain: job.request.plain,
            requested: Some(job.paths()),
            options,
            names,
            permit: Permit::ALL,
            budget: Budget::default(),
        };
        reporter.connected(reached.started.is_some());
        gateway::tell(&job.request, &job.settings, reporter)?;
        let mut watcher = |sight| watch(reporter, reached, sight);
        let role = client_role(job, reached);
        receive::receive(&reached.session, role, landing, settings, &mut watcher)
    })
}

/// Returns the memory of paths to daemons.
fn known_paths(job: &Job) -> Arc<dyn PathMemory> {
    let file = job.settings.known_paths.clone();
    Arc::new(file.map_or_else(KnownPaths::of_user, KnownPaths::in_file))
}

/// Returns the role of this side: a client, with datagrams only on a direct path.
fn client_role(job: &Job, reached: &Reached) -> Role {
    let is_direct = job.route().gateway.is_none() && reached.through_ssh.is_none();
    Role::Client(job.request.udp && is_direct)
}

/// Reports one event. The start also names the route of the data through ssh, since its connections
/// are open then.
fn watch(reporter: &mut Reporter<'_>, reached: &Reached, sight: CopyEvent) {
    if let CopyEvent::Started(start) = &sight
        && let Some(route) = reached.route()
    {
        reporter.route(&start.protocol, route);
    }
    reporter.watch(sight);
}

/// Connects, sends the request and does `work`. The peer learns of a failure on this side.
fn with_session(
    job: &Job,
    far: &Place,
    way: &Way,
    work: impl FnOnce(&Reached, Options) -> Result<Summary, Error>,
) -> Result<Summary, Error> {
    let plain = job.options()?;
    let options = |reached: &Reached| {
        let mut options = plain.clone();
        if reached.through_ssh.is_some() && job.is_open() && options.trc.is_empty() {
            options.protocol = Protocol::Ptcp.to_string();
        }
        options
    };
    let request = |reached: &Reached| {
        let options = options(reached);
        let way = way.clone();
        let request = message::Request { way, options };
        Ok(job.hello::<message::Message>(&request))
    };
    let reached = open::<message::Message>(&job.bulk_route(), far, request, Agreement::Expected)?;
    let result = work(&reached, options(&reached));
    if let Err(error) = &result {
        reached.session.give_up(error);
    }
    result.map_err(|error| reached.name_host(error))
}

/// Returns the entries to send.
fn entries(job: &Job) -> Result<SourceEntries, Error> {
    let options = job.options()?;
    let access = Arc::new(options.sources(FileAccess::anywhere()));
    let walk = options.walk();
    let paths = job.paths();
    let mut paths: Vec<PathBuf> = paths.iter().map(|path| PathBuf::from(os(path))).collect();
    match (job.names()?, paths.pop()) {
        (Some(names), Some(base)) => Ok(SourceEntries::from_list(access, base, names, walk)),
        (None, Some(last)) => {
            paths.push(last);
            Ok(SourceEntries::from_walk(Walk::new(access, &paths, walk)?))
        }
        (_, None) => Err(Fault::NoSource.into()),
    }
}

fn os(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}
