//! `lighthaul cp`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lighthaul_io::fs::ground::Ground;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_transfer::budget::Budget;
use lighthaul_transfer::digest;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::message::{Hello, Message, Request, Target, VERSION};
use lighthaul_transfer::options::Options;
use lighthaul_transfer::path::Door;
use lighthaul_transfer::protocol::{self, Protocol};
use lighthaul_transfer::receive;
use lighthaul_transfer::receive::landing::Landing;
use lighthaul_transfer::send;
use lighthaul_transfer::send::Finds;
use lighthaul_transfer::send::walk::Walk;
use lighthaul_transfer::session::Session;
use lighthaul_transfer::watch::Summary;

use crate::args::{Cp, Digest};
use crate::booking::copy as booked;
use crate::choice::args::{DryRun, Verify};
use crate::later;
use crate::passage;
use crate::print::{Printer, Proof, Settings};
use crate::reach::{agreed, reach};
use crate::remote::Place;
use crate::third;

/// Copies, shows how it goes, and answers the exit status.
pub(crate) fn run(args: &Cp) -> u8 {
    let settings = Settings {
        progress: args.progress,
        json: args.json,
        stats: args.stats,
        quiet: args.quiet,
        proof: match (&args.choice.dry_run, args.choice.verify) {
            (Some(_), _) => Proof::DryRun,
            (None, Verify::None) => Proof::None,
            (None, _) if args.choice.checksum => Proof::All,
            (None, _) => Proof::Moved,
        },
        explain: matches!(args.choice.dry_run, Some(DryRun::Explain)),
    };
    let mut printer = Printer::new(settings);
    let result = passage::check(args)
        .and_then(|()| args.later.open_failures())
        .and_then(|failures| {
            let summary = booked::run(args, &mut printer, copy)?;
            Ok((summary, failures))
        });
    let (result, failures) = match result {
        Ok((summary, failures)) => (Ok(summary), failures),
        Err(error) => (Err(later::with_command(args, error)), None),
    };
    printer.finish(&result);
    if let (Ok(summary), Some(file)) = (&result, failures)
        && let Err(error) = later::note_failures(args, &file, summary)
    {
        printer.note(&format!("lighthaul: {error}"));
    }
    match result {
        Ok(summary) => status(&summary),
        Err(error) => error.code as u8,
    }
}

/// 0, or what the failures have in common, or "some failed".
fn status(summary: &Summary) -> u8 {
    let mut codes = summary.failures.iter().map(|failed| failed.code);
    match codes.next() {
        None => 0,
        Some(code) if summary.entries == 0 && codes.all(|other| other == code) => code,
        Some(code) if code == Code::Changed as u8 && codes.all(|other| other == code) => code,
        Some(_) => Code::Partial as u8,
    }
}

fn copy(args: &Cp, printer: &mut Printer) -> Result<Summary, Error> {
    let places: Vec<Place> = args
        .paths
        .iter()
        .map(|text| Place::parse(text))
        .collect::<Result<_, _>>()?;
    let Some((target, sources)) = places.split_last() else {
        return Err(Error::new(Code::Usage, "say what to copy, and where to"));
    };
    let from = &sources[0];
    if sources.iter().any(|source| !source.is_with(from)) {
        return Err(Error::new(Code::Usage, "all sources must be on one host"));
    }
    if sources.len() > 1 && !target.path().ends_with(b"/") {
        let text = "several sources need a folder to go to: end the target with a slash";
        return Err(Error::new(Code::Usage, text));
    }
    args.choice.confirm(&args.paths)?;
    match (from, target) {
        (Place::Here(_), Place::Here(_)) => Err(Error::new(
            Code::Usage,
            "neither side is remote: write one as HOST:PATH",
        )),
        (Place::Here(_), _) => push(args, sources, target, printer),
        (_, Place::Here(_)) => pull(args, sources, target, printer),
        _ => third::copy(args, sources, target, printer),
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
    let request = Request::Receive(to(target));
    with_session(args, target, request, |session, theirs| {
        let settings = send::Settings {
            plain: args.plain,
            rate: args.rate,
            limit: args.later.limit.as_ref().map(|limit| limit.table.clone()),
            options: options(args)?,
            said: session.clock.now(),
            theirs,
            budget: Budget::default(),
        };
        passage::tell(args, printer)?;
        let mut watcher = |sight| printer.watch(sight);
        send::send(session, &door(args), finds, settings, &mut watcher)
    })
}

fn pull(
    args: &Cp,
    sources: &[Place],
    target: &Place,
    printer: &mut Printer,
) -> Result<Summary, Error> {
    let landing = Landing::find(
        &to(target),
        &Arc::new(Ground::anywhere()),
        args.choice.dry_run.is_some(),
    )?;
    let names = args.choice.names()?;
    if names.is_some() && sources.len() > 1 {
        return Err(one_base());
    }
    let request = Request::Send(
        sources
            .iter()
            .map(|source| source.path().to_vec())
            .collect(),
    );
    with_session(args, &sources[0], request, |session, _| {
        let settings = receive::Settings {
            plain: args.plain,
            options: options(args)?,
            names,
            permit: receive::Permit::ALL,
            budget: Budget::default(),
        };
        passage::tell(args, printer)?;
        let mut watcher = |sight| printer.watch(sight);
        receive::receive(session, &door(args), landing, settings, &mut watcher)
    })
}

/// How we come by datagrams.
fn door(args: &Cp) -> Door<'static> {
    Door::Caller(!args.no_udp && !args.via.through.is_any())
}

