//! Elements of a cluster: their decoder, and one of them under anything that others may say.

use std::time::Duration;

use lighthaul_base::{Instant, Reader};
use lighthaul_slabs::token::{Config, Element, ElementMessage};

/// Decodes whatever comes; what decodes encodes to the same.
pub fn wire(octets: &[u8]) {
    if let Ok(words) = ElementMessage::decode(octets) {
        assert_eq!(words.encode(), octets);
    }
}

/// Reads the octets as moments, wishes and messages; an element never says more than it is asked, nor has it a slot longer than
/// two.
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
        assert!(said <= 8 * 8, "{said} messages for one");
        if let Some(slot) = element.slot() {
            assert!(now < slot.till && slot.till <= now + config.slot * 2);
        }
        assert!(
            element.poll_timeout() > now,
            "it would have to be asked at once"
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
