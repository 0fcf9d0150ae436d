//! Messages that are written and read again, and documents that are wrong.

mod generated;
mod malformed;

use lighthaul_nsi::message::Envelope;
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_message_round_trips(envelope in generated::envelope()) {
        let text = envelope.encode();
        let read = Envelope::decode(text.as_bytes(), 1 << 20);
        prop_assert_eq!(read, Ok(envelope), "{}", text);
    }

    #[test]
    fn changed_messages_cause_no_panic(
        envelope in generated::envelope(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut octets = envelope.encode().into_bytes();
        for (place, octet) in changes {
            let place = place.index(octets.len());
            octets[place] = octet;
        }
        if let Ok(read) = Envelope::decode(&octets, 1 << 20) {
            let again = Envelope::decode(read.encode().as_bytes(), 1 << 20);
            prop_assert_eq!(again, Ok(read));
        }
    }
}
