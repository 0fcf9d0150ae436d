//! Floor 11: the command line with its commands, options and the parsers of their values.
//!
//! It has no settings and does no work: `lighthaul-cli` turns options into settings of the crates below.
//!
//! - [`cli`]: the command and its subcommands; [`help`]: the help that all of them have in common;
//!   [`man_page`]: man pages
//! - [`copy`], and in it [`choice`], [`changes`], [`rules`], [`timing`]: `cp`, what it selects and keeps, its filters,
//!   and when it runs
//! - one module for each other command or family of commands
//! - [`reach`], [`output`]: options that commands share; [`secret`], [`time`]: values

#![expect(
    missing_docs,
    reason = "documentation of a field is its help, which groups of options have none of"
)]

pub mod booking;
pub mod changes;
pub mod choice;
pub mod cli;
pub mod copy;
pub mod doctor;
pub mod domains;
pub mod files;
pub mod forward;
pub mod gateway;
pub mod help;
pub mod jobs;
pub mod keys;
pub mod lab;
pub mod man_page;
pub mod manual;
pub mod monitor;
pub mod output;
pub mod probe;
pub mod reach;
pub mod rules;
pub mod scheduler;
pub mod secret;
pub mod serve;
pub mod stream;
pub mod sums;
pub mod time;
pub mod timing;
pub mod wrap;
