//! What a server takes in, over time.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use lighthaul_io::clock::Clock;
use lighthaul_io::wait::pause;

use super::iperf::Way;
use super::site::{Path, Site, cpu_seconds, settle, within};
use super::{gridftp, iperf};
use crate::demo::show::Running;

/// Who sends and who takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// iperf3, from memory to memory.
    Iperf,
    /// `globus-url-copy` from `/dev/zero` to a server's `/dev/null`.
    GridFtp,
}

/// Bytes that a server had so many seconds after the first of them left.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    points: Vec<(f64, u64)>,
    /// CPU seconds of the gateways meanwhile.
    cpu: [f64; 2],
}

impl Course {
    /// Has a program send four streams until its server has taken in bytes for so long; then both are ended.
    pub(super) fn measure(
        site: &Site,
        path: &Path,
        (program, way): (Program, Way),
        seconds: u32,
    ) -> Result<Self, String> {
        site.control(way)?;
        let server = program.serve(site)?;
        let mut client = match program {
            Program::Iperf => iperf::client(site, path, way, seconds + SPARE_SECONDS)?,
            Program::GridFtp => gridftp::client(site, way)?,
        };
        client.stdout(Stdio::null()).stderr(Stdio::piped());
        let spawned = client.spawn().map(Running);
        let mut client = spawned.map_err(|e| format!("{}: {e}", program.name()))?;
        let clock = Clock::start();
        let before = [program.octets(&server), arrived(site)?];
        let half = f64::from(path.rtt_ms) / 2e3;
        let cpu = || [&site.ingress, &site.egress].map(cpu_seconds);
        let mut course = Self {
            points: Vec::new(),
            cpu: cpu(),
        };
        let mut first = None;
        loop {
            pause(EVERY);
            let now = clock.now().as_secs_f64();
            let is_late = first.is_none() && now > PATIENCE_SECONDS;
            if is_late || matches!(client.0.try_wait(), Ok(Some(_)) | Err(_)) {
                return Err(program.failed(client));
            }
            if first.is_none() && arrived(site)?.saturating_sub(before[1]) < HANDSHAKE_OCTETS {
                continue;
            }
            let start = *first.get_or_insert(now - half);
            let octets = program.octets(&server).saturating_sub(before[0]);
            course.points.push((now - start, octets));
            if now - start >= f64::from(seconds) {
                let after = cpu();
                course.cpu = [0, 1].map(|nth| after[nth] - course.cpu[nth]);
                drop((client, server));
                settle();
                return Ok(course);
            }
        }
    }

    /// Mb/s between two moments.
    pub(super) fn mbps(&self, from: f64, till: f64) -> f64 {
        (self.octets_at(till) - self.octets_at(from)) * 8.0 / (till - from) / 1e6
    }

    /// What it cost the gateways: next to nothing, if all went by itself.
    pub(super) fn cost(&self) -> String {
        format!("CPU {:.1} and {:.1} s in all", self.cpu[0], self.cpu[1])
    }

    fn octets_at(&self, at: f64) -> f64 {
        let next = self.points.partition_point(|point| point.0 < at);
        let after = self.points.get(next).or_else(|| self.points.last());
        let before = next.checked_sub(1).and_then(|nth| self.points.get(nth));
        let before = before.copied().unwrap_or_default();
        let after = after.copied().unwrap_or(before);
        if after.0 <= before.0 {
            return before.1 as f64;
        }
        let share = (at - before.0) / (after.0 - before.0);
        before.1 as f64 + share * (after.1 as f64 - before.1 as f64)
    }
}

impl Program {
    /// What it is called in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Iperf => "iperf3",
            Self::GridFtp => "gridftp",
        }
    }

    fn serve(self, site: &Site) -> Result<Running, String> {
        match self {
            Self::Iperf => iperf::serve(site),
            Self::GridFtp => gridftp::serve(site),
        }
    }

    /// What the server has taken in, as the kernel counts what iperf3 reads, and what `GridFTP` writes to `/dev/null`.
    fn octets(self, server: &Running) -> u64 {
        let counter = match self {
            Self::Iperf => "rchar:",
            Self::GridFtp => "wchar:",
        };
        let of = |pid: &u32| {
            let counters = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            let line = counters.lines().find_map(|line| line.strip_prefix(counter));
            line.and_then(|line| line.trim().parse::<u64>().ok())
        };
        within(server).iter().filter_map(of).sum()
    }

    fn failed(self, mut client: Running) -> String {
        client.0.kill().ok();
        let mut said = String::new();
        if let Some(pipe) = client.0.stderr.take() {
            pipe.take(1 << 12).read_to_string(&mut said).ok();
        }
        format!("{} sends nothing any more: {}", self.name(), said.trim())
    }
}

/// What has come to the server's host, headers included.
fn arrived(site: &Site) -> Result<u64, String> {
    let read = || fs::read_to_string("/proc/thread-self/net/dev");
    let devices = site.lab.within("s", read).map_err(|e| e.to_string())?;
    let mut lines = devices.lines();
    let row = lines.find_map(|line| line.trim().strip_prefix("wan:"));
    let octets = row.and_then(|row| row.split_whitespace().next()?.parse().ok());
    octets.ok_or_else(|| "the server's host has no device".to_owned())
}

/// How often the server's counter is looked at.
const EVERY: Duration = Duration::from_millis(20);
/// How long a login may take, and all before the first byte.
const PATIENCE_SECONDS: f64 = 20.0;
/// How long iperf3 would go on if it were not ended.
const SPARE_SECONDS: u32 = 10;
/// More than two programs say to each other before they begin, and less than TCP's first window.
const HANDSHAKE_OCTETS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_came_between_two_moments() {
        let course = Course {
            points: vec![(1.0, 1_000_000), (2.0, 3_000_000), (3.0, 3_000_000)],
            ..Course::default()
        };
        let moments = [(0.0, 1.0), (1.0, 2.0), (1.5, 2.5), (0.0, 4.0)];
        let rates = |course: &Course| moments.map(|(from, till)| course.mbps(from, till)).to_vec();
        assert_eq!(rates(&course), [8.0, 16.0, 8.0, 6.0]);
        assert_eq!(rates(&Course::default()), [0.0; 4]);
    }
}
