//! Decoder of the lab: descriptions by users.

use lighthaul_lab::description::Description;

/// Reads a description. A rejected one has an error message, and an accepted one has hosts.
pub fn description(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    match Description::parse(&text) {
        Ok(description) => assert!(!description.hosts().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
