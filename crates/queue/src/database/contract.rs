//! Interface of both databases.

use std::fmt;
use std::time::Duration;

use super::row::Row;
use super::value::Value;
use crate::error::{Error, Result};

/// Database with the tables of a queue.
///
/// Parameters of statements are `$1`, `$2` and so on. Rows that a transaction reads with `FOR UPDATE` do not change
/// until its end; `SKIP LOCKED` leaves rows out that another transaction has locked. In a file, a transaction locks all
/// rows, so these words have no effect there.
pub(crate) trait Database: fmt::Debug + Send {
    /// Begins a transaction.
    fn begin(&mut self, durability: Durability) -> Result<()>;

    /// Ends the transaction. All its changes count then. Returns [`Error::Unsure`] if the answer is lost.
    fn commit(&mut self) -> Result<()>;

    /// Returns true if the last transaction has committed, after a commit whose answer was lost. Returns none if the
    /// database does not know.
    fn has_committed(&mut self) -> Result<Option<bool>>;

    /// Ends the transaction, without its changes.
    fn roll_back(&mut self);

    /// Executes a statement, and returns its rows.
    fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>>;

    /// Executes a statement, and returns the number of changed rows.
    fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64>;

    /// Returns the time in milliseconds since 1970, by a clock that all workers share.
    fn now(&mut self) -> Result<u64>;

    /// Waits at most so long for another process that has locked a file. A server has its own limit.
    fn wait_at_most(&mut self, patience: Duration) -> Result<()>;

    /// Returns the interval at which a worker looks for work.
    fn interval(&self) -> Duration;
}

/// Time at which a change survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Before the call returns.
    Full,
    /// Before the call returns, unless the workers fail together with the database: as in a file of one host.
    Shared,
    /// Soon.
    Relaxed,
}

/// Returns the only row of a statement.
pub(crate) fn one(database: &mut dyn Database, sql: &str, values: &[Value<'_>]) -> Result<Row> {
    optional(database, sql, values)?.ok_or(Error::Value(0))
}

/// Returns the first row of a statement, if any.
pub(crate) fn optional(
    database: &mut dyn Database,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Option<Row>> {
    Ok(database.query(sql, values)?.into_iter().next())
}
