//! Floor 3: databases of reservations, jobs and samples.
//!
//! - `postgres_server`: a `PostgreSQL` server by its URL, and connections to it; `handshake`: encryption of these
//! - [`server_fault`]: faults of a server and of its URL, each with its remedy; `sql_state`: faults from errors of SQL
//! - [`sqlite_file`]: an `SQLite` file that belongs to one program

#[cfg(feature = "postgres")]
pub mod postgres_server;
pub mod server_fault;
pub mod sqlite_file;

#[cfg(feature = "postgres")]
mod handshake;
#[cfg(feature = "postgres")]
mod sql_state;

#[cfg(feature = "postgres")]
pub use postgres_server::PostgresServer;
pub use server_fault::{DatabaseUrlError, ServerError, ServerFault};
pub use sqlite_file::{FileFault, SqliteFile};
