//! Network, records and requests for tests, and limits of what a provider keeps.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lighthaul_booking_client::json::Timestamp;

use super::connection::Connection;
use super::resources::{Circuit, Committed, Hold, Port, Refusal, Resources, Status};
use super::state::Answer;
use super::{Config, Provider};
use crate::machine::{LifecycleState, ReservationState};
use crate::message::name::PROVIDER_PROTOCOL;
use crate::message::{
    ConnectionStates, Criteria, Directionality, Envelope, ErrorId, Header, Message, P2p, Reserve,
    Schedule,
};

/// Network that is not asked.
#[derive(Debug)]
pub(super) struct Nothing;

impl Resources for Nothing {
    fn hold(&self, _: &str, _: &str, _: &Circuit) -> Result<Hold, Refusal> {
        unreachable!()
    }

    fn commit(&self, _: &str, _: &[u64]) -> Result<(), Refusal> {
        unreachable!()
    }

    fn provision(&self, _: &str, _: &[u64]) -> Result<(), Refusal> {
        unreachable!()
    }

    fn release(&self, _: &str, _: &[u64]) -> Result<(), Refusal> {
        unreachable!()
    }

    fn end(&self, _: &str, _: &[u64]) -> Result<(), Refusal> {
        unreachable!()
    }

    fn status(&self, _: &str, _: &[u64]) -> Result<Status, Refusal> {
        unreachable!()
    }

    fn committed(&self) -> Result<Vec<Committed>, Refusal> {
        unreachable!()
    }

    fn missing(&self, _: &str, _: &[u64], _: &Circuit) -> Result<Vec<u64>, Refusal> {
        unreachable!()
    }
}

/// Returns a provider with a clock, whose network is not asked.
pub(super) fn provider() -> (Provider, Arc<AtomicU64>) {
    provider_of(Nothing)
}

/// Returns a provider with a clock and a network.
pub(super) fn provider_of(network: impl Resources + 'static) -> (Provider, Arc<AtomicU64>) {
    let config = "nsa = 'urn:p'\nnetwork = 'urn:n'\n[[stp]]\nport = 'a'\n[[stp]]\nport = 'c'\n\
        [[requester]]\nnsa = 'urn:r'\nidentity = 'agg'\nreply_to = ['http://r/']\n";
    let config = Config::parse(config).unwrap();
    let clock = Arc::new(AtomicU64::new(NOW));
    let now = Arc::clone(&clock);
    let now = move || Timestamp(now.load(Ordering::Relaxed));
    let provider = Provider::open(config, Path::new(":memory:"), Box::new(network), now);
    (provider.unwrap(), clock)
}

pub(super) fn header(nth: u32) -> Header {
    Header {
        protocol: PROVIDER_PROTOCOL.to_owned(),
        correlation_id: format!("urn:uuid:00000000-0000-4000-8000-{nth:012}"),
        requester: "urn:r".to_owned(),
        provider: "urn:p".to_owned(),
        reply_to: Some("http://r/x".to_owned()),
    }
}

/// Returns a connection without anything.
pub(super) fn connection() -> Connection {
    let port = |node: &str| Port {
        node: node.to_owned(),
        interface: None,
        packets: None,
    };
    Connection {
        id: "c-1".to_owned(),
        requester: "urn:r".to_owned(),
        identity: "agg".to_owned(),
        reply_to: "http://r/x".to_owned(),
        global_id: None,
        description: None,
        criteria: Criteria::default(),
        circuit: Circuit {
            from: port("a"),
            to: port("c"),
            rate_mbps: 1,
            start: Timestamp(NOW),
            end: Timestamp(NOW + 1_000_000_000),
            is_bidirectional: false,
            is_symmetric: false,
            via: Vec::new(),
        },
        states: ConnectionStates::default(),
        is_committed: false,
        reservations: Vec::new(),
        hold_till: None,
        hold_seconds: 0,
        changed: Timestamp(NOW),
        reserve: None,
        pending: [].into(),
        notifications: Vec::new(),
        results: Vec::new(),
        notification_id: 0,
        result_id: 0,
    }
}

