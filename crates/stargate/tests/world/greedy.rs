//! Neighbor that holds the whole capacity again and again and never commits, beside an honest one.

use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_stargate::{
    Body, CorrelationId, Domain, DomainId, Hop, Key, Policy, Refusal, Segment,
};

use crate::misbehavior::{A, B, C, Player, plan, port_of, refusal};
use crate::plan::{CHANNEL, Plan, access};

/// Returns a row of three domains. A path through the middle one has one channel.
fn narrow() -> Plan {
    let mut plan = plan(3, false);
    let ports = plan.ports.get_mut(&B).unwrap();
    for channels in ports.values_mut() {
        *channels = 1;
    }
    plan
}

/// Returns the middle domain, with this limit for both neighbors.
fn limited(plan: &Plan, limit: Duration) -> Player {
    let mut config = plan.config(B);
    config.timing.hold_max = Duration::from_mins(1);
    for policy in config.neighbors.values_mut() {
        policy.uncommitted_per_hour = limit;
    }
    let mut player = Player::new(plan, B);
    player.domain = Domain::new(config, plan.topology(), plan.resources(B), 3);
    player
}

fn key(from: DomainId, id: u128) -> Key {
    Key {
        source: from,
        id: CorrelationId(id),
        attempt: 0,
        leg: 0,
    }
}

/// Returns a hold of the whole capacity of B by a neighbor, for `secs` seconds.
fn hold(plan: &Plan, player: &Player, key: Key, secs: u64) -> Body {
    let (from, at) = (key.source, |secs| player.now + Duration::from_secs(secs));
    let segment = Segment {
        ingress: port_of(plan, from, B),
        egress: access(B),
    };
    let step = Step {
        from: at(70),
        till: at(200),
        rate: CHANNEL,
    };
    Body::Hold {
        key,
        hops: vec![Hop { domain: B, segment }],
        trace: vec![from],
        vector: Trc::new(vec![step]).unwrap(),
        hold_till: at(secs),
        decide_till: at(secs),
    }
}

/// Reserves and releases a path, and returns true if it was committed.
fn book(plan: &Plan, player: &mut Player, key: Key) -> bool {
    let from = key.source;
    let body = hold(plan, player, key, 5);
    if refusal(&player.hear(from, body)).is_some() {
        return false;
    }
    let committed = player.hear(from, Body::Commit { key });
    assert_eq!(committed, [(from, Body::Committed { key })]);
    player.hear(from, Body::Release { key });
    true
}

/// Returns the bookings of an honest neighbor in an hour, one a second, and the holds of the greedy one that were
/// granted and refused. The greedy one asks at once when its hold of `secs` ends, and aborts it if `aborts` is set.
fn hour(limit: Duration, secs: u64, aborts: bool) -> (usize, usize, usize) {
    let plan = narrow();
    let mut player = limited(&plan, limit);
    let (mut booked, mut granted, mut refused) = (0, 0, 0);
    for second in 0..3600_u32 {
        let (own, last) = (
            key(A, second.into()),
            key(A, second.saturating_sub(1).into()),
        );
        if aborts {
            player.hear(A, Body::Abort { key: last });
        }
        let body = hold(&plan, &player, own, secs);
        match refusal(&player.hear(A, body)) {
            None => granted += 1,
            Some(Refusal::Quota) => refused += 1,
            // its own hold, or a reservation of the other
            Some(Refusal::NoCapacity) => {}
            other => panic!("{other:?}"),
        }
        booked += usize::from(book(&plan, &mut player, key(C, second.into())));
        player.wait(1);
    }
    (booked, granted, refused)
}

#[test]
fn greedy_neighbor_leaves_most_of_an_hour_to_an_honest_one() {
    let usual = Policy::default().uncommitted_per_hour;
    assert_eq!(usual, Duration::from_mins(10));
    for (secs, aborts) in [(60, false), (5, false), (60, true)] {
        // without the limit there is nothing left
        let (booked, ..) = hour(Duration::from_hours(1000), secs, aborts);
        assert_eq!(booked, 0, "{secs} {aborts}");
        let (booked, granted, refused) = hour(usual, secs, aborts);
        // ten minutes at once, and ten more in the course of the hour
        assert!((2400..2700).contains(&booked), "{secs} {aborts}: {booked}");
        assert!(granted > 0 && refused > 2000, "{secs} {aborts}: {refused}");
    }
}

#[test]
fn neighbor_that_commits_its_holds_has_no_limit() {
    let plan = narrow();
    let mut player = limited(&plan, Policy::default().uncommitted_per_hour);
    for nth in 0..5000 {
        assert!(book(&plan, &mut player, key(C, nth)), "{nth}");
        if nth % 100 == 0 {
            player.wait(1);
        }
    }
}

#[test]
fn hold_that_the_next_domain_refuses_is_not_charged() {
    let plan = narrow();
    let mut player = limited(&plan, Policy::default().uncommitted_per_hour);
    for nth in 0..1000 {
        let key = key(A, nth);
        let mut body = hold(&plan, &player, key, 60);
        if let Body::Hold { hops, .. } = &mut body {
            hops[0].segment.egress = port_of(&plan, B, C);
            let segment = Segment {
                ingress: port_of(&plan, B, C),
                egress: access(C),
            };
            hops.push(Hop { domain: C, segment });
        }
        let asked = player.hear(A, body);
        assert!(
            matches!(asked.as_slice(), [(C, Body::Hold { .. })]),
            "{nth}: {asked:?}"
        );
        player.wait(10);
        let refused = Refusal::NoCapacity;
        let answers = player.hear(
            C,
            Body::Refused {
                key,
                refusal: refused,
            },
        );
        assert_eq!(refusal(&answers), Some(refused));
        player.wait(51);
    }
}
