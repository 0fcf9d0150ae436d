//! One domain whose neighbors misbehave on purpose.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_base::{Instant, Rng};
use lighthaul_stargate::offer::Demand;
use lighthaul_stargate::request::Excludes;
use lighthaul_stargate::{
    Body, CalendarResources, CorrelationId, Domain, DomainId, Hop, Key, Message, Offer, Outcome,
    Output, PortId, Protection, Refusal, Request, Segment, Signaling, Stage,
};

use crate::network::BEGIN;
use crate::plan::{CHANNEL, Plan, access};

pub(crate) const A: DomainId = DomainId(0);
pub(crate) const B: DomainId = DomainId(1);
pub(crate) const C: DomainId = DomainId(2);

/// Returns domains in a ring, or in a row.
pub(crate) fn plan(count: u32, is_ring: bool) -> Plan {
    let mut plan = Plan {
        links: Vec::new(),
        ports: BTreeMap::new(),
        is_tree: false,
        policies: BTreeMap::new(),
    };
    for nth in 0..count {
        let ports = BTreeMap::from([(access(DomainId(nth)), 4)]);
        plan.ports.insert(DomainId(nth), ports);
    }
    let mut rng = Rng::new(1);
    for nth in 1..count {
        plan.join(DomainId(nth - 1), DomainId(nth), &mut rng);
    }
    if is_ring {
        plan.join(DomainId(count - 1), DomainId(0), &mut rng);
    }
    for link in &mut plan.links {
        link.cost = 1;
    }
    plan
}

pub(crate) fn request(to: DomainId, secs: u64) -> Request {
    Request {
        id: CorrelationId(5),
        ingress: access(A),
        to,
        egress: access(to),
        demand: Demand {
            bytes: CHANNEL.bytes_in(Duration::from_secs(secs)),
            rate_max: CHANNEL,
            rate_min: CHANNEL,
        },
        from: BEGIN,
        till: BEGIN + Duration::from_hours(24),
        excludes: Excludes::default(),
        protection: Protection::None,
        signaling: Signaling::Chain,
    }
}

