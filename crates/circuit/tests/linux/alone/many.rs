//! A thousand circuits at one interface.

use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::controller::Event;
use lighthaul_circuit::driver::Driver;
use lighthaul_io::host::clock::Clock;

use crate::agent::{events_till, lateness, start};
use crate::testbed::{INTERFACE, Testbed, circuit};
use crate::traffic::Traffic;

#[test]
fn a_thousand_circuits_are_made_changed_and_removed() {
    let Some(testbed) = Testbed::alone("a_thousand_circuits_are_made_changed_and_removed") else {
        return;
    };
    let clock = Clock::start();
    // at one moment, half of the circuits lose what the other half gets
    let vectors = ["0s-9s 3M, 9s-99s 1M", "0s-9s 1M, 9s-99s 3M"];
    let circuits: Vec<_> = (0..1000)
        .map(|n| circuit(10_000 + n, vectors[n as usize % 2]))
        .collect();
    let agent = start(&testbed, clock, 10_000, circuits);
    let mut events = Vec::new();
    let count = |events: &[Event], is_it: fn(&Event) -> bool| {
        events.iter().filter(|event| is_it(event)).count()
    };
    let is_changed = |event: &Event| matches!(event, Event::Changed { .. });
    while count(&events, is_changed) < 1000 {
        events.extend(events_till(&agent, clock, is_changed));
    }
    println!(
        "1000 circuits made and opened after {:?}",
        clock.now().since(Instant::ZERO)
    );
    assert_eq!(
        count(&events, |event| matches!(event, Event::Created(_))),
        1000
    );
    let begin = clock.now();
    let arrivals =
        Traffic::start(&testbed, clock, "10.9.0.2:6000").end(clock, begin + Duration::from_secs(1));
    println!(
        "the rest, behind 1000 filters: {:.0} Mb/s",
        arrivals.mbps(begin, clock.now())
    );
    assert!(arrivals.mbps(begin, clock.now()) > 100.0);
    let mut events = Vec::new();
    while count(&events, is_changed) < 1000 {
        events.extend(events_till(&agent, clock, |event| {
            matches!(event, Event::Changed { .. })
        }));
    }
    let mut late = lateness(&events);
    late.sort_unstable();
    println!(
        "1000 changes at one instant, the first {:?} behind it, the last {:?}",
        late[0],
        late[late.len() - 1]
    );
    let standing = testbed.shaper(10_000).unwrap().inspect().unwrap();
    let sum: u64 = standing
        .iter()
        .filter_map(|standing| standing.rate.map(Rate::as_bps))
        .sum();
    assert_eq!((standing.len(), sum), (1000, 2_000_000_000));
    let begin = clock.now();
    drop(agent);
    println!("all removed within {:?}", clock.now().since(begin));
    assert!(
        !testbed
            .tc(&format!("qdisc show dev {INTERFACE}"))
            .contains("htb")
    );
}
