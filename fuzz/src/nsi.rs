//! Decoders of NSI: messages, and labels of ports.

use lighthaul_nsi::message::Envelope;
use lighthaul_nsi::provider::stp::Labels;

/// Reads a message, and labels of a port. What is read is the same after it was written again.
pub fn message(octets: &[u8]) {
    match Envelope::decode(octets, 1 << 16) {
        Ok(envelope) => {
            let again = Envelope::decode(envelope.encode().as_bytes(), 1 << 20);
            assert_eq!(again.as_ref(), Ok(&envelope));
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    let text = String::from_utf8_lossy(octets);
    if let Ok(labels) = text.parse::<Labels>() {
        assert_eq!(labels.to_string().parse(), Ok(labels.clone()));
        assert!(labels.all().all(|label| labels.has(label)));
    }
}
