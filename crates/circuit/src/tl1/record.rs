//! Record of the channels of circuits, in a file that survives a crash.
//!
//! A switch has no place for the number of a circuit. So the record names the channels of each circuit. It also names
//! cross-connects that a change may have left at the switch, which are removed at the next contact. The record is
//! written before a cross-connect is made, and after one is removed. So every cross-connect of this driver is in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lighthaul_io::host::durable;
use serde::{Deserialize, Serialize};

use crate::circuit::CircuitId;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::tl1::cross_connect::CrossConnect;

/// File and its content.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    record: Record,
    /// True if there was no file at the start.
    was_missing: bool,
}

/// Circuits of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    version: u32,
    /// Circuits that exist.
    pub(super) circuits: BTreeMap<CircuitId, Assignment>,
    /// Cross-connects that must be removed before their ports are used again.
    pub(super) leftovers: Vec<Leftover>,
}

/// Cross-connect that a change of a circuit is making or removing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Leftover {
    pub(super) circuit: CircuitId,
    pub(super) cross_connect: CrossConnect,
}

/// Flow and channels of a circuit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Assignment {
    pub(super) flow: Flow,
    /// Channels in the order in which they were added.
    pub(super) channels: Vec<CrossConnect>,
}

impl RecordFile {
    /// Reads the record at `path`. A missing file is an empty record.
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        let octets = durable::read(&path, BYTES_MAX).map_err(|why| failed(&path, &why))?;
        let was_missing = octets.is_none();
        let record = match octets {
            None => Record {
                version: VERSION,
                circuits: BTreeMap::new(),
                leftovers: Vec::new(),
            },
            Some(octets) => serde_json::from_slice(&octets).map_err(|why| failed(&path, &why))?,
        };
        if record.version != VERSION {
            let why = format!("version {} is unknown", record.version);
            return Err(failed(&path, &why));
        }
        Ok(Self {
            path,
            record,
            was_missing,
        })
    }

    /// Returns the path of the file that was missing at the start, once.
    pub(super) fn take_missing(&mut self) -> Option<&Path> {
        std::mem::take(&mut self.was_missing).then_some(&*self.path)
    }

    /// Returns the content.
    pub(super) const fn content(&self) -> &Record {
        &self.record
    }

    /// Writes the changed record to disk. After a failure, the old one remains.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Record)) -> Result<()> {
        let mut record = self.record.clone();
        change(&mut record);
        if record == self.record {
            return Ok(());
        }
        let json = serde_json::to_vec(&record).map_err(|why| failed(&self.path, &why))?;
        durable::replace(&self.path, &json).map_err(|why| failed(&self.path, &why))?;
        self.record = record;
        Ok(())
    }
}

impl Record {
    /// Returns true if a circuit has the cross-connect, or a change may have left it.
    pub(super) fn has(&self, cross_connect: &CrossConnect) -> bool {
        let mut circuits = self.circuits.values();
        let mut leftovers = self.leftovers.iter();
        circuits.any(|circuit| circuit.channels.contains(cross_connect))
            || leftovers.any(|leftover| leftover.cross_connect == *cross_connect)
    }

    /// Returns true if cross-connects of the circuit must be removed.
    pub(super) fn has_leftovers(&self, circuit: CircuitId) -> bool {
        let mut leftovers = self.leftovers.iter();
        leftovers.any(|leftover| leftover.circuit == circuit)
    }

    /// Adds cross-connects that a change of a circuit makes or removes.
    pub(super) fn leave(&mut self, circuit: CircuitId, cross_connects: &[CrossConnect]) {
        let leftovers = cross_connects.iter().map(|cross_connect| Leftover {
            circuit,
            cross_connect: cross_connect.clone(),
        });
        self.leftovers.extend(leftovers);
    }

    /// Drops a cross-connect from the list of cross-connects to remove.
    pub(super) fn forget(&mut self, cross_connect: &CrossConnect) {
        self.leftovers
            .retain(|leftover| leftover.cross_connect != *cross_connect);
    }
}

fn failed(path: &Path, why: &impl ToString) -> Error {
    Error::Record {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

const VERSION: u32 = 1;
/// Maximum length of a record in bytes.
const BYTES_MAX: u64 = 16 << 20;
