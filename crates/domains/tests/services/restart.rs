//! Domains that are stopped and started again from their files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::{Rate, Rng};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{Body, CorrelationId, Outcome, Record, Stage, StoredStage};

use super::peer::{Peer, hold, identification};
use super::site::{Chain, PATIENCE, book, records, request};

/// Replaces domain 1 of a chain by a bare transport.
fn with_peer(name: &str) -> (Chain, Peer) {
    let mut chain = Chain::start(name, 3, |text| text);
    chain.stop(1);
    let address = Some(chain.services[&2].local());
    let pinned = (2, address, chain.folder.key(2));
    let peer = Peer::start(identification(1, chain.folder.identity(1), pinned));
    (chain, peer)
}

#[test]
fn domain_stopped_between_hold_and_commit_continues_from_its_records() {
    let (mut chain, peer) = with_peer("restart");
    let (key, body) = hold(5, Duration::from_secs(30));
    peer.expect(2, &body, &Body::Held { key });
    chain.stop(2);
    let stored = records(&chain.folder.store(2), 2);
    let [Record::Put(stored)] = &stored[..] else {
        panic!("{stored:?}");
    };
    assert_eq!((stored.key, stored.stage), (key, StoredStage::Holding));
    chain.restart(2);
    peer.expect(2, &Body::Commit { key }, &Body::Committed { key });
    let statuses = chain.statuses();
    assert_eq!(book(&statuses[&2]), book(&statuses[&3]));
    assert_eq!(book(&statuses[&2]).len(), 1);
    assert_eq!(statuses[&2].epoch, 3, "the test opened the file once");
    peer.expect(2, &Body::Release { key }, &Body::Released { key });
    chain.wait_until("domain 3 has released", |statuses| {
        let held = statuses[&3].reservations.iter();
        held.filter(|one| one.stage == Stage::Committed).count() == 0
    });
}

#[test]
fn hold_without_a_commit_is_free_again_in_all_domains() {
    let (chain, peer) = with_peer("expired");
    let (key, body) = hold(5, Duration::from_secs(3));
    peer.expect(2, &body, &Body::Held { key });
    let answer = peer.answer(Duration::from_mins(1));
    assert!(matches!(answer, Some(Body::Aborted { .. })), "{answer:?}");
    chain.wait_until("both domains have forgotten it", |statuses| {
        statuses.values().all(|one| one.reservations.is_empty())
    });
}

#[test]
fn committed_path_survives_the_restart_of_every_domain() {
    let mut chain = Chain::start("survives", 3, |text| text);
    // the vector is far enough ahead that it does not end during the test
    let outcome = chain.request(9, |request| {
        request.from += Duration::from_mins(20);
    });
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    let before = book(&chain.statuses()[&1]);
    for me in [2, 1, 3] {
        chain.stop(me);
        chain.restart(me);
    }
    chain.wait_until("all links are up again", |statuses| {
        let mut links = statuses.values().flat_map(|status| status.links.values());
        links.all(|link| link.is_connected)
    });
    let statuses = chain.statuses();
    assert!(statuses.values().all(|status| book(status) == before));
    assert_eq!(
        chain.request(9, |_| ()),
        outcome,
        "the caller learns it again"
    );
    chain.services[&1]
        .handle()
        .release(CorrelationId(9))
        .unwrap();
    chain.assert_released();
}

#[test]
fn rate_that_ended_while_the_service_was_away_is_removed_from_the_devices() {
    let mut chain = Chain::start("gap", 2, |text| text);
    let outcome = chain.request(3, |request| {
        request.demand.bytes = 125_000_000;
    });
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    let devices = chain.devices[&2].clone();
    chain.wait_until("the circuit carries data", |_| {
        !devices.recorded().rates.is_empty()
    });
    chain.wait_until("both domains know the rate of their devices", |statuses| {
        let mut paths = statuses.values().map(|status| &status.reservations);
        paths.all(|paths| paths.len() == 1 && matches!(paths[0].carried[..], [Some(1..)]))
    });
    chain.stop(2);
    assert_eq!(
        devices.recorded().rates.len(),
        1,
        "devices keep their rates"
    );
    chain.services[&1]
        .handle()
        .release(CorrelationId(3))
        .unwrap();
    chain.restart(2);
    chain.wait_until("the rate is removed", |_| {
        devices.recorded().rates.is_empty()
    });
    assert_eq!(devices.recorded().resets, 2);
    chain.assert_released();
}

#[test]
fn service_without_its_store_ends_and_its_devices_finish_their_vectors() {
    let mut chain = Chain::start("lost", 2, |text| text);
    let outcome = chain.request(3, |request| {
        request.demand.bytes = 62_500_000;
    });
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    let devices = chain.devices[&2].clone();
    chain.wait_until("the circuit carries data", |_| {
        !devices.recorded().rates.is_empty()
    });
    let store = chain.folder.store(2);
    fs::rename(&store, chain.folder.0.join("elsewhere.db")).unwrap();
    let service = chain.services.remove(&2).unwrap();
    let outcome = chain.request(4, |request| {
        request.till = request.from + Duration::from_secs(20);
    });
    assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    assert!(service.has_ended());
    chain.wait_until("the vector ends at the devices", |_| {
        devices.recorded().rates.is_empty()
    });
    let why = service.stop().unwrap_err().to_string();
    assert!(why.contains("put the original files back"), "{why}");
}

/// Returns a copy of the store of a domain, which has this many records. The domain is stopped meanwhile.
fn back_up(chain: &mut Chain, me: u32, count: usize) -> Vec<(PathBuf, Vec<u8>)> {
    chain.stop(me);
    assert_eq!(records(&chain.folder.store(me), me).len(), count);
    let files = store_files(&chain.folder.store(me)).into_iter();
    let files = files.map(|path| {
        let content = fs::read(&path).unwrap();
        (path, content)
    });
    let files = files.collect();
    chain.restart(me);
    files
}

