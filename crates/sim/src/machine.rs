//! A machine in the simulation, and messages in transit to a machine.

use alloc::vec::Vec;

use lighthaul_base::{Body, Endpoint, Head, Instant, Message, Span, Via};

use crate::event_queue::EventQueue;

/// Machine and the time of its next timeout.
#[derive(Debug)]
pub(crate) struct TimedMachine<E> {
    pub(crate) machine: E,
    pub(crate) due: Instant,
}

impl<E: Endpoint> TimedMachine<E> {
    pub(crate) const fn new(machine: E) -> Self {
        Self {
            machine,
            due: Instant::NEVER,
        }
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, datagram: &Datagram) -> Option<Span> {
        let message = Message {
            via: Via::Datagram,
            head: datagram.head.as_slice(),
            len: datagram.body.len,
        };
        self.machine.handle_message(now, message)
    }

    /// Passes the next stream message to the machine. Returns the span of its body and the span where the body
    /// belongs.
    pub(crate) fn handle_stream_message(
        &mut self,
        now: Instant,
        messages: &mut EventQueue<StreamMessage>,
    ) -> Option<(Span, Span)> {
        let (_, message) = messages.pop()?;
        let via = Via::Stream(message.stream);
        let (head, len) = (&message.head[..], message.body.len);
        let target = self
            .machine
            .handle_message(now, Message { via, head, len })?;
        Some((message.body, target))
    }

    /// Reports the machine's events, and updates the time of its next timeout.
    pub(crate) fn poll_events(&mut self, mut on_event: impl FnMut(E::Event)) {
        while let Some(event) = self.machine.poll_event() {
            on_event(event);
        }
        let deadline = self.machine.poll_timeout();
        self.due = deadline.map_or(Instant::NEVER, |deadline| deadline.at);
    }
}

/// Datagram in flight, without its bytes.
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

/// Stream message in flight, without the bytes of its body.
#[derive(Debug)]
pub(crate) struct StreamMessage {
    pub(crate) stream: u16,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Span,
}

/// Returns the span of the object in a body; empty for other bodies.
pub(crate) const fn span(body: &Body) -> Span {
    match body {
        Body::Object(span) => *span,
        Body::None | Body::Octets(_) => Span::new(0, 0),
    }
}
