//! Transfers: what two ends of a session say to each other.

use lighthaul_transfer::manifest::{pack, unpack};
use lighthaul_transfer::message::Message;

/// Decodes a message; what decodes encodes to something that decodes to the same.
pub fn message(octets: &[u8]) {
    if let Ok(message) = Message::decode(octets) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

/// Unpacks a piece of a manifest; what unpacks is safe, and packs to something that unpacks to the same.
pub fn manifest(octets: &[u8]) {
    if let Ok(entries) = unpack(octets) {
        for entry in &entries {
            assert!(!entry.path.starts_with(b"/"), "a path leaves the target");
        }
        if let Ok(packed) = pack(&entries) {
            assert_eq!(unpack(&packed), Ok(entries));
        }
    }
}
