//! An agent at a real interface, in real time.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::agent::{Agent, LeasedCircuit};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::Event;
use lighthaul_circuit::driver::Driver;
use lighthaul_io::host::clock::Clock;

use crate::testbed::{INTERFACE, Testbed, circuit};

/// Starts an agent at the testbed's interface. The leases of its circuits last as long as their vectors.
pub(crate) fn start(
    testbed: &Testbed,
    clock: Clock,
    capacity: u64,
    circuits: Vec<Circuit>,
) -> Agent {
    let driver: Box<dyn Driver> = Box::new(testbed.shaper(capacity).unwrap());
    let wanted = circuits.into_iter().map(|circuit| LeasedCircuit {
        lease_till: circuit.trc.end(),
        circuit,
    });
    let drivers = BTreeMap::from([(INTERFACE.to_owned(), driver)]);
    let (agent, refused) = Agent::start(clock, drivers, wanted.collect()).unwrap();
    assert!(refused.is_empty(), "{refused:?}");
    agent
}

/// Returns the events until this one, which must come within a minute.
pub(crate) fn events_till(
    agent: &Agent,
    clock: Clock,
    last: impl Fn(&Event) -> bool,
) -> Vec<Event> {
    let till = clock.now() + Duration::from_mins(1);
    let mut events = Vec::new();
    while let Some((_, event)) = agent.wait_event(till).unwrap() {
        let is_last = last(&event);
        events.push(event);
        if is_last {
            return events;
        }
    }
    panic!("the event did not come: {events:?}");
}

/// Returns the delay of each change.
pub(crate) fn lateness(events: &[Event]) -> Vec<Duration> {
    let late = events.iter().filter_map(|event| match event {
        Event::Changed { due, at, .. } => Some(at.since(*due)),
        Event::Created(_)
        | Event::Ended(..)
        | Event::Failed(..)
        | Event::Repaired(_)
        | Event::Adopted(..)
        | Event::StaleRemoved(_)
        | Event::InspectFailed(_)
        | Event::Inspected
        | Event::Overflow(_) => None,
    });
    late.collect()
}

/// Asserts that the circuit had these rates, 20 ms apart from 200 ms on. Rates whose time was over when the agent came
/// are skipped; returns their number.
pub(crate) fn assert_follows(events: &[Event], circuit: CircuitId, expected: &[u64]) -> usize {
    let boundary = |nth: usize| Instant::from_nanos(200_000_000 + 20_000_000 * nth as u64);
    let (mut next, mut passed_over, mut last) = (0, 0, (Instant::ZERO, u64::MAX));
    let mut overslept = 0;
    for event in events {
        let Event::Changed { id, rate, due, at } = event else {
            continue;
        };
        if *id != circuit {
            continue;
        }
        let due_next = (next..expected.len()).find(|nth| boundary(*nth) == *due);
        let due_next = due_next.expect("changes are due at boundaries, in order");
        if due_next > next {
            let (at, rate) = last;
            // the previous change came too late for them, or the agent found its rate in force
            let is_explained = boundary(due_next - 1) <= at || expected[due_next - 1] == rate;
            // otherwise the machine did not schedule the agent in time
            overslept += usize::from(!is_explained);
            passed_over += due_next - next;
            next = due_next;
        }
        let rate = rate.map_or(0, Rate::as_bps);
        let mut due_by_then = (next..expected.len()).take_while(|nth| boundary(*nth) <= *at);
        assert!(
            due_by_then.any(|nth| expected[nth] == rate),
            "{circuit:?} has {rate} at {at:?}, due {due:?}"
        );
        (next, last) = (next + 1, (*at, rate));
    }
    let left = (next..expected.len()).inspect(|nth| assert!(boundary(*nth) <= last.0));
    passed_over += left.count();
    assert_eq!(Some(&last.1), expected.last());
    assert!(overslept <= 5, "{circuit:?} overslept {overslept} times");
    passed_over
}

#[test]
fn circuits_are_removed_when_the_agent_is_dropped() {
    let Some(testbed) = Testbed::start("circuits_are_removed_when_the_agent_is_dropped") else {
        return;
    };
    let clock = Clock::start();
    let circuits = vec![
        circuit(5001, "0s-999s 100M"),
        circuit(5002, "500s-999s 100M"),
    ];
    let agent = start(&testbed, clock, 500, circuits);
    events_till(&agent, clock, |event| {
        matches!(event, Event::Changed { .. })
    });
    let why = agent.put(
        Circuit {
            interface: "eth9".to_owned(),
            ..circuit(1, "0s-999s 1M")
        },
        Instant::NEVER,
    );
    let why = why.unwrap_err().to_string();
    assert!(why.contains("eth9") && why.contains(INTERFACE), "{why}");
    assert_eq!(agent.circuits().len(), 2);
    assert!(
        testbed
            .tc(&format!("qdisc show dev {INTERFACE}"))
            .contains("htb")
    );
    drop(agent);
    assert!(
        !testbed
            .tc(&format!("qdisc show dev {INTERFACE}"))
            .contains("htb")
    );
}
