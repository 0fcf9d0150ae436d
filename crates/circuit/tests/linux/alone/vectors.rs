//! Circuits that follow their vectors in real time.

use lighthaul_base::Instant;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::controller::{Ending, Event};
use lighthaul_io::host::clock::Clock;

use crate::agent::{assert_follows, events_till, lateness, start};
use crate::testbed::{INTERFACE, Testbed, circuit};
use crate::traffic::Traffic;

#[test]
fn stream_follows_the_vector_of_its_circuit() {
    let Some(testbed) = Testbed::alone("stream_follows_the_vector_of_its_circuit") else {
        return;
    };
    let clock = Clock::start();
    let vector = circuit(5001, "1s-2s 100M, 2s-3s 300M, 3s-4s 50M");
    let agent = start(&testbed, clock, 500, vec![vector]);
    let made = events_till(&agent, clock, |event| matches!(event, Event::Created(_)));
    assert_eq!(made, [Event::Created(CircuitId(5001))]);
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let arrivals = Traffic::start(&testbed, clock, "10.9.0.2:5001").end(clock, at(5000));
    let events = events_till(&agent, clock, |event| {
        matches!(event, Event::Ended(_, Ending::Completed))
    });
    for (from, till, mbps) in [(1200, 2000, 100.0), (2200, 3000, 300.0), (3300, 4000, 50.0)] {
        let goodput = arrivals.mbps(at(from), at(till));
        println!("{from}-{till} ms, {mbps} Mb/s: {goodput:.1}");
        assert!((0.85..1.0).contains(&(goodput / mbps)), "{from} {goodput}");
    }
    // the queueing discipline is removed with the last circuit
    assert!(arrivals.mbps(at(4300), at(5000)) > 510.0);
    println!("late: {:?}", lateness(&events));
}

#[test]
fn hundreds_of_changes_are_made_on_time() {
    let Some(testbed) = Testbed::alone("hundreds_of_changes_are_made_on_time") else {
        return;
    };
    let clock = Clock::start();
    let ports = [5001, 5002, 5003];
    // in turn, each has a third, a sixth and a half of the time
    let vector = |turn: u64| {
        let steps = (0..100).map(|n| {
            let (from, mbps) = (200 + 20 * n, [100, 200, 300][((n + turn) % 3) as usize]);
            format!("{from}ms-{}ms {mbps}M", from + 20)
        });
        steps.collect::<Vec<_>>().join(", ")
    };
    let circuits = (0..)
        .zip(ports)
        .map(|(turn, port)| circuit(port, &vector(turn)));
    let agent = start(&testbed, clock, 600, circuits.collect());
    let mut events = Vec::new();
    for _ in ports {
        events.extend(events_till(&agent, clock, |event| {
            matches!(event, Event::Ended(..))
        }));
    }
    let mut late = lateness(&events);
    late.sort_unstable();
    println!(
        "{} changes, late by {:?} at the median and {:?} at most",
        late.len(),
        late[late.len() / 2],
        late[late.len() - 1]
    );
    for (turn, port) in (0_u64..).zip(ports) {
        let mut expected: Vec<u64> = (0..100)
            .map(|n| [100, 200, 300][((n + turn) % 3) as usize] * 1_000_000)
            .collect();
        expected.push(0);
        let passed_over = assert_follows(&events, CircuitId(port), &expected);
        println!("{port}: {passed_over} changes were skipped");
    }
    drop(agent);
    assert!(
        !testbed
            .tc(&format!("qdisc show dev {INTERFACE}"))
            .contains("htb")
    );
}
