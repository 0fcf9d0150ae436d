//! A copy from its start to its summary: checks, a runtime for its requests, and events on the thread of the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_buckets::client::Patience;
use lighthaul_copy::object_options;
use lighthaul_copy::watch::{CopyEvent, Start, Summary, Watcher};
use lighthaul_files::digest::DigestKind;
use lighthaul_files::list::PathList;
use lighthaul_files::options::Options;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::fault::Fault;
use crate::object_copy::ObjectCopy;
use crate::stores::job::Job;
use crate::stores::report::Report;
use crate::stores::{download, relay, upload};

/// Ways of the bytes of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
    Between,
}

/// Makes a copy.
pub(crate) fn run(
    copy: ObjectCopy<'_>,
    list: Option<PathList>,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let way = way(&copy)?;
    check(copy.options)?;
    let clock = Clock::start();
    let (events, incoming) = channel();
    let patience = Patience {
        retries: copy.retries,
        redirects: copy.redirects,
        stall: copy.options.stall_timeout(),
        requests_max: usize::MAX,
    };
    let report = Report::new(events, copy.options);
    let places = (copy.sources, copy.target, copy.exact);
    let job = Arc::new(Job::new(places, copy.options, list, (patience, report)));
    let runtime = runtime()?;
    watcher(CopyEvent::Started(start(&copy)));
    let work = Arc::clone(&job);
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&has_ended);
    let task = runtime.spawn(async move {
        let result = match way {
            Way::Up => upload::run(&work).await,
            Way::Down => download::run(&work).await,
            Way::Between => relay::run(&work).await,
        };
        ends.store(true, Ordering::Release);
        // wakes the thread of the caller
        work.report.tell(CopyEvent::Moving(work.report.progress()));
        result
    });
    while !has_ended.load(Ordering::Acquire) && !task.is_finished() {
        match incoming.recv_timeout(LOOK) {
            Ok(event) => watcher(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        watcher(CopyEvent::Moving(job.report.progress()));
        if interrupt::is_requested() {
            task.abort();
            let ends = async {
                task.await.ok();
                job.uploads.give_up_left().await;
            };
            runtime.block_on(async { timeout(END_TIMEOUT, ends).await.ok() });
            runtime.shutdown_timeout(END_TIMEOUT);
            return Err(World::Interrupted.into());
        }
    }
    let ended = runtime.block_on(task);
    incoming.try_iter().for_each(&mut *watcher);
    watcher(CopyEvent::Moving(job.report.progress()));
    match ended {
        Ok(result) => result?,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => return Err(World::Interrupted.into()),
        },
    }
    Ok(summary(&job.report, clock))
}

/// Returns a runtime for requests.
pub(crate) fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build();
    let failed = |error| Fault::Request(format!("cannot start threads: {error}"));
    Ok(built.map_err(failed)?)
}

fn summary(report: &Report, clock: Clock) -> Summary {
    use std::sync::atomic::Ordering::Relaxed;
    let elapsed = clock.now().since(Instant::ZERO);
    Summary {
        entries: report.entries.load(Relaxed),
        bytes: report.bytes.load(Relaxed),
        unchanged: report.unchanged.load(Relaxed),
        elapsed,
        moving: elapsed,
        motion: report.progress(),
        unproven: report.count_unproven(),
        failures: report.take_failures(),
    }
}

/// Returns the way of the bytes.
fn way(copy: &ObjectCopy<'_>) -> Result<Way, Error> {
    let refused = |text: &str| Err(Fault::Request(text.to_owned()).into());
    let is_object = |place: &Place| matches!(place, Place::Object { .. });
    let is_here = |place: &Place| matches!(place, Place::Here(_));
    if let Place::Object { scheme, .. } = copy.target
        && scheme.starts_with("http")
    {
        return refused("a web server is only a source of copies: give another target");
    }
    let sources = copy.sources;
    if copy.options.listed && sources.len() != 1 {
        return refused(
            "a list of paths (--files-from) needs exactly one source: its paths are relative to it",
        );
    }
    if copy.options.listed && copy.options.delete {
        return refused(
            "deletion (--delete) compares whole directories: omit it, or the list of paths (--files-from)",
        );
    }
    if sources.is_empty() {
        return refused("give a source and a target");
    }
    if sources.iter().any(is_object) && !sources.iter().all(is_object) {
        return refused("all sources must be in object stores, or none");
    }
    match copy.target {
        Place::Object { .. } if sources.iter().all(is_here) => Ok(Way::Up),
        Place::Object { .. } if sources.iter().all(is_object) => Ok(Way::Between),
        Place::Here(_) if sources.iter().all(is_object) => Ok(Way::Down),
        Place::Here(_) | Place::Ssh { .. } | Place::Daemon { .. } | Place::Object { .. } => {
            refused(
                "objects are copied to or from this host, not another one: copy them here first, or run the command there",
            )
        }
    }
}

/// Refuses options without a meaning for objects.
fn check(options: &Options) -> Result<(), Error> {
    let refused = object_options::refused(options).or_else(|| {
        object_options::first(&[
            // the count before a deletion is a dry run, whose protocol is set
            (
                !options.protocol.is_empty() && options.dry_run.is_none(),
                "--protocol",
            ),
            (options.streams > 0, "--streams"),
            (!options.trc.is_empty(), "--trc"),
            (options.dedicated, "--dedicated"),
            (options.digest == DigestKind::Blake3, "--digest=blake3"),
        ])
    });
    match refused {
        Some(name) => Err(Fault::Option(name).into()),
        None => Ok(()),
    }
}

/// Returns the event of the start.
fn start(copy: &ObjectCopy<'_>) -> Start {
    let places = copy.sources.iter().chain([copy.target]);
    let schemes = places.filter_map(|place| match place {
        Place::Object { scheme, .. } => Some(scheme.as_str()),
        Place::Here(_) | Place::Ssh { .. } | Place::Daemon { .. } => None,
    });
    let schemes: Vec<&str> = schemes.collect();
    let has_checksums = schemes.iter().all(|scheme| *scheme == "s3");
    let digest = match (has_checksums, copy.options.digest) {
        (true, DigestKind::Crc128 | DigestKind::Blake3) => "crc64nvme",
        _ => "none",
    };
    Start {
        protocol: schemes.first().copied().unwrap_or_default().to_owned(),
        rate_bps: None,
        packet_len: 0,
        cipher: "HTTP".to_owned(),
        digest: digest.to_owned(),
        start_up: Duration::ZERO,
    }
}

/// Interval of progress.
const LOOK: Duration = Duration::from_millis(50);
/// Time for uploads, and then for work on files, to end after an interruption.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Threads for requests.
const WORKERS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_gives_no_reason_to_delete_what_it_does_not_name() {
        let object = Place::parse("s3://bucket/x/").unwrap();
        let here = Place::parse("x/").unwrap();
        let options = |listed, delete| Options {
            listed,
            delete,
            ..Options::default()
        };
        for (source, target) in [(&object, &here), (&here, &object), (&object, &object)] {
            let way = |options: &Options| {
                way(&ObjectCopy {
                    sources: std::slice::from_ref(source),
                    target,
                    exact: false,
                    options,
                    retries: 0,
                    redirects: true,
                })
            };
            assert!(way(&options(true, false)).is_ok());
            assert!(way(&options(false, true)).is_ok());
            let refused = way(&options(true, true)).unwrap_err().to_string();
            assert!(refused.contains("--files-from"), "{refused}");
        }
    }
}
