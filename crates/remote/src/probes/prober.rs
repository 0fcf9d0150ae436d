//! Threads that probe paths, and their results.
//!
//! [`PathProber::poll`] starts the probes that are due, and returns the results of ended probes. It never waits:
//! each probe has a thread, and at most [`RUNNING_MAX`] run. All waits of a probe have limits, so a host that does not
//! answer only keeps its thread for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_monitor::path::{PathMeasures, PathSample};
use lighthaul_session::checkup;
use lighthaul_session::checkup::path_probe::{Depth, PathProbe, probe};
use lighthaul_session::error::{Error, caught};
use lighthaul_session::known_path::{PathEnds, PathMemory};
use lighthaul_session::message::{Hello, Message};

use crate::daemon::Daemon;
use crate::dial::dial;
use crate::known_paths::KnownPaths;
use crate::reach::agreed;

use super::schedule::{ProbeLimits, RUNNING_MAX, Schedule};
use super::target::{ProbeTarget, known};

/// Paths to probe, and limits.
#[derive(Clone, Debug)]
pub struct ProbeSettings {
    /// Daemons that the user named.
    pub named: Vec<ProbeTarget>,
    /// True to probe known paths, too.
    pub has_known: bool,
    /// Limits of all probes together.
    pub limits: ProbeLimits,
}

/// Probes of all paths.
#[derive(Debug)]
pub struct PathProber {
    settings: ProbeSettings,
    clock: Clock,
    schedule: Schedule,
    targets: BTreeMap<String, ProbeTarget>,
    /// Time at which the lists of known hosts and paths are read again.
    read_at: Instant,
    sender: SyncSender<Ended>,
    ended: Receiver<Ended>,
}

/// Probe that has ended.
#[derive(Debug)]
struct Ended {
    depth: Depth,
    sample: PathSample,
}

impl PathProber {
    /// Creates the prober of the paths in `settings`. It starts no probe yet.
    pub fn new(settings: ProbeSettings, clock: Clock) -> Self {
        let (sender, ended) = sync_channel(RUNNING_MAX);
        let now = clock.now();
        Self {
            schedule: Schedule::new(settings.limits, now),
            settings,
            clock,
            targets: BTreeMap::new(),
            read_at: now,
            sender,
            ended,
        }
    }

    /// Starts the probes that are due, and returns the results since the last call.
    pub fn poll(&mut self) -> Vec<PathSample> {
        let now = self.clock.now();
        let mut samples = Vec::new();
        for Ended { depth, sample } in self.ended.try_iter().take(RUNNING_MAX) {
            let succeeded = sample.measured.is_some();
            self.schedule.end(&sample.host, depth, succeeded, now);
            samples.push(sample);
        }
        if now >= self.read_at {
            self.read_at = now + READ_INTERVAL;
            self.list(now);
        }
        while let Some((name, depth)) = self.schedule.start(now) {
            let Some(target) = self.targets.get(&name) else {
                self.schedule.end(&name, depth, false, now);
                continue;
            };
            if start(target.clone(), depth, self.sender.clone()).is_err() {
                // no thread is free: the next interval tries again
                self.schedule.end(&name, depth, false, now);
            }
        }
        samples
    }

    /// Reads the lists of known hosts and paths.
    fn list(&mut self, now: Instant) {
        let known = if self.settings.has_known {
            known()
        } else {
            Vec::new()
        };
        let named = self.settings.named.iter().cloned();
        let targets = named.chain(known);
        self.targets = targets.map(|to| (to.name.clone(), to)).collect();
        let names: BTreeSet<&str> = self.targets.keys().map(String::as_str).collect();
        self.schedule.watch(&names, now);
    }
}

/// Starts a thread that probes once and sends the result.
fn start(target: ProbeTarget, depth: Depth, sender: SyncSender<Ended>) -> io::Result<()> {
    let run = move || {
        let mut sample = PathSample {
            host: target.name.clone(),
            ..PathSample::default()
        };
        let found = caught("probe", || measure(&target, depth, &mut sample));
        match found {
            Ok(found) => sample.measured = Some(measures(&found)),
            Err(error) => sample.fault = Some(error.text()),
        }
        sample.time_s = (unix_nanos() / 1_000_000) as f64 / 1e3;
        // the command has ended
        sender.send(Ended { depth, sample }).ok();
    };
    thread::Builder::new().name("probe".into()).spawn(run)?;
    Ok(())
}

/// Connects to a daemon whose key is known, and probes the path.
fn measure(
    target: &ProbeTarget,
    depth: Depth,
    sample: &mut PathSample,
) -> Result<PathProbe, Error> {
    let daemon = Daemon {
        strict: true,
        ..Daemon::default()
    };
    let session = dial(&daemon, None, &target.host, target.port)?;
    let ends = PathEnds::of(&session);
    sample.local = Some(ends.local);
    sample.address = Some(ends.address);
    let known = KnownPaths::of_user().recall(ends);
    sample.copy_rate_bps = known.map(|path| path.rate.as_bps());
    session.control.limit_silence(SILENCE_MAX);
    let hello = Hello::about::<checkup::message::Message>(&());
    session.say(&Message::Hello(hello))?;
    agreed(&session)?;
    probe(&session, depth)
}

fn measures(found: &PathProbe) -> PathMeasures {
    let capacity = found.capacity;
    let rate = capacity.and_then(|capacity| capacity.rate);
    PathMeasures {
        rtts_s: found.rtts.iter().copied().map(seconds).collect(),
        rtt_min_s: seconds(found.rtt_min),
        rtt_mean_s: seconds(found.rtt_mean),
        rtt_max_s: seconds(found.rtt_max),
        jitter_s: seconds(found.jitter),
        sent: found.sent.into(),
        lost: found.lost.into(),
        mtu_bytes: capacity.map(|capacity| capacity.mtu),
        rate_bps: rate.map(Rate::as_bps),
    }
}

/// Returns seconds, rounded to a microsecond so that their JSON is short.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}

/// Interval at which the lists of known hosts and paths are read.
const READ_INTERVAL: Duration = Duration::from_mins(1);
/// Longest silence of a daemon.
const SILENCE_MAX: Duration = Duration::from_secs(20);
