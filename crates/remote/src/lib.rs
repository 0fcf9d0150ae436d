//! Floor 8: connections from a command or a service to other hosts, and the local files for them.
//!
//! - [`place`]: paths here and on other hosts; [`paths`]: files of keys and settings on this host; [`known_paths`]:
//!   rates of earlier copies; `cache_file`: files below the cache directory
//! - [`files`]: remote files of a place; [`reach`]: sessions with the host of a place; [`dial`]: calls to a daemon;
//!   [`mod@daemon`], [`credential`]: its identity, and credentials for it; [`ssh`]: daemons that ssh starts
//! - [`probes`]: periodic probes of known paths
//! - [`scheduler`]: clients of a scheduler; [`domain`], [`control_code`]: questions to the service of a domain;
//!   [`doctor`]: checks of the way to a host
//! - [`user`]: who learns and is asked; [`notice`]: lines on standard error; [`question`]: questions on the terminal
#![expect(clippy::disallowed_methods, reason = "commands read variables")]

mod cache_file;
pub mod control_code;
pub mod credential;
pub mod daemon;
pub mod dial;
pub mod doctor;
pub mod domain;
pub mod error;
pub mod files;
pub mod known_paths;
pub mod notice;
pub mod paths;
pub mod place;
pub mod probes;
pub mod question;
pub mod reach;
pub mod scheduler;
pub mod ssh;
pub mod user;
