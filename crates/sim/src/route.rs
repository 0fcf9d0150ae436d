//! One direction of a flow: links that it may share with others, and a stream of its own.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{Instant, Rate, Transmit, Via};

use crate::link::{Link, LinkConfig, Verdict};
use crate::seat::{Datagram, StreamMessage, span};
use crate::world::Agenda;

/// Which way datagrams go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteConfig {
    /// How long they take to the first link: what differs between flows that share it.
    pub access: Duration,
    /// The links that they cross, by their number in the network.
    pub links: Vec<usize>,
}

/// One direction of a flow at work.
#[derive(Debug)]
pub(crate) struct Route {
    access: Duration,
    hops: Vec<Hop>,
    pub(crate) arrivals: Agenda<Datagram>,
    stream: Link,
    pub(crate) messages: Agenda<StreamMessage>,
    overhead_len: u32,
}

/// A link of the network, and what is on its way there.
#[derive(Debug)]
struct Hop {
    link: usize,
    comers: Agenda<Datagram>,
}

impl Route {
    pub(crate) fn new(
        config: &RouteConfig,
        stream_delay: Duration,
        stream_rate: Option<Rate>,
        overhead_len: u32,
    ) -> Self {
        let stream = LinkConfig {
            rate: stream_rate,
            delay: stream_delay,
            ..LinkConfig::PERFECT
        };
        let hop = |link: &usize| Hop {
            link: *link,
            comers: Agenda::new(),
        };
        Self {
            access: config.access,
            hops: config.links.iter().map(hop).collect(),
            arrivals: Agenda::new(),
            // nothing on a stream is up to chance
            stream: Link::new(stream, 0),
            messages: Agenda::new(),
            overhead_len,
        }
    }

    /// Sends what a machine wants sent.
    pub(crate) fn carry(&mut self, now: Instant, transmit: &Transmit, links: &mut [Link]) {
        match transmit.via {
            Via::Datagram => {
                let datagram = Datagram {
                    head: transmit.head,
                    body: span(&transmit.body),
                };
                if self.access.is_zero() {
                    self.enter(now, 0, datagram, links);
                } else {
                    self.approach(now + self.access, 0, datagram);
                }
            }
            Via::Stream(stream) => {
                let body = span(&transmit.body);
                let head = transmit.octets();
                let len = FRAME_LEN + head.len() as u32 + body.len;
                if let Verdict::Delivered { at, .. } = self.stream.offer(now, len) {
                    let message = StreamMessage { stream, head, body };
                    self.messages.insert(at, message);
                }
            }
        }
    }

    /// When the next datagram comes to one of the links, and to which.
    pub(crate) fn next_hop(&self) -> (Instant, usize) {
        let comers = self.hops.iter().map(|hop| hop.comers.next_at());
        let next = comers.enumerate().map(|(nth, at)| (at, nth)).min();
        next.unwrap_or((Instant::NEVER, 0))
    }

    /// The next datagram on its way to the `nth` link is there.
    pub(crate) fn hop(&mut self, now: Instant, nth: usize, links: &mut [Link]) {
        if let Some((_, datagram)) = self.hops[nth].comers.pop() {
            self.enter(now, nth, datagram, links);
        }
    }

    /// A datagram is at the `nth` link.
    fn enter(&mut self, now: Instant, nth: usize, datagram: Datagram, links: &mut [Link]) {
        let Some(hop) = self.hops.get(nth) else {
            return self.arrivals.insert(now, datagram);
        };
        let verdict = links[hop.link].offer(now, self.overhead_len + datagram.len());
        if let Verdict::Delivered { at, again } = verdict {
            self.approach(at, nth + 1, datagram);
            if let Some(at) = again {
                self.approach(at, nth + 1, datagram);
            }
        }
    }

    /// A datagram will be at the `nth` link, or behind the last.
    fn approach(&mut self, at: Instant, nth: usize, datagram: Datagram) {
        match self.hops.get_mut(nth) {
            Some(hop) => hop.comers.insert(at, datagram),
            None => self.arrivals.insert(at, datagram),
        }
    }
}

/// Bytes of a stream's frame.
const FRAME_LEN: u32 = 4;
