//! Probes of paths to other hosts: the result of one probe, and the summary of a path's recent probes.
//!
//! A [`PathSample`] is the result of one probe, with the names that its fields have in JSON. Times are in seconds,
//! rates in bits per second. [`PathTable`] has the [`PathStatus`] of each path, for screens and metrics.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Result of one probe of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSample {
    /// End of the probe, in seconds since 1970 (UTC).
    pub time_s: f64,
    /// Name of the daemon, as in the list of known hosts.
    pub host: String,
    /// Address of this host on the path, if a connection was made.
    pub local: Option<IpAddr>,
    /// Address of the daemon.
    pub address: Option<IpAddr>,
    /// Measurements; none if the probe failed.
    pub measured: Option<PathMeasures>,
    /// Rate on the wire that a copy has found in the last hour.
    pub copy_rate_bps: Option<u64>,
    /// Reason of the failure.
    pub fault: Option<String>,
}

/// Measurements of one probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathMeasures {
    /// Round-trip times in the order of measurement.
    pub rtts_s: Vec<f64>,
    /// Shortest round-trip time.
    pub rtt_min_s: f64,
    /// Mean round-trip time.
    pub rtt_mean_s: f64,
    /// Longest round-trip time.
    pub rtt_max_s: f64,
    /// Mean difference of consecutive round-trip times.
    pub jitter_s: f64,
    /// Datagrams that were sent to the daemon.
    pub sent: u32,
    /// Datagrams that did not arrive.
    pub lost: u32,
    /// Longest packet that passes; 0 if no datagram passes, none if not measured by this probe.
    pub mtu_bytes: Option<u32>,
    /// Rate at which a train of datagrams arrived; none if not measured by this probe.
    pub rate_bps: Option<u64>,
}

/// State of one path after its last probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathStatus {
    /// Result of the last probe.
    pub last: PathSample,
    /// Measurements of the last probe that succeeded.
    pub measured: Option<PathMeasures>,
    /// Last measured longest packet.
    pub mtu_bytes: Option<u32>,
    /// Last measured rate of a train.
    pub rate_bps: Option<u64>,
    /// Sent and lost datagrams of the last probes that succeeded.
    recent: VecDeque<(u32, u32)>,
    /// Probes so far.
    pub probes: u64,
    /// Probes that failed.
    pub failed: u64,
    /// Datagrams that were sent so far.
    pub sent: u64,
    /// Datagrams that were lost so far.
    pub lost: u64,
}

impl PathStatus {
    /// Takes the result of a probe.
    pub fn add(&mut self, sample: &PathSample) {
        self.last = sample.clone();
        self.probes += 1;
        let Some(measured) = &sample.measured else {
            self.failed += 1;
            return;
        };
        self.mtu_bytes = measured.mtu_bytes.or(self.mtu_bytes);
        self.rate_bps = measured.rate_bps.or(self.rate_bps);
        self.sent += u64::from(measured.sent);
        self.lost += u64::from(measured.lost);
        self.measured = Some(measured.clone());
        self.recent.push_back((measured.sent, measured.lost));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Returns the fraction of datagrams that the last [`RECENT`] probes have lost.
    pub fn loss(&self) -> Option<f64> {
        let sum = |pick: fn(&(u32, u32)) -> u32| self.recent.iter().map(pick).map(f64::from).sum();
        let (sent, lost): (f64, f64) = (sum(|pair| pair.0), sum(|pair| pair.1));
        (sent > 0.0).then(|| lost / sent)
    }

    /// Returns true if the last probe succeeded.
    pub const fn is_up(&self) -> bool {
        self.last.measured.is_some()
    }
}

/// States of all probed paths, by the name of the daemon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathTable(BTreeMap<String, PathStatus>);

impl PathTable {
    /// Takes the result of a probe. Of too many paths, the one with the oldest probe is dropped.
    pub fn add(&mut self, sample: &PathSample) {
        self.0.entry(sample.host.clone()).or_default().add(sample);
        if self.0.len() > PATHS_MAX {
            let age = |(_, status): &(&String, &PathStatus)| (status.last.time_s * 1e3) as i64;
            let oldest = self.0.iter().min_by_key(age).map(|(host, _)| host.clone());
            oldest.and_then(|host| self.0.remove(&host));
        }
    }

    /// Returns the states, sorted by the name of the daemon.
    pub fn iter(&self) -> impl Iterator<Item = &PathStatus> {
        self.0.values()
    }

    /// Returns true if no path was probed yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Number of recent probes whose losses are added.
pub const RECENT: usize = 10;
/// Maximum number of paths of a table.
pub const PATHS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(host: &str, time_s: f64, measured: Option<PathMeasures>) -> PathSample {
        PathSample {
            time_s,
            host: host.to_owned(),
            measured,
            ..PathSample::default()
        }
    }

    fn lost(lost: u32) -> PathMeasures {
        PathMeasures {
            sent: 100,
            lost,
            ..PathMeasures::default()
        }
    }

    #[test]
    fn loss_is_computed_from_the_latest_probes() {
        let mut status = PathStatus::default();
        assert_eq!(status.loss(), None);
        status.add(&sample("a", 1.0, Some(lost(100))));
        assert_eq!(status.loss(), Some(1.0));
        for _ in 0..9 {
            status.add(&sample("a", 2.0, Some(lost(0))));
        }
        assert!((status.loss().unwrap() - 0.1).abs() < 1e-9, "{status:?}");
        status.add(&sample("a", 3.0, Some(lost(1))));
        assert!((status.loss().unwrap() - 0.001).abs() < 1e-9, "{status:?}");
        assert_eq!((status.sent, status.lost), (1100, 101));
    }

    #[test]
    fn failed_probe_keeps_the_last_measurements() {
        let mut status = PathStatus::default();
        let full = PathMeasures {
            mtu_bytes: Some(1500),
            rate_bps: Some(7),
            ..lost(2)
        };
        status.add(&sample("a", 1.0, Some(full)));
        assert!(status.is_up());
        status.add(&sample("a", 2.0, Some(lost(3))));
        status.add(&sample("a", 3.0, None));
        assert!(!status.is_up());
        assert_eq!(status.measured, Some(lost(3)));
        assert_eq!((status.mtu_bytes, status.rate_bps), (Some(1500), Some(7)));
        assert_eq!((status.probes, status.failed), (3, 1));
    }

    #[test]
    fn table_is_sorted_and_bounded() {
        let mut table = PathTable::default();
        assert!(table.is_empty());
        for nth in (0..PATHS_MAX).rev() {
            table.add(&sample(&format!("{nth:03}"), nth as f64, None));
        }
        table.add(&sample("100", 500.0, None));
        assert_eq!(table.iter().count(), PATHS_MAX);
        table.add(&sample("new", 600.0, None));
        let hosts: Vec<&str> = table.iter().map(|path| path.last.host.as_str()).collect();
        assert_eq!(hosts.len(), PATHS_MAX);
        assert_eq!((hosts[0], hosts[hosts.len() - 1]), ("001", "new"));
        assert!(!table.is_empty());
    }
}
