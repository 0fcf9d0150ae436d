//! Errors of the scheduler, by fault.
//!
//! - [`service_error`]: all errors; each maps to an HTTP status and an exit code by its variant
//! - [`request_error`]: requests that can never be granted; [`limit_error`]: quotas, policies and conflicts
//! - [`setup_error`]: settings, certificates and files of a scheduler; [`store_error`]: its database
//! - `listing`: lists of names in messages

pub mod limit_error;
mod listing;
pub mod request_error;
pub mod service_error;
pub mod setup_error;
pub mod store_error;

pub use lighthaul_database::{DatabaseUrlError, ServerFault};
pub use limit_error::{OverlapError, PolicyError, QuotaError};
pub use request_error::{RequestError, UnknownLink};
pub use service_error::{Error, Result};
pub use setup_error::{PolicyFileError, SetupError, TopologyFileError};
pub use store_error::{SqliteFault, StoreError, TopologyMismatch};
