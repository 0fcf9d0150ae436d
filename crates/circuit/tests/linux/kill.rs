//! An agent that is killed, and its successor.

use std::path::Path;

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::controller::Event;
use lighthaul_circuit::driver::Driver;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::namespace::Namespace;
use lighthaul_testkit::Holder;

use crate::agent::{events_till, start};
use crate::testbed::{INTERFACE, Testbed, circuit};

/// The process that is killed. It gets its namespace.
const HOLDER: Holder = Holder {
    test: "kill::holder",
    variable: "LIGHTHAUL_TEST_HOST",
};

#[test]
#[ignore = "program that the other test kills"]
fn holder() {
    let Ok(host) = std::env::var(HOLDER.variable) else {
        return;
    };
    let host = Namespace::open(Path::new(&host)).unwrap();
    let clock = Clock::start();
    let open = || {
        Ok(lighthaul_circuit::linux::Shaper::open(
            INTERFACE,
            Rate::from_mbps(1000),
        ))
    };
    let driver: Box<dyn Driver> = Box::new(host.within(open).unwrap().unwrap());
    let drivers = std::collections::BTreeMap::from([(INTERFACE.to_owned(), driver)]);
    let (agent, _) = lighthaul_circuit::agent::Agent::start(clock, drivers, Vec::new()).unwrap();
    for port in [5001, 5002, 5003] {
        let circuit = circuit(port, "0s-999s 100M");
        let till = circuit.trc.end();
        agent.put(circuit, till).unwrap();
    }
    for _ in 0..3 {
        events_till(&agent, clock, |event| {
            matches!(event, Event::Changed { .. })
        });
    }
    Holder::wait_to_be_killed(agent);
}

#[test]
fn circuits_survive_kill_9_and_the_next_agent_corrects_them() {
    let Some(testbed) = Testbed::start("circuits_survive_kill_9_and_the_next_agent_corrects_them")
    else {
        return;
    };
    let is_ready = HOLDER.run_and_kill(&testbed.left.path()).unwrap();
    assert!(is_ready, "the agent has not created its circuits");
    let mut look = testbed.shaper(1000).unwrap();
    let left: Vec<CircuitId> = look
        .inspect()
        .unwrap()
        .iter()
        .map(|standing| standing.id)
        .collect();
    assert_eq!(left, [5001, 5002, 5003].map(CircuitId));

    let clock = Clock::start();
    let wanted = [(5001, "100M"), (5002, "40M"), (5004, "70M")];
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(port, rate)| circuit(*port, &format!("0s-999s {rate}")))
        .collect();
    let agent = start(&testbed, clock, 1000, wanted);
    let events = events_till(&agent, clock, |event| {
        matches!(
            event,
            Event::Changed {
                id: CircuitId(5004),
                ..
            }
        )
    });
    assert!(
        events.contains(&Event::StaleRemoved(CircuitId(5003))),
        "{events:?}"
    );
    let is_first = |event: &Event| {
        matches!(
            event,
            Event::Changed {
                id: CircuitId(5001),
                ..
            } | Event::Created(CircuitId(5001))
        )
    };
    assert!(
        !events.iter().any(is_first),
        "correct circuits are not changed: {events:?}"
    );
    let now: Vec<_> = look
        .inspect()
        .unwrap()
        .iter()
        .map(|standing| (standing.id.0, standing.rate))
        .collect();
    let expected = [(5001, 100), (5002, 40), (5004, 70)]
        .map(|(port, rate)| (port, Some(Rate::from_mbps(rate))));
    assert_eq!(now, expected);
}
