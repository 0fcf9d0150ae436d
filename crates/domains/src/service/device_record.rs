//! Record of the devices that may have circuits.
//!
//! Only the service removes circuits of its paths from its devices. A device that is no longer configured would keep them,
//! for packets without a path. So the store names each device before it can get a circuit, until the device
//! was read without any. A service whose configuration lacks such a device does not start, unless the device is given up.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_stargate::{CalendarResources, Domain, Key, Record, Segment};
use tracing::warn;

use crate::config::DeviceConfig;
use crate::error::Error;
use crate::store::{RecordStore, StoreError};

/// Devices that may have circuits, by their interfaces, with the pairs of ports of the circuits.
#[derive(Debug)]
pub(super) struct DeviceRecord {
    known: BTreeMap<String, BTreeSet<Segment>>,
    /// Pairs of ports of devices that are given up, unless another device has their circuits now.
    lost: BTreeSet<Segment>,
    /// Devices that are given up, which the store has until their paths are released.
    given_up: Vec<String>,
}

impl DeviceRecord {
    /// Reads the record. Fails if the configuration lacks a device that is not given up.
    pub(super) fn open(store: &mut RecordStore, config: &DeviceConfig) -> Result<Self, Error> {
        let mut known = store.devices()?;
        let missing = known
            .keys()
            .filter(|one| !config.drivers.contains_key(*one) && !config.given_up.contains(*one));
        let missing: Vec<String> = missing.cloned().collect();
        if !missing.is_empty() {
            return Err(Error::MissingDevices(missing));
        }
        let (mut lost, mut given_up) = (BTreeSet::new(), Vec::new());
        for interface in &config.given_up {
            let Some(segments) = known.remove(interface) else {
                continue;
            };
            warn!(
                interface,
                circuits = segments.len(),
                "a device is given up: its paths are released, and its circuits stay until they are removed by hand"
            );
            given_up.push(interface.clone());
            let moved = |segment: &Segment| config.circuits.contains_key(segment);
            lost.extend(segments.into_iter().filter(|one| !moved(one)));
        }
        Ok(Self {
            known,
            lost,
            given_up,
        })
    }

    /// Writes off the devices that are given up. Call it once their paths are released.
    pub(super) fn write_off(&mut self, store: &mut RecordStore) -> Result<(), StoreError> {
        for interface in self.given_up.drain(..) {
            store.forget_device(&interface)?;
        }
        Ok(())
    }

    /// Returns the circuits of paths at devices that were given up.
    pub(super) fn lost(&self, domain: &Domain<CalendarResources>) -> Vec<(Key, u8)> {
        let mut lost = Vec::new();
        for one in domain.reservations() {
            let stored = one.stored();
            let here = (0..).zip(&stored.segments);
            let here = here.filter(|(_, segment)| self.lost.contains(segment));
            lost.extend(here.map(|(nth, _)| (stored.key, nth)));
        }
        lost
    }

