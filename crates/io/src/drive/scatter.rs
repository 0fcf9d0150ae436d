//! Reception directly in the expected place of the object; bodies of unexpected packets are moved.

use std::sync::atomic::Ordering::Relaxed;

use lighthaul_base::{Endpoint, Instant, Message, Span, Via};

use super::run::Driver;
use crate::crypto::cipher::TAG_LEN;
use crate::error::Error;
use crate::net::scatter::Layout;
use crate::net::train::{CONNECTION_LEN, unique};
use crate::net::udp::{Received, TRAIN_DATAGRAMS_MAX};
use crate::store::Store;

impl<E: Endpoint, S: Store> Driver<'_, E, S> {
    /// Receives a train in its expected place. Returns true if one arrived.
    pub(super) fn take_scattered(&mut self, body_len: u32) -> Result<bool, Error> {
        let layout = Layout {
            prefix_len: CONNECTION_LEN + self.lane.head_len,
            body_len: body_len as usize,
            tag_len: if self.lane.open.is_some() { TAG_LEN } else { 0 },
        };
        let span = self
            .endpoint
            .upcoming(self.expected, body_len * TRAIN_DATAGRAMS_MAX as u32)
            .unwrap_or_default();
        let Some(udp) = &self.lane.udp else {
            return Ok(false);
        };
        let landing = self.store.landing(span).unwrap_or_default();
        let received = self
            .scatter
            .receive(udp, layout, landing, &mut self.drops)
            .map_err(|error| Error::world("cannot receive datagrams", error))?;
        let Some(received) = received else {
            return Ok(false);
        };
        let kept = self.keep_landed(span, layout, received)?;
        let rest = self.collect(span, layout, received, kept);
        self.take_train(rest)?;
        Ok(true)
    }

    /// Copies the datagrams from index `first` on out of their expected places into one buffer.
    pub(super) fn collect(
        &mut self,
        at: Span,
        layout: Layout,
        received: Received,
        first: usize,
    ) -> Received {
        let skip = (first * received.segment_len).min(received.len);
        if skip < received.len {
            let landing = self.store.landing(at).unwrap_or_default();
            self.scatter
                .collect(layout, landing, received.len, &mut self.reception);
            self.reception.copy_within(skip..received.len, 0);
        }
        Received {
            len: received.len - skip,
            ..received
        }
    }

    /// Delivers datagrams in their expected places, and moves the first that belongs elsewhere. Returns their number.
    pub(super) fn keep_landed(
        &mut self,
        expected: Span,
        layout: Layout,
        received: Received,
    ) -> Result<usize, Error> {
        let now = self.lane.clock.now();
        let each = layout.prefix_len + layout.body_len + layout.tag_len;
        let whole = if received.segment_len == each {
            received.len / each
        } else {
            0
        };
        let whole = whole.min(expected.len as usize / layout.body_len);
        for index in 0..whole {
            let Some(span) = self.open_landed(index, layout, expected, now) else {
                continue;
            };
            let start = index * layout.body_len;
            if span.offset != expected.offset + start as u64 {
                let landing = self.store.landing(expected).unwrap_or_default();
                let body = landing[start..start + layout.body_len].to_vec();
                let rest = self.collect(expected, layout, received, index + 1);
                if let Some(slot) = self.store.slot(span)? {
                    slot.copy_from_slice(&body);
                }
                self.store.placed(span)?;
                self.expected = span.end();
                self.take_train(rest)?;
                return Ok(usize::MAX / received.segment_len);
            }
            self.expected = span.end();
            self.store.placed(span)?;
        }
        Ok(whole)
    }

    /// Decrypts datagram `index` in its place and delivers it. Returns its span of the object.
    pub(super) fn open_landed(
        &mut self,
        index: usize,
        layout: Layout,
        expected: Span,
        now: Instant,
    ) -> Option<Span> {
        let landing = self.store.landing(expected)?;
        let start = index * layout.body_len;
        let body = &mut landing[start..start + layout.body_len];
        let (prefix, tag) = self.scatter.around(index, layout);
        let (connection, head) = prefix.split_at(CONNECTION_LEN);
        let counters = &self.lane.counters;
        if connection != self.lane.connection.to_be_bytes() {
            counters.foreign.fetch_add(1, Relaxed);
            return None;
        }
        if let Some(key) = &self.lane.open
            && !key.open_apart(unique(head), prefix, body, tag)
        {
            counters.forged.fetch_add(1, Relaxed);
            return None;
        }
        counters.received.fetch_add(1, Relaxed);
        let message = Message {
            via: Via::Datagram,
            head,
            len: layout.body_len as u32,
        };
        self.endpoint.handle_message(now, message)
    }
}
