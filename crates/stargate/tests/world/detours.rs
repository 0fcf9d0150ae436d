//! Requests that lead around domains which do not answer, or do not hold what they have offered.

use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_stargate::{Body, DomainId, Key, Offer, Outcome, Refusal};

use crate::misbehavior::{A, B, C, Player, plan, request};
use crate::plan::CHANNEL;

/// Answers the queries for these neighbors with capacity from their earliest time, from the latter neighbor later.
fn offer(player: &mut Player, neighbors: &[DomainId]) {
    for (to, body) in player.sent.clone() {
        let Body::Query {
            query, from, till, ..
        } = body
        else {
            continue;
        };
        if let Some(nth) = neighbors.iter().position(|one| *one == to) {
            let from = from + Duration::from_nanos(nth as u64);
            let rate = CHANNEL;
            let offer = Offer::new(rate, vec![Step { from, till, rate }]).unwrap();
            player.hear(to, Body::Offer { query, offer });
        }
    }
}

fn hold_for(player: &Player, neighbor: DomainId) -> Option<Key> {
    player.sent.iter().find_map(|(to, body)| {
        let Body::Hold { key, .. } = body else {
            return None;
        };
        (*to == neighbor).then_some(*key)
    })
}

/// Accepts the hold that was sent to a neighbor.
fn accept(player: &mut Player, neighbor: DomainId) {
    let key = hold_for(player, neighbor).expect("a hold");
    player.hear(neighbor, Body::Held { key });
    player.hear(neighbor, Body::Committed { key });
    let [Outcome::Committed { .. }] = player.outcomes.as_slice() else {
        panic!("{:?}", player.outcomes);
    };
}

#[test]
fn request_takes_another_path_around_a_domain_that_does_not_answer() {
    let plan = plan(4, true);
    let mut player = Player::new(&plan, A);
    player.domain.request(player.now, request(C, 60));
    player.drain();
    offer(&mut player, &[DomainId(3)]);
    assert_eq!(player.outcomes, []);
    // a timer is never exact
    player.now += plan.config(A).timing.query + Duration::from_micros(70);
    player.sent.clear();
    player.wait(0);
    accept(&mut player, DomainId(3));
}

#[test]
fn request_takes_another_path_around_a_domain_that_offers_and_does_not_hold() {
    let plan = plan(4, true);
    let mut player = Player::new(&plan, A);
    player.domain.request(player.now, request(C, 60));
    player.drain();
    offer(&mut player, &[B, DomainId(3)]);
    assert!(hold_for(&player, B).is_some());
    player.now += plan.config(A).timing.hold + Duration::from_micros(70);
    player.sent.clear();
    player.wait(0);
    accept(&mut player, DomainId(3));
}

#[test]
fn domain_that_broke_its_offer_is_tried_last_in_the_next_round() {
    let plan = plan(4, true);
    let mut player = Player::new(&plan, A);
    player.domain.request(player.now, request(C, 60));
    player.drain();
    // the other domain is full at first
    offer(&mut player, &[B]);
    player.now += plan.config(A).timing.query;
    player.wait(0);
    let key = hold_for(&player, B).expect("a hold");
    let refused = Body::Refused {
        key,
        refusal: Refusal::NoCapacity,
    };
    player.hear(B, refused);
    let mut waited = 0;
    while !player
        .sent
        .iter()
        .any(|(_, body)| matches!(body, Body::Query { .. }))
    {
        waited += 1;
        assert!(waited < 100);
        player.sent.clear();
        player.wait(1);
    }
    offer(&mut player, &[B, DomainId(3)]);
    assert_eq!(hold_for(&player, B), None);
    accept(&mut player, DomainId(3));
}
