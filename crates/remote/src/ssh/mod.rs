//! Hosts that ssh logs in to: a daemon that ssh starts, and the route of the data to that daemon.
//!
//! ```text
//! session --> loopback pair --> ssh ==> sshd --> lighthaul forward --> loopback --> daemon
//! ```
//!
//! - [`command`]: the ssh command and its configuration; `start`: a daemon that ssh starts
//! - [`reach`]: sessions with that daemon, directly or through ssh; [`route`]: connections through ssh;
//!   `closed_hosts`: hosts that need it
//! - [`forward`]: the far end of such a connection; `pair`: the near end
//! - [`install`]: a copy of this program for a host without it; `program_copy`: its place there, and the `script` that
//!   seeks it; `far_program`: the program to start
//! - [`greeting`]: first lines of a far program; [`report`]: steps of the search for it
//! - `control_socket`: channels in the first login; `error`: faults
pub mod command;
pub mod forward;
pub mod greeting;
pub mod install;
pub mod reach;
pub mod report;
pub mod route;
pub mod start;

mod closed_hosts;
mod control_socket;
pub(crate) mod error;
mod far_program;
mod pair;
mod program_copy;
mod script;
