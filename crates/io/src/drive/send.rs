//! What the machine wants sent, gathered into trains and frames.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use lighthaul_base::{Body, Endpoint, Instant, Transmit, Via};

use super::run::Driver;
use crate::control::Frame;
use crate::error::Error;
use crate::store::Store;

/// Messages that leave on the stream before everything else gets its turn.
const FRAMES_A_TURN: usize = 256;

impl<E: Endpoint, S: Store> Driver<'_, E, S> {
    /// Sends what the machine wants sent; answers whether there was anything.
    pub(super) fn transmit(&mut self, now: Instant) -> Result<bool, Error> {
        let mut any = false;
        let mut frames = 0..FRAMES_A_TURN;
        while self.has_room()
            && (self.lane.udp.is_some() || frames.next().is_some())
            && let Some(transmit) = self.endpoint.poll_transmit(now)
        {
            any = true;
            match transmit.via {
                Via::Datagram if self.lane.udp.is_some() => self.join_train(&transmit)?,
                Via::Datagram | Via::Stream(_) => {
                    self.flush()?;
                    self.send_frame(transmit)?;
                }
            }
        }
        self.flush()?;
        Ok(any)
    }

    /// Whether what the machine sends next would not have to wait.
    pub(super) fn has_room(&self) -> bool {
        self.lane.udp.is_some() || self.lane.stream.has_room()
    }

    pub(super) fn join_train(&mut self, transmit: &Transmit) -> Result<(), Error> {
        let head_len = transmit.head.as_slice().len();
        let body_len = match &transmit.body {
            Body::None => 0,
            Body::Object(span) => span.len as usize,
            Body::Words(words) => words.len(),
        };
        let sealed = self.lane.seal.is_some();
        if !self.train.admits(head_len, body_len, sealed) {
            self.flush()?;
        }
        let body = match &transmit.body {
            Body::Object(span) => self.store.gather(*span)?,
            Body::None | Body::Words(_) => &[],
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
                .map_err(|error: io::Error| Error::world("sending datagrams", error))?;
            self.lane.counters.sent.fetch_add(sent as u64, Relaxed);
        }
        self.store.sent();
        Ok(())
    }

    pub(super) fn send_frame(&mut self, transmit: Transmit) -> Result<(), Error> {
        let mut octets = transmit.head.as_slice().to_vec();
        let head_len = octets.len();
        let datagram = transmit.via == Via::Datagram;
        let whole = match transmit.body {
            Body::None => true,
            Body::Words(words) => {
                octets.extend_from_slice(&words);
                true
            }
            Body::Object(span) => {
                octets.extend_from_slice(self.store.gather(span)?);
                self.store.sent();
                false
            }
        };
        let head_len = if whole { octets.len() } else { head_len };
        self.lane.stream.send(&Frame {
            datagram,
            head_len,
            octets,
        })
    }
}
