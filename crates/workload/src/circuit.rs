//! Copy of several objects on one circuit, sent like the lanes of a booked copy.
//!
//! ```text
//! lane 1: | object 0 on the circuit | tail on the stream   || object 2 on the circuit
//! lane 2:                           | object 1 on the circuit | tail on the stream
//! ```
//!
//! [`CircuitSender`] starts the next object when the machine of the last one has released the circuit, if a lane is
//! free. With one lane, it waits until the receiver has the whole object. [`CircuitReceiver`] has a machine for each
//! object under way. Each message begins with the number of its object ([`TAG_LEN`] octets).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use lighthaul_base::{Body, Deadline, Endpoint, Head, Instant, Load, Message, Span, Transmit, Trc};
use lighthaul_proto::vbtp::{Config, Framing, Receiver, ReceiverEvent, Sender, SenderEvent};

/// Octets in front of each message. Count them in the framing's overhead, and not in that of the simulated path.
pub const TAG_LEN: u32 = 2;

/// Copy of several objects.
#[derive(Clone, Copy, Debug)]
pub struct CircuitCopy {
    /// Parameters of each object. The framing has the length of all but the last one.
    pub each: Config,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Objects in transfer at the same time.
    pub lanes: usize,
}

impl CircuitCopy {
    /// Returns the number of objects.
    pub fn objects(&self) -> u64 {
        self.bytes.div_ceil(self.each.framing.object_len).max(1)
    }

    /// Returns the bytes of all objects on the wire, with the header of each packet.
    pub fn wire_bytes(&self) -> u64 {
        (0..self.objects())
            .map(|number| self.config(number).booked_bytes(0))
            .sum()
    }

    /// Returns the parameters of an object.
    fn config(&self, number: u64) -> Config {
        let framing = self.each.framing;
        let object_len = (self.bytes - self.offset(number)).min(framing.object_len);
        Config {
            framing: Framing {
                object_len,
                ..framing
            },
            ..self.each
        }
    }

    /// Returns the offset of an object in the copy.
    const fn offset(&self, number: u64) -> u64 {
        number * self.each.framing.object_len
    }
}

/// Event of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitEvent {
    /// All objects have left the circuit.
    Released,
    /// The receiver has all objects.
    Complete,
    /// A machine failed.
    Failed,
}

/// Sending side of a copy.
#[derive(Debug)]
pub struct CircuitSender {
    copy: CircuitCopy,
    trc: Trc,
    /// Machines of the objects in transfer, by object number.
    each: BTreeMap<u64, Sender>,
    /// Number of the next object.
    next: u64,
    /// Object that has the circuit.
    holder: Option<u64>,
    /// Counts of the machines of objects that have arrived.
    before: Counts,
    events: VecDeque<CircuitEvent>,
}

impl CircuitSender {
    /// Starts a copy on the circuit `trc`. Panics if the parameters of an object fail their check.
    pub fn new(now: Instant, copy: CircuitCopy, trc: Trc) -> Self {
        let mut sender = Self {
            copy,
            trc,
            each: BTreeMap::new(),
            next: 0,
            holder: None,
            before: [0; 4],
            events: VecDeque::new(),
        };
        sender.settle(now);
        sender
    }

    /// Returns the number of datagrams sent on the circuit.
    pub fn sent(&self) -> u64 {
        self.count()[0]
    }

    /// Returns the number of packets that were sent again.
    pub fn resent(&self) -> u64 {
        self.count()[1]
    }

    /// Returns the number of packets sent on the stream.
    pub fn tail(&self) -> u64 {
        self.count()[2]
    }

    /// Returns the number of messages that were ignored as invalid.
    pub fn ignored(&self) -> u64 {
        self.count()[3]
    }

    /// True if the receiver has all objects.
    pub fn is_complete(&self) -> bool {
        self.each.is_empty() && self.next == self.copy.objects()
    }

    fn count(&self) -> Counts {
        let each = self.each.values().map(counts);
        each.fold(self.before, added)
    }

    /// Handles the events of all machines, and starts the next object if the circuit is free. Returns true if it has
    /// started one.
    fn settle(&mut self, now: Instant) -> bool {
        let numbers: Vec<u64> = self.each.keys().copied().collect();
        for number in numbers {
            while let Some(event) = self.each.get_mut(&number).and_then(Endpoint::poll_event) {
                self.handle_event(number, event);
            }
        }
        let has_next = self.next < self.copy.objects();
        if !has_next || self.holder.is_some() || self.each.len() >= self.copy.lanes {
            return false;
        }
        let config = self.copy.config(self.next);
        let sender = Sender::new(now, config, self.trc.clone(), self.next);
        self.each.insert(self.next, sender);
        self.holder = Some(self.next);
        self.next += 1;
        true
    }

    fn handle_event(&mut self, number: u64, event: SenderEvent) {
        match event {
            SenderEvent::Asked => {}
            SenderEvent::Released { .. } => {
                self.holder = None;
                if self.next == self.copy.objects() {
                    self.events.push_back(CircuitEvent::Released);
                }
            }
            SenderEvent::Complete => {
                if let Some(sender) = self.each.remove(&number) {
                    self.before = added(self.before, counts(&sender));
                }
                if self.is_complete() {
                    self.events.push_back(CircuitEvent::Complete);
                }
            }
            SenderEvent::Failed(_) => self.events.push_back(CircuitEvent::Failed),
        }
    }
}

