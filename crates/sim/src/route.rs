//! One direction of a flow: links that it may share with other flows, and a stream of its own.

use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{Instant, Transmit, Via};

use crate::event_queue::EventQueue;
use crate::link::{Link, LinkConfig, Verdict};
use crate::machine::{Datagram, StreamMessage, span};

/// Path of the datagrams of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteConfig {
    /// Delay to the first link. It gives flows that share a link different round-trip times.
    pub access: Duration,
    /// Links in order, by their number in the network.
    pub links: Vec<usize>,
}

/// One direction of a flow, with its datagrams and messages in flight.
#[derive(Debug)]
pub(crate) struct Route {
    access: Duration,
    hops: Vec<Hop>,
    pub(crate) arrivals: EventQueue<Datagram>,
    stream: Link,
    streams_queue: bool,
    pub(crate) messages: EventQueue<StreamMessage>,
    overhead_len: u32,
}

/// Link of the network, and the datagrams in transit to it.
#[derive(Debug)]
struct Hop {
    link: usize,
    in_flight: EventQueue<Datagram>,
}

impl Route {
    pub(crate) fn new(
        config: &RouteConfig,
        mut stream: LinkConfig,
        streams_queue: bool,
        overhead_len: u32,
    ) -> Self {
        if streams_queue && !config.links.is_empty() {
            stream.delay = Duration::ZERO;
        }
        let hop = |link: &usize| Hop {
            link: *link,
            in_flight: EventQueue::new(),
        };
        Self {
            access: config.access,
            hops: config.links.iter().map(hop).collect(),
            arrivals: EventQueue::new(),
            // the stream makes no random choice, so any seed will do
            stream: Link::new(stream, 0),
            streams_queue,
            messages: EventQueue::new(),
            overhead_len,
        }
    }

    /// Sends a message of a machine.
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
                    let at = at + self.queueing(now, links);
                    let message = StreamMessage { stream, head, body };
                    self.messages.insert(at, message);
                }
            }
        }
    }

    /// Returns the time that a stream message waits behind datagrams, with the delay of all links.
    fn queueing(&self, now: Instant, links: &mut [Link]) -> Duration {
        let Some(first) = self.hops.first().filter(|_| self.streams_queue) else {
            return Duration::ZERO;
        };
        let delays = self.hops.iter().map(|hop| links[hop.link].config().delay);
        let delay: Duration = delays.sum();
        links[first.link].idle_at(now).since(now) + delay
    }

    /// Returns the time of the next arrival at a link, and the position of that link on the route.
    pub(crate) fn next_hop(&self) -> (Instant, usize) {
        let in_flight = self.hops.iter().map(|hop| hop.in_flight.next_at());
        let next = in_flight.enumerate().map(|(nth, at)| (at, nth)).min();
        next.unwrap_or((Instant::NEVER, 0))
    }

    /// Moves the next datagram onto the `nth` link of the route.
    pub(crate) fn hop(&mut self, now: Instant, nth: usize, links: &mut [Link]) {
        if let Some((_, datagram)) = self.hops[nth].in_flight.pop() {
            self.enter(now, nth, datagram, links);
        }
    }

    /// Offers a datagram to the `nth` link of the route.
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

    /// Schedules the arrival of a datagram at the `nth` link, or at the receiver after the last link.
    fn approach(&mut self, at: Instant, nth: usize, datagram: Datagram) {
        match self.hops.get_mut(nth) {
            Some(hop) => hop.in_flight.insert(at, datagram),
            None => self.arrivals.insert(at, datagram),
        }
    }
}

/// Length of the frame header of a stream message, in bytes.
const FRAME_LEN: u32 = 4;
