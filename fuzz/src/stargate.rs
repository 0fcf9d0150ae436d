//! Signaling between domains: its decoders, and one domain with any sequence of calls.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Malformed, Rate, Reader};
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    Body, Config, CorrelationId, Domain, DomainId, DomainLink, Hop, Key, Message, Offer, Output,
    Policy, PortId, Protection, QueryId, Record, Refusal, Request, Resources, Segment, Signaling,
    Timing, Topology,
};

/// Decodes any octets as a message and as a record. What decodes survives another round.
pub fn wire(octets: &[u8]) {
    if let Ok(message) = Message::decode(octets) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    if let Ok(record) = Record::decode(octets) {
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }
}

/// Reads the octets as times, requests and messages. The domain stays bounded, has no overdue
/// timer, and holds no more than its one channel.
pub fn machine(octets: &[u8]) {
    let mut reader = Reader::new(octets);
    let mut now = Instant::from_nanos(1_000_000_000_000);
    let mut domain = Domain::new(config(), topology(), Channel::default(), 7);
    while call(&mut domain, &mut now, &mut reader).is_ok() {
        domain.handle_timeout(now);
        let mut outputs = 0;
        while let Some(output) = domain.poll_output() {
            outputs += 1;
            match output {
                Output::Persist { sequence, record } => {
                    assert_eq!(Record::decode(&record.encode()), Ok(record));
                    domain.handle_persisted(sequence);
                }
                Output::Send { message, .. } => {
                    assert!(message.encode().len() <= lighthaul_stargate::wire::LEN_MAX);
                }
                Output::Program { .. }
                | Output::KeepOnly { .. }
                | Output::Unprogram { .. }
                | Output::Outcome { .. }
                | Output::RangeDone { .. } => {}
            }
        }
        assert!(outputs <= 2000, "{outputs} outputs after one call");
        assert!(domain.poll_timeout().is_none_or(|at| at > now));
        let held = domain.reservations().filter(|one| one.is_held());
        let held: BTreeSet<Key> = held.map(lighthaul_stargate::Reservation::key).collect();
        assert_eq!(held, domain.resources().held);
        assert!(held.len() <= 1);
    }
}

fn call(
    domain: &mut Domain<Channel>,
    now: &mut Instant,
    reader: &mut Reader<'_>,
) -> Result<(), Malformed> {
    let (kind, wait, detail) = (reader.u8()?, reader.u8()?, reader.u8()?);
    *now += Duration::from_millis(u64::from(wait) * u64::from(wait));
    let from = DomainId(1 + u32::from(kind >> 7));
    match kind % 32 {
        0 if detail & 128 == 128 => domain.preview(*now, request(*now, detail)),
        0 => domain.request(*now, request(*now, detail)),
        1 => domain.release(*now, CorrelationId(u128::from(detail % 4))),
        2 => domain.fail(*now, (key(detail), detail >> 7)),
        3 => {
            let len = usize::from(detail);
            if let Ok(message) = Message::decode(reader.take(len)?) {
                domain.handle_message(*now, from, message);
            }
        }
        kind => {
            let body = body(kind, detail, *now);
            domain.handle_message(*now, from, Message { sent: *now, body });
        }
    }
    Ok(())
}

