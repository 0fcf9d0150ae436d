//! Tests of the table of links: limits of keys, addresses and memory, and who loses a link.

use super::*;
use std::time::Duration;

use lighthaul_base::Size;
use lighthaul_gateway::settings::LinkLimits;
use lighthaul_gateway::target_rules::TargetRules;
use lighthaul_io::host::wait::pause;

fn settings() -> Arc<Settings> {
    Arc::new(Settings {
        allowed: Arc::new(TargetRules::default()),
        direct: Arc::new(TargetRules::default()),
        rate: None,
        booked: false,
        memory: Size(1 << 20),
        slab: Size(1 << 16),
        age: Duration::from_millis(1),
        patience: Duration::from_secs(1),
        keepalive: Duration::from_secs(1),
        sessions_max: 1,
        links: LIMITS,
        onward: None,
    })
}

const LIMITS: LinkLimits = LinkLimits {
    all: 256,
    key: 256,
    address: 256,
    memory: Size(4 << 30),
};

fn table(all: usize, key: usize, address: usize) -> LinkTable {
    LinkTable::new(&Settings {
        links: LinkLimits {
            all,
            key,
            address,
            ..LIMITS
        },
        ..Settings::clone(&settings())
    })
}

/// Returns a host in a network of its own.
fn address(nth: u8) -> IpAddr {
    IpAddr::from([10, 0, nth, 1])
}

fn name(nth: u8) -> Name {
    (Fingerprint::from_octets([nth; 32]), [nth; 16])
}

fn hold(table: &LinkTable, name: Name, from: u8) -> Result<LinkHold<'_>, Error> {
    table.hold(name, (ClientIdentity::listed(name.0), address(from)))
}

/// Asserts that the thread of a link ends soon.
fn assert_ends(handle: &LinkHandle) {
    for _ in 0..1000 {
        if handle.is_over() {
            return;
        }
        pause(Duration::from_millis(5));
    }
    panic!("the link still runs");
}

#[test]
fn links_in_negotiation_do_not_end_each_other() {
    let (table, settings) = (table(256, 256, 256), settings());
    let holds: Vec<_> = (0..64)
        .map(|nth| {
            let hold = hold(&table, name(nth), nth).unwrap();
            let handle = hold.begin(&settings).unwrap();
            (hold, handle)
        })
        .collect();
    for (nth, (hold, handle)) in holds.iter().enumerate() {
        // fails for a link that was ended
        handle.detach();
        assert!(!handle.is_over() && hold.handle().is_some(), "{nth}");
    }
    assert_eq!(table.all().len(), 64);
}

#[test]
fn only_a_running_link_that_can_be_resumed_stays_between_connections() {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    let stay = ways.map(|(is_over, is_kept)| stays(is_over, is_kept));
    assert_eq!(stay, [false, true, false, false]);
}

#[test]
fn link_ends_with_its_last_hold() {
    let (table, settings) = (table(256, 256, 256), settings());
    let first = hold(&table, name(1), 1).unwrap();
    assert!(
        first.handle().is_none() && table.all().is_empty(),
        "a greeting starts no thread"
    );
    let again = hold(&table, name(1), 1).unwrap();
    let handle = first.begin(&settings).unwrap();
    assert!(again.begin(&settings).is_ok());
    assert_eq!(table.all().len(), 1, "two connections of one link");
    drop(first);
    assert!(
        again.handle().is_some(),
        "the other connection still holds it"
    );
    drop(again);
    assert!(table.all().is_empty());
    assert_ends(&handle);
}

#[test]
fn ended_link_can_be_started_again() {
    let (table, settings) = (table(256, 256, 256), settings());
    let first = hold(&table, name(1), 1).unwrap();
    let handle = first.begin(&settings).unwrap();
    handle.end();
    assert_ends(&handle);
    assert!(first.handle().is_none());
    assert!(!first.begin(&settings).unwrap().is_over());
}

#[test]
fn key_and_address_have_limits_and_lose_only_links_without_connection() {
    let table = table(20, 3, 5);
    let mut holds: Vec<_> = (0..3)
        .map(|nth| hold(&table, (name(1).0, [nth; 16]), 1).unwrap())
        .collect();
    let more = |key, nth, from| hold(&table, (name(key).0, [nth; 16]), from);
    let text = |error: Error| error.text();
    let refused = text(more(1, 3, 2).unwrap_err());
    assert!(refused.contains("your key already holds 3"), "{refused}");
    assert!(more(1, 0, 1).is_ok(), "the link is listed already");
    let _others = [2, 3, 4, 5, 6].map(|key| more(key, 0, 2).unwrap());
    let refused = text(more(7, 0, 2).unwrap_err());
    assert!(
        refused.contains("your address already holds 5"),
        "{refused}"
    );
    // also if the link of the closed connection still has a thread
    let _line = holds[0].begin(&settings()).unwrap();
    holds.remove(0);
    assert!(more(1, 3, 1).is_ok());
}