    /// Notes the devices that the paths of these records use. Call it before the records are written.
    pub(super) fn note(
        &mut self,
        store: &mut RecordStore,
        config: &DeviceConfig,
        records: &[Record],
    ) -> Result<(), StoreError> {
        let mut new = Vec::new();
        for record in records {
            let Record::Put(stored) = record else {
                continue;
            };
            for segment in &stored.segments {
                let circuit = config.circuits.get(segment);
                if let Some(circuit) = circuit {
                    let segments = self.known.entry(circuit.interface.clone()).or_default();
                    if segments.insert(*segment) {
                        new.push((circuit.interface.as_str(), *segment));
                    }
                }
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        store.add_devices(&new)
    }

    /// Forgets those of the `empty` devices that no path uses.
    pub(super) fn forget(
        &mut self,
        store: &mut RecordStore,
        domain: &Domain<CalendarResources>,
        empty: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        if !empty.iter().any(|one| self.known.contains_key(one)) {
            return Ok(());
        }
        let used = domain.reservations().flat_map(|one| &one.stored().segments);
        let used: BTreeSet<Segment> = used.copied().collect();
        for interface in empty {
            let segments = self.known.get(interface);
            if segments.is_some_and(|segments| segments.is_disjoint(&used)) {
                store.forget_device(interface)?;
                self.known.remove(interface);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use lighthaul_base::trc::{Step, Trc};
    use lighthaul_base::{Instant, Rate};
    use lighthaul_stargate::{CorrelationId, DomainId, PortId, StoredReservation, StoredStage};

    use super::*;
    use crate::config::DomainConfig;
    use lighthaul_io::host::wall_clock::wall_now;

    /// Domain with two devices; the circuits of the second one may be missing.
    fn config(extra: &str) -> DomainConfig {
        let ports = [1, 2, 3].map(|number| {
            format!("[[port]]\nnumber = {number}\nnode = \"switch\"\ncapacity = \"1Gb/s\"\n")
        });
        let text = format!(
            "domain = 1\nname = \"one\"\nlisten = \"127.0.0.1:0\"\nkey = \"key\"\nstore = \"store\"\n{extra}{}",
            ports.concat()
        );
        DomainConfig::parse(&text, Path::new("/")).unwrap()
    }

    fn device(interface: &str, egress: u32) -> String {
        format!(
            "[[device]]\ninterface = \"{interface}\"\ncapacity = \"1Gb/s\"\n\
             [[circuit]]\ningress = 1\negress = {egress}\ninterface = \"{interface}\"\nflow = \"10.0.0.{egress}\"\n"
        )
    }

    const fn segment(egress: u32) -> Segment {
        let (ingress, egress) = (PortId(1), PortId(egress));
        Segment { ingress, egress }
    }

    /// Returns a committed path from port 1 to `egress`.
    fn path(id: u128, egress: u32) -> Record {
        let from = wall_now() + Duration::from_hours(1);
        let step = Step {
            from,
            till: from + Duration::from_hours(1),
            rate: Rate::from_mbps(1),
        };
        Record::Put(StoredReservation {
            key: Key {
                source: DomainId(1),
                id: CorrelationId(id),
                attempt: 0,
                leg: 0,
            },
            upstream: None,
            segments: vec![segment(egress)],
            children: Vec::new(),
            trace: vec![DomainId(1)],
            vector: Trc::new(vec![step]).unwrap(),
            guard: Duration::ZERO,
            hold_till: Instant::ZERO,
            decide_till: Instant::ZERO,
            stage: StoredStage::Committed,
            lost: None,
        })
    }

    fn domain(config: &DomainConfig, records: Vec<Record>) -> Domain<CalendarResources> {
        let parts = (
            config.machine.clone(),
            config.topology.clone(),
            config.resources(),
        );
        Domain::restore(parts, 1, records, wall_now())
    }

    /// Returns a store, which is removed at the end.
    fn store(name: &str) -> (RecordStore, impl Drop) {
        struct Removed(std::path::PathBuf);
        impl Drop for Removed {
            fn drop(&mut self) {
                std::fs::remove_dir_all(&self.0).ok();
            }
        }
        let folder = format!("lighthaul-devices-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::remove_dir_all(&folder).ok();
        let (store, _) = RecordStore::open(&folder.join("1.db"), DomainId(1)).unwrap();
        (store, Removed(folder))
    }

    fn names(store: &mut RecordStore) -> Vec<String> {
        store.devices().unwrap().into_keys().collect()
    }

    #[test]
    fn device_is_known_until_it_is_empty_and_no_path_uses_it() {
        let (mut store, _removed) = store("known");
        let both = device("eth1", 2) + &device("eth2", 3);
        let config = config(&both);
        let mut record = DeviceRecord::open(&mut store, &config.devices).unwrap();
        let paths = [path(1, 2), path(2, 3)];
        record.note(&mut store, &config.devices, &paths).unwrap();
        assert_eq!(names(&mut store), ["eth1", "eth2"]);
        let one = domain(&config, vec![path(2, 3)]);
        let empty = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let mut forget = |names: &[&str]| {
            let forgotten = record.forget(&mut store, &one, &empty(names));
            forgotten.unwrap();
            store.devices().unwrap().into_keys().collect::<Vec<_>>()
        };
        assert_eq!(forget(&[]), ["eth1", "eth2"]);
        assert_eq!(forget(&["eth2", "eth3"]), ["eth1", "eth2"]);
        assert_eq!(forget(&["eth1", "eth2"]), ["eth2"]);
        // a later path needs it again
        record.note(&mut store, &config.devices, &paths).unwrap();
        assert_eq!(names(&mut store), ["eth1", "eth2"]);
    }

    #[test]
    fn missing_devices_are_refused_and_only_their_own_circuits_are_given_up() {
        let (mut store, _removed) = store("missing");
        let both = config(&(device("eth1", 2) + &device("eth2", 3)));
        let paths = [path(1, 2), path(2, 3)];
        let mut record = DeviceRecord::open(&mut store, &both.devices).unwrap();
        record.note(&mut store, &both.devices, &paths).unwrap();
        let one = config(&device("eth2", 3));
        let why = DeviceRecord::open(&mut store, &one.devices).unwrap_err();
        assert!(matches!(&why, Error::MissingDevices(names) if names == &["eth1"]));
        let why = why.to_string();
        assert!(why.contains("given_up = [\"eth1\"]"), "{why}");
        let given_up = config(&format!("given_up = [\"eth1\"]\n{}", device("eth2", 3)));
        // a service that ends before it has released the paths tries again
        DeviceRecord::open(&mut store, &given_up.devices).unwrap();
        let mut record = DeviceRecord::open(&mut store, &given_up.devices).unwrap();
        let lost = record.lost(&domain(&given_up, paths.to_vec()));
        let ids: Vec<_> = lost.iter().map(|(key, nth)| (key.id.0, *nth)).collect();
        assert_eq!(ids, [(1, 0)]);
        assert_eq!(names(&mut store), ["eth1", "eth2"]);
        record.write_off(&mut store).unwrap();
        assert_eq!(names(&mut store), ["eth2"]);
        // it is written off once
        DeviceRecord::open(&mut store, &one.devices).unwrap();
    }

    #[test]
    fn circuit_that_another_device_has_now_is_not_lost() {
        let (mut store, _removed) = store("moved");
        let old = config(&device("eth1", 2));
        let mut record = DeviceRecord::open(&mut store, &old.devices).unwrap();
        let paths = [path(1, 2)];
        record.note(&mut store, &old.devices, &paths).unwrap();
        let new = config(&format!("given_up = [\"eth1\"]\n{}", device("eth2", 2)));
        let record = DeviceRecord::open(&mut store, &new.devices).unwrap();
        assert_eq!(record.lost(&domain(&new, paths.to_vec())), []);
    }
}
