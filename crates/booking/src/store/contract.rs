//! What every store does.

use std::fmt;

use super::batch::Batch;
use crate::error::Result;

/// Keeps facts and events, and knows who may write them.
///
/// A batch is kept as a whole or not at all, and when `append` has answered, also if the power fails. An error may leave it
/// open which of both it was, so that who gets one reads again before anything else.
pub trait Store: fmt::Debug + Send {
    /// Tries to be the one that writes, or to stay it.
    fn elect(&mut self) -> Result<Writer>;

    /// Keeps a batch, which must follow the one of number `after`.
    fn append(&mut self, after: u64, batch: &Batch) -> Result<()>;

    /// Where its history stands.
    fn mark(&mut self) -> Result<Mark>;

    /// How far its history goes in an epoch: the number of the last batch of that; nothing if it has no such epoch.
    fn reach(&mut self, epoch: &str) -> Result<Option<u64>>;

    /// Begins an epoch behind the last batch, as the one that writes.
    fn begin(&mut self, epoch: &str) -> Result<()>;

    /// What has changed behind a batch, at one moment; everything behind 0. Events are not in it.
    fn changes(&mut self, after: u64) -> Result<Batch>;

    /// Events of higher numbers than `after`, at most so many.
    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>>;
}

/// A point in the history of a store. Each instance that begins to write begins an epoch, whose name is chance: a store
/// that was restored from a copy, or failed over to a server that lags, has another history from some batch on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Name of the latest epoch; nothing in a new store.
    pub epoch: String,
    /// Number of the last batch.
    pub seq: u64,
}

/// Who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// This instance.
    Here,
    /// The instance that is asked at this URL.
    At(String),
}
