//! What outlives an object.

use std::sync::{Mutex, PoisonError};

use lighthaul_proto::{rbudp, sabul, stripe};

/// What the machine of one object has learned, and the next one begins with: a sender's on any lane, a receiver's on the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learned {
    /// Nothing that outlives the object.
    #[default]
    Nothing,
    /// How many streams are worth it.
    Width(stripe::Width),
    /// What rate the path bears.
    Path(sabul::Memory),
    /// What a receiver's socket holds, as its own machine knows it.
    Socket(rbudp::Memory),
    /// The same as a sender's does.
    Room(rbudp::GrantedWindow),
}

/// Hands what was learned from one object's machine to the next.
#[derive(Debug, Default)]
pub struct Baton(Mutex<Learned>);

impl Baton {
    /// What is known.
    pub fn look(&self) -> Learned {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known from now on.
    pub fn pass(&self, learned: Learned) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = learned;
    }
}