/// Enters links of these keys, of which those in `waiting` have lost their connection while octets for their
/// peers wait.
fn entered(table: &LinkTable, links: &[(u8, u8)], waiting: &[(u8, u8)]) {
    let mut entries = table.lock();
    for (key, nth) in links {
        let link = (name(*key).0, [*nth; 16]);
        let caller = (ClientIdentity::listed(link.0), address(*key));
        table.enter(&mut entries, link, caller).unwrap();
        let connections = usize::from(!waiting.contains(&(*key, *nth)));
        entries.get_mut(&link).unwrap().connections = connections;
    }
}

/// Enters one more link. Returns the refusal, and the links afterwards.
fn enter(table: &LinkTable, key: u8, nth: u8) -> (Option<Within>, Vec<(u8, u8)>) {
    let mut entries = table.lock();
    let link = (name(key).0, [nth; 16]);
    let caller = (ClientIdentity::listed(link.0), address(key));
    let refused = table.enter(&mut entries, link, caller).err();
    let left = entries.keys().map(|(key, nth)| (key.octets()[0], nth[0]));
    (refused.map(|full| full.within), left.collect())
}

#[test]
fn key_at_its_limit_loses_its_oldest_waiting_link_for_a_new_one() {
    let table = table(20, 3, 20);
    entered(&table, &[(1, 1), (1, 2), (1, 3)], &[(1, 2), (1, 3)]);
    assert_eq!(enter(&table, 1, 4), (None, vec![(1, 1), (1, 3), (1, 4)]));
}

#[test]
fn full_gateway_refuses_a_link_and_keeps_those_that_wait() {
    let table = table(3, 3, 3);
    let links = [(1, 1), (2, 1), (3, 1)];
    entered(&table, &links, &[(1, 1)]);
    assert_eq!(enter(&table, 1, 2), (Some(Within::All), links.to_vec()));
}

#[test]
fn hold_of_a_link_that_made_room_has_no_effect_on_its_successor() {
    let (table, settings) = (table(2, 2, 2), settings());
    let own = [1, 2].map(|nth| hold(&table, (name(1).0, [nth; 16]), 1).unwrap());
    // the newest link of the key ends for another key, and is held again later
    let other = hold(&table, name(2), 2).unwrap();
    drop(other);
    let again = hold(&table, (name(1).0, [2; 16]), 1).unwrap();
    let handle = again.begin(&settings).unwrap();
    let [_first, ended] = own;
    assert!(ended.handle().is_none() && ended.begin(&settings).is_err());
    drop(ended);
    assert!(again.handle().is_some() && !handle.is_over());
}

#[test]
fn link_runs_with_its_share_of_the_memory() {
    let limits = Settings {
        memory: Size(256 << 20),
        ..Settings::clone(&settings())
    };
    let table = LinkTable::new(&limits);
    let hold = |nth| hold(&table, (name(1).0, [nth; 16]), 1).unwrap();
    let own = [hold(1), hold(2)];
    let gets = own.each_ref().map(|hold| hold.share.of(&limits).memory);
    assert_eq!(gets, [Size(68 << 20), Size(36 << 20)]);
}

#[test]
fn places_of_sessions_are_reserved_in_advance_and_kept_for_small_changes() {
    let limits = Settings {
        sessions_max: 300,
        ..Settings::clone(&settings())
    };
    let mut table = LinkTable::new(&limits);
    table.lease = 64;
    let hold = hold(&table, name(1), 1).unwrap();
    let mut reserved = |sessions| {
        assert!(hold.share.may_have(sessions), "{sessions}");
        hold.share.sessions.load(Relaxed)
    };
    assert_eq!([1, 65, 0].map(&mut reserved), [65, 65, 65]);
    assert_eq!([200, 160, 10].map(&mut reserved), [264, 264, 74]);
    // all places of the key, without any in advance
    assert_eq!(reserved(300), 300);
}

#[test]
fn ended_link_of_this_gateway_returns_its_places() {
    let table = table(256, 256, 256);
    let quota = table.own_quota();
    assert_eq!(lock(&table.shares).taken(), 1);
    drop(quota);
    assert_eq!(lock(&table.shares).taken(), 0);
}

#[test]
fn sessions_use_at_most_three_eighths_of_the_open_files() {
    let settings = Settings {
        sessions_max: 1000,
        ..Settings::clone(&settings())
    };
    let sessions = limits(&settings, 800)[SESSIONS];
    assert_eq!((sessions.all, sessions.identity), (300, 150));
    let few = Settings {
        sessions_max: 100,
        ..settings
    };
    assert_eq!(limits(&few, 800)[SESSIONS].identity, 100);
}

