//! Configuration file of a domain.
//!
//! ```toml
//! domain = 64500                # number of this domain
//! name = "campus"
//! listen = "[::]:7450"          # address for neighbors
//! key = "domain.key"            # private key, generated if the file does not exist
//! store = "domain.db"           # SQLite file of the reservations
//! [[port]]                      # border point or access port, with its own links to a node
//! [[link]]                      # link between nodes inside this domain
//! [[neighbor]]                  # number, address, pinned key and limits of a neighbor
//! [[domain_link]]               # published link between two domains
//! [[device]]                    # interface that Linux shapes, or that a program drives
//! [[circuit]]                   # packets from one port to another
//! [timing]                      # timers of the machine
//! ```
//!
//! `docs/src/domains.md` has an example with all keys.
//! Relative paths start at the directory of the file. Unknown keys are refused.
//!
//! - [`domain_config`]: the checked configuration; [`fault`]: its faults
//! - `tables`: the tables of the file; `network`: ports and links as a topology; [`device_config`]: devices and
//!   circuits; `device_limits`: capacity of the devices; [`known_devices`]: capabilities at the last start

pub mod device_config;
mod device_limits;
pub mod domain_config;
pub mod fault;
pub mod known_devices;
mod network;
mod tables;

pub use device_config::{DeviceConfig, DriverConfig};
pub use domain_config::{DomainConfig, read_key};
pub use fault::ConfigFault;
pub use known_devices::KnownDevices;
pub use network::Network;
