//! Configuration file of a domain.
//!
//! ```toml
//! domain = 64500                # number of this domain
//! name = "campus"
//! listen = "[::]:7450"          # address for neighbors
//! key = "domain.key"            # private key, generated if the file does not exist
//! store = "domain.db"           # SQLite file of the reservations
//!
//! [[port]]                      # border point or access port, with its own links to a node
//! number = 12
//! node = "core"
//! capacity = "10Gb/s"
//! channel = "1Mb/s"             # unit of rates [default: 1 Mb/s]
//!
//! [[link]]                      # link between nodes inside this domain
//! from = "core"
//! to = "edge"
//! capacity = "40Gb/s"
//! both = true                   # adds the reverse link
//!
//! [[neighbor]]
//! domain = 64501
//! name = "backbone"
//! address = "backbone.example:7450"      # without it, only the neighbor connects
//! key = "sha256:..."                     # fingerprint of its key
//! expires = "2031-05-01T06:00:00Z"       # end of the key [default: none]
//! rate_max = "1Gb/s"                     # limits of the neighbor
//! reservations_max = 100
//! horizon = "30d"
//! transit = true
//!
//! [[domain_link]]               # published link between two domains
//! port = 12
//! from = 64500
//! to = 64501
//! cost = 1
//! both = true
//!
//! [timing]                      # all optional: query, hold, decide, hold_max, retry,
//! hold = "5s"                   # retry_max, refresh, linger, clock_tolerance
//! ```
//!
//! Relative paths start at the directory of the file. Unknown keys are refused.
//!
//! - [`domain_config`]: the checked configuration; [`fault`]: its faults
//! - `tables`: the tables of the file; `network`: ports and links as a topology

pub mod domain_config;
pub mod fault;
mod network;
mod tables;

pub use domain_config::{DomainConfig, Neighbor};
pub use fault::ConfigFault;
pub use network::Network;
