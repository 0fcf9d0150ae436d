//! The command line: commands, options and the parsers of their values. It uses nothing of the other modules.

pub(crate) mod booking;
pub(crate) mod choice;
pub(crate) mod cli;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod gateway;
pub(crate) mod keys;
pub(crate) mod rules;
pub(crate) mod secret;
pub(crate) mod stream;
pub(crate) mod sums;
pub(crate) mod wrap;
