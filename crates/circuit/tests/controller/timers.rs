//! Timers of devices: they close circuits whose agent is lost, but no circuit whose agent works.

use lighthaul_circuit::sim_device::SimFault;

use super::*;

const ID: CircuitId = CircuitId(1);

/// Returns a world whose device has timers of up to `most` seconds.
fn with_timers(most: u64) -> World {
    let can = Capabilities {
        timer_max: Some(Duration::from_secs(most)),
        ..capabilities()
    };
    let fault_model = FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 0,
    };
    World::new(can, fault_model, 0)
}

/// Returns the settings of timers, in seconds.
fn settings(world: &World) -> Vec<(u64, u64)> {
    let set = world.timers.iter();
    let seconds = |(at, timer): &(Instant, Duration)| (at.as_nanos() / SECOND, timer.as_secs());
    set.map(seconds).collect()
}

#[test]
fn device_closes_a_circuit_soon_after_the_planned_end_of_its_rate() {
    let mut world = with_timers(60);
    world.put(circuit(1, "1s-9s 100M, 9s-30s 50M"));
    world.run(at(29_999));
    assert_eq!(settings(&world), [(1, 13), (9, 26)]);
    world.run(at(30_000));
    assert_eq!(world.device.timer(ID), None);
}

#[test]
fn timer_follows_the_lease_and_is_set_again_at_half_of_its_time() {
    let mut world = with_timers(3600);
    let lease = |world: &mut World, seconds: u64| {
        let till = at(seconds * 1000);
        world.controller.renew(world.now, ID, till).unwrap();
    };
    world
        .controller
        .put(Instant::ZERO, circuit(1, "0s-900s 100M"), at(60_000))
        .unwrap();
    world.run(at(20_000));
    lease(&mut world, 80);
    world.run(at(32_499));
    assert_eq!(settings(&world), [(0, 65)]);
    world.run(at(40_000));
    assert_eq!(settings(&world), [(0, 65), (32, 52)]);
    let changes = world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Changed { .. }));
    assert_eq!(changes.count(), 1, "a timer is no change of the rate");
}

#[test]
fn timer_that_is_shorter_than_the_circuit_is_set_again() {
    let mut world = with_timers(10);
    world.put(circuit(1, "0s-42s 100M"));
    world.run(at(50_000));
    let set: Vec<u64> = settings(&world).iter().map(|(at, _)| *at).collect();
    assert_eq!(set, [0, 5, 10, 15, 20, 25, 30, 35]);
}

#[test]
fn timer_that_cannot_be_set_is_tried_again_and_the_circuit_stays() {
    let mut world = with_timers(8);
    world.put(circuit(1, "0s-100s 100M"));
    world.run(at(3999));
    world.device.fail_change(Some(SimFault::Unreachable), 0);
    world.run(at(6001));
    // at half of the remaining time
    assert_eq!(settings(&world), [(0, 8), (6, 8)]);
    assert_eq!(failures(&world.events), Vec::<&str>::new());
}

#[test]
fn timer_of_an_earlier_agent_is_set_again_soon() {
    let mut world = with_timers(60);
    let known = circuit(1, "0s-900s 100M");
    world.device.install(InstalledCircuit {
        id: ID,
        flow: Some(known.flow),
        rate: Some(Rate::from_mbps(100)),
    });
    world.put(known);
    world.run(at(2000));
    assert_eq!(settings(&world), [(1, 60)]);
}

#[test]
fn device_without_timers_gets_none() {
    let mut world = World::calm();
    world.put(circuit(1, "0s-900s 100M"));
    world.run(at(900_000));
    assert_eq!(settings(&world), []);
}
