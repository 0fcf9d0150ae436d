//! Interface of all stores.

use std::fmt;

use super::batch::Batch;
use crate::error::Result;

/// Store of documents and events, in which only one instance at a time may write.
///
/// A batch is written completely or not at all. When [`Self::append`] returns, it also survives a
/// power failure. After an error either may be true, so the caller must read again first.
pub trait Store: fmt::Debug + Send {
    /// Tries to become or stay the writer.
    fn elect(&mut self) -> Result<Writer>;

    /// Writes a batch, which must follow the batch with number `after`.
    fn append(&mut self, after: u64, batch: &Batch) -> Result<()>;

    /// Returns true if no other instance can open the store. This instance is then the writer, also while the store fails.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Returns the position of the history.
    fn position(&mut self) -> Result<Position>;

    /// Returns the number of the last batch in an epoch, or `None` if the epoch is unknown.
    fn epoch_end(&mut self, epoch: &str) -> Result<Option<u64>>;

    /// Begins an epoch after the last batch. Only the writer may call it.
    fn begin_epoch(&mut self, epoch: &str) -> Result<()>;

    /// Returns all changes after a batch as one snapshot, without events. 0 returns all documents.
    fn changes(&mut self, after: u64) -> Result<Batch>;

    /// Returns at most `most` events with numbers above `after`. The last one may be the one with which they exceed
    /// [`EVENTS_BYTES_MAX`].
    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>>;

    /// Returns the sizes of all events.
    fn event_sizes(&mut self) -> Result<Vec<EventSize>>;
}

/// Size of an event in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSize {
    /// Sequence number.
    pub seq: u64,
    /// Owner of its reservation.
    pub owner: String,
    /// Length of its JSON in bytes.
    pub bytes: u64,
}

/// Position in the history of a store.
///
/// Each instance that becomes the writer begins an epoch with a random name. A store that was
/// restored from a backup, or failed over to a lagging server, has other epochs from some batch on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Name of the latest epoch; empty in a new store.
    pub epoch: String,
    /// Number of the last batch.
    pub seq: u64,
}

/// Instance that may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// This instance.
    This,
    /// The instance at the given URL.
    Other(String),
}

/// Size in bytes after which [`Store::events`] returns no further event.
pub const EVENTS_BYTES_MAX: u64 = 256 << 10;
