//! Receiving side of a simulated transfer.

use lighthaul_base::{Body, Deadline, Endpoint, Head, Instant, Load, Message, Span, Transmit, Via};
use lighthaul_session::machine::{Learned, ReceiveMachine};
use lighthaul_workload::tcp;

use super::agreement::{IP_UDP_LEN, REPORTS, Shared, Tag, TransferConfig, stream};
use super::lanes::tagged;
use super::train::{Probe, Report, TrainMeter};

/// Receiving side.
#[derive(Debug)]
pub(crate) struct TransferReceiver {
    shared: Shared,
    segment_len: u32,
    train: TrainMeter,
    report: Option<Report>,
    lanes: Vec<Lane>,
    connections: Vec<tcp::Receiver>,
    /// Time of the latest load sample.
    sampled: Instant,
}

/// Lane, with the machine of its present object.
#[derive(Debug, Default)]
struct Lane {
    number: u8,
    object: Option<Incoming>,
}

/// Object that arrives.
#[derive(Debug)]
struct Incoming {
    number: u8,
    /// Position in the data of the transfer.
    position: u64,
    machine: ReceiveMachine,
}

impl TransferReceiver {
    /// Waits for the sender of a transfer.
    pub(crate) fn new(config: &TransferConfig, shared: Shared) -> Self {
        let lane = |number| Lane {
            number,
            object: None,
        };
        Self {
            shared,
            segment_len: config.segment_len(),
            train: TrainMeter::default(),
            report: None,
            lanes: (0..config.lanes).map(lane).collect(),
            connections: Vec::new(),
            sampled: Instant::ZERO,
        }
    }

    fn handle_datagram(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let (tag, head) = message.head.split_first()?;
        let message = Message { head, ..message };
        match Tag::decode(*tag) {
            Tag::Object(lane, object) => {
                self.shared.borrow_mut().facts.arrived += 1;
                let lane = self.lanes.get_mut(usize::from(lane))?;
                let object = lane.object(now, object, &self.shared);
                let placed = object.and_then(|object| {
                    let span = object.machine.handle_message(now, message)?;
                    Some((object.position, span))
                });
                self.note(placed)
            }
            Tag::Tcp(connection) => {
                let nth = usize::from(connection);
                while self.connections.len() <= nth {
                    self.connections.push(tcp::Receiver::new(self.segment_len));
                }
                let placed = self.connections[nth].handle_message(now, message);
                let mut shared = self.shared.borrow_mut();
                shared.streamed += placed.map_or(0, |span| u64::from(span.len));
                drop(shared);
                self.note(placed.map(|span| (0, span)))
            }
            Tag::Train => {
                let len = IP_UDP_LEN + message.len + head.len() as u32 + 1;
                self.train.handle(now, Probe::decode(head)?, len);
                self.report = self.train.poll(now);
                None
            }
        }
    }

    /// Records where a packet was placed: the position of its object, and its span there.
    fn note(&self, placed: Option<(u64, Span)>) -> Option<Span> {
        let mut shared = self.shared.borrow_mut();
        let Some((position, span)) = placed else {
            shared.duplicates += 1;
            return None;
        };
        shared.place(position, span);
        Some(span)
    }

    fn machines(&mut self) -> impl Iterator<Item = &mut ReceiveMachine> {
        let objects = self
            .lanes
            .iter_mut()
            .filter_map(|lane| lane.object.as_mut());
        objects.map(|object| &mut object.machine)
    }
}

impl Lane {
    /// Returns an object with its machine, which is created at its first message. Returns none for
    /// earlier objects.
    fn object(&mut self, now: Instant, number: u8, shared: &Shared) -> Option<&mut Incoming> {
        let before = self.object.as_ref();
        if before.is_none_or(|before| before.number != number) {
            let shared = shared.borrow();
            let announced = shared.objects.get(usize::from(self.number))?.as_ref();
            let announced = announced.filter(|announced| announced.number == number)?;
            let learned = before.map_or(Learned::Nothing, |before| before.machine.learned());
            self.object = Some(Incoming {
                number,
                position: announced.position,
                machine: ReceiveMachine::new(now, &announced.setup, learned),
            });
        }
        self.object.as_mut()
    }
}

impl Endpoint for TransferReceiver {
    type Event = ();

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let Via::Stream(number) = message.via else {
            return self.handle_datagram(now, message);
        };
        let [lane, object] = number.to_be_bytes();
        let lane = self.lanes.get_mut(usize::from(lane))?;
        debug_assert_eq!(
            stream(lane.number, object),
            number,
            "the stream of the lane"
        );
        let object = lane.object(now, object, &self.shared)?;
        if message.head.is_empty() {
            // the announcement of the object
            return None;
        }
        object.machine.handle_message(now, message)
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.report.is_none() {
            self.report = self.train.poll(now);
        }
        for machine in self.machines() {
            if machine.poll_timeout().is_some_and(|due| due.at <= now) {
                machine.handle_timeout(now);
            }
        }
        for connection in &mut self.connections {
            connection.handle_timeout(now);
        }
    }

    fn handle_load(&mut self, now: Instant, load: Load) {
        let mut is_holding = false;
        for machine in self.machines() {
            is_holding |= machine.is_holding();
            machine.handle_load(now, load);
        }
        let since = now.since(std::mem::replace(&mut self.sampled, now));
        let disks = &mut self.shared.borrow_mut().disks;
        disks.backlog_bytes = load.backlog_bytes;
        if is_holding {
            // samples are frequent while the sender waits
            disks.target_wait += since;
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(report) = self.report.take() {
            return Some(Transmit {
                via: Via::Stream(REPORTS),
                head: Head::new(&report.encode()),
                body: Body::None,
            });
        }
        for lane in &mut self.lanes {
            if let Some(object) = &mut lane.object
                && let Some(transmit) = object.machine.poll_transmit(now)
            {
                return Some(tagged(transmit, Tag::Object(lane.number, object.number)));
            }
        }
        for (nth, connection) in self.connections.iter_mut().enumerate() {
            if let Some(transmit) = connection.poll_transmit(now) {
                return Some(tagged(transmit, Tag::Tcp(nth as u8)));
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<()> {
        for machine in self.machines() {
            while machine.poll_event().is_some() {}
        }
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let machines = self.lanes.iter().filter_map(|lane| lane.object.as_ref());
        let machines = machines.filter_map(|object| object.machine.poll_timeout());
        let connections = self.connections.iter().filter_map(Endpoint::poll_timeout);
        let dues = machines.chain(connections).map(|due| due.at);
        let at = dues.chain(self.train.due()).min()?;
        Some(Deadline {
            at,
            why: "transfer",
        })
    }
}
