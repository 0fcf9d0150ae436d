//! Outputs of a domain, in write-ahead order.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use lighthaul_base::trc::Trc;

use crate::key::{CorrelationId, DomainId, Key, Segment};
use crate::message::Message;
use crate::record::Record;
use crate::request::Outcome;

/// Output of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Store a record. Confirm it with [`crate::Domain::handle_persisted`].
    Persist {
        /// Sequence number.
        sequence: u64,
        /// Record.
        record: Record,
    },
    /// Send a message to a neighbor.
    Send {
        /// Number of the neighbor domain.
        to: DomainId,
        /// Message.
        message: Message,
    },
    /// Give the whole vector to the agent of the devices, which has its own timers. It may be repeated.
    Program {
        /// Number of the reservation.
        key: Key,
        /// Index of the segment.
        nth: u8,
        /// Part inside this domain.
        segment: Segment,
        /// Rates over time. The devices carry nothing after its end.
        vector: Trc,
    },
    /// Remove all other vectors from the devices at once. It comes first after a restart, since a domain that ends
    /// between a record and its effect leaves vectors that no record knows.
    KeepOnly {
        /// Reservations, and indexes of their segments.
        circuits: Vec<(Key, u8)>,
    },
    /// Remove the vector from the devices at once.
    Unprogram {
        /// Number of the reservation.
        key: Key,
        /// Index of the segment.
        nth: u8,
    },
    /// Result for the local caller. It may be repeated after a restart.
    Outcome {
        /// Request.
        id: CorrelationId,
        /// Result.
        outcome: Outcome,
    },
    /// Progress for the local caller: a domain has ended a range.
    RangeDone {
        /// Number of the reservation, with the leg of the domain.
        key: Key,
        /// Index of the range, from zero.
        range: u16,
    },
}

/// Queue of outputs. Records leave at once. Each other output waits until all records before it are durable.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    records: VecDeque<(u64, Record)>,
    /// Outputs, with the last record that must be durable before.
    others: VecDeque<(u64, Output)>,
    /// Sequence number of the last record.
    last: u64,
    /// Sequence number up to which records are durable.
    durable: u64,
}

impl Outbox {
    pub(crate) const fn new() -> Self {
        Self {
            records: VecDeque::new(),
            others: VecDeque::new(),
            last: 0,
            durable: 0,
        }
    }

    pub(crate) fn persist(&mut self, record: Record) {
        self.last += 1;
        self.records.push_back((self.last, record));
    }

    pub(crate) fn push(&mut self, output: Output) {
        self.others.push_back((self.last, output));
    }

    pub(crate) fn confirm(&mut self, sequence: u64) {
        assert!(
            sequence <= self.last,
            "a record is confirmed that was not stored"
        );
        self.durable = self.durable.max(sequence);
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        if let Some((sequence, record)) = self.records.pop_front() {
            return Some(Output::Persist { sequence, record });
        }
        let (needs, _) = self.others.front()?;
        if *needs > self.durable {
            return None;
        }
        self.others.pop_front().map(|(_, output)| output)
    }
}
