//! Transmission: gathers the machine's messages into trains and frames.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use lighthaul_base::{Body, Endpoint, Instant, Transmit, Via};

use super::run::Driver;
use crate::error::Error;
use crate::net::train::prefix;
use crate::store::Store;

/// Messages sent on the stream in one turn of the loop.
const FRAMES_A_TURN: usize = 256;

impl<E: Endpoint, S: Store> Driver<'_, E, S> {
    /// Sends the machine's messages. Returns true if there was one.
    pub(super) fn transmit(&mut self, now: Instant) -> Result<bool, Error> {
        let mut any = false;
        let mut frames = 0..FRAMES_A_TURN;
        while self.has_room()
            && (self.lane.udp.is_some() || frames.next().is_some())
            && let Some(transmit) = self.next(now)
        {
            any = true;
            match transmit.via {
                Via::Datagram if self.lane.udp.is_some() => self.join_train(&transmit)?,
                Via::Datagram | Via::Stream(_) => {
                    self.flush()?;
                    self.send_frame(now, transmit)?;
                }
            }
        }
        self.flush()?;
        Ok(any)
    }

    /// Returns the machine's next message. If it has none and UDP does not pass, reports the streams with room to it.
    fn next(&mut self, now: Instant) -> Option<Transmit> {
        let next = self.endpoint.poll_transmit(now);
        if next.is_some() || self.lane.udp.is_some() {
            return next;
        }
        if self.lane.stream.has_room() {
            let number = self.lane.stream.number();
            self.endpoint.handle_room(now, number);
        }
        for index in 0..self.lane.more.len() {
            if self.lane.more[index].has_room() {
                let number = self.number_of(index);
                self.endpoint.handle_room(now, number);
            }
        }
        self.endpoint.poll_transmit(now)
    }

    /// Reports whether the machine's next message can leave without waiting.
    pub(super) fn has_room(&self) -> bool {
        // a machine for UDP does not know the further streams, and sends on the first one whether or not that has room
        let waits_for_streams = !self.is_diverted && !self.lane.more.is_empty();
        self.lane.udp.is_some() || waits_for_streams || self.lane.stream.has_room()
    }

    pub(super) fn join_train(&mut self, transmit: &Transmit) -> Result<(), Error> {
        let head_len = transmit.head.as_slice().len();
        let body_len = match &transmit.body {
            Body::None => 0,
            Body::Object(span) => span.len as usize,
            Body::Octets(octets) => octets.len(),
        };
        let sealed = self.lane.seal.is_some();
        if !self.train.admits(head_len, body_len, sealed) {
            self.flush()?;
        }
        let body = match &transmit.body {
            Body::Object(span) => self.store.gather(*span)?,
            Body::None | Body::Octets(_) => &[],
        };
        self.train.push(
            self.lane.connection,
            &transmit.head,
            body,
            self.lane.seal.as_ref(),
        );
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        if let Some(udp) = &self.lane.udp {
            let sent = self
                .train
                .flush(udp)
                .map_err(|error: io::Error| Error::world("cannot send datagrams", error))?;
            self.lane.counters.sent.fetch_add(sent as u64, Relaxed);
        }
        self.store.sent();
        Ok(())
    }

    fn send_frame(&mut self, now: Instant, transmit: Transmit) -> Result<(), Error> {
        let datagram = transmit.via == Via::Datagram;
        let (prefix, len) = prefix(self.lane.connection, &transmit.head);
        let head = &prefix[..len];
        let more = match transmit.via {
            Via::Stream(number) => number.checked_sub(self.lane.stream.number() + 1),
            Via::Datagram => None,
        };
        let stream = match more {
            Some(index) => self.lane.more.get(usize::from(index)),
            None => Some(&self.lane.stream),
        };
        let stream = stream.ok_or_else(|| {
            Error::Store("internal error: a machine sent on a stream that its lane lacks".into())
        })?;
        let sent = match transmit.body {
            Body::None => stream.send_parts(datagram, [head, &[]], true),
            Body::Octets(octets) => stream.send_parts(datagram, [head, &octets], true),
            Body::Object(span) => {
                let body = self.store.gather(span)?;
                stream.send_parts(datagram, [head, body], false)
            }
        };
        self.store.sent();
        match (sent, more) {
            (Err(_), Some(index)) => self.break_off(now, index.into()),
            (sent, _) => sent?,
        }
        Ok(())
    }
}
