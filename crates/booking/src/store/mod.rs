//! Databases that keep the reservations.
//!
//! - [`contract`]: interface of all stores; [`batch`]: changes that are written together
//! - [`sqlite`]: a local file; [`postgres`]: a server that several instances share; `sql`:
//!   statements of both; `tls`, `handshake`: encryption of its connections

pub mod batch;
pub mod contract;
mod handshake;
pub mod postgres;
mod sql;
pub mod sqlite;
mod tls;

pub use batch::{Batch, Document, DocumentKind};
pub use contract::{Position, Store, Writer};
