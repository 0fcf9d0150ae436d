//! Decoder of NSI messages.

use lighthaul_nsi::message::Envelope;

/// Reads a message. A message that is read is the same after it was written again.
pub fn message(octets: &[u8]) {
    match Envelope::decode(octets, 1 << 16) {
        Ok(envelope) => {
            let again = Envelope::decode(envelope.encode().as_bytes(), 1 << 20);
            assert_eq!(again.as_ref(), Ok(&envelope));
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}
