//! Floor 3: databases of reservations, jobs and samples.
//!
//! - [`postgres_server`]: a `PostgreSQL` server by its URL, and connections to it; `handshake`: encryption of these
//! - [`server_fault`]: faults of a server and of its URL, each with its remedy
//! - [`sqlite_file`]: an `SQLite` file that belongs to one program

mod handshake;
pub mod postgres_server;
pub mod server_fault;
pub mod sqlite_file;

pub use postgres_server::PostgresServer;
pub use server_fault::{DatabaseUrlError, ServerError, ServerFault};
pub use sqlite_file::{FileFault, SqliteFile};