/// Sends a reservation, and returns its connection.
fn reserve(provider: &Provider, nth: u32) -> Result<String, ErrorId> {
    let p2p = P2p {
        capacity_mbps: 1,
        directionality: Directionality::Bidirectional,
        symmetric_path: None,
        source: "urn:n:a".to_owned(),
        dest: "urn:n:c".to_owned(),
        ero: Vec::new(),
        unsupported: Vec::new(),
    };
    let criteria = Criteria {
        schedule: Schedule {
            start: None,
            end: Some(Timestamp(NOW + 1_000_000_000_000)),
        },
        p2p: Some(p2p),
        ..Criteria::default()
    };
    let message = Message::Reserve(Box::new(Reserve {
        criteria,
        ..Reserve::default()
    }));
    let document = Envelope::new(header(nth), message).encode();
    let reply = provider.answer("agg", document.as_bytes());
    match Envelope::decode(reply.document.as_bytes(), 1 << 20).map(|answer| answer.message) {
        Ok(Message::ReserveResponse(id)) => Ok(id),
        Ok(Message::Fault(why)) => Err(why.id),
        other => panic!("{other:?}"),
    }
}

/// Adds connections of a requester, which hold a circuit.
fn fill(provider: &Provider, requester: &str, count: usize) {
    let mut state = provider.lock();
    for nth in 0..count {
        let mut one = connection();
        one.id = format!("{requester}-{nth:04}");
        requester.clone_into(&mut one.requester);
        one.states.reservation = ReservationState::Held;
        state.connections.insert(one.id.clone(), Arc::new(one));
    }
}

#[test]
fn requester_has_at_most_two_thousand_open_connections() {
    let (provider, _) = provider();
    fill(&provider, "urn:q", 2000);
    fill(&provider, "urn:r", 1999);
    reserve(&provider, 1).unwrap();
    assert_eq!(reserve(&provider, 2), Err(ErrorId::ResourceUnavailable));
    assert_eq!(provider.lock().connections.len(), 4000);
}

#[test]
fn finished_connection_that_changed_first_makes_room_for_a_new_one() {
    let (provider, _) = provider();
    fill(&provider, "urn:q", 2000);
    fill(&provider, "urn:r", 1999);
    let finish = |id: &str, changed: u64| {
        let mut state = provider.lock();
        let one = Arc::make_mut(state.connections.get_mut(id).unwrap());
        one.states.lifecycle = LifecycleState::Terminated;
        one.changed = Timestamp(changed);
    };
    finish("urn:q-0003", 1);
    finish("urn:r-0005", 3);
    finish("urn:r-0007", 2);
    let has = |id: &str| provider.lock().connections.contains_key(id);
    // there is room for this one
    reserve(&provider, 1).unwrap();
    assert!(has("urn:r-0005") && has("urn:r-0007"));
    reserve(&provider, 2).unwrap();
    assert!(has("urn:r-0005") && !has("urn:r-0007"));
    reserve(&provider, 3).unwrap();
    assert!(!has("urn:r-0005") && has("urn:q-0003"));
    assert_eq!(reserve(&provider, 4), Err(ErrorId::ResourceUnavailable));
    assert_eq!(provider.lock().connections.len(), 4000);
}

#[test]
fn oldest_answer_to_a_requester_makes_room_for_a_new_one() {
    let (provider, _) = provider();
    let answer = |requester: &str, nth: u64| Answer {
        // their keys are in another order
        key: format!("{requester} {}", 9999 - nth),
        nth,
        requester: requester.to_owned(),
        correlation_id: nth.to_string(),
        digest: String::new(),
        connection_id: "none".to_owned(),
        document: String::new(),
        at: Timestamp(NOW),
    };
    let add = |one: Answer| {
        provider.lock().answers.insert(one.key.clone(), one);
    };
    add(answer("urn:q", 0));
    (1..4000).for_each(|nth| add(answer("urn:r", nth)));
    let has = |key: &str| provider.lock().answers.contains_key(key);
    reserve(&provider, 1).unwrap();
    assert!(has("urn:r 9998"));
    reserve(&provider, 2).unwrap();
    assert!(!has("urn:r 9998") && has("urn:r 9997") && has("urn:q 9999"));
    assert_eq!(provider.lock().answers.len(), 4001);
    let last = provider.lock().answers.values().map(|one| one.nth).max();
    assert_eq!(last, Some(4001));
    // an earlier version may have left more
    add(answer("urn:r", 1));
    reserve(&provider, 3).unwrap();
    assert!(!has("urn:r 9998") && !has("urn:r 9997"));
    assert!(has("urn:r 9996") && has("urn:q 9999"));
    assert_eq!(provider.lock().answers.len(), 4001);
    // the newest one answers a repeated request
    let before = provider.lock().connections.len();
    assert!(reserve(&provider, 3).is_ok());
    assert_eq!(provider.lock().connections.len(), before);
}

const NOW: u64 = 1_800_000_000_000_000_000;
