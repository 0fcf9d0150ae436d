//! Removal of circuits from before the start.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Driver, InstalledCircuit};
use lighthaul_circuit::error::Error;
use lighthaul_circuit::flow::Flow;
use lighthaul_stargate::Segment;
use tracing::warn;

/// Interfaces that may still have circuits from before the start.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    /// Interfaces that are not clean yet, and the reasons.
    unclean: BTreeMap<String, String>,
    /// Sums of the rates of circuits that could not be removed, in b/s; `None` until the interface was read.
    left: BTreeMap<String, Option<u64>>,
}

impl Cleaning {
    /// Returns interfaces of which none was read yet.
    pub(super) fn of(interfaces: impl Iterator<Item = String>) -> Self {
        let mut cleaning = Self::default();
        for interface in interfaces {
            cleaning.unclean.insert(interface.clone(), String::new());
            cleaning.left.insert(interface, None);
        }
        cleaning
    }

    /// Returns true if no circuit from before the start is left.
    pub(super) fn is_clean(&self) -> bool {
        self.unclean.is_empty()
    }

    /// Returns the interfaces to clean. Without time, only those that were not read yet.
    pub(super) fn due(&self, has_time: bool) -> Vec<String> {
        let unclean = self.unclean.keys();
        let due = unclean.filter(|one| has_time || self.unread(one).is_some());
        due.cloned().collect()
    }

    /// Notes the circuits that an interface had, if it could be read, and the fault. A fault is logged once.
    pub(super) fn note(
        &mut self,
        interface: &str,
        found: Option<&OldCircuits>,
        fault: Option<&Error>,
    ) {
        if let Some(found) = found {
            let rates = found.left.iter().map(|(_, bps)| *bps);
            let sum = rates.fold(0, u64::saturating_add);
            self.left.insert(interface.to_owned(), Some(sum));
        }
        let before = self.unclean.remove(interface);
        let Some(why) = fault.map(Error::to_string) else {
            return;
        };
        if before.as_ref() != Some(&why)
            && found.is_none()
            && self.left.get(interface) == Some(&None)
        {
            warn!(
                interface,
                why,
                "a device cannot be read since the start; its paths stay, and it is not known if they carry data"
            );
        } else if before.as_ref() != Some(&why) {
            warn!(
                interface,
                why,
                "cannot remove circuits of an earlier run; the service tries again, or remove them by hand"
            );
        }
        self.unclean.insert(interface.to_owned(), why);
    }

    /// Returns the reason for which an interface could not be read since the start; none if it was.
    pub(super) fn unread(&self, interface: &str) -> Option<&str> {
        let is_unread = self.left.get(interface) == Some(&None);
        let why = self.unclean.get(interface).filter(|_| is_unread);
        why.map(String::as_str)
    }

    /// Returns the capacity in b/s that circuits use which could not be removed.
    pub(super) fn in_use(&self, interface: &str) -> u64 {
        self.left.get(interface).copied().flatten().unwrap_or(0)
    }
}

/// Circuits from before the start that a device had, by what happened to them.
#[derive(Debug, Default)]
pub(super) struct OldCircuits {
    /// Circuits that are still needed.
    pub(super) kept: Vec<(Segment, Rate)>,
    /// Circuits that were removed, with their rates in b/s.
    pub(super) removed: Vec<(CircuitId, u64)>,
    /// Circuits that are still there, with their rates in b/s.
    pub(super) left: Vec<(CircuitId, u64)>,
}

/// Removes the circuits of a device that are not in `kept`. Returns the circuits that it had, and the first fault; no
/// circuits if they cannot be read.
pub(super) fn clean_one(
    driver: &mut dyn Driver,
    kept: &BTreeMap<CircuitId, (Segment, Flow)>,
    is_stopping: &AtomicBool,
) -> (Option<OldCircuits>, Option<Error>) {
    let installed = match driver.inspect() {
        Ok(installed) => installed,
        Err(why) => return (None, Some(why)),
    };
    let (mut found, mut fault) = (OldCircuits::default(), None);
    for one in installed {
        match kept.get(&one.id) {
            Some((segment, flow)) if one.flow == Some(*flow) => {
                found.kept.extend(one.rate.map(|rate| (*segment, rate)));
            }
            _ if is_stopping.load(Ordering::Relaxed) => found.left.push(rate_of(&one)),
            _ => match driver.remove(one.id) {
                Ok(()) => found.removed.push(rate_of(&one)),
                Err(why) => {
                    found.left.push(rate_of(&one));
                    fault = fault.or(Some(why));
                }
            },
        }
    }
    (Some(found), fault)
}

fn rate_of(circuit: &InstalledCircuit) -> (CircuitId, u64) {
    (circuit.id, circuit.rate.map_or(0, Rate::as_bps))
}
