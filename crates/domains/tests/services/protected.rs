//! Protected paths over a ring of four domains.

use std::fs;
use std::time::Duration;

use lighthaul_domains::control::Question;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{Outcome, Protection, Refusal, Stage};

use super::control::{open, path};
use super::site::{Chain, PATIENCE, request};

#[test]
fn protected_path_survives_a_killed_domain_with_a_lost_store() {
    let mut ring = Chain::ring("protected", 4);
    let mut wanted = request(1, 3);
    wanted.protection = Protection::Disjoint;
    // the path is in use for minutes
    wanted.demand.bytes = 10_000_000_000;
    let handle = ring.services[&1].handle();
    let ticket = handle.request(wanted).unwrap();
    let outcome = ticket.wait(PATIENCE).unwrap();
    let Some(Outcome::Committed { legs, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    let leg = legs.iter().position(|hops| hops[0].domain.0 == 2).unwrap();
    let held = |ring: &Chain, me: u32| {
        let status = ring.services[&me].handle().status().unwrap();
        let all = status.reservations.iter();
        all.filter(|one| one.stage == Stage::Committed).count()
    };
    assert_eq!([1, 2, 3, 4].map(|me| held(&ring, me)), [1, 1, 2, 1]);
    ring.stop(2);
    // both legs are kept: a domain that is away carries on
    pause(Duration::from_secs(2));
    assert_eq!([1, 3, 4].map(|me| held(&ring, me)), [1, 2, 1]);
    fs::remove_file(ring.folder.store(2)).unwrap();
    ring.restart(2);
    let lost = ticket.wait(PATIENCE).unwrap();
    let expected = Outcome::LegLost {
        leg: leg as u8,
        refusal: Refusal::Unknown,
    };
    assert_eq!(lost, Some(expected));
    ring.wait_until("the other leg is left", |statuses| {
        let held = statuses.values().map(|status| {
            let all = status.reservations.iter();
            all.filter(|one| one.stage == Stage::Committed).count()
        });
        held.collect::<Vec<_>>() == [1, 0, 1, 1]
    });
    let (_open, socket) = open(&ring, 1);
    let id = ring.services[&1].handle().status().unwrap().reservations[0]
        .stored
        .key
        .id;
    let shown = path(&socket, &Question::Find(format!("{:032x}", id.0))).unwrap();
    let view = shown.lost.clone().unwrap();
    assert_eq!(
        (shown.stage.as_str(), usize::from(view.leg)),
        ("committed", leg)
    );
    assert!(view.why.contains("unknown"), "{view:?}");
    assert_eq!(shown.legs.len(), 2);
    // a restart of the source domain forgets neither the leg nor its loss
    ring.stop(1);
    ring.restart(1);
    assert_eq!(held(&ring, 1), 1);
    let handle = ring.services[&1].handle();
    let ticket = handle.watch(id).unwrap();
    ring.wait_until("all links are up", |statuses| {
        let links = statuses.values().flat_map(|status| status.links.values());
        links.clone().all(|link| link.is_connected)
    });
    handle.release(id).unwrap();
    assert_eq!(ticket.wait(PATIENCE).unwrap(), Some(Outcome::Released));
    ring.assert_released();
}
