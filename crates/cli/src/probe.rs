//! Command `lighthaul probe`: measures the path to a daemon, and the disk of this host.
//!
//! `wanted` selects the measurements, and each has a session of its own. Some send datagrams
//! without a protocol, others run a protocol between the memories of both hosts. No measurement of
//! the path reads or writes files. Rates are in bits per second, and CPU time in seconds per 10^9
//! bytes for both sides. `--disk` writes and reads in the given directory.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_fs::disk_rate::measure_disk;
use lighthaul_grammar::probe::{Probe, What};
use lighthaul_remote::dial::dial;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::agreed;
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::measure::{self, MeasureRequest, MeasureResult};
use lighthaul_session::message::{Hello, Message};
use lighthaul_session::probe;
use lighthaul_session::protocol::Protocol;
use serde_json::json;

use crate::error::usage;
use crate::output::print::{print, print_json};
use crate::shared_options;

/// Runs the requested measurements in order.
pub(crate) fn run(args: &Probe) -> Result<(), Error> {
    if args.host.is_none() && args.disk.is_none() {
        return Err(usage("give a host to probe, or --disk DIR"));
    }
    if let Some(host) = &args.host {
        let host = if host.starts_with("lh://") {
            host.clone()
        } else {
            format!("lh://{host}/")
        };
        for (name, what) in wanted(args)? {
            show(args, name, &measure(args, &host, what)?);
        }
    }
    args.disk
        .as_deref()
        .map_or(Ok(()), |folder| disk(args, folder))
}

/// Returns the measurements. Through a gateway, `all` means all measurements without datagrams.
fn wanted(args: &Probe) -> Result<Vec<(&'static str, measure::MeasureMode)>, Error> {
    let wanted = named(&args.what);
    if !args.through.is_any() {
        return Ok(wanted);
    }
    let is_stream = |what: &measure::MeasureMode| matches!(what, measure::MeasureMode::By(protocol) if !protocol.is_datagrams());
    let (streams, others): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|(_, what)| is_stream(what));
    match others.first() {
        Some((name, _)) if !args.what.contains(&What::All) => Err(usage(format!(
            "{name} needs datagrams, which do not pass a gateway: use --what tcp,ptcp"
        ))),
        _ => Ok(streams),
    }
}

fn named(what: &[What]) -> Vec<(&'static str, measure::MeasureMode)> {
    use measure::MeasureMode::By;
    [
        (What::Network, "network", measure::MeasureMode::Network),
        (What::Copy, "network and copy", measure::MeasureMode::Copy),
        (What::Fake, "rbudp fake", measure::MeasureMode::Fake),
        (What::Place, "rbudp copy", measure::MeasureMode::Place),
        (
            What::Scatter,
            "rbudp scatter",
            measure::MeasureMode::Scatter,
        ),
        (
            What::Sealed,
            "rbudp sealed copy",
            measure::MeasureMode::Sealed,
        ),
        (
            What::SealedScatter,
            "rbudp sealed scatter",
            measure::MeasureMode::SealedScatter,
        ),
        (What::Plus, "rbudp+ copy", measure::MeasureMode::Plus),
        (What::Sabul, "sabul", By(Protocol::Sabul)),
        (What::SabulSwift, "sabul-swift", By(Protocol::SabulSwift)),
        (What::Vbtp, "vbtp", By(Protocol::Vbtp)),
        (What::Tcp, "tcp", By(Protocol::Tcp)),
        (What::Ptcp, "ptcp", By(Protocol::Ptcp)),
    ]
    .into_iter()
    .filter(|(flag, ..)| what.contains(&What::All) || what.contains(flag))
    .map(|(_, name, what)| (name, what))
    .collect()
}

fn measure(args: &Probe, host: &str, what: measure::MeasureMode) -> Result<MeasureResult, Error> {
    let Place::Daemon { host, port, .. } = Place::parse(host)? else {
        return Err(usage(
            "only a daemon can be probed: write lh://HOST[:PORT]/",
        ));
    };
    let session = dial(
        &shared_options::daemon(&args.far),
        args.through.gateway.as_ref(),
        &host,
        port,
    )?;
    let ask = MeasureRequest {
        mode: what,
        bytes: args.size.0,
        millis: args.time.clamp(TIME_MIN, TIME_MAX).as_millis() as u32,
        rate_bps: args.rate.map(Rate::as_bps),
    };
    session.say(&Message::Hello(Hello {
        plain: !matches!(
            what,
            measure::MeasureMode::Sealed | measure::MeasureMode::SealedScatter
        ),
        ..Hello::about::<measure::Message>(&ask)
    }))?;
    agreed(&session)?;
    probe::ask(&session, ask, true)
}

fn show(args: &Probe, name: &str, measured: &MeasureResult) {
    let gb = (measured.bytes as f64 / 1e9).max(1e-9);
    let cpu = measured.cpu_us as f64 / 1e6 / gb;
    if args.output.json {
        let event = json!({
            "v": 1, "type": "probe", "what": name, "bps": measured.bps, "bytes": measured.bytes,
            "seconds": measured.nanos as f64 / 1e9, "lost": measured.lost,
            "buffer_drops": measured.buffer_drops, "rounds": measured.rounds, "cpu_s_per_gb": cpu,
        });
        return print_json(&event);
    }
    let rate =
        Rate::from_bps(measured.bps).map_or_else(|| "nothing".into(), |rate| rate.to_string());
    print(&format!(
        "{name:<21} {rate:>14}  {:>9} lost  {:>6} buffer drops  {cpu:.2} CPU s/GB",
        measured.lost, measured.buffer_drops
    ));
}

fn disk(args: &Probe, folder: &Path) -> Result<(), Error> {
    let (write, read) = measure_disk(folder, args.size.0)
        .map_err(|e| Error::file(FileAction::MeasureDisk, folder, &e))?;
    for (name, rate) in [("disk write", write), ("disk read", read)] {
        if args.output.json {
            let event = json!({"v": 1, "type": "probe", "what": name, "bps": rate.as_bps()});
            print_json(&event);
        } else {
            print(&format!("{name:<21} {:>14}", rate.to_string()));
        }
    }
    Ok(())
}

/// Minimum duration of a measurement.
const TIME_MIN: Duration = Duration::from_millis(10);
/// Maximum duration of a measurement.
const TIME_MAX: Duration = Duration::from_hours(1);
