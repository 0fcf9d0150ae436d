//! Limits of messages and of neighbors, and the answers at the end of a reservation.

use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_stargate::{Body, CorrelationId, Domain, DomainId, Hop, Refusal};

use crate::misbehavior::{A, B, C, Player, hold, key, plan, refusal};
use crate::network::BEGIN;
use crate::plan::CHANNEL;

#[test]
fn path_of_more_than_32_domains_is_refused() {
    let plan = plan(3, false);
    // the source, this domain and the next one are three
    for (more, expected) in [(29, None), (30, Some(Refusal::TooLarge))] {
        let mut player = Player::new(&plan, B);
        let mut body = hold(&plan, BEGIN, C);
        if let Body::Hold { hops, .. } = &mut body {
            let segment = hops[1].segment;
            let further = (100..100 + more).map(DomainId);
            hops.extend(further.map(|domain| Hop { domain, segment }));
        }
        assert_eq!(refusal(&player.hear(A, body)), expected);
        assert_eq!(player.held(), usize::from(expected.is_none()));
    }
}

#[test]
fn vector_of_more_than_1024_ranges_is_refused() {
    let plan = plan(2, false);
    for (count, expected) in [(1024, None), (1025, Some(Refusal::TooLarge))] {
        let mut player = Player::new(&plan, B);
        let mut body = hold(&plan, BEGIN, B);
        if let Body::Hold { vector, .. } = &mut body {
            let (start, step) = (vector.start(), Duration::from_millis(10));
            let range = |nth: u32| Step {
                from: start + step * nth,
                till: start + step * (nth + 1),
                rate: CHANNEL.scaled(1 + nth % 2, 1),
            };
            *vector = Trc::new((0..count).map(range).collect()).unwrap();
        }
        assert_eq!(refusal(&player.hear(A, body)), expected, "{count}");
    }
}

#[test]
fn rate_at_the_limit_of_a_neighbor_is_accepted() {
    let plan = plan(2, false);
    let mut config = plan.config(B);
    config.neighbors.get_mut(&A).unwrap().rate_max = CHANNEL;
    let mut player = Player::new(&plan, B);
    player.domain = Domain::new(config, plan.topology(), plan.resources(B), 3);
    assert_eq!(refusal(&player.hear(A, hold(&plan, BEGIN, B))), None);
}

#[test]
fn release_and_abort_have_their_own_answers() {
    let plan = plan(3, false);
    let key = key();
    let released = Body::Released { key };
    let is_aborted = |answers: &[(DomainId, Body)], to| matches!(answers, [(one, Body::Aborted { key: of, .. })] if (*one, *of) == (to, key));
    let held = || {
        let mut player = Player::new(&plan, B);
        player.hear(A, hold(&plan, BEGIN, B));
        assert_eq!(player.held(), 1);
        player
    };
    let mut player = held();
    assert_eq!(player.hear(A, Body::Release { key }), [(A, released)]);
    assert_eq!(player.held(), 0);
    let mut player = held();
    assert!(is_aborted(&player.hear(A, Body::Abort { key }), A));
    assert_eq!(player.held(), 0);
    // another neighbor has no such reservation
    let mut player = held();
    assert!(is_aborted(&player.hear(C, Body::Release { key }), C));
    assert_eq!(player.held(), 1);
}

#[test]
fn release_of_an_unknown_request_has_no_outcome() {
    let plan = plan(2, false);
    let mut player = Player::new(&plan, A);
    player.domain.release(player.now, CorrelationId(99));
    player.drain();
    assert_eq!((player.outcomes.len(), player.sent.len()), (0, 0));
}

#[test]
fn question_of_a_domain_without_part_in_the_path_is_ignored() {
    let plan = plan(3, false);
    let mut player = Player::new(&plan, B);
    player.hear(A, hold(&plan, BEGIN, B));
    assert_eq!(player.hear(C, Body::Ask { key: key() }), []);
    assert_eq!((player.domain.ignored(), player.held()), (1, 1));
}

#[test]
fn end_of_a_range_is_passed_on_to_the_source_only() {
    let plan = plan(3, false);
    let mut player = Player::new(&plan, B);
    player.hear(A, hold(&plan, BEGIN, C));
    let ended = Body::RangeDone {
        key: key(),
        range: 3,
    };
    assert_eq!(player.hear(C, ended.clone()), [(A, ended.clone())]);
    assert_eq!(player.hear(A, ended), []);
    assert_eq!(player.domain.ignored(), 1);
}
