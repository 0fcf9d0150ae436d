//! Domain 1 of a chain as a bare transport, so that a test chooses each message.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Trc;
use lighthaul_domain_links::Neighbor;
use lighthaul_domain_links::{Deliver, Identification, Panicked, Transport};
use lighthaul_io::crypto::identity::{Fingerprint, Identity};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_stargate::{Body, CorrelationId, DomainId, Hop, Key, Message, PortId, Segment};

use super::site::{PATIENCE, any_port};

/// Domain 1 without a machine.
pub(crate) struct Peer {
    pub(crate) transport: Transport,
    messages: Receiver<(DomainId, Message)>,
}

/// Returns the numbers and keys of a domain with one neighbor.
pub(crate) fn identification(
    me: u32,
    identity: Identity,
    (neighbor, address, key): (u32, Option<SocketAddr>, Fingerprint),
) -> Identification {
    let neighbor_of = Neighbor {
        name: "neighbor".to_owned(),
        address: address.map(|address| address.to_string().parse().unwrap()),
        key,
        expires: Instant::NEVER,
    };
    Identification {
        me: DomainId(me),
        key: Fingerprint::of_public(&identity.public()),
        identity,
        neighbors: [(DomainId(neighbor), neighbor_of)].into(),
        clock_tolerance: Duration::from_secs(3),
    }
}

impl Peer {
    pub(crate) fn start(known: Identification) -> Self {
        Self::start_at(any_port(), known)
    }

    pub(crate) fn start_at(listen: SocketAddr, known: Identification) -> Self {
        let (sender, messages) = channel();
        let deliver = move |from, message| sender.send((from, message)).is_ok();
        let deliver: Deliver = Arc::new(deliver);
        let panicked: Panicked = Arc::new(|why| panic!("{why}"));
        Self {
            transport: Transport::start(listen, known, &(deliver, panicked)).unwrap(),
            messages,
        }
    }

    pub(crate) fn send(&self, to: u32, body: Body) {
        let sent = now();
        let message = Message { sent, body };
        self.transport.send(DomainId(to), &message);
    }

    /// Sends a message again until this answer comes. A domain that has started again repeats earlier answers first.
    pub(crate) fn expect(&self, to: u32, body: &Body, expected: &Body) {
        let tries = PATIENCE.as_millis() / EVERY.as_millis();
        let mut answers = Vec::new();
        for _ in 0..tries {
            self.send(to, body.clone());
            while let Some(answer) = self.answer(EVERY) {
                if answer == *expected {
                    return;
                }
                answers.push(answer);
            }
        }
        panic!("{body:?} is not answered by {expected:?}: {answers:?}");
    }

    /// Sends a message again until another transport receives it.
    pub(crate) fn ask_to(&self, to: u32, body: &Body, receiver: &Self) -> Body {
        let tries = PATIENCE.as_millis() / EVERY.as_millis();
        let mut tries = (0..tries).filter_map(|_| {
            self.send(to, body.clone());
            receiver.answer(EVERY)
        });
        tries.next().expect("the message arrives")
    }

    /// Returns the next message other than `Ask`.
    pub(crate) fn answer(&self, patience: Duration) -> Option<Body> {
        loop {
            let (_, message) = self.messages.recv_timeout(patience).ok()?;
            if !matches!(message.body, Body::Ask { .. }) {
                return Some(message.body);
            }
        }
    }
}

/// Returns a hold for a path from domain 1 over 2 to 3.
pub(crate) fn hold(id: u128, hold_time: Duration) -> (Key, Body) {
    let key = Key {
        source: DomainId(1),
        id: CorrelationId(id),
        attempt: 0,
        leg: 0,
    };
    let hop = |domain, ingress, egress| Hop {
        domain: DomainId(domain),
        segment: Segment {
            ingress: PortId(ingress),
            egress: PortId(egress),
        },
    };
    let hold_till = now() + hold_time;
    let decide_till = hold_till + Duration::from_secs(1);
    let step = lighthaul_base::trc::Step {
        from: decide_till,
        till: decide_till + Duration::from_mins(10),
        rate: lighthaul_base::Rate::from_mbps(100),
    };
    let body = Body::Hold {
        key,
        hops: vec![hop(2, 1, 2), hop(3, 2, 103)],
        trace: vec![DomainId(1)],
        vector: Trc::new(vec![step]).unwrap(),
        hold_till,
        decide_till,
    };
    (key, body)
}

fn now() -> Instant {
    Instant::from_nanos(unix_nanos())
}

const EVERY: Duration = Duration::from_millis(200);
