//! Faults of a server from the errors of its client, by the states of SQL (`SQLSTATE`).

use postgres::error::SqlState;

use crate::server_fault::{ServerError, ServerFault};

impl ServerError {
    /// Returns the fault of an action. `is_tls` is true if encryption failed.
    pub fn of(why: &postgres::Error, is_tls: bool) -> Self {
        let because = std::error::Error::source(why)
            .map_or_else(String::new, |source| format!(" ({source})"));
        Self {
            why: format!("{why}{because}"),
            fault: ServerFault::of(why, is_tls),
        }
    }
}

impl ServerFault {
    fn of(why: &postgres::Error, is_tls: bool) -> Self {
        match why.code() {
            Some(&SqlState::DISK_FULL) => Self::DiskFull,
            Some(&SqlState::INVALID_CATALOG_NAME) => Self::NoDatabase,
            Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                Self::Credentials
            }
            Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::QUERY_CANCELED) => Self::Busy,
            Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE) => {
                Self::Conflict
            }
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Self::Privilege,
            // no connections or memory are left
            Some(code) if code.code().starts_with("53") => Self::Busy,
            None if is_tls => Self::Tls,
            Some(
                &SqlState::ADMIN_SHUTDOWN
                | &SqlState::CRASH_SHUTDOWN
                | &SqlState::CANNOT_CONNECT_NOW
                | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                // a standby that does not write yet
                | &SqlState::READ_ONLY_SQL_TRANSACTION,
            )
            | None => Self::Away,
            Some(_) => Self::Other,
        }
    }
}
