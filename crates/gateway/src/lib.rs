//! Floor 3: gateways, which take in what unmodified programs send, and carry it over a long path for them.
//!
//! - [`target`]: where a program wants to go; [`allowed`]: where an egress lets it go
//! - [`capture`]: how programs get in that know nothing of gateways
//! - [`prefix`], [`ports`]: addresses and ports that belong together

pub mod allowed;
pub mod capture;
pub mod ports;
pub mod prefix;
pub mod target;
