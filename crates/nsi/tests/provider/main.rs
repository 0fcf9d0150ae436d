//! Provider under random requests, times and restarts, with a network of one link in memory.
#![expect(clippy::unwrap_used, reason = "a test")]

mod answers;
mod delivery;
mod failures;
mod link;
mod queries;
mod races;
mod requests;
mod restored;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_nsi::machine::{LifecycleState, ReservationState};
use lighthaul_nsi::message::body::QueryKind;
use lighthaul_nsi::message::name::PROVIDER_PROTOCOL;
use lighthaul_nsi::message::query::{Query, Summary};
use lighthaul_nsi::message::{
    Criteria, Directionality, Envelope, ErrorId, Header, Message, Operation, P2p, Reserve, Schedule,
};
use lighthaul_nsi::provider::{Config, OpenError, Outgoing, Provider, Status};
use proptest::prelude::*;
use proptest::sample::select;

use link::{HOLD, LINK_MBPS, Link, SECOND};

/// Step of a random run.
#[derive(Clone, Debug)]
enum Step {
    Reserve(u64),
    Operate(Operation, prop::sample::Index),
    /// The last request again.
    Again,
    Pass(u64),
    Work,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (100..700_u64).prop_map(Step::Reserve),
        6 => (select(Operation::ALL.to_vec()), any::<prop::sample::Index>())
            .prop_map(|(operation, which)| Step::Operate(operation, which)),
        1 => Just(Step::Again),
        2 => (1..9_u64).prop_map(Step::Pass),
        6 => Just(Step::Work),
        1 => Just(Step::Restart),
    ]
}

struct Run {
    path: PathBuf,
    link: Link,
    provider: Arc<Provider>,
    ids: Vec<String>,
    /// Correlation and document of the last request.
    last: Option<(String, String)>,
    /// Correlations of accepted requests, and of their confirmations.
    accepted: BTreeSet<String>,
    confirmed: BTreeMap<String, usize>,
    sent: u64,
}

const CONFIG: &str = "nsa = 'urn:p'\nnetwork = 'urn:n'\n[[stp]]\nport = 'a'\n[[stp]]\nport = 'c'\n\
    [[stp]]\nport = 'v'\nvlans = '7'\n\
    [[stp]]\nport = 'w'\nnode = 'inner'\nvlans = '10-12'\ninterface = 'eth1'\npackets = 'udp 7'\n\
    [[requester]]\nnsa = 'urn:r'\nidentity = 'agg'\nreply_to = ['http://r/']\n\
    [[requester]]\nnsa = 'urn:q'\nidentity = 'other'\nreply_to = ['http://q/']\n";

fn open(path: &Path, link: &Link) -> Arc<Provider> {
    try_open(path, link).unwrap()
}

fn try_open(path: &Path, link: &Link) -> Result<Arc<Provider>, OpenError> {
    open_with(CONFIG, path, link)
}

fn open_with(config: &str, path: &Path, link: &Link) -> Result<Arc<Provider>, OpenError> {
    let clock = link.clone();
    let resources = Box::new(link.clone());
    let config = Config::parse(config).map_err(|why| OpenError::Failed(why.to_string()))?;
    let provider = Provider::open(config, path, resources, move || Timestamp(clock.now()))?;
    Ok(Arc::new(provider))
}

