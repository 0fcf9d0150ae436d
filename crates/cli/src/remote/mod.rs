//! The other host of a command.
//!
//! - [`place`]: paths here and on other hosts
//! - [`reach`]: sessions with the host of a place; [`dial`]: calls to a daemon; [`credential`]: credentials for it

pub(crate) mod credential;
pub(crate) mod dial;
pub(crate) mod place;
pub(crate) mod reach;
