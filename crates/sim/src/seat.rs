//! What a world keeps of a machine, and of what is on its way to one.

use alloc::vec::Vec;

use lighthaul_base::{Body, Endpoint, Head, Instant, Message, Span, Via};

use crate::world::Agenda;

/// A machine, and when it wants to be woken.
#[derive(Debug)]
pub(crate) struct Seat<E> {
    pub(crate) machine: E,
    pub(crate) due: Instant,
}

impl<E: Endpoint> Seat<E> {
    pub(crate) const fn new(machine: E) -> Self {
        Self {
            machine,
            due: Instant::NEVER,
        }
    }

    pub(crate) fn hear_datagram(&mut self, now: Instant, datagram: &Datagram) -> Option<Span> {
        let message = Message {
            via: Via::Datagram,
            head: datagram.head.as_slice(),
            len: datagram.body.len,
        };
        self.machine.handle_message(now, message)
    }

    /// Hands the next message over; answers what it carried and where that belongs.
    pub(crate) fn hear_stream(
        &mut self,
        now: Instant,
        messages: &mut Agenda<StreamMessage>,
    ) -> Option<(Span, Span)> {
        let (_, message) = messages.pop()?;
        let via = Via::Stream(message.stream);
        let (head, len) = (&message.head[..], message.body.len);
        let target = self
            .machine
            .handle_message(now, Message { via, head, len })?;
        Some((message.body, target))
    }

    /// Tells what the machine wants to be heard, and asks when it wants to be woken.
    pub(crate) fn settle(&mut self, mut hear: impl FnMut(E::Event)) {
        while let Some(event) = self.machine.poll_event() {
            hear(event);
        }
        let deadline = self.machine.poll_timeout();
        self.due = deadline.map_or(Instant::NEVER, |deadline| deadline.at);
    }
}

/// A datagram on its way, without its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub(crate) head: Head,
    pub(crate) body: Span,
}

impl Datagram {
    pub(crate) fn len(&self) -> u32 {
        self.head.as_slice().len() as u32 + self.body.len
    }
}

/// A message of a stream on its way.
#[derive(Debug)]
pub(crate) struct StreamMessage {
    pub(crate) stream: u16,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Span,
}

/// The bytes of the object in a body.
pub(crate) const fn span(body: &Body) -> Span {
    match body {
        Body::Object(span) => *span,
        Body::None | Body::Words(_) => Span::new(0, 0),
    }
}
