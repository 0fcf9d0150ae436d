//! Devices that refuse, or lose answers: nothing gets capacity that a circuit may still use.

use lighthaul_circuit::error::Misuse;
use lighthaul_circuit::sim_device::SimFault;

use super::*;

/// Returns the times at which the controller calls the device until `till`, with the calls.
fn calls(world: &mut World, till: Instant) -> Vec<(u64, Work)> {
    let mut calls = Vec::new();
    for _ in 0..1000 {
        match world.controller.poll_work(world.now) {
            Work::Wait(next) if next > till => {
                world.now = till;
                return calls;
            }
            Work::Wait(next) => world.now = world.now.max(next),
            work @ (Work::Apply(_) | Work::Remove(_) | Work::Inspect) => {
                let millis = world.now.as_nanos() / 1_000_000;
                calls.push((millis, work.clone()));
                world.work(work);
            }
        }
    }
    panic!("the controller never waits");
}

fn standing(id: u64, mbps: u64) -> InstalledCircuit {
    InstalledCircuit {
        id: CircuitId(id),
        flow: Some(format!("udp {}", 1000 + id).parse().unwrap()),
        rate: Some(Rate::from_mbps(mbps)),
    }
}

#[test]
fn stale_circuit_that_cannot_be_removed_keeps_its_capacity() {
    let mut world = World::calm();
    world.device.install(standing(7, 900));
    world.device.install(standing(8, 50));
    world.device.fail_removals(3);
    world.put(circuit(1, "0s-90s 100M"));
    world.put(circuit(2, "0s-90s 50M"));
    world.run(at(9999));
    assert_eq!(failures(&world.events), Vec::<&str>::new());
    let rate = |world: &World, id| world.rate_at(CircuitId(id), world.now);
    // the second one does not fit beside the stale circuits
    assert_eq!(rate(&world, 1), None);
    assert_eq!(rate(&world, 2), Some(Rate::from_mbps(50)));
    assert_eq!(rate(&world, 7), Some(Rate::from_mbps(900)));
    // each one was tried once, and the first one fails a second time
    world.run(at(10_000));
    assert_eq!(rate(&world, 8), None);
    assert_eq!(rate(&world, 7), Some(Rate::from_mbps(900)));
    world.run(at(19_999));
    assert_eq!(rate(&world, 1), None);
    world.run(at(20_000));
    assert_eq!(rate(&world, 7), None);
    assert_eq!(rate(&world, 1), Some(Rate::from_mbps(100)));
    assert_eq!(failures(&world.events), Vec::<&str>::new());
    let removed = |id| Event::StaleRemoved(CircuitId(id));
    let count = |event| world.events.iter().filter(|one| **one == event).count();
    assert_eq!([count(removed(7)), count(removed(8))], [1, 1]);
}

#[test]
fn increase_whose_answer_is_lost_uses_its_capacity_until_its_removal() {
    let mut world = World::calm();
    world.put(circuit(1, "0s-1s 100M, 1s-5s 900M"));
    world.put(circuit(2, "5s-90s 900M"));
    world.run(at(999));
    world.device.fail_change(Some(SimFault::AnswerLost), 0);
    world.device.fail_removals(2);
    world.run(at(20_999));
    let rate = |world: &World, id| world.rate_at(CircuitId(id), world.now);
    assert_eq!(rate(&world, 1), Some(Rate::from_mbps(900)));
    assert_eq!(rate(&world, 2), None);
    world.run(at(21_000));
    assert_eq!(rate(&world, 1), None);
    assert_eq!(rate(&world, 2), Some(Rate::from_mbps(900)));
    assert_eq!(failures(&world.events).len(), 1);
}

#[test]
fn circuit_that_can_neither_be_decreased_nor_removed_keeps_its_capacity() {
    let mut world = World::calm();
    world.put(circuit(1, "0s-1s 900M, 1s-5s 100M"));
    world.put(circuit(2, "1s-90s 900M"));
    world.put(circuit(3, "1s-90s 100M"));
    world.run(at(999));
    world.device.fail_change(Some(SimFault::Refused), 0);
    world.device.fail_removals(1);
    world.run(at(10_999));
    let rate = |world: &World, id| world.rate_at(CircuitId(id), world.now);
    let all = [1, 2, 3].map(|id| rate(&world, id).map(Rate::as_bps));
    assert_eq!(all, [Some(900_000_000), None, Some(100_000_000)]);
    world.run(at(11_000));
    let all = [1, 2, 3].map(|id| rate(&world, id).map(Rate::as_bps));
    assert_eq!(all, [None, Some(900_000_000), Some(100_000_000)]);
    assert_eq!(failures(&world.events).len(), 1);
}

#[test]
fn refused_increase_uses_only_its_earlier_rate() {
    let mut world = World::calm();
    world.put(circuit(1, "0s-1s 100M, 1s-5s 900M"));
    world.put(circuit(2, "1s-90s 900M"));
    world.run(at(999));
    world.device.fail_change(Some(SimFault::Refused), 0);
    world.device.fail_removals(1);
    world.run(at(1000));
    let rate = |id| world.rate_at(CircuitId(id), world.now);
    assert_eq!(rate(1), Some(Rate::from_mbps(100)));
    assert_eq!(rate(2), Some(Rate::from_mbps(900)));
}

