//! Slots of a cluster's elements, computed by the token machine.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_slabs::token::{Config, Element, ElementMessage, Slot};

/// Computes the vectors of slots for the first `busy` of `count` elements, on a channel of `rate`. The other elements
/// have nothing to send. Times start when the cluster has agreed on its first token.
pub fn turns(count: u8, busy: u8, rate: Rate, time: Duration) -> Vec<Trc> {
    let element = |me| {
        let mut element = Element::new(Instant::ZERO, Config::new(count, me), 1);
        element.handle_want(Instant::ZERO, me < busy);
        element
    };
    let mut elements: Vec<Element> = (0..count).map(element).collect();
    let mut slots: Vec<Vec<Slot>> = vec![Vec::new(); count.into()];
    let mut inbox: BTreeMap<(Instant, u64), ElementMessage> = BTreeMap::new();
    let (mut now, mut serial) = (Instant::ZERO, 0);
    let start = Instant::ZERO + WARM_UP;
    while now < start + time {
        for (element, slots) in elements.iter_mut().zip(&mut slots) {
            element.handle_timeout(now);
            note(slots, element.slot());
        }
        while let Some(entry) = inbox.first_entry().filter(|entry| entry.key().0 <= now) {
            let words = entry.remove();
            let to = usize::from(words.to);
            elements[to].handle_message(now, words);
            note(&mut slots[to], elements[to].slot());
        }
        for element in &mut elements {
            while let Some(words) = element.poll_message() {
                serial += 1;
                inbox.insert((now + HOP, serial), words);
            }
        }
        let first = inbox
            .first_key_value()
            .map_or(Instant::NEVER, |first| first.0.0);
        let due = elements.iter().map(Element::poll_timeout);
        now = due.fold(first, Instant::min);
    }
    let busy = usize::from(busy);
    slots[..busy]
        .iter()
        .map(|slots| vector(slots, rate, start))
        .collect()
}

/// Adds a slot that is new, or updates one that was extended.
fn note(slots: &mut Vec<Slot>, slot: Option<Slot>) {
    let Some(slot) = slot else {
        return;
    };
    match slots.last_mut().filter(|last| last.from == slot.from) {
        Some(last) => *last = slot,
        None => slots.push(slot),
    }
}

fn vector(slots: &[Slot], rate: Rate, start: Instant) -> Trc {
    let step = |slot: &Slot| {
        let from = Instant::ZERO + slot.from.since(start);
        let till = Instant::ZERO + slot.till.since(start);
        (from < till).then_some(Step { from, till, rate })
    };
    let steps = slots.iter().filter_map(step).collect();
    Trc::new(steps).unwrap_or_else(|_| Trc::steady(rate))
}

/// Delay of a message between two elements.
const HOP: Duration = Duration::from_micros(80);
/// Time after which a starting cluster has its first token.
const WARM_UP: Duration = Duration::from_secs(1);