impl Run {
    fn new(path: &Path) -> Self {
        let link = Link::new();
        Self {
            provider: open(path, &link),
            path: path.to_owned(),
            link,
            ids: Vec::new(),
            last: None,
            accepted: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Returns the connection of a new reservation from a point.
    fn reserve_from(&mut self, source: &str) -> Result<String, ErrorId> {
        let mut message = reserve(1, Timestamp(self.link.now() + 10_000 * SECOND));
        if let Message::Reserve(reserve) = &mut message {
            source.clone_into(&mut reserve.criteria.p2p.as_mut().unwrap().source);
            reserve.description = Some("d".repeat(4000));
        }
        let answer = self.ask(message);
        if let Message::Fault(why) = answer {
            return Err(why.id);
        }
        let Message::ReserveResponse(id) = answer else {
            panic!("{answer:?}");
        };
        Ok(id)
    }

    fn operate(&mut self, operation: Operation, id: &str) {
        let answer = self.ask(Message::Request(operation, id.to_owned()));
        assert_eq!(answer, Message::Acknowledgment);
    }

    fn set_down(&self, is_down: bool) {
        self.link.is_down.store(is_down, Ordering::Relaxed);
    }

    fn pass(&self, seconds: u64) {
        self.link.now.fetch_add(seconds * SECOND, Ordering::Relaxed);
    }

    /// Returns the header of a new request.
    fn header(&mut self) -> Header {
        self.sent += 1;
        Header {
            protocol: PROVIDER_PROTOCOL.to_owned(),
            correlation_id: format!("urn:uuid:00000000-0000-4000-8000-{:012x}", self.sent),
            requester: "urn:r".to_owned(),
            provider: "urn:p".to_owned(),
            reply_to: Some("http://r/x".to_owned()),
        }
    }

    fn ask(&mut self, message: Message) -> Message {
        let header = self.header();
        let correlation_id = header.correlation_id.clone();
        let is_query = matches!(message, Message::Query(..));
        let document = Envelope::new(header, message).encode();
        let answer = self.send("agg", &document);
        if !is_query {
            self.last = Some((correlation_id.clone(), document));
            if !matches!(answer, Message::Fault(_)) {
                self.accepted.insert(correlation_id);
            }
        }
        answer
    }

    /// Returns the answer to a document.
    fn send(&self, identity: &str, document: &str) -> Message {
        let reply = self.provider.answer(identity, document.as_bytes());
        let answer = Envelope::decode(reply.document.as_bytes(), 1 << 20).unwrap();
        let is_fault = matches!(answer.message, Message::Fault(_));
        assert_eq!(reply.is_fault, is_fault);
        answer.message
    }

    /// Delivers all messages to a requester, and returns them with their URLs.
    fn delivered(&self, requester: &str) -> Vec<(String, Envelope)> {
        let mut all = Vec::new();
        self.provider.deliver(requester, |outgoing| {
            let envelope = Envelope::decode(outgoing.document.as_bytes(), 1 << 20).unwrap();
            all.push((outgoing.url.clone(), envelope));
            Ok(())
        });
        all
    }

    /// Does all work and returns the messages to the requester.
    fn messages(&self) -> Vec<Message> {
        for _ in 0..8 {
            self.provider.work();
        }
        let all = self.delivered("urn:r").into_iter();
        all.map(|(_, envelope)| envelope.message).collect()
    }

    fn summaries(&mut self) -> Vec<Summary> {
        let query = Message::Query(QueryKind::SummarySync, Query::default());
        let Message::QueryConfirmed(_, all) = self.ask(query) else {
            panic!("a query has an answer");
        };
        all
    }

    fn make(&mut self, step: &Step) {
        match step {
            Step::Reserve(mbps) => {
                let end = Timestamp(self.link.now() + 10_000 * SECOND);
                if let Message::ReserveResponse(id) = self.ask(reserve(*mbps, end)) {
                    self.ids.push(id);
                }
            }
            Step::Operate(operation, which) if !self.ids.is_empty() => {
                let id = which.get(&self.ids).clone();
                self.ask(Message::Request(*operation, id));
            }
            Step::Operate(..) => {}
            Step::Again => {
                let before = self.link.used();
                if let Some((id, last)) = &self.last
                    && !self.provider.answer("agg", last.as_bytes()).is_fault
                {
                    // a refused request may be accepted in another state
                    self.accepted.insert(id.clone());
                }
                assert_eq!(self.link.used(), before);
            }
            Step::Pass(seconds) => self.pass(*seconds),
            Step::Work => self.work(),
            Step::Restart => {
                let before = self.summaries();
                let nowhere = Path::new(":memory:");
                self.provider = open(nowhere, &self.link);
                self.provider = open(&self.path, &self.link);
                assert_eq!(self.summaries(), before);
            }
        }
        assert!(self.link.used() <= LINK_MBPS);
    }

    fn work(&mut self) {
        self.provider.work();
        let mut all: Vec<Outgoing> = Vec::new();
        self.provider.deliver("urn:r", |one| {
            all.push(one.clone());
            Ok(())
        });
        for one in all {
            let envelope = Envelope::decode(one.document.as_bytes(), 1 << 20).unwrap();
            if !matches!(envelope.message, Message::Notification(_)) {
                let id = envelope.header.unwrap().correlation_id;
                *self.confirmed.entry(id).or_default() += 1;
            }
        }
    }

    /// Completes all pending work, and checks the invariants.
    fn finish(mut self) {
        for _ in 0..8 {
            self.work();
        }
        self.link.now.fetch_add(2 * HOLD, Ordering::Relaxed);
        for _ in 0..8 {
            self.work();
        }
        let all = self.summaries();
        let is_live = |one: &&Summary| one.states.lifecycle == LifecycleState::Created;
        for one in &all {
            let is_held = one.states.reservation == ReservationState::Held;
            assert!(!is_held || !is_live(&one), "a hold expires");
            assert_ne!(
                one.states.lifecycle,
                LifecycleState::Terminating,
                "work is done"
            );
        }
        for id in self.confirmed.keys() {
            assert!(self.accepted.contains(id), "{id} was not accepted");
        }
        let promised = all.iter().filter(is_live).flat_map(|one| &one.criteria);
        let promised = promised.filter_map(|criteria| criteria.p2p.as_ref());
        let promised: u64 = promised.map(|p2p| p2p.capacity_mbps).sum();
        assert_eq!(
            self.link.used(),
            promised,
            "only live connections have capacity"
        );
        // a connection that is terminated leaves at most one request of each other machine open
        let missing = self.accepted.len() - self.confirmed.len();
        let ended = all.len() - all.iter().filter(is_live).count();
        assert!(
            missing <= 2 * ended,
            "{missing} without a confirmation, {ended} ended"
        );
    }
}

fn reserve(capacity_mbps: u64, end: Timestamp) -> Message {
    let p2p = P2p {
        capacity_mbps,
        directionality: Directionality::Unidirectional,
        symmetric_path: None,
        source: "urn:n:a".to_owned(),
        dest: "urn:n:c".to_owned(),
        ero: Vec::new(),
        unsupported: Vec::new(),
    };
    let schedule = Schedule {
        start: None,
        end: Some(end),
    };
    let criteria = Criteria {
        schedule,
        p2p: Some(p2p),
        ..Criteria::default()
    };
    Message::Reserve(Box::new(Reserve {
        criteria,
        ..Reserve::default()
    }))
}

#[test]
fn long_answers_and_queries_of_a_full_outbox_are_refused() {
    let mut run = Run::new(Path::new(":memory:"));
    let ids: Vec<String> = (0..70)
        .map(|_| run.reserve_from("urn:n:a").unwrap())
        .collect();
    let mut ask = |kind, count: usize| {
        let query = Query {
            connection_ids: ids[..count].to_vec(),
            ..Query::default()
        };
        let answer = run.ask(Message::Query(kind, query));
        if let Message::Fault(why) = answer {
            return Err((why.id, why.text));
        }
        let Message::QueryConfirmed(_, all) = answer else {
            assert_eq!(answer, Message::Acknowledgment);
            return Ok(0);
        };
        Ok(all.len())
    };
    assert_eq!(ask(QueryKind::SummarySync, 50), Ok(50));
    let (id, text) = ask(QueryKind::SummarySync, 70).unwrap_err();
    assert_eq!(id, ErrorId::ResourceUnavailable);
    assert!(text.contains("fewer connection IDs"), "{text}");
    let answers: Vec<_> = (0..50).map(|_| ask(QueryKind::Summary, 50)).collect();
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!((20..50).contains(&accepted), "{accepted}");
    assert_eq!(ask(QueryKind::SummarySync, 1), Ok(1));
}

#[test]
fn message_is_delivered_after_the_clock_was_set_back() {
    let mut run = Run::new(Path::new(":memory:"));
    run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    run.provider
        .deliver("urn:r", |_| Err("it is down".to_owned()));
    assert_eq!(run.provider.outgoing("urn:r"), None);
    run.link.now.fetch_sub(3600 * SECOND, Ordering::Relaxed);
    assert!(run.provider.outgoing("urn:r").is_some());
}

#[test]
fn label_is_taken_until_the_reservations_have_ended() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:v").unwrap();
    run.provider.work();
    for operation in [Operation::Abort, Operation::Terminate] {
        run.set_down(true);
        run.operate(operation, &id);
        run.provider.work();
        assert_eq!(run.reserve_from("urn:n:v"), Err(ErrorId::StpUnavailable));
    }
    run.set_down(false);
    run.provider.work();
    let id = run.reserve_from("urn:n:v").unwrap();
    run.provider.work();
    run.set_down(true);
    run.pass(HOLD / SECOND + 1);
    assert_eq!(run.provider.work(), Duration::from_secs(1));
    assert_eq!(run.reserve_from("urn:n:v"), Err(ErrorId::StpUnavailable));
    run.set_down(false);
    run.provider.work();
    assert!(run.link.all().values().all(|one| one.is_ended));
    let states = run.summaries();
    let timed_out = states.iter().find(|one| one.connection_id == id).unwrap();
    assert_eq!(timed_out.states.reservation, ReservationState::Timeout);
    run.reserve_from("urn:n:v").unwrap();
}

#[test]
fn temporary_failure_delays_the_termination_of_a_hold_before_a_crash() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:v").unwrap();
    run.set_down(true);
    run.operate(Operation::Terminate, &id);
    assert_eq!(run.provider.work(), Duration::from_secs(1));
    let states = run.summaries()[0].states;
    assert_eq!(states.lifecycle, LifecycleState::Terminating);
    run.set_down(false);
    run.provider.work();
    assert_eq!(run.link.used(), 0);
    assert!(run.link.all().values().all(|one| one.is_ended));
}

#[test]
fn commit_after_the_hold_is_tried_once_a_second() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    run.operate(Operation::Commit, &id);
    run.set_down(true);
    run.pass(HOLD / SECOND + 1);
    assert_eq!(run.provider.work(), Duration::from_secs(1));
}

#[test]
fn remaining_directions_end_with_the_first_direction() {
    let mut run = Run::new(Path::new(":memory:"));
    let id = run.reserve_from("urn:n:a").unwrap();
    run.provider.work();
    run.operate(Operation::Commit, &id);
    run.provider.work();
    assert_eq!(run.link.used(), 1);
    let start = run.summaries()[0].criteria[0].schedule.start;
    assert_eq!(start, Some(Timestamp(run.link.now() + 10 * SECOND)));
    *run.link.status.lock().unwrap() = Some(Status::Ended);
    run.provider.work();
    assert_eq!(run.link.used(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn requests_are_confirmed_and_capacity_is_never_lost(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        static NTH: AtomicU64 = AtomicU64::new(0);
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let path = format!("nsi-provider-{}-{nth}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(path);
        let mut run = Run::new(&path);
        for step in steps {
            run.make(&step);
        }
        run.finish();
        for end in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", path.display())).ok();
        }
    }
}