#[test]
fn inspection_needs_a_quarter_of_a_second_before_the_next_change() {
    for (change, is_first) in [(30_249, false), (30_250, true)] {
        let mut world = World::calm();
        world.put(circuit(
            1,
            &format!("0s-{change}ms 100M, {change}ms-90s 50M"),
        ));
        world.run(at(29_999));
        let calls = calls(&mut world, at(40_000));
        let inspected = if is_first { 30_000 } else { change };
        let place = calls
            .iter()
            .position(|one| *one == (inspected, Work::Inspect));
        assert_eq!(place, Some(usize::from(!is_first)), "{calls:?}");
        assert_eq!(calls.len(), 2, "{calls:?}");
    }
}

#[test]
fn failed_calls_are_repeated_after_ten_seconds() {
    let mut world = World::calm();
    world.put(circuit(1, "0s-5s 100M"));
    world.run(at(4999));
    world.device.fail_removals(2);
    let end = calls(&mut world, at(40_000));
    let removals = end
        .iter()
        .filter(|(_, work)| matches!(work, Work::Remove(_)));
    let times: Vec<u64> = removals.map(|(at, _)| *at).collect();
    assert_eq!(times, [5000, 15_000, 25_000]);

    let mut world = World::calm();
    let (latency_max, fail_ppb) = (Duration::ZERO, 1_000_000_000);
    let broken = FaultModel {
        latency_max,
        fail_ppb,
    };
    world.device.set_fault_model(broken);
    let inspections: Vec<u64> = calls(&mut world, at(29_999))
        .iter()
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(inspections, [0, 10_000, 20_000]);
    world.device.set_fault_model(FaultModel {
        fail_ppb: 0,
        ..broken
    });
    let inspections: Vec<u64> = calls(&mut world, at(70_000))
        .iter()
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(inspections, [30_000, 60_000]);
}

#[test]
fn circuit_that_ends_keeps_its_number_until_its_removal() {
    let mut world = World::calm();
    world.put(circuit(1, "0s-90s 100M"));
    world.run(at(1000));
    world.controller.release(world.now, CircuitId(1)).unwrap();
    let again = circuit(1, "2s-90s 100M");
    let why = world.controller.put(world.now, again.clone(), at(90_000));
    let why = why.unwrap_err().to_string();
    assert!(why.contains("identifier is taken"), "{why}");
    assert!(world.controller.release(world.now, CircuitId(1)).is_err());
    let renewed = world.controller.renew(world.now, CircuitId(1), at(90_000));
    assert!(renewed.is_err());
    world.run(at(1000));
    world.put(again);
    for till in [999, 1000] {
        let renewed = world.controller.renew(world.now, CircuitId(1), at(till));
        assert!(renewed.unwrap_err().to_string().contains("lease"));
    }
    world
        .controller
        .renew(world.now, CircuitId(1), at(1001))
        .unwrap();
}

#[test]
fn circuits_with_the_same_packets_may_touch_in_time() {
    let mut world = World::calm();
    world.put(circuit(1, "10s-20s 100M"));
    let other = |trc: &str| Circuit {
        id: CircuitId(2),
        ..circuit(1, trc)
    };
    for (trc, is_free) in [
        ("5s-10s 1M", true),
        ("5s-10001ms 1M", false),
        ("19999ms-25s 1M", false),
        ("20s-25s 1M", true),
        ("12s-15s 1M", false),
    ] {
        let put = world.controller.put(world.now, other(trc), at(90_000));
        assert_eq!(put.is_ok(), is_free, "{trc}");
    }
}

#[test]
fn all_circuits_are_released_at_once() {
    let mut world = World::calm();
    world.put(circuit(1, "0s-90s 100M"));
    world.put(circuit(2, "5s-90s 100M"));
    world.run(at(1000));
    world.controller.release(world.now, CircuitId(1)).unwrap();
    world.put(circuit(3, "0s-90s 100M"));
    world.controller.release_all(world.now);
    assert_eq!(world.controller.circuits().count(), 0);
    world.run(at(1000));
    assert_eq!(world.device.circuits(), BTreeMap::new());
    let ended = |id| Event::Ended(CircuitId(id), Ending::Released);
    let all = world
        .events
        .iter()
        .filter(|one| matches!(one, Event::Ended(..)));
    assert!(
        all.eq(&[ended(1), ended(2), ended(3)]),
        "{:?}",
        world.events
    );
}

/// Makes all calls of a device fail, or none.
fn fail(world: &World, is_failing: bool) {
    world.device.set_fault_model(FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: if is_failing { 1_000_000_000 } else { 0 },
    });
}

