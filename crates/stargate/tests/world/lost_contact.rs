//! Domains that lose their records, leave, or lose contact, and the same path by chain and tree.

use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_stargate::{
    CorrelationId, Domain, DomainId, Hop, Outcome, Request, Signaling, Stage,
};

use crate::misbehavior::{A, B, C, plan, request};
use crate::network::{BEGIN, Event, LONGEST, World};

/// Returns a world in which a path from A over B to C is committed for `secs`.
fn committed(secs: u64) -> World {
    let mut world = World::empty(plan(3, false), Rng::new(7));
    world.at(BEGIN, Event::Request(request(C, secs), A));
    world.run_until(BEGIN + Duration::from_secs(5)).unwrap();
    assert_eq!(world.counts.committed, 1);
    world
}

fn outcomes(world: &World) -> &[Outcome] {
    &world.asked[&CorrelationId(5)].outcomes
}

#[test]
fn neighbor_that_restarts_with_an_old_database_releases_the_path() {
    for forgetful in [A, B, C] {
        let mut world = committed(600);
        let before = world.nodes[&forgetful].store.len();
        assert_eq!(before, 1);
        world.nodes.get_mut(&forgetful).unwrap().store.clear();
        let now = world.now;
        world.at(now, Event::Crash(forgetful));
        world.run_until(now + LONGEST).unwrap();
        for node in world.nodes.values() {
            let domain = node.domain.as_ref().unwrap();
            let held = domain.reservations().filter(|one| one.is_held());
            assert_eq!(held.count(), 0, "{forgetful:?} forgot, {:?} holds", node.me);
            let calendar = domain.resources().calendar();
            assert_eq!(calendar.bookings().count(), 0);
        }
        if forgetful != A {
            assert!(matches!(outcomes(&world).last(), Some(Outcome::Failed(_))));
        }
        world.run_until(BEGIN + Duration::from_hours(1)).unwrap();
        world.check_empty().unwrap();
    }
}

#[test]
fn reservation_that_an_old_database_brings_back_is_released() {
    for stale in [A, B, C] {
        let mut world = committed(600);
        let old = world.nodes[&stale].store.clone();
        let now = world.now;
        world.at(now, Event::Release(CorrelationId(5), A));
        world.run_until(now + Duration::from_secs(5)).unwrap();
        assert_eq!(outcomes(&world).last(), Some(&Outcome::Released));
        world.crash(stale);
        world.nodes.get_mut(&stale).unwrap().store = old;
        world.run_until(now + LONGEST).unwrap();
        world.check_agreement().unwrap();
        for node in world.nodes.values() {
            let domain = node.domain.as_ref().unwrap();
            let held = domain.reservations().filter(|one| one.is_held());
            assert_eq!(held.count(), 0, "{:?}", node.me);
        }
    }
}

#[test]
fn no_state_remains_after_the_vector_if_a_domain_never_returns() {
    for leaver in [A, B, C] {
        let mut world = committed(100);
        world.nodes.get_mut(&leaver).unwrap().has_left = true;
        world.crash(leaver);
        let now = world.now;
        world.run_until(now + LONGEST).unwrap();
        world.check_agreement().unwrap();
        // the others carry the vector to its end
        let now = world.now;
        let others = world.nodes.values_mut().filter(|node| node.me != leaver);
        let open = others.map(|node| node.devices.open(node.now(now)));
        assert_eq!(open.sum::<usize>(), 2);
        world.run_until(now + Duration::from_secs(400)).unwrap();
        world.check_empty().unwrap();
    }
}

#[test]
fn partition_of_an_hour_during_commit_causes_no_half_committed_path() {
    let heal = Duration::from_hours(1);
    let mut stages = [0; 3];
    for millis in (0..1500).step_by(20) {
        for (one, two) in [(A, B), (B, C)] {
            let mut world = World::empty(plan(3, false), Rng::new(millis));
            world.at(BEGIN, Event::Request(request(C, 7200), A));
            let from = BEGIN + Duration::from_millis(millis);
            world.partitions.push((one, two, from, BEGIN + heal));
            world
                .run_until(BEGIN + heal - Duration::from_secs(1))
                .unwrap();
            let committed = world.nodes.values().filter(|node| {
                let mut all = node.domain.iter().flat_map(Domain::reservations);
                all.any(|one| one.stage() == Stage::Committed)
            });
            let committed = committed.count();
            stages[usize::from(committed > 0) + usize::from(committed == 3)] += 1;
            world.run_until(BEGIN + heal + LONGEST).unwrap();
            world.check_agreement().unwrap();
            world.run_until(BEGIN + Duration::from_hours(4)).unwrap();
            world.check_empty().unwrap();
        }
    }
    println!("nowhere, in some domains, everywhere after the partition: {stages:?}");
    assert!(stages.iter().all(|count| *count > 0), "{stages:?}");
}

