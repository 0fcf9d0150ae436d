//! Offers to a caller and to a neighbor.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::trc::Step;
use lighthaul_stargate::{Body, CorrelationId, Domain, DomainId, Offer, Outcome, QueryId, Refusal};

use crate::misbehavior::{A, B, C, Player, hold, key, plan, refusal, request};
use crate::network::BEGIN;
use crate::plan::CHANNEL;

#[test]
fn preview_has_the_offer_that_ends_first_and_sends_no_hold() {
    // the path over the last domain of the ring is longer
    let plan = plan(5, true);
    for early in [B, DomainId(4)] {
        let mut player = Player::new(&plan, A);
        player.domain.preview(player.now, request(C, 60));
        player.drain();
        for (to, body) in player.sent.clone() {
            let Body::Query {
                query, from, till, ..
            } = body
            else {
                panic!("{body:?}");
            };
            let from = from + Duration::from_mins(u64::from(to != early));
            let rate = CHANNEL;
            let offer = Offer::new(rate, vec![Step { from, till, rate }]).unwrap();
            let sent = player.hear(to, Body::Offer { query, offer });
            assert_eq!(sent, []);
        }
        let [Outcome::Offered(planned)] = player.outcomes.as_slice() else {
            panic!("{:?}", player.outcomes);
        };
        assert_eq!(planned.children[0].neighbor, early);
        assert_eq!(planned.vector.steps()[0].rate, CHANNEL);
        assert!(!player.domain.is_searching(CorrelationId(5)));
        assert_eq!(player.domain.reservations().count(), 0);
        assert_eq!(player.domain.resources().calendar().bookings().count(), 0);
        player.wait(60);
        assert_eq!((player.sent.len(), player.outcomes.len()), (0, 1));
    }
}

#[test]
fn sum_of_the_rates_of_a_neighbor_is_limited_in_offers_and_holds() {
    let plan = plan(2, false);
    let mut config = plan.config(B);
    config.neighbors.get_mut(&A).unwrap().rate_total_max = CHANNEL;
    let mut player = Player::new(&plan, B);
    player.domain = Domain::new(config, plan.topology(), plan.resources(B), 3);
    let first = hold(&plan, BEGIN, B);
    let Body::Hold { vector, hops, .. } = &first else {
        panic!("{first:?}");
    };
    let query = Body::Query {
        query: QueryId {
            source: A,
            number: 1,
        },
        hops: hops.clone(),
        trace: [A].into(),
        from: BEGIN,
        till: vector.end() + Duration::from_secs(10),
        is_protected: false,
    };
    let offered = |player: &mut Player| match player.hear(A, query.clone()).as_slice() {
        [(_, Body::Offer { offer, .. })] => offer.steps().to_vec(),
        other => panic!("{other:?}"),
    };
    let before = offered(&mut player);
    assert!(before.len() == 1 && before[0].rate == CHANNEL, "{before:?}");
    assert_eq!(refusal(&player.hear(A, first.clone())), None);
    // the rest of the window is offered around the vector
    let around: Vec<(Instant, Instant)> = offered(&mut player)
        .iter()
        .map(|step| (step.from, step.till))
        .collect();
    let expected = [(BEGIN, vector.start()), (vector.end(), before[0].till)];
    assert_eq!(around, expected);
    let mut second = first.clone();
    if let Body::Hold { key, .. } = &mut second {
        key.id = CorrelationId(77);
    }
    let refused = refusal(&player.hear(A, second.clone()));
    assert_eq!(refused, Some(Refusal::RateLimit));
    player.hear(A, Body::Abort { key: key() });
    assert_eq!(refusal(&player.hear(A, second)), None);
}