#[test]
fn links_of_one_key_share_memory_and_sessions_without_effect_on_other_keys() {
    let limits = Settings {
        memory: Size(256 << 20),
        sessions_max: 300,
        ..Settings::clone(&settings())
    };
    let table = LinkTable::new(&limits);
    let hold = |key, nth| hold(&table, (name(key).0, [nth; 16]), key).unwrap();
    let memory = |hold: &LinkHold<'_>| hold.share.take_memory(limits.memory).0 >> 20;
    let own: Vec<_> = (0..8).map(|nth| hold(1, nth)).collect();
    let gets: Vec<_> = own.iter().map(memory).collect();
    assert_eq!(gets, [68, 36, 20, 12, 8, 6, 5, 5]);
    assert!(gets.iter().sum::<u64>() <= 256);
    assert!(own[0].share.may_have(200) && own[1].share.may_have(60));
    assert!(!own[1].share.may_have(101) && own[1].share.may_have(100));
    let other = hold(2, 0);
    assert!(other.share.may_have(300) && memory(&other) == 68);
    // returned places are available to others
    assert!(own[0].share.may_have(0) && own[1].share.may_have(280));
}

#[test]
fn key_above_its_share_loses_links_to_others() {
    let (table, settings) = (table(8, 6, 8), settings());
    let greedy: Vec<_> = (0..6)
        .map(|nth| hold(&table, (name(1).0, [nth; 16]), 1).unwrap())
        .collect();
    let lines: Vec<_> = greedy
        .iter()
        .map(|hold| hold.begin(&settings).unwrap())
        .collect();
    let mut honest = Vec::new();
    for key in 2..7 {
        honest.push(hold(&table, name(key), key).unwrap());
    }
    assert_eq!(table.all().len(), 3, "the newest of six have ended");
    for handle in &lines[3..] {
        assert_ends(handle);
    }
    assert!(greedy[5].begin(&settings).is_err() && greedy[0].handle().is_some());
    let one_more = |key| hold(&table, name(key), key).map(drop);
    assert!(one_more(7).is_ok());
    assert!(
        honest.iter().all(|hold| hold.begin(&settings).is_ok()),
        "no other link ended"
    );
    let _seventh = hold(&table, name(7), 7).unwrap();
    let _eighth = hold(&table, name(8), 8).unwrap();
    let refused = one_more(9).unwrap_err().text();
    assert!(refused.contains("all 8 are in use"), "{refused}");
}

#[test]
fn keys_of_one_identity_share_its_limit() {
    let table = table(20, 3, 5);
    let identity = ClientIdentity::listed(name(1).0);
    let more = |key| table.hold(name(key), (identity, address(key)));
    let _three = [1, 2, 3].map(|key| more(key).unwrap());
    let refused = more(4).unwrap_err().text();
    assert!(refused.contains("your key already holds 3"), "{refused}");
    assert!(hold(&table, name(4), 4).is_ok());
}

#[test]
fn hosts_of_one_network_leave_room_for_others() {
    let table = table(16, 16, 8);
    let settled: Vec<_> = (0..20)
        .filter_map(|nth| {
            let from = IpAddr::from([10, 0, 0, nth]);
            let identity = ClientIdentity::listed(name(nth).0);
            table.hold(name(nth), (identity, from)).ok()
        })
        .collect();
    assert_eq!(settled.len(), 14);
    assert!(
        table
            .hold(
                name(30),
                (ClientIdentity::listed(name(30).0), [10, 9, 0, 1].into())
            )
            .is_ok()
    );
}

#[test]
fn all_links_have_a_limit_of_memory_together() {
    let limits = Settings {
        memory: Size(64 << 20),
        links: LinkLimits {
            all: 16,
            key: 16,
            memory: Size(128 << 20),
            ..LIMITS
        },
        ..Settings::clone(&settings())
    };
    let table = LinkTable::new(&limits);
    let holds: Vec<_> = (0..16)
        .map(|nth| hold(&table, name(nth), nth).unwrap())
        .collect();
    let gets = holds
        .iter()
        .map(|hold| hold.share.take_memory(limits.memory));
    let gets: Vec<_> = gets.map(|size| size.0 >> 20).collect();
    assert_eq!(gets[..4], [20, 20, 20, 12]);
    assert!(gets.iter().all(|mib| *mib >= MEMORY_MIN), "{gets:?}");
    assert!(gets.iter().sum::<u64>() <= 128, "{gets:?}");
    assert_eq!(table.lock().len(), 16, "no link ended");
}
