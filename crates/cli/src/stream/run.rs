//! Command `lighthaul stream`: carries a stream between a local file or pipe and another host.
//!
//! The arguments become a `StreamRequest`: messages with forward error correction, or objects of
//! one size at a fixed rate (RBUDP). One side is local, and `-` means standard input or output. The
//! statistics are text on standard error, or JSON on standard output unless that carries the
//! stream.

use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use lighthaul_fs::file_access::FileAccess;
use lighthaul_grammar::stream::{Frames, Late, Protocol, Stream};
use lighthaul_remote::error::Fault as RemoteFault;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::{Reached, agreed, reach};
use lighthaul_session::error::Error;
use lighthaul_session::message::Hello;
use lighthaul_session::role::Role;
use lighthaul_stream::message::{Messages, Objects, Report, StreamKind, StreamRequest};
use lighthaul_stream::run::Settings;
use lighthaul_stream::{self as stream, end, frames, objects, run as streams};
use serde_json::json;

use crate::error::{Fault, usage};
use crate::output::print::{print, say};
use crate::shared_options;

/// Carries a stream until its source ends, and reports its statistics.
pub(crate) fn run(args: &Stream) -> Result<(), Error> {
    let (source, target) = (Place::parse(&args.source)?, Place::parse(&args.target)?);
    let (near, far, to) = match (&source, &target) {
        (Place::Here(near), Place::Ssh { .. } | Place::Daemon { .. }) => (near, &target, true),
        (Place::Ssh { .. } | Place::Daemon { .. }, Place::Here(near)) => (near, &source, false),
        (Place::Here(_), Place::Here(_)) => {
            return Err(RemoteFault::NotRemote.into());
        }
        (_, _) => {
            return Err(usage(
                "one side of a stream must be local: write it as -, or as the path of a pipe",
            ));
        }
    };
    let wanted = StreamRequest {
        path: far.path().to_vec(),
        to,
        frames: frames(args)?,
        kind: kind(args)?,
    };
    let file = open(near, to)?;
    let reached = reach(&shared_options::route(&args.via), far)?;
    let session = &reached.session;
    session.ask::<stream::message::Message>(Hello {
        plain: args.plain,
        rate_bps: args.rate.map(lighthaul_base::Rate::as_bps),
        ..Hello::about::<stream::message::Message>(&wanted)
    })?;
    let result = agreed(session).and_then(|()| carry(args, &reached, &wanted, file));
    if let Err(error) = &result {
        session.give_up(error);
    }
    let report = result?;
    if args.json {
        let event = event(&report, session.rtt);
        if is_standard(near) && !to {
            say(&event);
        } else {
            print(&event);
        }
    } else if !args.quiet {
        say(&sentence(&report));
    }
    Ok(())
}

fn carry(
    args: &Stream,
    reached: &Reached,
    wanted: &StreamRequest,
    file: File,
) -> Result<Report, Error> {
    let session = &reached.session;
    if let StreamKind::Objects(how) = &wanted.kind {
        let plan = objects::plan(how, session.rtt)?;
        if !args.quiet {
            let rtt = millis(session.rtt);
            say(&format!(
                "{} objects a payload, sent at {} over an RTT of {rtt}",
                plan.objects, plan.rate
            ));
        }
    }
    if let Some(route) = reached.route().filter(|_| !args.quiet) {
        say(&format!("lighthaul: {route}"));
    }
    let is_direct = !args.via.through.is_any() && reached.through_ssh.is_none();
    let role = Role::Client(!args.no_udp && is_direct);
    let settings = Settings {
        plain: args.plain,
        rate: args.rate,
    };
    if wanted.to {
        streams::send(session, &role, wanted, file, settings)
    } else {
        streams::receive(session, &role, wanted, file, settings)
    }
}

/// Opens the local end: the source if the stream goes `to` the remote end, otherwise the target.
fn open(near: &Path, to: bool) -> Result<File, Error> {
    if !is_standard(near) {
        return end::open(&FileAccess::anywhere(), near, !to);
    }
    let owned = if to {
        io::stdin().as_fd().try_clone_to_owned()
    } else {
        io::stdout().as_fd().try_clone_to_owned()
    };
    let failed = |e| Error::from(Fault::NotOpen(e));
    owned.map(File::from).map_err(failed)
}

fn is_standard(near: &Path) -> bool {
    near == Path::new("-")
}

fn frames(args: &Stream) -> Result<frames::Frames, Error> {
    let frames = args.frames.unwrap_or(match args.protocol {
        Protocol::Fec => Frames::Lines,
        Protocol::Rbudp => Frames::Fixed,
    });
    Ok(match frames {
        Frames::Lines => frames::Frames::Lines,
        Frames::Prefixed => frames::Frames::Prefixed,
        Frames::Fixed => {
            let size = args.object_size.and_then(|size| u32::try_from(size.0).ok());
            let Some(size) = size.and_then(NonZeroU32::new) else {
                return Err(usage(
                    "--frames fixed needs an --object-size above zero and below 4 GiB",
                ));
            };
            frames::Frames::Fixed(size)
        }
    })
}

fn kind(args: &Stream) -> Result<StreamKind, Error> {
    if args.protocol == Protocol::Fec {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        return Ok(StreamKind::Messages(Messages {
            code: args.code.clone(),
            linger_us: u32::try_from(args.linger.as_micros()).unwrap_or(u32::MAX),
            deadline_us: args.deadline.map(micros),
            drop: args.late == Late::Drop,
        }));
    }
    let (Some(size), Some(per_second)) = (args.object_size, args.objects_per_second) else {
        return Err(usage("rbudp needs --object-size and --objects-per-second"));
    };
    // objects per million seconds, as the microseconds of a duration
    let scaled = Duration::try_from_secs_f64(per_second)
        .map_err(|_| usage("--objects-per-second must be above zero"))?;
    Ok(StreamKind::Objects(Objects {
        object_len: size.0,
        micro_per_second: u64::try_from(scaled.as_micros()).unwrap_or(u64::MAX),
        delay_us: u64::try_from(args.delay.as_micros()).unwrap_or(u64::MAX),
        blasts: args.blasts,
    }))
}

fn event(report: &Report, rtt: Duration) -> String {
    let event = json!({
        "v": 1,
        "type": "stream",
        "messages": report.messages,
        "delivered": report.delivered,
        "bytes": report.bytes,
        "late": report.late,
        "lost": report.lost,
        "repaired": report.repaired,
        "unread": report.unread,
        "latency_p50_us": report.latency_p50_us,
        "latency_p99_us": report.latency_p99_us,
        "latency_max_us": report.latency_max_us,
        "rtt_us": u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX),
    });
    event.to_string()
}

fn sentence(report: &Report) -> String {
    let micros = |micros: u64| millis(Duration::from_micros(micros));
    let unread = match report.unread {
        0 => String::new(),
        unread => format!(", {unread} not read"),
    };
    format!(
        "{} of {} delivered: {} repaired, {} late, {} lost{unread}; latency {} at the median, 99 % within {}",
        report.delivered,
        report.messages,
        report.repaired,
        report.late,
        report.lost,
        micros(report.latency_p50_us),
        micros(report.latency_p99_us),
    )
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