/// Returns the files of a store that exist.
fn store_files(store: &Path) -> Vec<PathBuf> {
    let paths = ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", store.display())));
    paths.into_iter().filter(|path| path.exists()).collect()
}

/// Restores a backup of the store of a domain.
fn bring_back(chain: &mut Chain, me: u32, backup: &[(PathBuf, Vec<u8>)]) {
    chain.stop(me);
    for path in store_files(&chain.folder.store(me)) {
        fs::remove_file(path).unwrap();
    }
    for (path, content) in backup {
        fs::write(path, content).unwrap();
    }
    chain.restart(me);
}

/// Waits until the domains are neighbors again.
fn wait_for_links(chain: &Chain) {
    chain.wait_until("all links are up again", |statuses| {
        let mut links = statuses.values().flat_map(|status| status.links.values());
        links.all(|link| link.is_connected)
    });
}

#[test]
fn path_that_a_restored_backup_does_not_have_is_released_everywhere() {
    for me in [1, 2, 3] {
        let mut chain = Chain::start(&format!("lost-{me}"), 3, |text| text);
        let empty = back_up(&mut chain, me, 0);
        wait_for_links(&chain);
        let outcome = chain.request(9, |request| {
            request.from += Duration::from_mins(20);
        });
        assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
        let ticket = chain.services[&1].handle().watch(CorrelationId(9)).unwrap();
        bring_back(&mut chain, me, &empty);
        if me != 1 {
            let failed = ticket.wait(PATIENCE).unwrap();
            assert!(matches!(failed, Some(Outcome::Failed(_))), "{failed:?}");
        }
        chain.assert_released();
    }
}

#[test]
fn path_that_a_restored_backup_brings_back_is_released_everywhere() {
    for me in [1, 2, 3] {
        let mut chain = Chain::start(&format!("stale-{me}"), 3, |text| text);
        let outcome = chain.request(9, |request| {
            request.from += Duration::from_mins(20);
        });
        assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
        let old = back_up(&mut chain, me, 1);
        wait_for_links(&chain);
        let handle = chain.services[&1].handle();
        let ticket = handle.watch(CorrelationId(9)).unwrap();
        handle.release(CorrelationId(9)).unwrap();
        assert_eq!(ticket.wait(PATIENCE).unwrap(), Some(Outcome::Released));
        chain.wait_until("all reservations are forgotten", |statuses| {
            statuses.values().all(|one| one.reservations.is_empty())
        });
        bring_back(&mut chain, me, &old);
        // its capacity can be booked again, also where the backup had brought it back
        wait_for_links(&chain);
        chain.wait_until("what was brought back is forgotten", |statuses| {
            statuses.values().all(|one| one.reservations.is_empty())
        });
        let whole = chain.request(10, |request| {
            request.from += Duration::from_mins(20);
            request.demand.rate_max = Rate::from_mbps(10_000);
            request.demand.rate_min = Rate::from_mbps(10_000);
        });
        assert!(matches!(whole, Outcome::Committed { .. }), "{whole:?}");
        chain.services[&1]
            .handle()
            .release(CorrelationId(10))
            .unwrap();
        chain.assert_released();
    }
}

/// Requests 120 paths, while domains stop and start at random moments. Returns those that were reported as committed.
fn request_among_stops(chain: &mut Chain, rng: &mut Rng, round: u128) -> BTreeSet<CorrelationId> {
    let mut tickets = Vec::new();
    for id in 0..120 {
        let mut request = request(round * 1000 + id, 3);
        // no vector ends during the test
        request.from += Duration::from_mins(20);
        tickets.push(chain.services[&1].handle().request(request).unwrap());
        pause(Duration::from_millis(rng.below(40)));
        if rng.below(8) == 0 {
            let me = 1 + rng.below(3) as u32;
            chain.stop(me);
            pause(Duration::from_millis(rng.below(400)));
            chain.restart(me);
        }
    }
    let mut committed = BTreeSet::new();
    for ticket in &tickets {
        match ticket.wait(PATIENCE) {
            Ok(Some(Outcome::Committed { .. })) => drop(committed.insert(ticket.id)),
            Ok(None) => panic!("request {:?} has no outcome", ticket.id),
            // the request was refused, or domain 1 stopped before its decision
            Ok(Some(_)) | Err(_) => {}
        }
    }
    committed
}

#[test]
fn domains_that_stop_at_random_moments_cause_no_half_committed_path() {
    let seed = unix_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut chain = Chain::start("random", 3, |text| text);
    let (mut committed, mut agreed) = (BTreeSet::new(), BTreeSet::new());
    // how many requests pass between two stops depends on the load of the host
    for round in 0..8 {
        committed.extend(request_among_stops(&mut chain, &mut rng, round));
        chain.wait_until("all domains agree", |statuses| {
            let first = book(&statuses[&1]);
            statuses.values().all(|status| {
                let all = status.reservations.iter();
                book(status) == first && all.clone().all(|one| one.stage == Stage::Committed)
            })
        });
        agreed = book(&chain.statuses()[&1])
            .into_iter()
            .map(|(id, ..)| id)
            .collect();
        println!("{} reported, {} committed", committed.len(), agreed.len());
        assert!(committed.is_subset(&agreed), "seed {seed}");
        if agreed.len() > 20 {
            break;
        }
    }
    assert!(agreed.len() > 20, "too few for a test: {}", agreed.len());
    let handle = chain.services[&1].handle();
    for id in agreed {
        handle.release(id).unwrap();
    }
    chain.assert_released();
}
