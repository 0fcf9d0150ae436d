//! Databases that keep the reservations.
//!
//! - [`contract`]: interface of all stores; [`batch`]: changes that are written together
//! - [`sqlite`]: a local file; [`postgres`]: a server that several instances share; `sql`:
//!   statements of both

pub mod batch;
pub mod contract;
pub mod postgres;
mod sql;
pub mod sqlite;

pub use batch::{Batch, Document, DocumentKind, EventDocument};
pub use contract::{EventSize, Position, Store, Writer};