/// Returns a plausible message.
fn body(kind: u8, detail: u8, now: Instant) -> Body {
    let key = key(detail);
    let refusal = Refusal::NoCapacity;
    let query = QueryId {
        source: key.source,
        number: u64::from(detail % 4),
    };
    let hops = hops(detail);
    let trace = vec![DomainId(1)];
    match kind % 14 {
        0 => Body::Query {
            query,
            hops,
            trace,
            from: now,
            till: now + Duration::from_mins(1),
            is_protected: detail & 8 == 8,
        },
        1 => Body::Offer {
            query,
            offer: free(now, now + Duration::from_mins(10)),
        },
        2 => Body::NoOffer { query, refusal },
        3 | 4 => {
            let step = Step {
                from: now + Duration::from_secs(10),
                till: now + Duration::from_secs(20),
                rate: RATE,
            };
            Body::Hold {
                key,
                hops,
                trace,
                vector: Trc::new(vec![step]).expect("a valid vector"),
                hold_till: now + Duration::from_secs(5),
                decide_till: now + Duration::from_secs(10),
            }
        }
        5 => Body::Held { key },
        6 => Body::Refused { key, refusal },
        7 => Body::Commit { key },
        8 => Body::Committed { key },
        9 => Body::Abort { key },
        10 => Body::Aborted { key, refusal },
        11 => Body::Release { key },
        12 => Body::Ask { key },
        _ => Body::RangeDone {
            key,
            range: u16::from(detail),
        },
    }
}

fn key(detail: u8) -> Key {
    Key {
        source: DomainId(u32::from(detail >> 2 & 1)),
        id: CorrelationId(u128::from(detail & 3)),
        attempt: detail >> 3 & 1,
        leg: if detail & 64 == 64 { 255 } else { 0 },
    }
}

fn hops(detail: u8) -> Vec<Hop> {
    let hop = |domain, ingress, egress| Hop {
        domain: DomainId(domain),
        segment: Segment {
            ingress: PortId(ingress),
            egress: PortId(egress),
        },
    };
    let mut hops = vec![hop(0, 1, 2)];
    if detail & 16 == 16 {
        hops.push(hop(2, 2, 3));
    }
    hops
}

fn request(now: Instant, detail: u8) -> Request {
    Request {
        id: CorrelationId(u128::from(detail % 4)),
        ingress: PortId(9),
        to: DomainId(u32::from(detail >> 2) % 3),
        egress: PortId(3),
        demand: Demand {
            bytes: 100_000_000,
            rate_max: RATE,
            rate_min: RATE,
        },
        from: now,
        till: now + Duration::from_mins(10),
        excludes: Excludes::default(),
        protection: if detail & 64 == 64 {
            Protection::Disjoint
        } else {
            Protection::None
        },
        signaling: if detail & 32 == 32 {
            Signaling::Tree
        } else {
            Signaling::Chain
        },
    }
}

fn config() -> Config {
    Config {
        me: DomainId(0),
        neighbors: [1, 2]
            .map(|other| (DomainId(other), Policy::default()))
            .into(),
        timing: Timing::default(),
        paths_max: 3,
        rounds_max: 2,
    }
}

fn topology() -> Topology {
    let link = |port, from, to| DomainLink {
        port: PortId(port),
        from: DomainId(from),
        to: DomainId(to),
        cost: 1,
    };
    Topology::new(&[link(1, 1, 0), link(2, 0, 2), link(4, 0, 1), link(5, 1, 2)])
}

fn free(from: Instant, till: Instant) -> Offer {
    let rate = RATE;
    Offer::new(RATE, vec![Step { from, till, rate }]).expect("a valid offer")
}

/// One channel, which one reservation may have.
#[derive(Debug, Default)]
struct Channel {
    held: BTreeSet<Key>,
}

impl Resources for Channel {
    fn free(&mut self, _: Segment, from: Instant, till: Instant) -> Result<Offer, Refusal> {
        Ok(free(from, till))
    }

    fn hold(&mut self, _: Instant, key: Key, _: &[Segment], _: &Trc) -> Result<(), Refusal> {
        let is_free = self.held.is_empty();
        self.held.extend(is_free.then_some(key));
        is_free.then_some(()).ok_or(Refusal::NoCapacity)
    }

    fn commit(&mut self, _: Instant, key: Key) {
        assert!(
            self.held.contains(&key),
            "a reservation is committed that is not held"
        );
    }

    fn release_segment(&mut self, _: Instant, _: Key, _: Segment) {}

    fn release(&mut self, _: Instant, key: Key) {
        self.held.remove(&key);
    }
}

const RATE: Rate = Rate::from_mbps(100);
