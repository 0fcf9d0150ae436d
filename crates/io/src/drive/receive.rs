//! What came, from the stream and from the socket, goes to the machine and its body to its place.

use std::sync::atomic::Ordering::Relaxed;

use lighthaul_base::{Endpoint, Instant, Message, Via};

use super::run::Driver;
use crate::control::Frame;
use crate::error::Error;
use crate::probe::connection_of;
use crate::seal::TAG_LEN;
use crate::store::Store;
use crate::train::{CONNECTION_LEN, unique};
use crate::udp::Received;

/// How many machines back a late datagram may come from.
const LATE_MAX: u64 = 1 << 10;
/// Frames taken from one further stream before the next gets its turn.
const FRAMES_OF_MORE: usize = 8;
/// Trains taken from the socket before everything else gets its turn.
const TRAINS_A_TURN: usize = 8;

impl<E: Endpoint, S: Store> Driver<'_, E, S> {
    /// Hands over what came on the stream; answers whether anything did.
    pub(super) fn take_frames(&mut self) -> Result<bool, Error> {
        let mut any = false;
        let number = self.lane.stream.number();
        for _ in 0..64 {
            let frame = match self.lane.stream.try_receive() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                // what the peer said last may be all that was missing: look at it first
                Err(_) if any => break,
                Err(error) => return Err(error),
            };
            any = true;
            let via = if frame.datagram {
                Via::Datagram
            } else {
                Via::Stream(number)
            };
            self.take_frame(via, &frame)?;
        }
        Ok(any)
    }

    /// Hands over what came on further streams, and tells the machine of those that broke.
    pub(super) fn take_from_more(&mut self, now: Instant) -> Result<bool, Error> {
        let mut any = false;
        for index in 0..self.lane.more.len() {
            let number = self.number_of(index);
            for _ in 0..FRAMES_OF_MORE {
                match self.lane.more[index].try_receive() {
                    Ok(Some(frame)) => {
                        any = true;
                        self.take_frame(Via::Stream(number), &frame)?;
                    }
                    Ok(None) => break,
                    Err(_) => {
                        self.break_off(now, index);
                        break;
                    }
                }
            }
        }
        Ok(any)
    }

    /// What the machine calls a further stream.
    pub(super) fn number_of(&self, index: usize) -> u16 {
        self.lane.stream.number() + 1 + index as u16
    }

    /// Nothing more crosses on a further stream.
    pub(super) fn break_off(&mut self, now: Instant, index: usize) {
        if !self.broken.contains(&index) {
            self.broken.push(index);
            let number = self.number_of(index);
            self.endpoint.handle_broken(now, number);
        }
    }

    /// Hands over what a frame says, unless it is about somebody else.
    fn take_frame(&mut self, via: Via, frame: &Frame) -> Result<(), Error> {
        let now = self.lane.clock.now();
        let (head, body) = frame.octets.split_at(frame.head_len);
        let connection = self.lane.connection.to_be_bytes();
        match head.strip_prefix(&connection) {
            Some(head) => hand_over(self.endpoint, self.store, now, via, [head, body]),
            None => Ok(()),
        }
    }

    /// Takes trains from the socket; answers whether there may be more.
    pub(super) fn take_trains(&mut self) -> Result<bool, Error> {
        for _ in 0..TRAINS_A_TURN {
            let Some(udp) = &self.lane.udp else {
                return Ok(false);
            };
            if let Some(body_len) = self.lane.scatter {
                if !self.take_scattered(body_len)? {
                    return Ok(false);
                }
                continue;
            }
            let received = udp
                .receive_into(&mut self.reception, &mut self.drops)
                .map_err(|error| Error::world("receiving datagrams", error))?;
            let Some(received) = received else {
                return Ok(false);
            };
            self.take_train(received)?;
        }
        Ok(true)
    }

    pub(super) fn take_train(&mut self, received: Received) -> Result<(), Error> {
        let now = self.lane.clock.now();
        let prefix_len = CONNECTION_LEN + self.lane.head_len;
        let tag_len = if self.lane.open.is_some() { TAG_LEN } else { 0 };
        let connection = self.lane.connection.to_be_bytes();
        let (mut genuine, mut foreign, mut forged) = (0, 0, 0);
        for datagram in self.reception[..received.len].chunks_mut(received.segment_len) {
            if datagram.len() < prefix_len + tag_len || datagram[..CONNECTION_LEN] != connection {
                foreign += u64::from(!is_late(datagram, self.lane.connection));
                continue;
            }
            let (prefix, body) = datagram.split_at_mut(prefix_len);
            let head = &prefix[CONNECTION_LEN..];
            let body = match &self.lane.open {
                Some(key) => key.open(unique(head), prefix, body),
                None => Some(body),
            };
            let Some(body) = body else {
                forged += 1;
                continue;
            };
            genuine += 1;
            hand_over(self.endpoint, self.store, now, Via::Datagram, [head, body])?;
        }
        let counters = &self.lane.counters;
        counters.received.fetch_add(genuine, Relaxed);
        counters.foreign.fetch_add(foreign, Relaxed);
        counters.forged.fetch_add(forged, Relaxed);
        counters.buffer_drops.store(self.drops.into(), Relaxed);
        Ok(())
    }
}

/// Whether `datagram` comes from a machine that had the lane before: they count their connections up.
fn is_late(datagram: &[u8], connection: u64) -> bool {
    connection_of(datagram).is_some_and(|number| connection.wrapping_sub(number) <= LATE_MAX)
}

/// Tells the machine of a message, and puts its body where the machine wants it.
fn hand_over<E: Endpoint, S: Store>(
    endpoint: &mut E,
    store: &mut S,
    now: Instant,
    via: Via,
    [head, body]: [&[u8]; 2],
) -> Result<(), Error> {
    let len = body.len() as u32;
    if let Some(span) = endpoint.handle_message(now, Message { via, head, len }) {
        if let Some(slot) = store.slot(span)? {
            slot.copy_from_slice(body);
        }
        store.placed(span)?;
    }
    Ok(())
}
