//! Command `lighthaul stream`: carries a stream between a local file or pipe and another host.
//!
//! The arguments become a `StreamRequest` of the library: messages with forward error correction, or objects of
//! one size at a fixed rate (RBUDP). One side is local, and `-` means standard input or output. The
//! statistics are text on standard error, or JSON on standard output unless that carries the
//! stream.

use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use lighthaul::{
    Direction, MessageOptions, ObjectOptions, Place, StreamEvent, StreamKind, StreamReport,
    StreamRequest,
};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_grammar::stream::{Frames, Late, Protocol, Stream};
use lighthaul_remote::error::Fault as RemoteFault;
use lighthaul_session::error::Error;
use lighthaul_stream::{end, frames};
use serde_json::json;

use crate::error::{Fault, usage};
use crate::output::print::{print, say};
use crate::shared_options;

/// Carries a stream until its source ends, and reports its statistics.
pub(crate) fn run(args: &Stream) -> Result<(), Error> {
    let (source, target) = (Place::parse(&args.source)?, Place::parse(&args.target)?);
    let (near, request) = match (source, target) {
        (Place::Here(near), far @ (Place::Ssh { .. } | Place::Daemon { .. })) => {
            (near, StreamRequest::to(far))
        }
        (far @ (Place::Ssh { .. } | Place::Daemon { .. }), Place::Here(near)) => {
            (near, StreamRequest::from(far))
        }
        (Place::Here(_), Place::Here(_)) => {
            return Err(RemoteFault::NotRemote.into());
        }
        (_, _) => {
            return Err(usage(
                "one side of a stream must be local: write it as -, or as the path of a pipe",
            ));
        }
    };
    let request = with_options(args, request)?;
    let to = request.direction == Direction::To;
    let file = open(&near, to)?;
    let client = shared_options::client(&args.via);
    let summary = client.run_stream(&request, file, &mut |event| announce(args, event))?;
    if args.json {
        let event = event(&summary.report, summary.rtt);
        if is_standard(&near) && !to {
            say(&event);
        } else {
            print(&event);
        }
    } else if !args.quiet {
        say(&sentence(&summary.report));
    }
    Ok(())
}

/// Returns the request with the options of the command.
fn with_options(args: &Stream, mut request: StreamRequest) -> Result<StreamRequest, Error> {
    request.frames = frames(args)?;
    request.kind = kind(args)?;
    request.rate = args.rate;
    request.plain = args.plain;
    request.udp = !args.no_udp;
    Ok(request)
}

fn announce(args: &Stream, event: StreamEvent) {
    if args.quiet {
        return;
    }
    match event {
        StreamEvent::Planned { objects, rate, rtt } => {
            let rtt = millis(rtt);
            say(&format!(
                "{objects} objects a payload, sent at {rate} over an RTT of {rtt}"
            ));
        }
        StreamEvent::Routed(route) => say(&format!("lighthaul: {route}")),
        _ => {}
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
        return Ok(StreamKind::Messages(MessageOptions {
            code: args.code.clone(),
            linger: args.linger,
            deadline: args.deadline,
            drop_late: args.late == Late::Drop,
        }));
    }
    let (Some(size), Some(per_second)) = (args.object_size, args.objects_per_second) else {
        return Err(usage("rbudp needs --object-size and --objects-per-second"));
    };
    Ok(StreamKind::Objects(ObjectOptions {
        delay: args.delay,
        blasts: args.blasts,
        ..ObjectOptions::new(size, per_second)
    }))
}

fn event(report: &StreamReport, rtt: Duration) -> String {
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

fn sentence(report: &StreamReport) -> String {
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
