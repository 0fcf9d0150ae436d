//! Reception: delivers messages from streams and socket to the machine, and their bodies to the store.
//!
//! ```text
//! stream or socket --> connection number? --> decrypt --> machine: place of the body --> store
//! ```
//!
//! These methods of `Driver` take a bounded number of frames and trains in each turn of the loop, so that sending is
//! not delayed. Datagrams with another connection number or without a valid tag are dropped.

use std::sync::atomic::Ordering::Relaxed;

use lighthaul_base::{Endpoint, Instant, Message, Via};

use super::run::Driver;
use crate::control::Frame;
use crate::crypto::cipher::TAG_LEN;
use crate::error::Error;
use crate::net::probe::connection_of;
use crate::net::train::{CONNECTION_LEN, unique};
use crate::net::udp::Received;
use crate::store::Store;

/// Age, in connection numbers, up to which a late datagram is recognized.
const LATE_MAX: u64 = 1 << 10;
/// Frames taken from one further stream before the next stream is read.
const FRAMES_OF_MORE: usize = 8;
/// Trains received from the socket in one turn of the loop.
const TRAINS_A_TURN: usize = 8;

impl<E: Endpoint, S: Store> Driver<'_, E, S> {
    /// Delivers the frames that arrived on the first stream. Returns true if there was one.
    pub(super) fn take_frames(&mut self) -> Result<bool, Error> {
        let mut any = false;
        let number = self.lane.stream.number();
        for _ in 0..64 {
            let frame = match self.lane.stream.try_receive() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                // Let the machine process the last frames, which may complete the transfer.
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

    /// Delivers the frames of further streams, and reports broken streams. Returns true if a frame arrived.
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

    /// Returns the machine's number of the further stream at `index`.
    pub(super) fn number_of(&self, index: usize) -> u16 {
        self.lane.stream.number() + 1 + index as u16
    }

    /// Reports to the machine, once, that the further stream at `index` is broken.
    pub(super) fn break_off(&mut self, now: Instant, index: usize) {
        if !self.broken.contains(&index) {
            self.broken.push(index);
            let number = self.number_of(index);
            self.endpoint.handle_broken(now, number);
        }
    }

    /// Delivers a frame, unless it belongs to another connection.
    fn take_frame(&mut self, via: Via, frame: &Frame) -> Result<(), Error> {
        let now = self.lane.clock.now();
        let (head, body) = frame.octets.split_at(frame.head_len);
        let connection = self.lane.connection.to_be_bytes();
        match head.strip_prefix(&connection) {
            Some(head) => hand_over(self.endpoint, self.store, now, via, [head, body]),
            None => Ok(()),
        }
    }

    /// Receives trains from the socket. Returns true if more may be waiting.
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
                .map_err(|error| Error::world("cannot receive datagrams", error))?;
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

/// Returns true if `datagram` is from an earlier machine of the lane, which had a lower connection number.
fn is_late(datagram: &[u8], connection: u64) -> bool {
    connection_of(datagram).is_some_and(|number| connection.wrapping_sub(number) <= LATE_MAX)
}

/// Delivers a message to the machine, and its body to the place in the store that the machine names.
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