/// Datagrams sent, packets sent again, packets sent on the stream, and messages that were ignored.
type Counts = [u64; 4];

fn counts(sender: &Sender) -> Counts {
    [
        sender.sent(),
        sender.resent(),
        sender.tail(),
        sender.ignored(),
    ]
}

fn added(sum: Counts, more: Counts) -> Counts {
    [0, 1, 2, 3].map(|nth| sum[nth] + more[nth])
}

impl Endpoint for CircuitSender {
    type Event = CircuitEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let (number, message) = untagged(message)?;
        self.each.get_mut(&number)?.handle_message(now, message);
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        for machine in self.each.values_mut() {
            if machine.poll_timeout().is_some_and(|due| due.at <= now) {
                machine.handle_timeout(now);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        loop {
            for (number, machine) in &mut self.each {
                if let Some(transmit) = machine.poll_transmit(now) {
                    let offset = self.copy.offset(*number);
                    return Some(tagged(transmit, *number, offset));
                }
            }
            if !self.settle(now) {
                return None;
            }
        }
    }

    fn poll_event(&mut self) -> Option<CircuitEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.each.values().filter_map(Endpoint::poll_timeout).min()
    }
}

/// Receiving side of a copy.
#[derive(Debug)]
pub struct CircuitReceiver {
    copy: CircuitCopy,
    /// Machines of the objects in transfer, by object number.
    each: BTreeMap<u64, Receiver>,
    /// First object of which no data has arrived.
    next: u64,
    arrived: u64,
    events: VecDeque<CircuitEvent>,
}

impl CircuitReceiver {
    /// Returns a receiver without any data yet.
    pub const fn new(copy: CircuitCopy) -> Self {
        Self {
            copy,
            each: BTreeMap::new(),
            next: 0,
            arrived: 0,
            events: VecDeque::new(),
        }
    }

    /// Returns the machine of an object, or `None` if the object has arrived or is not part of the copy.
    fn machine(&mut self, now: Instant, number: u64) -> Option<&mut Receiver> {
        while self.next <= number && self.next < self.copy.objects() {
            let config = self.copy.config(self.next);
            self.each
                .insert(self.next, Receiver::new(now, config, self.next));
            self.next += 1;
        }
        self.each.get_mut(&number)
    }

    fn settle(&mut self) {
        let is_over = |receiver: &mut Receiver| {
            let mut is_over = false;
            while let Some(event) = receiver.poll_event() {
                is_over |= event == ReceiverEvent::Complete;
            }
            is_over
        };
        let count = self.each.len();
        self.each.retain(|_, receiver| !is_over(receiver));
        self.arrived += (count - self.each.len()) as u64;
        if self.each.len() < count && self.arrived == self.copy.objects() {
            self.events.push_back(CircuitEvent::Complete);
        }
    }
}

impl Endpoint for CircuitReceiver {
    type Event = CircuitEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let (number, message) = untagged(message)?;
        let offset = self.copy.offset(number);
        let span = self.machine(now, number)?.handle_message(now, message)?;
        Some(Span::new(offset + span.offset, span.len))
    }

    fn handle_timeout(&mut self, now: Instant) {
        for machine in self.each.values_mut() {
            machine.handle_timeout(now);
        }
    }

    fn handle_load(&mut self, now: Instant, load: Load) {
        for machine in self.each.values_mut() {
            machine.handle_load(now, load);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        for (number, machine) in &mut self.each {
            if let Some(transmit) = machine.poll_transmit(now) {
                return Some(tagged(transmit, *number, 0));
            }
        }
        self.settle();
        None
    }

    fn poll_event(&mut self) -> Option<CircuitEvent> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.each.values().filter_map(Endpoint::poll_timeout).min()
    }
}

/// Puts the number of the object in front of a message, and moves the body to the object's place in the copy.
fn tagged(transmit: Transmit, number: u64, offset: u64) -> Transmit {
    let head = transmit.head.as_slice();
    let mut octets = [0; Head::MAX];
    let tag = (number as u16).to_be_bytes();
    octets[..tag.len()].copy_from_slice(&tag);
    octets[tag.len()..tag.len() + head.len()].copy_from_slice(head);
    let body = match transmit.body {
        Body::Object(span) => Body::Object(Span::new(offset + span.offset, span.len)),
        body @ (Body::None | Body::Octets(_)) => body,
    };
    Transmit {
        via: transmit.via,
        head: Head::new(&octets[..tag.len() + head.len()]),
        body,
    }
}

/// Returns the number of the object, and the message without it.
fn untagged(message: Message<'_>) -> Option<(u64, Message<'_>)> {
    let (tag, head) = message.head.split_first_chunk()?;
    let number = u64::from(u16::from_be_bytes(*tag));
    Some((number, Message { head, ..message }))
}
