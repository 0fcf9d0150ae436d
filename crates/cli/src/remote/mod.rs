//! The other host of a command.
//!
//! - [`place`]: paths here and on other hosts; [`paths`]: files of keys and settings on this host
//! - [`reach`]: sessions with the host of a place; [`dial`]: calls to a daemon; [`mod@daemon`], [`credential`]: its
//!   identity, and credentials for it
//! - [`scheduler`]: clients of a scheduler

pub(crate) mod credential;
pub(crate) mod daemon;
pub(crate) mod dial;
pub(crate) mod paths;
pub(crate) mod place;
pub(crate) mod reach;
pub(crate) mod scheduler;
