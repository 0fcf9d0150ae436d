//! Where the books are kept.
//!
//! - [`batch`]: what is written at once, and read again; [`contract`]: what every store does
//! - [`sqlite`]: a file of this host; [`postgres`]: a server that several instances share; `tls`: how it is reached

pub mod batch;
pub mod contract;
pub mod postgres;
mod sql;
pub mod sqlite;
mod tls;

pub use batch::{Batch, Fact, Kind};
pub use contract::{Mark, Store, Writer};