#[test]
fn chain_and_tree_reserve_the_same_path() {
    let mut found = Vec::new();
    for signaling in [Signaling::Chain, Signaling::Tree] {
        let mut plan = plan(5, false);
        plan.is_tree = true;
        let mut world = World::empty(plan, Rng::new(7));
        let to = DomainId(4);
        let request = Request {
            signaling,
            ..request(to, 60)
        };
        world.at(BEGIN, Event::Request(request, A));
        world.run_until(BEGIN + Duration::from_secs(5)).unwrap();
        let Some(Outcome::Committed { vector, legs, .. }) = outcomes(&world).first() else {
            panic!("{:?}", outcomes(&world));
        };
        let hops: Vec<Hop> = legs.iter().flatten().copied().collect();
        found.push((vector.clone(), hops, legs.len()));
    }
    assert_eq!(found[0].0, found[1].0);
    assert_eq!(found[0].1, found[1].1);
    assert_eq!((found[0].2, found[1].2), (1, 4));
}

#[test]
fn released_request_has_a_single_outcome_and_tries_no_further_path() {
    for millis in (0..1500).step_by(20) {
        let mut world = World::empty(plan(4, true), Rng::new(millis));
        world.at(BEGIN, Event::Request(request(C, 60), A));
        let at = BEGIN + Duration::from_millis(millis);
        world.at(at, Event::Release(CorrelationId(5), A));
        world.run_until(at + LONGEST).unwrap();
        world.check_agreement().unwrap();
        let is_expected = match outcomes(&world) {
            [Outcome::Refused(refusal)] => *refusal == lighthaul_stargate::Refusal::Released,
            [Outcome::Committed { .. }, Outcome::Released] => true,
            _ => false,
        };
        assert!(is_expected, "{:?}", outcomes(&world));
        let held = world.nodes.values().flat_map(|node| &node.domain);
        let held = held.flat_map(Domain::reservations);
        assert_eq!(held.filter(|one| one.is_held()).count(), 0);
    }
}

#[test]
fn source_that_restarts_before_its_decision_aborts_the_request() {
    let (mut restarted, mut committed) = (0, 0);
    for millis in (0..1500).step_by(20) {
        let mut world = World::empty(plan(3, false), Rng::new(millis));
        world.at(BEGIN, Event::Request(request(C, 600), A));
        let at = BEGIN + Duration::from_millis(millis);
        world.at(at, Event::Crash(A));
        world.run_until(at + LONGEST).unwrap();
        world.check_agreement().unwrap();
        match outcomes(&world) {
            [] => {}
            [Outcome::Refused(refusal)] => {
                assert_eq!(*refusal, lighthaul_stargate::Refusal::Restarted);
                restarted += 1;
            }
            [Outcome::Committed { .. }] => committed += 1,
            others => panic!("{others:?}"),
        }
    }
    assert!(restarted > 0 && committed > 0);
}

#[test]
fn fault_during_a_short_outage_reaches_the_source_soon_after_it() {
    for failing in [B, C] {
        let mut world = committed(600);
        let (now, outage) = (world.now, Duration::from_secs(2));
        for (one, two) in [(A, B), (B, C)] {
            world.partitions.push((one, two, now, now + outage));
        }
        world.at(now + outage / 4, Event::Fail(failing, 0));
        world.run_until(now + Duration::from_secs(10)).unwrap();
        let last = outcomes(&world).last();
        assert!(
            matches!(last, Some(Outcome::Failed(_))),
            "{failing:?} {last:?}"
        );
        world.check_agreement().unwrap();
        // no domain repeats the message once it is known
        let open = world.nodes.values().flat_map(|node| &node.domain);
        let open = open.flat_map(Domain::reservations);
        assert!(
            open.map(lighthaul_stargate::Reservation::stage)
                .all(|stage| stage == Stage::Closed)
        );
    }
}
