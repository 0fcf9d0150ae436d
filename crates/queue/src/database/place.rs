//! Place of a queue: a file, or a server of `PostgreSQL`.

use std::path::Path;

use super::contract::Database;
#[cfg(feature = "postgres")]
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use crate::error::Result;

/// Opens the database at `place`, a file or a URL as in `postgres://user@host/jobs`. Tables are created if they do not
/// exist and `create` is true.
pub(crate) fn open(place: &Path, create: bool) -> Result<Box<dyn Database>> {
    match place.to_str().filter(|place| is_server(place)) {
        Some(url) => server(url),
        None => Ok(Box::new(Sqlite::open(place, create)?)),
    }
}

#[cfg(feature = "postgres")]
fn server(url: &str) -> Result<Box<dyn Database>> {
    Ok(Box::new(Postgres::open(url)?))
}

#[cfg(not(feature = "postgres"))]
fn server(_: &str) -> Result<Box<dyn Database>> {
    Err(lighthaul_database::DatabaseUrlError::NotBuilt.into())
}

fn is_server(place: &str) -> bool {
    ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| place.starts_with(scheme))
}
