//! The command line: commands, options and the parsers of their values. It uses nothing of the other modules.
//!
//! - [`cli`]: the command and its subcommands; [`help`]: the help that all of them have in common
//! - [`copy`], and in it [`choice`], [`changes`], [`rules`], [`timing`]: `cp`, what it selects and keeps, its filters, and when it runs
//! - one module for each other command or family of commands
//! - [`reach`], [`output`]: options that commands share; [`secret`], [`time`]: values

pub(crate) mod booking;
pub(crate) mod changes;
pub(crate) mod choice;
pub(crate) mod cli;
pub(crate) mod copy;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod forward;
pub(crate) mod gateway;
pub(crate) mod help;
pub(crate) mod keys;
pub(crate) mod lab;
pub(crate) mod manual;
pub(crate) mod output;
pub(crate) mod probe;
pub(crate) mod reach;
pub(crate) mod rules;
pub(crate) mod scheduler;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod sums;
pub(crate) mod time;
pub(crate) mod timing;
pub(crate) mod wrap;