/// Reaches the far side, says what we want, and works; a failure of ours is told to the peer.
fn with_session(
    args: &Cp,
    far: &Place,
    request: Request,
    work: impl FnOnce(&Session, Vec<String>) -> Result<Summary, Error>,
) -> Result<Summary, Error> {
    let reached = reach(&args.via, far)?;
    let session = &reached.session;
    session.say(&Message::Hello(hello(args, request)?))?;
    let result = agreed(session).and_then(|theirs| work(session, theirs));
    if let Err(error) = &result {
        session.give_up(error);
    }
    result
}

/// What the far side is told.
pub(crate) fn hello(args: &Cp, request: Request) -> Result<Hello, Error> {
    Ok(Hello {
        version: VERSION,
        request,
        plain: args.plain,
        rate_bps: args.rate.map(lighthaul_base::Rate::as_bps),
        limit: args
            .later
            .limit
            .as_ref()
            .map_or_else(String::new, |limit| limit.text.clone()),
        options: options(args)?,
        protocols: protocol::names(),
    })
}

/// Where things go that are copied to `place`.
pub(crate) fn to(place: &Place) -> Target {
    Target {
        path: place.path().to_vec(),
        into: place.path().ends_with(b"/"),
    }
}

/// What is to be sent of these paths.
fn finds(args: &Cp, mut paths: Vec<PathBuf>) -> Result<Finds, Error> {
    let ground = Arc::new(Ground::anywhere());
    let rules = options(args)?.rules;
    let Some(names) = args.choice.names()? else {
        return Ok(Finds::walked(Walk::new(ground, &paths, rules)?));
    };
    match (paths.pop(), paths.is_empty()) {
        (Some(base), true) => Ok(Finds::listed(ground, base, names, rules)),
        _ => Err(one_base()),
    }
}

/// What is said where a list has more than one folder.
pub(crate) fn one_base() -> Error {
    let text = "--files-from needs one folder as its source, which its paths are seen from";
    Error::new(Code::Usage, text)
}

/// What both sides know of what is wanted.
pub(crate) fn options(args: &Cp) -> Result<Options, Error> {
    let options = args.choice.options(kind(args), !args.no_sync)?;
    Ok(Options {
        copy: Some(args.copy),
        protocol: protocol_of(args)?,
        trc: args
            .trc
            .as_deref()
            .map(vector)
            .transpose()?
            .unwrap_or_default(),
        trc_in: args.vector_at.map(|at| {
            at.0.cast_signed()
                .saturating_sub(unix_nanos().cast_signed())
        }),
        streams: args.streams.unwrap_or(0),
        shared: args.shared,
        stall: args.later.stall_timeout.map_or(0, |stall| stall.0),
        ..options
    })
}

/// The protocol by its name: one that follows a vector if there is one, and nobody wants another. That auto
/// comes to the same is said by whoever chooses.
fn protocol_of(args: &Cp) -> Result<String, Error> {
    if let Some(protocol) = passage::protocol(args)? {
        return Ok(protocol.to_string());
    }
    let usual = Protocol::default().name();
    let asked = args.protocol.as_deref().unwrap_or(usual);
    if asked == usual && args.trc.is_some() {
        return Ok(Protocol::Vbtp.to_string());
    }
    Ok(asked.to_owned())
}

/// A vector as text, from a file of this name or from the words themselves.
fn vector(words: &str) -> Result<String, Error> {
    let (name, text) = if Path::new(words).is_file() {
        let text = std::fs::read_to_string(words);
        let failed = |error| Error::file(Code::Io, "cannot read", Path::new(words), &error);
        (words, text.map_err(failed)?)
    } else {
        ("--trc", words.to_owned())
    };
    lighthaul_transfer::vector::parse(name, &text).map(|trc| trc.to_string())
}

/// The digest that was asked for, or the one that suits the threat: a CRC where packets are sealed, so that only
/// accidents are left; a hash where anybody on the path may change them.
const fn kind(args: &Cp) -> digest::Kind {
    match args.digest {
        Some(Digest::Crc128) => digest::Kind::Crc128,
        None if !args.plain => digest::Kind::Crc128,
        Some(Digest::Blake3) | None => digest::Kind::Blake3,
    }
}

fn os(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}
