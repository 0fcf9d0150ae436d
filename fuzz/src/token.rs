//! Elements of a cluster: their decoder, and one element with any sequence of calls.

use std::time::Duration;

use lighthaul_base::{Instant, Reader};
use lighthaul_slabs::token::{Config, Element, ElementMessage};

/// Decodes any octets. What decodes encodes to the same octets.
pub fn wire(octets: &[u8]) {
    if let Ok(words) = ElementMessage::decode(octets) {
        assert_eq!(words.encode(), octets);
    }
}

/// Reads the octets as times, demands and messages. The messages of an element are bounded, and so
/// is its slot.
pub fn machine(octets: &[u8]) {
    let mut reader = Reader::new(octets);
    let Ok(first) = reader.u8() else {
        return;
    };
    let config = Config::new(1 + first % 8, 0);
    let mut now = Instant::ZERO;
    let mut element = Element::new(now, config, 0);
    while let Some(()) = call(&mut element, &mut now, &mut reader) {
        let mut said = 0;
        while element.poll_message().is_some() {
            said += 1;
        }
        assert!(said <= 8 * 8, "{said} messages after one call");
        if let Some(slot) = element.slot() {
            assert!(now < slot.till && slot.till <= now + config.slot * 2);
        }
        assert!(
            element.poll_timeout() > now,
            "the element has a timeout at once"
        );
    }
}

fn call(element: &mut Element, now: &mut Instant, reader: &mut Reader<'_>) -> Option<()> {
    let kind = reader.u8().ok()?;
    *now += Duration::from_micros(u64::from(reader.u16().ok()?));
    match kind % 4 {
        0 => element.handle_want(*now, kind & 4 == 4),
        1 | 2 => {
            let len = usize::from(reader.u8().ok()?);
            if let Ok(words) = ElementMessage::decode(reader.take(len).ok()?) {
                element.handle_message(*now, words);
            }
        }
        _ => {}
    }
    element.handle_timeout(*now);
    Some(())
}
