//! Machines whose messages say which object they are about.
//!
//! A lane runs one object's machine after the other over the same stream. Where a receiver may be done while its
//! sender still has something to say, the next object's receiver would hear it.

use std::ops::Deref;

use lighthaul_base::{Deadline, Endpoint, Head, Instant, Load, Message, Rate, Span, Transmit, Via};

/// Octets of an object's number in every message.
pub(crate) const TAG_LEN: usize = 4;

/// A machine, and the object that it moves.
#[derive(Debug)]
pub struct Tagged<E> {
    machine: E,
    tag: [u8; TAG_LEN],
}

impl<E> Tagged<E> {
    /// The machine of object `number`.
    pub const fn new(number: u64, machine: E) -> Self {
        Self {
            machine,
            tag: (number as u32).to_be_bytes(),
        }
    }

    /// The head with the tag: in front on streams, where words follow; behind what is unique in datagrams.
    fn mark(&self, via: Via, head: &Head) -> Head {
        let (head, mut marked) = (head.as_slice(), [0; Head::MAX]);
        let len = head.len() + TAG_LEN;
        let (head_at, tag_at) = match via {
            Via::Datagram => (0, head.len()),
            Via::Stream(_) => (TAG_LEN, 0),
        };
        marked[head_at..head_at + head.len()].copy_from_slice(head);
        marked[tag_at..tag_at + TAG_LEN].copy_from_slice(&self.tag);
        Head::new(&marked[..len])
    }

    /// The head without the tag; nothing if it is another object's.
    fn unmark<'a>(&self, via: Via, head: &'a [u8]) -> Option<&'a [u8]> {
        match via {
            Via::Datagram => head.strip_suffix(&self.tag),
            Via::Stream(_) => head.strip_prefix(&self.tag),
        }
    }
}

impl<E> Deref for Tagged<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.machine
    }
}

impl<E: Endpoint> Endpoint for Tagged<E> {
    type Event = E::Event;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let head = self.unmark(message.via, message.head)?;
        self.machine
            .handle_message(now, Message { head, ..message })
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(now);
    }

    fn handle_load(&mut self, now: Instant, load: Load) {
        self.machine.handle_load(now, load);
    }

    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.machine.handle_rate(now, rate);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let transmit = self.machine.poll_transmit(now)?;
        let head = self.mark(transmit.via, &transmit.head);
        Some(Transmit { head, ..transmit })
    }

    fn poll_event(&mut self) -> Option<E::Event> {
        self.machine.poll_event()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.machine.poll_timeout()
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        self.machine.upcoming(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_another_object_is_not_heard() {
        let (one, other) = (Tagged::new(1, ()), Tagged::new(2, ()));
        for via in [Via::Datagram, Via::Stream(3)] {
            let marked = one.mark(via, &Head::new(b"said"));
            assert_eq!(one.unmark(via, marked.as_slice()), Some(&b"said"[..]));
            assert_eq!(other.unmark(via, marked.as_slice()), None);
        }
        let datagram = one.mark(Via::Datagram, &Head::new(b"unique..rest"));
        assert!(datagram.as_slice().starts_with(b"unique.."));
    }
}
