//! Protected paths: one leg fails and the other carries on, and both have room at the ports that they share.

use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_stargate::{
    CorrelationId, Domain, DomainId, Outcome, PortId, Protection, Refusal, Request, Signaling,
};

use crate::misbehavior::{A, B, C, plan, request};
use crate::network::{BEGIN, Event, LONGEST, World};
use crate::plan::{CHANNEL, Plan, access};

const D: DomainId = DomainId(3);
const E: DomainId = DomainId(4);

/// Returns a ring of five domains with wide ports. The legs from A to C are `A - B - C` and `A - E - D - C`.
fn ring(signaling: Signaling) -> Plan {
    let mut plan = plan(5, true);
    plan.is_tree = signaling == Signaling::Tree;
    for channels in plan.ports.values_mut().flat_map(|ports| ports.values_mut()) {
        *channels = 8;
    }
    plan
}

fn protected(signaling: Signaling) -> Request {
    Request {
        protection: Protection::Disjoint,
        signaling,
        ..request(C, 1000)
    }
}

fn committed(plan: Plan, request: Request, seed: u64) -> World {
    let mut world = World::empty(plan, Rng::new(seed));
    world.at(BEGIN, Event::Request(request, A));
    world.run_until(BEGIN + Duration::from_secs(20)).unwrap();
    world
}

fn outcomes(world: &World) -> &[Outcome] {
    &world.asked[&CorrelationId(5)].outcomes
}

/// Returns the rates of the devices, the bookings and the held reservations of a domain.
fn counts(world: &mut World, domain: DomainId) -> [usize; 3] {
    let now = world.now;
    let node = world.nodes.get_mut(&domain).unwrap();
    let open = node.devices.open(node.now(now));
    let machine = node.domain.as_ref().unwrap();
    let held = machine.reservations().filter(|one| one.is_held()).count();
    // what follows the vector is the guard time of devices
    let bookings = machine.resources().calendar().bookings().count();
    [open, bookings, held]
}

/// Checks the state of both legs after leg `leg` has failed.
fn check_lost(world: &mut World, leg: u8, case: &str) {
    world.check_agreement().unwrap();
    let lost = outcomes(world).last();
    let is_lost = matches!(lost, Some(Outcome::LegLost { leg: other, .. }) if *other == leg);
    assert!(is_lost, "{case}: {:?}", outcomes(world));
    let (kept, released): (&[DomainId], &[DomainId]) = match leg {
        0 => (&[A, C, D, E], &[B]),
        _ => (&[A, B, C], &[D, E]),
    };
    for domain in kept {
        assert_eq!(counts(world, *domain), [1, 1, 1], "{case}: {domain:?}");
    }
    for domain in released {
        assert_eq!(counts(world, *domain), [0, 0, 0], "{case}: {domain:?}");
    }
}

#[test]
fn leg_that_fails_is_released_and_the_other_leg_continues() {
    for signaling in [Signaling::Chain, Signaling::Tree] {
        // domain, number of its device, leg, failure of the other leg
        for (domain, nth, leg, next) in [
            (B, 0, 0, (E, 0)),
            (D, 0, 1, (B, 0)),
            (E, 0, 1, (C, 0)),
            (C, 0, 0, (A, 0)),
            (C, 1, 1, (A, 0)),
            (A, 0, 0, (D, 0)),
            (A, 1, 1, (C, 0)),
        ] {
            for seed in 0..4 {
                let case = format!("{signaling:?} {domain:?} {nth} seed {seed}");
                let mut world = committed(ring(signaling), protected(signaling), seed);
                assert_eq!(world.counts.committed, 1, "{case}");
                let now = world.now;
                // news wait for the end of a partition, or a domain restarts
                match seed {
                    1 => {
                        let heal = now + Duration::from_secs(5);
                        let others = [B, C, D, E].map(|other| (A, other, now, heal));
                        world.partitions.extend(others);
                    }
                    2 => world.at(now + Duration::from_millis(30), Event::Crash(A)),
                    3 => world.at(now + Duration::from_millis(30), Event::Crash(C)),
                    _ => {}
                }
                world.at(now, Event::Fail(domain, nth));
                world.run_until(now + LONGEST).unwrap();
                check_lost(&mut world, leg, &case);
                let now = world.now;
                world.at(now, Event::Fail(next.0, next.1));
                world.run_until(now + LONGEST).unwrap();
                world.check_agreement().unwrap();
                let last = outcomes(&world).last();
                assert!(matches!(last, Some(Outcome::Failed(_))), "{case}: {last:?}");
                for domain in [A, B, C, D, E] {
                    assert_eq!(counts(&mut world, domain), [0, 0, 0], "{case}: {domain:?}");
                }
            }
        }
    }
}

#[test]
fn protected_path_loses_a_single_leg_if_a_domain_loses_records() {
    for (domain, leg) in [(B, 0), (E, 1)] {
        let mut world = committed(ring(Signaling::Chain), protected(Signaling::Chain), 1);
        world.nodes.get_mut(&domain).unwrap().store.clear();
        let now = world.now;
        world.at(now, Event::Crash(domain));
        world.run_until(now + LONGEST).unwrap();
        check_lost(&mut world, leg, "lost records");
        let now = world.now;
        world.at(now, Event::Release(CorrelationId(5), A));
        world.run_until(now + LONGEST).unwrap();
        assert_eq!(outcomes(&world).last(), Some(&Outcome::Released));
        world.run_until(now + Duration::from_hours(1)).unwrap();
        world.check_empty().unwrap();
    }
}

#[test]
fn shared_access_port_has_capacity_for_both_legs() {
    // channels of the access ports and of the others, and the rate of each leg
    for (from, to, others, rate) in [
        (4, 8, 8, Some(2)),
        (8, 4, 8, Some(2)),
        (3, 8, 8, Some(1)),
        (8, 3, 8, Some(1)),
        (4, 4, 2, Some(2)),
        (8, 8, 3, Some(3)),
        (1, 8, 8, None),
        (8, 1, 8, None),
    ] {
        for signaling in [Signaling::Chain, Signaling::Tree] {
            let mut plan = ring(signaling);
            let all = plan.ports.values_mut().flat_map(|ports| ports.iter_mut());
            for (port, channels) in all {
                *channels = match *port {
                    PortId(number) if PortId(number) == access(A) => from,
                    PortId(number) if PortId(number) == access(C) => to,
                    _ => others,
                };
            }
            let mut request = protected(signaling);
            request.demand.rate_max = CHANNEL.scaled(8, 1);
            let world = committed(plan, request, 1);
            let case = format!("{from} {to} {others} {signaling:?}");
            match (outcomes(&world), rate) {
                ([Outcome::Committed { vector, .. }], Some(channels)) => {
                    assert_eq!(
                        vector.steps()[0].rate,
                        CHANNEL.scaled(channels, 1),
                        "{case}"
                    );
                }
                ([Outcome::Refused(Refusal::NoCapacity)], None) => {}
                other => panic!("{case}: {other:?}"),
            }
            // no offer was more than both legs can hold
            let all = world.nodes.values().flat_map(|node| &node.domain);
            let mut keys = all
                .flat_map(Domain::reservations)
                .map(lighthaul_stargate::Reservation::key);
            assert!(keys.all(|key| key.attempt == 0), "{case}");
        }
    }
}
