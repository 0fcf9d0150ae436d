//! Guard times delay only increases that need capacity of other circuits.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Capabilities, InstalledCircuit};
use lighthaul_circuit::sim_device::FaultModel;

use super::{World, at, capabilities, circuit, failures};

/// Returns a fast device with a guard time of this many seconds.
fn with_guard(seconds: u64) -> World {
    let can = Capabilities {
        reconfiguration: Duration::from_secs(seconds),
        ..capabilities()
    };
    let fault_model = FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 0,
    };
    World::new(can, fault_model, 0)
}

#[test]
fn increase_of_free_capacity_waits_for_no_guard_time() {
    let mut world = with_guard(1);
    world.put(circuit(1, "1s-9s 100M"));
    let stairs: Vec<String> = (0..16_u64)
        .map(|nth| format!("{}ms-{}ms {}M", nth * 500, nth * 500 + 500, 100 - nth))
        .collect();
    world.put(circuit(2, &stairs.join(", ")));
    world.run(at(1001));
    assert_eq!(
        world.rate_at(CircuitId(1), at(1000)),
        Some(Rate::from_mbps(100))
    );
}

#[test]
fn decreases_of_other_circuits_do_not_postpone_an_increase() {
    let mut world = with_guard(1);
    world.put(circuit(1, "1s-9s 100M"));
    world.put(circuit(2, "0s-1s 500M, 1s-1500ms 480M, 1500ms-9s 460M"));
    world.put(circuit(3, "0s-1s 500M, 1s-9s 420M"));
    world.run(at(3000));
    let raised = |millis| world.rate_at(CircuitId(1), at(millis));
    assert_eq!([1999, 2000].map(raised), [None, Some(Rate::from_mbps(100))]);
}

#[test]
fn circuit_reuses_its_freed_capacity_within_the_guard_time() {
    let mut world = with_guard(2);
    world.put(circuit(1, "0s-1s 500M, 1s-2s 100M, 2s-9s 500M"));
    world.put(circuit(2, "2s-9s 500M"));
    world.run(at(1500));
    // a new vector of the same circuit begins within the guard time, too
    world.put(circuit(1, "2500ms-9s 500M"));
    world.run(at(4000));
    let reached = |id, millis| world.rate_at(CircuitId(id), at(millis));
    let half = Some(Rate::from_mbps(500));
    assert_eq!([2499, 2500].map(|at| reached(1, at)), [None, half]);
    assert_eq!([1999, 2000].map(|at| reached(2, at)), [None, half]);
}

/// A circuit of an earlier run, whose reservation ended while nothing ran.
#[test]
fn increase_waits_until_a_stale_circuit_was_removed_and_its_guard_time_has_ended() {
    let mut world = with_guard(2);
    for (id, rate) in [(7, Some(Rate::from_mbps(900))), (2, None)] {
        world.device.install(InstalledCircuit {
            id: CircuitId(id),
            flow: Some(format!("udp {}", 1000 + id).parse().unwrap()),
            rate,
        });
    }
    // the first one fits beside the stale circuit, and the second one does not
    world.put(circuit(1, "0s-9s 100M"));
    world.put(circuit(2, "0s-9s 500M"));
    world.run(at(5000));
    assert_eq!(failures(&world.events), Vec::<&str>::new());
    let reached = |id, millis| world.rate_at(CircuitId(id), at(millis));
    assert_eq!(reached(1, 0), Some(Rate::from_mbps(100)));
    assert_eq!(reached(7, 0), None);
    let half = Some(Rate::from_mbps(500));
    assert_eq!([1999, 2000].map(|at| reached(2, at)), [None, half]);
}
