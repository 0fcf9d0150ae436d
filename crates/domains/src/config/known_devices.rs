//! Capabilities of the devices at the last start, in a file beside the store.
//!
//! With them, a service starts although a device does not answer. Without the file, all devices must answer.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::driver::{Capabilities, CountedBytes};
use lighthaul_io::host::durable;
use serde::{Deserialize, Serialize};
use tracing::warn;

/// Capabilities of devices, by interface.
#[derive(Debug, Default)]
pub struct KnownDevices {
    path: PathBuf,
    capabilities: BTreeMap<String, Capabilities>,
}

#[derive(Serialize, Deserialize)]
struct StoredCapabilities {
    rate_min_bps: NonZeroU64,
    rate_max_bps: NonZeroU64,
    granularity_bps: NonZeroU64,
    reconfiguration_ns: u64,
    settling_ns: u64,
    circuits_max: NonZeroUsize,
    counted: CountedBytes,
    timer_max_ns: Option<u64>,
}

impl KnownDevices {
    /// Reads the file of a store. A file that is missing or damaged has no devices.
    pub fn read(store: &Path) -> Self {
        let mut path = store.as_os_str().to_owned();
        path.push("-devices.json");
        let path = PathBuf::from(path);
        let octets = durable::read(&path, BYTES_MAX).ok().flatten();
        let stored: BTreeMap<String, StoredCapabilities> = octets
            .and_then(|octets| serde_json::from_slice(&octets).ok())
            .unwrap_or_default();
        let known = stored.into_iter().filter_map(|(interface, one)| {
            let capabilities = one.read().filter(|found| found.check().is_ok())?;
            Some((interface, capabilities))
        });
        Self {
            capabilities: known.collect(),
            path,
        }
    }

    /// Returns the capabilities of a device, if they are known.
    pub fn of(&self, interface: &str) -> Option<Capabilities> {
        self.capabilities.get(interface).copied()
    }

    /// Writes the capabilities of all devices. A failure is logged: it matters only if a device does not answer at the
    /// next start.
    pub fn note(&mut self, capabilities: &BTreeMap<String, Capabilities>) {
        if self.capabilities == *capabilities {
            return;
        }
        let stored = capabilities.iter().filter_map(|(interface, one)| {
            let stored = StoredCapabilities::of(one)?;
            Some((interface, stored))
        });
        let stored: BTreeMap<&String, StoredCapabilities> = stored.collect();
        let json = serde_json::to_vec(&stored).unwrap_or_default();
        if let Err(why) = durable::replace(&self.path, &json) {
            let path = self.path.display();
            warn!("cannot note the capabilities of the devices in {path}: {why}");
        }
        self.capabilities.clone_from(capabilities);
    }
}

impl StoredCapabilities {
    fn of(capabilities: &Capabilities) -> Option<Self> {
        let bps = |rate: Rate| NonZeroU64::new(rate.as_bps());
        Some(Self {
            rate_min_bps: bps(capabilities.rate_min)?,
            rate_max_bps: bps(capabilities.rate_max)?,
            granularity_bps: bps(capabilities.granularity)?,
            reconfiguration_ns: capabilities.reconfiguration.as_nanos() as u64,
            settling_ns: capabilities.settling.as_nanos() as u64,
            circuits_max: NonZeroUsize::new(capabilities.entries_max)?,
            counted: capabilities.counted,
            timer_max_ns: capabilities.timer_max.map(|time| time.as_nanos() as u64),
        })
    }

    fn read(&self) -> Option<Capabilities> {
        Some(Capabilities {
            rate_min: Rate::from_bps(self.rate_min_bps.get())?,
            rate_max: Rate::from_bps(self.rate_max_bps.get())?,
            granularity: Rate::from_bps(self.granularity_bps.get())?,
            reconfiguration: Duration::from_nanos(self.reconfiguration_ns),
            settling: Duration::from_nanos(self.settling_ns),
            entries_max: self.circuits_max.get(),
            counted: self.counted,
            timer_max: self.timer_max_ns.map(Duration::from_nanos),
        })
    }
}

/// Maximum length of the file in bytes.
const BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::tests::example::CAPABILITIES;

    #[test]
    fn capabilities_are_known_at_the_next_start() {
        let name = format!("lighthaul-known-{}", std::process::id());
        let store = std::env::temp_dir().join(name);
        let with_timers = Capabilities {
            timer_max: Some(Duration::from_hours(18)),
            settling: Duration::from_millis(20),
            ..CAPABILITIES
        };
        let all = [("eth1", CAPABILITIES), ("wan", with_timers)];
        let all = all.map(|(interface, one)| (interface.to_owned(), one));
        let mut known = KnownDevices::read(&store);
        assert_eq!(known.of("eth1"), None);
        known.note(&all.into());
        let next = KnownDevices::read(&store);
        assert_eq!(next.of("eth1"), Some(CAPABILITIES));
        assert_eq!(next.of("wan"), Some(with_timers));
        std::fs::write(&next.path, "{").unwrap();
        assert_eq!(KnownDevices::read(&store).of("wan"), None);
        std::fs::remove_file(&next.path).unwrap();
    }
}
