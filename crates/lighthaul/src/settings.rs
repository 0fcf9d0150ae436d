//! Settings of clients.

use std::path::PathBuf;

use lighthaul_remote::reach::Route;
use lighthaul_remote::scheduler::Scheduler;

/// Settings of a client.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Route to other hosts, with the identity of this client and the keys that it knows.
    pub route: Route,
    /// Scheduler that reserves circuits.
    pub scheduler: Option<Scheduler>,
    /// File with the rates that earlier copies have measured; none for the default file.
    pub known_paths: Option<PathBuf>,
}
