//! Measurements that outlive an object.

use std::sync::{Mutex, PoisonError};

use lighthaul_proto::{rbudp, sabul, stripe};

/// Measurements of one object's machine for the next: a sender's for any lane, a receiver's for the
/// same lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learned {
    /// No measurements that outlive the object.
    #[default]
    Nothing,
    /// Number of streams that pays.
    Width(stripe::Width),
    /// Rate that the path carries.
    Path(sabul::Memory),
    /// State of the receiver's socket buffer, measured by the receiver.
    Socket(rbudp::Memory),
    /// Window that the receiver granted, as known to the sender.
    Room(rbudp::GrantedWindow),
}

/// Measurements that are shared by the machines of successive objects.
#[derive(Debug, Default)]
pub struct SharedLearned(Mutex<Learned>);

impl SharedLearned {
    /// Returns the latest measurements.
    pub fn load(&self) -> Learned {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the measurements.
    pub fn store(&self, learned: Learned) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = learned;
    }
}