#[test]
fn device_that_was_never_read_keeps_its_circuits() {
    let mut world = World::calm();
    // one circuit continues, another one is not wanted, and a third one begins
    world.device.install(standing(1, 300));
    world.device.install(standing(7, 600));
    world.put(circuit(1, "0s-90s 300M"));
    world.put(circuit(2, "0s-90s 700M"));
    fail(&world, true);
    world.run(at(39_999));
    let calls_before = world.device.take_calls();
    assert!(calls_before.is_empty(), "{calls_before:?}");
    let failed = |event: &&Event| matches!(event, Event::InspectFailed(_));
    assert_eq!(
        world.events.iter().filter(failed).count(),
        world.events.len()
    );
    assert_eq!(world.events.len(), 4);
    fail(&world, false);
    world.run(at(60_000));
    let rate = |id| world.rate_at(CircuitId(id), world.now);
    assert_eq!(rate(1), Some(Rate::from_mbps(300)));
    assert_eq!(rate(2), Some(Rate::from_mbps(700)));
    assert_eq!(rate(7), None);
    // the circuit that continues was never dark, and no sum was too high
    for (_, rates) in world.history.iter().filter(|(time, _)| *time >= at(40_000)) {
        assert_eq!(rates[&CircuitId(1)], Some(Rate::from_mbps(300)));
        let sum: u64 = rates.values().flatten().map(|rate| rate.as_bps()).sum();
        assert!(sum <= 1_000_000_000, "{sum}");
    }
}

#[test]
fn circuit_that_begins_at_a_device_that_is_never_read_fails_after_three_minutes() {
    let mut world = World::calm();
    world.put(circuit(1, "0s-900s 300M"));
    world.put(circuit(2, "10s-900s 300M"));
    world.put(circuit(3, "11s-900s 300M"));
    fail(&world, true);
    world.run(at(189_000));
    assert_eq!(failures(&world.events), Vec::<&str>::new());
    // the next attempt to read the device is at 190 s
    world.run(at(190_000));
    let failed = |event: &Event| {
        let Event::Failed(id, why) = event else {
            return None;
        };
        Some((id.0, why.contains("could not be read since the start: ")))
    };
    let all = |world: &World| world.events.iter().filter_map(failed).collect::<Vec<_>>();
    assert_eq!(all(&world), [(2, true)]);
    world.run(at(201_000));
    // the first circuit may carry packets since before the start
    assert_eq!(all(&world), [(2, true), (3, true)]);
    fail(&world, false);
    world.run(at(300_000));
    let rate = |id| world.rate_at(CircuitId(id), world.now);
    assert_eq!(
        [1, 2, 3].map(rate),
        [Some(Rate::from_mbps(300)), None, None]
    );
    assert_eq!(all(&world).len(), 2);
}

#[test]
fn busy_device_is_inspected_after_five_minutes() {
    let mut controller = Controller::new(capabilities()).unwrap();
    assert_eq!(controller.poll_work(at(0)), Work::Inspect);
    // the list of this device takes longer than the time between two changes
    controller.handle_inspected(at(5000), Ok(Vec::new()));
    let steps: Vec<String> = (0..400)
        .map(|nth| format!("{}s-{}s {}M", nth + 6, nth + 7, 100 + nth % 2))
        .collect();
    let circuit = circuit(1, &steps.join(", "));
    controller.put(at(5000), circuit, Instant::NEVER).unwrap();
    let mut inspected = Vec::new();
    let mut now = at(5000);
    while now < at(400_000) {
        match controller.poll_work(now) {
            Work::Apply(changes) => {
                for (id, rate) in changes {
                    controller.handle_applied(now, id, rate, Ok(()));
                }
            }
            Work::Remove(id) => controller.handle_removed(now, id, Ok(())),
            Work::Inspect => {
                inspected.push(now);
                now += Duration::from_secs(5);
                controller.handle_inspected(now, Err(Misuse::UnknownCircuit(CircuitId(9)).into()));
            }
            Work::Wait(till) => now = till,
        }
    }
    assert_eq!(inspected.first(), Some(&at(335_000)), "{inspected:?}");
}

#[test]
fn inspection_that_took_long_needs_as_long_before_the_next_change() {
    // the first inspection takes five seconds, and changes follow each other each second until half a minute has passed
    let mut controller = Controller::new(capabilities()).unwrap();
    assert_eq!(controller.poll_work(at(0)), Work::Inspect);
    controller.handle_inspected(at(5000), Ok(Vec::new()));
    controller
        .put(
            at(5000),
            circuit(1, "0s-40s 100M, 40s-90s 50M"),
            Instant::NEVER,
        )
        .unwrap();
    let work = |controller: &mut Controller, millis| loop {
        match controller.poll_work(at(millis)) {
            Work::Apply(changes) => {
                for (id, rate) in changes {
                    controller.handle_applied(at(millis), id, rate, Ok(()));
                }
            }
            work @ (Work::Remove(_) | Work::Inspect | Work::Wait(_)) => break work,
        }
    };
    assert_eq!(work(&mut controller, 5000), Work::Wait(at(35_000)));
    assert_eq!(work(&mut controller, 35_000), Work::Wait(at(40_000)));
    assert_eq!(work(&mut controller, 40_000), Work::Inspect);
}