/// One domain whose neighbors are played by the test.
pub(crate) struct Player {
    pub(crate) domain: Domain<CalendarResources>,
    pub(crate) now: Instant,
    pub(crate) sent: Vec<(DomainId, Body)>,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Player {
    pub(crate) fn new(plan: &Plan, me: DomainId) -> Self {
        Self {
            domain: Domain::new(plan.config(me), plan.topology(), plan.resources(me), 3),
            now: BEGIN,
            sent: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.domain.poll_output() {
            match output {
                Output::Persist { sequence, .. } => self.domain.handle_persisted(sequence),
                Output::Send { to, message } => self.sent.push((to, message.body)),
                Output::Outcome { outcome, .. } => self.outcomes.push(outcome),
                Output::KeepOnly { .. }
                | Output::Program { .. }
                | Output::Unprogram { .. }
                | Output::RangeDone { .. } => {}
            }
        }
    }

    /// Hands a message of a neighbor over, and returns the answers.
    pub(crate) fn hear(&mut self, from: DomainId, body: Body) -> Vec<(DomainId, Body)> {
        self.hear_at(from, self.now, body)
    }

    fn hear_at(&mut self, from: DomainId, sent: Instant, body: Body) -> Vec<(DomainId, Body)> {
        self.sent.clear();
        self.domain
            .handle_message(self.now, from, Message { sent, body });
        self.drain();
        self.sent.clone()
    }

    pub(crate) fn wait(&mut self, secs: u64) {
        self.now += Duration::from_secs(secs);
        self.domain.handle_timeout(self.now);
        self.drain();
    }

    pub(crate) fn held(&self) -> usize {
        let all = self.domain.reservations();
        all.filter(|one| one.is_held()).count()
    }
}

pub(crate) fn key() -> Key {
    Key {
        source: A,
        id: CorrelationId(9),
        attempt: 0,
        leg: 0,
    }
}

/// Returns the port of a published link.
pub(crate) fn port_of(plan: &Plan, from: DomainId, to: DomainId) -> PortId {
    let mut links = plan.links.iter();
    let link = links.find(|link| link.from == from && link.to == to);
    link.unwrap().port
}

/// Returns a hold from A for B alone, or for B and C.
pub(crate) fn hold(plan: &Plan, now: Instant, ends_in: DomainId) -> Body {
    let port = |from, to| port_of(plan, from, to);
    let hop = |domain, ingress, egress| Hop {
        domain,
        segment: Segment { ingress, egress },
    };
    let hops = if ends_in == B {
        vec![hop(B, port(A, B), access(B))]
    } else {
        vec![
            hop(B, port(A, B), port(B, C)),
            hop(C, port(B, C), access(C)),
        ]
    };
    let step = Step {
        from: now + Duration::from_secs(10),
        till: now + Duration::from_secs(110),
        rate: CHANNEL,
    };
    Body::Hold {
        key: key(),
        hops,
        trace: vec![A],
        vector: Trc::new(vec![step]).unwrap(),
        hold_till: now + Duration::from_secs(5),
        decide_till: now + Duration::from_secs(9),
    }
}

pub(crate) fn refusal(answers: &[(DomainId, Body)]) -> Option<Refusal> {
    answers.iter().find_map(|(_, body)| {
        if let Body::Refused { refusal, .. }
        | Body::Aborted { refusal, .. }
        | Body::NoOffer { refusal, .. }
        | Body::Notify { refusal, .. } = body
        {
            Some(*refusal)
        } else {
            None
        }
    })
}

#[test]
fn overstated_capacity_is_refused_at_the_hold_and_another_path_is_taken() {
    let plan = plan(4, true);
    let mut player = Player::new(&plan, A);
    player.domain.request(player.now, request(C, 60));
    player.drain();
    let queries = player.sent.clone();
    assert_eq!(queries.len(), 2);
    for (to, body) in queries {
        let Body::Query {
            query, from, till, ..
        } = body
        else {
            panic!("{body:?}");
        };
        // B claims to be free a minute earlier
        let from = if to == B {
            from
        } else {
            from + Duration::from_mins(1)
        };
        let rate = CHANNEL;
        let offer = Offer::new(rate, vec![Step { from, till, rate }]).unwrap();
        player.hear(to, Body::Offer { query, offer });
    }
    let first = player.sent.clone();
    let [(B, Body::Hold { key, .. })] = first.as_slice() else {
        panic!("{first:?}");
    };
    let refused = Body::Refused {
        key: *key,
        refusal: Refusal::NoCapacity,
    };
    let next = player.hear(B, refused);
    let is_abort = |(to, body): &(DomainId, Body)| *to == B && matches!(body, Body::Abort { .. });
    assert!(next.iter().any(is_abort), "{next:?}");
    let other = next.iter().find_map(|(to, body)| {
        if let Body::Hold { key, .. } = body {
            Some((*to, *key))
        } else {
            None
        }
    });
    let (other, second) = other.unwrap();
    assert_eq!(other, DomainId(3));
    assert_ne!(second, *key);
    player.hear(other, Body::Held { key: second });
    player.hear(other, Body::Committed { key: second });
    assert!(matches!(
        player.outcomes.as_slice(),
        [Outcome::Committed { .. }]
    ));
}

#[test]
fn silent_neighbor_ends_in_a_refusal_and_frees_the_hold() {
    let plan = plan(2, false);
    let mut player = Player::new(&plan, A);
    player.domain.request(player.now, request(B, 60));
    player.drain();
    for _ in 0..60 {
        player.wait(1);
    }
    assert_eq!(player.outcomes, [Outcome::Refused(Refusal::NoAnswer)]);
    // the same neighbor answers queries, but no hold
    let step = Step {
        from: player.now + Duration::from_mins(1),
        till: player.now + Duration::from_mins(3),
        rate: CHANNEL,
    };
    let parts = (
        vec![Segment {
            ingress: access(A),
            egress: PortId(1),
        }],
        vec![vec![Hop {
            domain: B,
            segment: Segment {
                ingress: PortId(1),
                egress: access(B),
            },
        }]],
    );
    let vector = Trc::new(vec![step]).unwrap();
    player
        .domain
        .reserve(player.now, key(), parts, (vector, Duration::ZERO))
        .unwrap();
    assert_eq!(player.held(), 1);
    player.wait(4);
    assert_eq!(player.held(), 0);
    assert_eq!(
        player.outcomes.last(),
        Some(&Outcome::Refused(Refusal::Expired))
    );
    player.wait(60);
    assert_eq!(player.domain.reservations().count(), 0);
}

#[test]
fn repeated_answers_and_requests_have_no_further_effect() {
    let plan = plan(3, false);
    let mut player = Player::new(&plan, B);
    let body = hold(&plan, player.now, C);
    assert_eq!(player.hear(A, body.clone()).len(), 1);
    assert_eq!(player.hear(A, body.clone()), []);
    let held = Body::Held { key: key() };
    assert_eq!(player.hear(C, held.clone()), [(A, held.clone())]);
    assert_eq!(player.hear(C, held.clone()), []);
    assert_eq!(player.hear(A, body), [(A, held)]);
    // a refusal of an earlier copy that arrives late
    let late = Body::Refused {
        key: key(),
        refusal: Refusal::NoCapacity,
    };
    assert_eq!(player.hear(C, late.clone()), []);
    let commit = Body::Commit { key: key() };
    assert_eq!(player.hear(A, commit.clone()), [(C, commit.clone())]);
    assert_eq!(player.hear(C, late), []);
    assert_eq!(player.hear(A, commit.clone()), []);
    let committed = Body::Committed { key: key() };
    assert_eq!(player.hear(C, committed.clone()), [(A, committed.clone())]);
    assert_eq!(player.hear(C, committed.clone()), []);
    assert_eq!(player.hear(A, commit), [(A, committed)]);
    assert_eq!(player.held(), 1);
}

#[test]
fn replayed_messages_of_an_ended_reservation_are_refused() {
    let plan = plan(2, false);
    let mut player = Player::new(&plan, B);
    let begin = player.now;
    let body = hold(&plan, begin, B);
    player.hear(A, body.clone());
    player.hear(A, Body::Commit { key: key() });
    player.hear(A, Body::Release { key: key() });
    assert_eq!(player.held(), 0);
    // at once: the closed reservation is remembered
    assert_eq!(
        refusal(&player.hear(A, body.clone())),
        Some(Refusal::Released)
    );
    let commit = Body::Commit { key: key() };
    assert_eq!(
        refusal(&player.hear(A, commit.clone())),
        Some(Refusal::Released)
    );
    // after the hold: it is forgotten, and its times have passed
    player.wait(6);
    assert_eq!(player.domain.reservations().count(), 0);
    assert_eq!(refusal(&player.hear(A, body.clone())), Some(Refusal::Times));
    assert_eq!(refusal(&player.hear(A, commit)), Some(Refusal::Unknown));
    // on the next day
    player.wait(86_400);
    let yesterday = player.hear_at(A, begin, body);
    assert!(matches!(
        refusal(&yesterday),
        Some(Refusal::ClockOffset(..0))
    ));
    assert_eq!(player.held(), 0);
}

#[test]
fn clock_that_is_off_by_minutes_is_refused_with_its_offset() {
    let plan = plan(2, false);
    let mut player = Player::new(&plan, B);
    let body = hold(&plan, player.now, B);
    for (offset, text) in [
        (180_000_i64, "180.000 s ahead"),
        (-90_500, "90.500 s behind"),
    ] {
        let sent = player
            .now
            .as_nanos()
            .saturating_add_signed(offset * 1_000_000);
        let answers = player.hear_at(A, Instant::from_nanos(sent), body.clone());
        let found = refusal(&answers).unwrap();
        assert_eq!(found, Refusal::ClockOffset(offset * 1_000_000));
        assert!(found.to_string().contains(text), "{found}");
    }
    assert_eq!(player.held(), 0);
    let late = player.now + Duration::from_secs(1);
    assert_eq!(refusal(&player.hear_at(A, late, body)), None);
    assert_eq!(player.held(), 1);
}

#[test]
fn loops_and_requests_beyond_the_policy_are_refused() {
    let plan = plan(3, false);
    let now = BEGIN;
    let with = |change: &dyn Fn(&mut Body)| {
        let mut player = Player::new(&plan, B);
        let mut body = hold(&plan, now, C);
        change(&mut body);
        let answers = player.hear(A, body);
        assert_eq!(player.held(), usize::from(refusal(&answers).is_none()));
        refusal(&answers)
    };
    let route = |change: &dyn Fn(&mut Vec<Hop>, &mut Vec<DomainId>)| {
        with(&|body| {
            if let Body::Hold { hops, trace, .. } = body {
                change(hops, trace);
            }
        })
    };
    assert_eq!(route(&|_, _| ()), None);
    let back_to = |domain| {
        route(&|hops: &mut Vec<Hop>, _| {
            let segment = hops[1].segment;
            hops.push(Hop { domain, segment });
        })
    };
    assert_eq!(back_to(A), Some(Refusal::Loop(A)));
    assert_eq!(back_to(B), Some(Refusal::Loop(B)));
    assert_eq!(back_to(C), Some(Refusal::Loop(C)));
    let lies = [
        route(&|_, trace| *trace = vec![C]),
        route(&|_, trace| *trace = vec![C, A]),
        route(&|_, trace| trace.clear()),
        route(&|hops, _| hops.clear()),
        route(&|hops, _| {
            hops.remove(0);
        }),
    ];
    assert_eq!(lies[0], Some(Refusal::Misrouted));
    assert_eq!(lies[1], Some(Refusal::Loop(C)));
    assert_eq!(lies[2..], [Some(Refusal::Misrouted); 3]);
    let far = DomainId(77);
    assert_eq!(
        route(&|hops, _| hops[1].domain = far),
        Some(Refusal::UnknownNeighbor(far))
    );
    let port = PortId(4711);
    assert_eq!(
        route(&|hops, _| hops[0].segment.egress = port),
        Some(Refusal::UnknownPort(port))
    );
    assert_eq!(
        route(&|hops, _| *hops = vec![hops[1]; 40]),
        Some(Refusal::TooLarge)
    );
    let times = |hold: u64, decide: u64| {
        with(&|body| {
            if let Body::Hold {
                hold_till,
                decide_till,
                ..
            } = body
            {
                *hold_till = now + Duration::from_secs(hold);
                *decide_till = now + Duration::from_secs(decide);
            }
        })
    };
    assert_eq!(times(10, 10), None);
    for (hold, decide) in [(0, 5), (6, 5), (5, 11), (50, 60)] {
        assert_eq!(times(hold, decide), Some(Refusal::Times));
    }
}

#[test]
fn hold_crosses_a_domain_only_over_links_of_its_path() {
    let plan = plan(3, false);
    let port = |from, to| port_of(&plan, from, to);
    let with = |ingress: PortId, egress: PortId| {
        let mut body = hold(&plan, BEGIN, C);
        if let Body::Hold { hops, .. } = &mut body {
            hops[0].segment = Segment { ingress, egress };
        }
        refusal(&Player::new(&plan, B).hear(A, body))
    };
    let (entry, exit) = (port(A, B), port(B, C));
    assert_eq!(with(entry, exit), None);
    for other in [access(B), port(B, A), port(C, B)] {
        let refused = Some(Refusal::UnknownPort(other));
        assert_eq!((with(other, exit), with(entry, other)), (refused, refused));
    }
}

#[test]
fn tree_hold_enters_and_crosses_a_domain_only_over_published_links() {
    let plan = plan(4, false);
    let far = DomainId(3);
    // A asks C itself, as in a tree: the path enters from B
    let asked = |is_transit: bool, ingress: PortId, egress: PortId| {
        let mut config = plan.config(C);
        let transit = is_transit;
        let policy = lighthaul_stargate::Policy {
            transit,
            ..Default::default()
        };
        config.neighbors.insert(A, policy);
        let mut player = Player::new(&plan, C);
        player.domain = Domain::new(config, plan.topology(), plan.resources(C), 3);
        let mut body = hold(&plan, BEGIN, B);
        if let Body::Hold { hops, .. } = &mut body {
            let segment = Segment { ingress, egress };
            let domain = C;
            *hops = vec![Hop { domain, segment }];
        }
        refusal(&player.hear(A, body))
    };
    let entry = port_of(&plan, B, C);
    let exit = port_of(&plan, C, far);
    assert_eq!(asked(true, entry, exit), None);
    assert_eq!(asked(true, entry, access(C)), None);
    assert_eq!(asked(false, entry, exit), Some(Refusal::NoTransit));
    for port in [access(C), exit] {
        let refused = asked(true, port, exit);
        assert_eq!(refused, Some(Refusal::UnknownPort(port)));
    }
    let inward = port_of(&plan, far, C);
    let refused = asked(true, entry, inward);
    assert_eq!(refused, Some(Refusal::UnknownPort(inward)));
}

#[test]
fn quota_horizon_rate_and_transit_of_a_neighbor_are_enforced() {
    let plan = plan(3, false);
    let with = |change: &dyn Fn(&mut lighthaul_stargate::Policy)| {
        let mut config = plan.config(B);
        change(config.neighbors.get_mut(&A).unwrap());
        let mut player = Player::new(&plan, B);
        player.domain = Domain::new(config, plan.topology(), plan.resources(B), 3);
        refusal(&player.hear(A, hold(&plan, BEGIN, C)))
    };
    assert_eq!(with(&|_| ()), None);
    assert_eq!(
        with(&|policy| policy.transit = false),
        Some(Refusal::NoTransit)
    );
    assert_eq!(
        with(&|policy| policy.reservations_max = 0),
        Some(Refusal::Quota)
    );
    let horizon = Duration::from_secs(109);
    assert_eq!(
        with(&|policy| policy.horizon = horizon),
        Some(Refusal::Horizon)
    );
    let rate = CHANNEL.scaled(1, 2);
    assert_eq!(
        with(&|policy| policy.rate_max = rate),
        Some(Refusal::RateLimit)
    );
    assert_eq!(
        with(&|policy| policy.rate_total_max = rate),
        Some(Refusal::RateLimit)
    );
}

#[test]
fn unknown_hosts_and_other_neighbors_cannot_change_a_reservation() {
    let plan = plan(3, false);
    let mut player = Player::new(&plan, B);
    let body = hold(&plan, player.now, B);
    assert_eq!(player.hear(DomainId(50), body.clone()), []);
    assert_eq!(player.held(), 0);
    player.hear(A, body);
    let stranger = player.hear(DomainId(50), Body::Abort { key: key() });
    assert_eq!((stranger.len(), player.held()), (0, 1));
    for body in [
        Body::Abort { key: key() },
        Body::Release { key: key() },
        Body::Commit { key: key() },
        Body::Notify {
            key: key(),
            refusal: Refusal::DeviceFailed,
        },
    ] {
        player.hear(C, body);
        let stages: Vec<Stage> = player
            .domain
            .reservations()
            .map(lighthaul_stargate::Reservation::stage)
            .collect();
        assert_eq!(stages, [Stage::Held]);
    }
}

#[test]
fn reservations_that_a_neighbor_gave_up_are_bounded() {
    let plan = plan(2, false);
    let mut config = plan.config(B);
    config.neighbors.get_mut(&A).unwrap().reservations_max = 2;
    let mut player = Player::new(&plan, B);
    player.domain = Domain::new(config, plan.topology(), plan.resources(B), 3);
    let mut refused = 0;
    for id in 0..20 {
        let mut body = hold(&plan, player.now, B);
        if let Body::Hold { key, .. } = &mut body {
            key.id = CorrelationId(id);
        }
        let answers = player.hear(A, body);
        refused += usize::from(refusal(&answers) == Some(Refusal::Quota));
        let key = Key {
            id: CorrelationId(id),
            ..key()
        };
        player.hear(A, Body::Abort { key });
    }
    assert_eq!((refused, player.domain.reservations().count()), (12, 8));
    player.wait(6);
    assert_eq!(player.domain.reservations().count(), 0);
}
