//! Bytes that a server receives over time, for figures 3a and 3b.
//!
//! `GoodputCurve` runs iperf3 or `GridFTP` once, and reads the counter of the server in `/proc`
//! every 20 ms. Times are in seconds since the first byte left the client, half a round trip before
//! it arrived. Bytes between two readings are interpolated. CPU time of both gateways is measured,
//! too.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;

use super::path::Path;
use super::route::Route;
use super::site::{Site, cpu_seconds, settle, within};
use super::{gridftp, iperf};
use crate::demo::running::Running;

/// Program of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// iperf3, from memory to memory.
    Iperf,
    /// `globus-url-copy` from `/dev/zero` to a server's `/dev/null`.
    GridFtp,
}

/// Bytes that a server had received, over the seconds since the first byte was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct GoodputCurve {
    points: Vec<(f64, u64)>,
    /// CPU seconds of both gateways during the transfer.
    cpu: [f64; 2],
}

impl GoodputCurve {
    /// Measures a program with four streams until its server has received for `seconds`. Then ends
    /// both sides.
    pub(super) fn measure(
        site: &Site,
        path: &Path,
        (program, route): (Program, Route),
        seconds: u32,
    ) -> Result<Self, String> {
        site.control(route)?;
        let server = program.serve(site)?;
        let mut client = match program {
            Program::Iperf => iperf::client(site, path, route, seconds + SPARE_SECONDS)?,
            Program::GridFtp => gridftp::client(site, route)?,
        };
        client.stdout(Stdio::null()).stderr(Stdio::piped());
        let spawned = client.spawn().map(Running);
        let mut client = spawned.map_err(|e| format!("{}: {e}", program.name()))?;
        let clock = Clock::start();
        let before = [program.octets(&server), arrived(site)?];
        let half = f64::from(path.rtt_ms) / 2e3;
        let cpu = || [&site.ingress, &site.egress].map(cpu_seconds);
        let mut goodput_curve = Self {
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
            goodput_curve.points.push((now - start, octets));
            if now - start >= f64::from(seconds) {
                let after = cpu();
                goodput_curve.cpu = [0, 1].map(|nth| after[nth] - goodput_curve.cpu[nth]);
                drop((client, server));
                settle();
                return Ok(goodput_curve);
            }
        }
    }

    /// Returns the mean rate between two times, in Mb/s.
    pub(super) fn mbps(&self, from: f64, till: f64) -> f64 {
        (self.octets_at(till) - self.octets_at(from)) * 8.0 / (till - from) / 1e6
    }

    /// Formats the CPU time of the gateways, which is almost zero for direct streams.
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
    /// Returns the name in tables.
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

    /// Returns the octets received by the server: octets that iperf3 has read, or that `GridFTP` has written to
    /// `/dev/null`.
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
        format!("{} stopped sending: {}", self.name(), said.trim())
    }
}

/// Returns the octets that arrived at the server's host, headers included.
fn arrived(site: &Site) -> Result<u64, String> {
    let read = || fs::read_to_string("/proc/thread-self/net/dev");
    let devices = site.lab.within("s", read).map_err(|e| e.to_string())?;
    let mut lines = devices.lines();
    let row = lines.find_map(|line| line.trim().strip_prefix("wan:"));
    let octets = row.and_then(|row| row.split_whitespace().next()?.parse().ok());
    octets.ok_or_else(|| "the server's host has no device wan".to_owned())
}

/// Interval between readings of the server's counter.
const EVERY: Duration = Duration::from_millis(20);
/// Time limit for the login, and until the first byte.
const PATIENCE_SECONDS: f64 = 20.0;
/// Time in seconds that iperf3 runs beyond the measurement.
const SPARE_SECONDS: u32 = 10;
/// Threshold of received octets: more than a handshake has, and less than TCP's first window.
const HANDSHAKE_OCTETS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_interpolated_between_readings() {
        let goodput_curve = GoodputCurve {
            points: vec![(1.0, 1_000_000), (2.0, 3_000_000), (3.0, 3_000_000)],
            ..GoodputCurve::default()
        };
        let moments = [(0.0, 1.0), (1.0, 2.0), (1.5, 2.5), (0.0, 4.0)];
        let rates = |goodput_curve: &GoodputCurve| {
            moments
                .map(|(from, till)| goodput_curve.mbps(from, till))
                .to_vec()
        };
        assert_eq!(rates(&goodput_curve), [8.0, 16.0, 8.0, 6.0]);
        assert_eq!(rates(&GoodputCurve::default()), [0.0; 4]);
    }
}
