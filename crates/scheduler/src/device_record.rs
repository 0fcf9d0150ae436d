//! Record of the devices that may have circuits, in a file beside that of the position of the store.
//!
//! Only the scheduler removes circuits of its reservations from its devices. A device whose driver is no longer among the
//! options would keep them, for packets without a reservation. So the record names each device with reservations,
//! until the device was read without circuits. Each instance has its own record, since it has devices of its own.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lighthaul_io::host::durable;

/// Devices that may have circuits. Without a file, the record lasts as long as the process.
#[derive(Debug, Default)]
pub struct DeviceRecord {
    path: Option<PathBuf>,
    names: BTreeSet<String>,
}

impl DeviceRecord {
    /// Reads the file of a record. A file that does not exist names no device.
    pub fn open(path: &Path) -> io::Result<Self> {
        let names = match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(why) => return Err(why),
        };
        let path = Some(path.to_owned());
        Ok(Self { path, names })
    }

    /// Returns the names of the devices.
    pub const fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Adds devices, and returns when they are on the disk.
    pub fn add(&mut self, names: &BTreeSet<String>) -> io::Result<()> {
        if names.is_subset(&self.names) {
            return Ok(());
        }
        self.replace(self.names.union(names).cloned().collect())
    }

    /// Removes devices.
    pub fn remove(&mut self, names: &BTreeSet<String>) -> io::Result<()> {
        if names.is_disjoint(&self.names) {
            return Ok(());
        }
        self.replace(self.names.difference(names).cloned().collect())
    }

    fn replace(&mut self, names: BTreeSet<String>) -> io::Result<()> {
        if let Some(path) = &self.path {
            durable::replace(path, &serde_json::to_vec(&names)?)?;
        }
        self.names = names;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn devices_are_known_after_a_restart_until_they_are_removed() {
        let name = format!("lighthaul-devices-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut record = DeviceRecord::open(&path).unwrap();
        assert_eq!(record.names(), &names(&[]));
        record.remove(&names(&["eth1"])).unwrap();
        assert!(!path.exists(), "an empty record needs no file");
        record.add(&names(&["eth1", "sw1"])).unwrap();
        record.add(&names(&["eth1"])).unwrap();
        let mut record = DeviceRecord::open(&path).unwrap();
        assert_eq!(record.names(), &names(&["eth1", "sw1"]));
        record.remove(&names(&["eth1", "eth2"])).unwrap();
        let again = DeviceRecord::open(&path).unwrap();
        assert_eq!(again.names(), &names(&["sw1"]));
        fs::write(&path, "sw1").unwrap();
        DeviceRecord::open(&path).unwrap_err();
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn device_that_could_not_be_written_is_not_known() {
        let mut record = DeviceRecord {
            path: Some("/proc/lighthaul/record".into()),
            ..DeviceRecord::default()
        };
        record.add(&names(&["eth1"])).unwrap_err();
        assert_eq!(record.names(), &names(&[]));
    }
}
