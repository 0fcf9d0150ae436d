//! Labs: what people write to describe one.

use lighthaul_lab::description::Description;

/// Reads a description; one that is refused is refused with words, one that is not has hosts.
pub fn description(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    match Description::parse(&text) {
        Ok(description) => assert!(!description.hosts().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
