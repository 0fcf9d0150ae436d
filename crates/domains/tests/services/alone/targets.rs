//! Targets of paths across domains. The examples `set_ups` and `bookings` print the same measurements; a debug build on
//! a slow host gets more time here.

use std::time::Duration;

use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::namespace::check;
use lighthaul_stargate::Signaling;
use lighthaul_testkit::lacks;

use crate::measured::bookings::Booker;
use crate::measured::boundaries::Boundaries;
use crate::measured::burst::{Burst, CAPACITY, REQUESTS};
use crate::measured::freed::{Freed, LONGEST_TIMEOUT};
use crate::measured::mixed_boundaries::MixedBoundaries;
use crate::measured::set_ups::SetUps;
use crate::site::Folder;

#[test]
fn set_up_over_three_domains_takes_three_round_trips_and_little_more() {
    let all = BOTH.map(|signaling| {
        let folder = Folder::alone("target-set-ups");
        let measured = (Duration::from_millis(20), 11);
        let found = SetUps::measure(&folder.0, signaling, measured);
        println!("{found}");
        found
    });
    for found in all {
        let (trips, median) = (found.three_round_trips(), found.median());
        assert!(median >= trips, "the delay between neighbors has no effect");
        // the target is 50 ms
        let most = trips + Duration::from_millis(50) * 4;
        assert!(median <= most, "{found}");
    }
}

#[test]
fn thousand_requests_over_ten_domains_end_in_time_without_double_booking() {
    for signaling in BOTH {
        let folder = Folder::alone("target-burst");
        let found = Burst::measure(&folder.0, signaling, unix_nanos());
        println!("{found}");
        assert_eq!(found.committed + found.refused, REQUESTS);
        // links are full, and half of the requests get their path
        assert!(found.committed > REQUESTS / 2, "{found}");
        assert!(found.refused > 0 && found.fullest > CAPACITY / 2, "{found}");
        // the target is 10 s
        assert!(found.took < Duration::from_secs(30), "{found}");
    }
}

#[test]
fn capacity_is_free_everywhere_within_the_longest_timeout() {
    for signaling in BOTH {
        let folder = Folder::alone("target-freed");
        let found = Freed::measure(&folder.0, signaling);
        println!("{found}");
        // a debug build on a slow host gets a second more
        let most = LONGEST_TIMEOUT + Duration::from_secs(1);
        let all = [found.released, found.failed, found.abandoned];
        assert!(all.iter().all(|time| *time < most), "{found}");
    }
}

#[test]
fn boundaries_reach_all_interfaces_together_and_lose_no_packet() {
    let name = "boundaries_reach_all_interfaces_together_and_lose_no_packet";
    let namespaces = check().map_err(|why| format!("needs namespaces: {why}"));
    if lacks(name, namespaces) {
        return;
    }
    let folder = Folder::alone("target-boundaries");
    let found = Boundaries::measure(&folder.0, 8);
    println!("{found}");
    assert_eq!(found.apart.len(), 16);
    // the target is 10 ms; a host may stop a thread for longer, now and then
    let most = Duration::from_millis(10);
    let slow = found.apart.iter().filter(|apart| **apart > most);
    assert!(slow.count() <= found.apart.len() / 4, "{found}");
    assert!(found.late.iter().all(|late| *late < most * 20), "{found}");
    assert!(found.sent > 5_000, "{found}");
    assert_eq!(found.carried, [found.sent; 3], "{found}");
    assert_eq!(found.dropped, [0; 3], "{found}");
    assert_eq!(found.received + found.overrun, found.sent, "{found}");
}

#[test]
fn boundaries_reach_devices_of_three_kinds_together() {
    let name = "boundaries_reach_devices_of_three_kinds_together";
    let namespaces = check().map_err(|why| format!("needs namespaces: {why}"));
    if lacks(name, namespaces) {
        return;
    }
    let folder = Folder::alone("target-mixed");
    let found = MixedBoundaries::measure(&folder.0, 8, Duration::ZERO);
    println!("{found}");
    assert_eq!(found.apart.len(), 16);
    // the target is 10 ms; a host may stop a thread for longer, now and then
    let most = Duration::from_millis(10);
    assert!(found.apart[8] < most * 2, "{found}");
    assert!(
        found.apart.iter().all(|apart| *apart < most * 20),
        "{found}"
    );
}

#[test]
fn increase_at_a_slow_switch_is_complete_before_packets_use_it() {
    let name = "increase_at_a_slow_switch_is_complete_before_packets_use_it";
    let namespaces = check().map_err(|why| format!("needs namespaces: {why}"));
    if lacks(name, namespaces) {
        return;
    }
    let folder = Folder::alone("target-slow-switch");
    let pace = Duration::from_millis(5);
    let found = MixedBoundaries::measure(&folder.0, 8, pace);
    println!("{found}");
    // four channels need eight commands, and the last one is sent after seven answers
    assert!(found.reached[1][15] >= pace * 7, "{found}");
    assert_eq!(found.guard, pace * 24 + Duration::from_millis(10));
    // a host may stop a thread, now and then
    let late = found.ahead.iter().filter(|ahead| ahead.is_zero());
    assert!(late.count() <= 2, "{found}");
}

#[test]
fn bookings_are_fast_and_stored_in_all_three_domains() {
    let folder = Folder::alone("target-bookings");
    let booker = Booker::start(&folder.0);
    let found = booker.run(64, Duration::from_secs(5));
    println!("{found}");
    assert_eq!(found.refused, 0);
    // the target is 500 a second
    assert!(found.rate() > 125.0, "{found}");
    assert!(booker.finish() >= 625);
}

const BOTH: [Signaling; 2] = [Signaling::Chain, Signaling::Tree];
