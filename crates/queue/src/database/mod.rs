//! Databases that keep the jobs, behind one interface. The statements are the same for both.
//!
//! - [`contract`]: the interface; `value`, `row`: parameters and results of statements; `tables`: tables of both
//! - `sqlite`: a file of one host; `postgres`: a server for workers on many hosts; `place`: which of them

pub(crate) mod contract;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
mod row;
mod sqlite;
mod tables;
mod value;

pub(crate) use contract::{Database, Durability, one, optional};
pub(crate) use place::open;
pub(crate) use row::Row;
pub(crate) use value::Value;
