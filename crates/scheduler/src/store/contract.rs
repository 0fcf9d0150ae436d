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

    /// The number of the last batch.
    fn seq(&mut self) -> Result<u64>;

    /// What has changed behind a batch, at one moment; everything behind 0. Events are not in it.
    fn changes(&mut self, after: u64) -> Result<Batch>;

    /// Events of higher numbers than `after`, at most so many.
    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>>;
}

/// Who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// This instance.
    Here,
    /// The instance that is asked at this URL.
    At(String),
}
