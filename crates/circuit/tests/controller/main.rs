//! Controllers and simulated devices in virtual time: vectors are followed, and the capacity is never exceeded.
#![expect(clippy::unwrap_used, reason = "a test")]

mod guard_times;
mod misbehaving;
mod timers;

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng, Trc, trc::Step};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::{Controller, Ending, Event, Work};
use lighthaul_circuit::driver::{Capabilities, Change, CountedBytes, Driver, InstalledCircuit};
use lighthaul_circuit::error::Error;
use lighthaul_circuit::flow::Flow;
use lighthaul_circuit::sim_device::{FaultModel, SimDevice};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn capabilities() -> Capabilities {
    Capabilities {
        rate_min: Rate::from_mbps(1),
        rate_max: Rate::from_mbps(1000),
        granularity: Rate::from_mbps(1),
        reconfiguration: Duration::ZERO,
        settling: Duration::ZERO,
        entries_max: 10,
        counted: CountedBytes::IP,
        timer_max: None,
    }
}

/// Returns the reasons of the circuits that failed.
fn failures(events: &[Event]) -> Vec<&str> {
    let failed = events.iter().filter_map(|event| {
        let Event::Failed(_, why) = event else {
            return None;
        };
        Some(why.as_str())
    });
    failed.collect()
}

fn circuit(id: u64, trc: &str) -> Circuit {
    Circuit {
        id: CircuitId(id),
        interface: "eth0".to_owned(),
        flow: format!("udp {}", 1000 + id).parse().unwrap(),
        trc: trc.parse().unwrap(),
    }
}

/// Controller with its device, and a virtual clock.
struct World {
    now: Instant,
    controller: Controller,
    device: SimDevice,
    /// Rates of all circuits at the times of changes.
    history: Vec<(Instant, BTreeMap<CircuitId, Option<Rate>>)>,
    events: Vec<Event>,
    /// Times at which timers were set, and their settings.
    timers: Vec<(Instant, Duration)>,
}

impl World {
    fn new(capabilities: Capabilities, fault_model: FaultModel, seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            controller: Controller::new(capabilities).unwrap(),
            device: SimDevice::new(capabilities, fault_model, seed),
            history: Vec::new(),
            events: Vec::new(),
            timers: Vec::new(),
        }
    }

    fn calm() -> Self {
        let fault_model = FaultModel {
            latency_max: Duration::ZERO,
            fail_ppb: 0,
        };
        Self::new(capabilities(), fault_model, 0)
    }

    fn put(&mut self, circuit: Circuit) {
        let till = circuit.trc.end();
        self.controller.put(self.now, circuit, till).unwrap();
    }

    /// Performs all work until `till`; panics if the controller never waits.
    fn run(&mut self, till: Instant) {
        for _ in 0..100_000 {
            match self.controller.poll_work(self.now) {
                Work::Wait(next) if next > till => {
                    self.now = till;
                    return;
                }
                Work::Wait(next) => self.now = self.now.max(next),
                work @ (Work::Apply(_) | Work::Remove(_) | Work::Inspect) => self.work(work),
            }
            while let Some(event) = self.controller.poll_event() {
                self.events.push(event);
            }
        }
        panic!("the controller never waits");
    }

    fn work(&mut self, work: Work) {
        match work {
            Work::Apply(changes) => {
                let controller = &self.controller;
                let circuits: Vec<(Circuit, Option<Rate>)> = changes
                    .into_iter()
                    .map(|(id, rate)| (controller.circuit(id).unwrap().clone(), rate))
                    .collect();
                let changes = circuits.iter().map(|(circuit, rate)| Change {
                    circuit,
                    rate: *rate,
                    timer: controller.timer(circuit.id, *rate),
                });
                let changes: Vec<Change<'_>> = changes.collect();
                let answers = self.device.apply(&changes);
                for (change, answer) in changes.iter().zip(&answers) {
                    let timer = change.timer.filter(|_| answer.is_ok());
                    self.timers.extend(timer.map(|timer| (self.now, timer)));
                }
                self.now += self.device.latency();
                for (change, answer) in changes.iter().zip(answers) {
                    self.controller.handle_applied(
                        self.now,
                        change.circuit.id,
                        change.rate,
                        answer,
                    );
                }
            }
            Work::Remove(id) => {
                let answer = self.device.remove(id);
                self.now += self.device.latency();
                self.controller.handle_removed(self.now, id, answer);
            }
            Work::Inspect => {
                let answer = self.device.inspect();
                self.now += self.device.latency();
                self.controller.handle_inspected(self.now, answer);
            }
            Work::Wait(_) => {}
        }
        let rates = self.device.circuits();
        let rates = rates.into_iter().map(|(id, standing)| (id, standing.rate));
        self.history.push((self.now, rates.collect()));
    }

    /// Returns the rate of a circuit at a moment.
    fn rate_at(&self, id: CircuitId, moment: Instant) -> Option<Rate> {
        let before = self.history.iter().rev().find(|(at, _)| *at <= moment);
        before.and_then(|(_, rates)| rates.get(&id).copied().flatten())
    }
}

#[test]
fn circuit_is_created_at_once_and_follows_the_vector_to_the_end() {
    let mut world = World::calm();
    let id = CircuitId(1);
    world.put(circuit(1, "1s-2s 100M, 2s-3s 100M, 3s-4s 50M, 5s-6s 700M"));
    world.run(at(10_000));
    let changed = |rate: u64, due| {
        let rate = (rate > 0).then(|| Rate::from_mbps(rate));
        Event::Changed {
            id,
            rate,
            due: at(due),
            at: at(due),
        }
    };
    assert_eq!(
        world.events,
        [
            Event::Created(id),
            changed(100, 1000),
            changed(50, 3000),
            changed(0, 4000),
            changed(700, 5000),
            changed(0, 6000),
            Event::Ended(id, Ending::Completed),
        ]
    );
    assert_eq!(world.device.circuits(), BTreeMap::new());
}

#[test]
fn expired_lease_ends_the_circuit() {
    let mut world = World::calm();
    let id = CircuitId(1);
    let long = circuit(1, "0s-100s 100M");
    world.controller.put(world.now, long, at(2000)).unwrap();
    world.run(at(1000));
    world.controller.renew(world.now, id, at(5000)).unwrap();
    world.run(at(4999));
    assert_eq!(world.rate_at(id, world.now), Some(Rate::from_mbps(100)));
    world.run(at(6000));
    assert_eq!(world.rate_at(id, at(5000)), None);
    assert_eq!(
        world.events.last(),
        Some(&Event::Ended(id, Ending::Expired))
    );
    let why = world
        .controller
        .renew(world.now, id, at(9000))
        .unwrap_err()
        .to_string();
    assert!(why.contains("there is no circuit 1"), "{why}");
}

#[test]
fn circuit_ends_with_its_vector_or_its_release() {
    let mut world = World::calm();
    world
        .controller
        .put(world.now, circuit(1, "0s-3s 100M"), at(9000))
        .unwrap();
    world.put(circuit(2, "0s-9s 100M"));
    world.run(at(2000));
    world.controller.release(world.now, CircuitId(2)).unwrap();
    world.run(at(2000));
    assert_eq!(world.device.circuits().len(), 1);
    world.run(at(4000));
    let ended: Vec<&Event> = world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Ended(..)))
        .collect();
    let expected = [
        &Event::Ended(CircuitId(2), Ending::Released),
        &Event::Ended(CircuitId(1), Ending::Completed),
    ];
    assert_eq!(ended, expected);
}

#[test]
fn new_vector_is_effective_at_once() {
    let mut world = World::calm();
    let id = CircuitId(1);
    world.put(circuit(1, "0s-9s 100M"));
    world.run(at(1000));
    world.put(circuit(1, "0s-2s 300M, 2s-4s 200M"));
    world.run(at(1000));
    assert_eq!(world.rate_at(id, at(1000)), Some(Rate::from_mbps(300)));
    world.run(at(3000));
    assert_eq!(world.rate_at(id, at(2000)), Some(Rate::from_mbps(200)));
    world.run(at(5000));
    assert_eq!(world.rate_at(id, at(4000)), None);
}

#[test]
fn increases_wait_for_the_guard_time_of_the_last_decrease() {
    let guard = Duration::from_millis(10);
    let latency_max = Duration::from_millis(3);
    let fault_model = FaultModel {
        latency_max,
        fail_ppb: 0,
    };
    let mut world = World::new(
        Capabilities {
            reconfiguration: guard,
            ..capabilities()
        },
        fault_model,
        5,
    );
    world.put(circuit(1, "0s-1s 900M, 1s-2s 100M"));
    world.put(circuit(2, "0s-1s 100M, 1s-2s 900M"));
    world.run(at(1500));
    let moments = |id, mbps| {
        let is_it = |event: &&Event| matches!(event, Event::Changed { id: of, rate, .. } if *of == CircuitId(id) && *rate == Some(Rate::from_mbps(mbps)));
        let event = world.events.iter().rfind(is_it).unwrap();
        let Event::Changed { at, .. } = event else {
            unreachable!()
        };
        *at
    };
    let (down, up) = (moments(1, 100), moments(2, 900));
    assert!(down <= at(1003), "{down}");
    assert!(
        up >= down + guard && up <= down + guard + latency_max,
        "{down} {up}"
    );
    assert!(
        world
            .events
            .iter()
            .all(|event| !matches!(event, Event::Failed(..)))
    );
}

#[test]
fn installed_circuits_are_compared_with_wanted_circuits() {
    let mut world = World::calm();
    let standing = |id, port: u64, rate: u64| InstalledCircuit {
        id: CircuitId(id),
        flow: Some(format!("udp {port}").parse().unwrap()),
        rate: Some(Rate::from_mbps(rate)),
    };
    // a correct one, one that is too fast, one with another flow, and one that is not wanted
    world.device.install(standing(1, 1001, 100));
    world.device.install(standing(2, 1002, 555));
    world.device.install(standing(3, 9999, 100));
    world.device.install(standing(4, 1004, 1));
    // the device cannot have the rest of a rate
    world.put(circuit(1, "0s-9s 100.0003M"));
    for id in [2, 3, 5] {
        world.put(circuit(id, "0s-9s 100M"));
    }
    world.run(at(1));
    let device = world.device.circuits();
    let expected: Vec<InstalledCircuit> =
        [1, 2, 3, 5].map(|id| standing(id, 1000 + id, 100)).into();
    assert_eq!(device.into_values().collect::<Vec<_>>(), expected);
    assert!(
        world.events.contains(&Event::StaleRemoved(CircuitId(4))),
        "{:?}",
        world.events
    );
    let touched = |id| {
        world
            .events
            .iter()
            .any(|event| matches!(event, Event::Changed { id: of, .. } if *of == CircuitId(id)))
    };
    assert!(!touched(1), "what is as it should be is left alone");
    // the agent before may have ended before it reported the change
    let adopted = |event: &&Event| matches!(event, Event::Adopted(..));
    let adopted: Vec<&Event> = world.events.iter().filter(adopted).collect();
    let rate = Rate::from_bps(100_000_300);
    assert_eq!(adopted, [&Event::Adopted(CircuitId(1), rate)]);
    let repaired = |event: &Event| matches!(event, Event::Repaired(_));
    assert!(!world.events.iter().any(repaired), "{:?}", world.events);
    // another program changes a circuit later
    world.events.clear();
    world.device.install(standing(1, 1001, 999));
    world.device.install(standing(7, 1007, 1));
    world.put(circuit(5, "0s-99s 100M"));
    world.run(at(40_000));
    assert!(
        world.events.contains(&Event::StaleRemoved(CircuitId(7))),
        "{:?}",
        world.events
    );
}

#[test]
fn changed_circuit_is_corrected_within_a_minute() {
    let mut world = World::calm();
    let wanted = circuit(1, "0s-99s 100M");
    world.put(wanted.clone());
    world.put(circuit(2, "0s-99s 100M"));
    world.run(at(1000));
    let flow = Some(wanted.flow);
    world.device.install(InstalledCircuit {
        id: wanted.id,
        flow,
        rate: None,
    });
    world.run(at(60_000));
    let repaired = world.events.iter();
    let repaired = repaired.filter(|event| matches!(event, Event::Repaired(_)));
    assert!(repaired.eq([&Event::Repaired(wanted.id)]));
    assert_eq!(
        world.device.circuits()[&wanted.id].rate,
        Some(Rate::from_mbps(100))
    );
}

#[test]
fn impossible_circuits_are_refused_with_a_reason() {
    let mut world = World::calm();
    world.put(circuit(1, "1s-5s 100M"));
    world.now = at(500);
    let same_flow = |trc: &str| Circuit {
        flow: circuit(1, trc).flow,
        ..circuit(2, trc)
    };
    for (circuit_, lease, says) in [
        (circuit(2, "0s-400ms 1M"), 900, "lie in the past"),
        (circuit(2, "1s-2s 1M"), 500, "lease"),
        (
            circuit(2, "1s-2s 2G"),
            900,
            "eth0 does not support 2.000 Gb/s",
        ),
        (circuit(2, "1s-2s 500k"), 900, "does not support"),
        (circuit(2, "1s-2s 1500k"), 900, "a multiple of 1.000 Mb/s"),
        (
            same_flow("4s-6s 1M"),
            900,
            "circuit 1 takes the same packets",
        ),
        (
            Circuit {
                flow: Flow::ALL,
                ..circuit(1, "1s-2s 1M")
            },
            900,
            "identifier is taken",
        ),
    ] {
        let why = world
            .controller
            .put(world.now, circuit_, at(lease))
            .unwrap_err();
        // conflicts with other circuits are temporary
        let is_busy = says.contains("same packets") || says.contains("taken");
        assert_eq!(matches!(why, Error::Busy { .. }), is_busy, "{why}");
        assert!(why.to_string().contains(says), "{why}");
    }
    // successive circuits may have the same packets
    world.put(same_flow("5s-6s 1M"));
    for id in 3..=10 {
        world.put(circuit(id, "1s-2s 1M"));
    }
    let full = world
        .controller
        .put(world.now, circuit(11, "1s-2s 1M"), at(900))
        .unwrap_err();
    assert!(full.to_string().contains("10 circuits already"), "{full}");
    // a known one gets another vector
    world.put(circuit(10, "1s-2s 2M"));
    assert!(world.controller.release(world.now, CircuitId(99)).is_err());
}

#[test]
fn dropped_events_are_counted() {
    let mut world = World::calm();
    let steps: Vec<String> = (0..4000)
        .map(|n| format!("{}ms-{}ms {}M", n, n + 1, n % 2 + 1))
        .collect();
    let mut count_of_events = 0;
    for id in 1..=10 {
        world.put(circuit(id, &steps.join(",")));
    }
    while let next = world.controller.poll_work(world.now)
        && count_of_events < 50_000
    {
        match next {
            Work::Wait(Instant::NEVER) => break,
            Work::Wait(next) => world.now = world.now.max(next),
            work @ (Work::Apply(_) | Work::Remove(_) | Work::Inspect) => {
                count_of_events += 1;
                world.work(work);
            }
        }
    }
    let Some(Event::Overflow(lost)) = world.controller.poll_event() else {
        panic!("events were lost")
    };
    let kept = std::iter::from_fn(|| world.controller.poll_event()).count() as u64;
    assert_eq!(kept, lighthaul_circuit::controller::EVENTS_MAX as u64);
    // created, changed at each step, closed, ended
    assert_eq!(kept + lost, 10 * (1 + 4000 + 1 + 1));
}

#[test]
fn failed_circuit_is_reported_once_and_removed() {
    let mut world = World::calm();
    world.put(circuit(1, "1s-9s 100M"));
    world.put(circuit(2, "0s-20s 100M"));
    world.run(at(500));
    world.device.set_fault_model(FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 1_000_000_000,
    });
    world.run(at(2000));
    assert!(
        matches!(&world.events[..], [.., Event::Failed(CircuitId(1), why)] if why.contains("call failed")),
        "{:?}",
        world.events
    );
    assert_eq!(
        world.rate_at(CircuitId(2), world.now),
        Some(Rate::from_mbps(100))
    );
    world.device.set_fault_model(FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: 0,
    });
    world.run(at(15_000));
    assert!(
        !world.device.circuits().contains_key(&CircuitId(1)),
        "what is left of it is taken away"
    );
    let failures = world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Failed(..)));
    assert_eq!(failures.count(), 1);
    // its identifier is free again
    world.put(circuit(1, "16s-17s 100M"));
    world.run(at(16_500));
    assert_eq!(
        world.rate_at(CircuitId(1), at(16_000)),
        Some(Rate::from_mbps(100))
    );
}

/// Returns vectors whose sum never exceeds a gigabit a second, as a calendar grants them: at some instants, the
/// capacity is divided again.
fn grants(seed: u64, count: u64) -> Vec<Circuit> {
    let mut rng = Rng::new(seed);
    let mut steps: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
    let mut from = SECOND;
    for _ in 0..12 {
        let till = from + 50_000_000 + rng.below(SECOND);
        let mut left = 1000;
        for id in 1..=count {
            let mbps = rng.below(left + 1) * rng.below(2);
            left -= mbps;
            if let Some(rate) = Rate::from_bps(mbps * 1_000_000) {
                let (from, till) = (Instant::from_nanos(from), Instant::from_nanos(till));
                steps.entry(id).or_default().push(Step { from, till, rate });
            }
        }
        from = till;
    }
    let circuits = steps.into_iter().map(|(id, steps)| Circuit {
        trc: Trc::new(steps).unwrap(),
        ..circuit(id, "0s-1s 1M")
    });
    circuits.collect()
}

proptest! {
    #[test]
    fn vectors_are_followed_and_the_capacity_is_never_exceeded(seed: u64, count in 1_u64..8, latency in 0_u64..3, guard in 0_u64..20) {
        let fault_model = FaultModel { latency_max: Duration::from_millis(latency), fail_ppb: 0 };
        let guard = Duration::from_millis(guard);
        let mut world = World::new(Capabilities { reconfiguration: guard, ..capabilities() }, fault_model, seed);
        let circuits = grants(seed, count);
        for circuit in &circuits {
            world.put(circuit.clone());
        }
        world.run(at(30_000));
        for (nth, (moment, rates)) in world.history.iter().enumerate() {
            let mut used = rates.clone();
            for pair in world.history[..=nth].windows(2).rev() {
                if pair[1].0 + guard <= *moment {
                    break;
                }
                for (id, rate) in &pair[0].1 {
                    let most = used.entry(*id).or_default();
                    *most = (*most).max(*rate);
                }
            }
            let all: u64 = used.values().flatten().map(|rate| rate.as_bps()).sum();
            prop_assert!(all <= SECOND, "{} at {}", all, moment);
        }
        // the delays: the current call, one for decreases, one for increases, and the guard time
        let late = Duration::from_millis(3 * latency) + guard;
        for circuit in &circuits {
            for step in circuit.trc.steps() {
                for moment in [step.from + late, step.till - Duration::from_nanos(1)] {
                    if moment < step.till && step.from + late < step.till {
                        prop_assert_eq!(world.rate_at(circuit.id, moment), Some(step.rate));
                    }
                }
                let after = step.till + late;
                prop_assert!(world.rate_at(circuit.id, after).is_none() || circuit.trc.rate_at(after).is_some());
            }
        }
        let failed = world.events.iter().any(|event| matches!(event, Event::Failed(..) | Event::Overflow(_)));
        prop_assert!(!failed);
        prop_assert_eq!(world.device.circuits(), BTreeMap::new());
    }

    #[test]
    fn failures_are_reported_once_and_no_circuits_remain(seed: u64, count in 1_u64..8, fail_ppb in 0_u64..300_000_000) {
        let fault_model = FaultModel { latency_max: Duration::from_millis(1), fail_ppb };
        let mut world = World::new(capabilities(), fault_model, seed);
        let circuits = grants(seed, count);
        for circuit in &circuits {
            world.put(circuit.clone());
        }
        world.run(at(30_000));
        // once the device works again, the remains are removed
        world.device.set_fault_model(FaultModel { latency_max: Duration::ZERO, fail_ppb: 0 });
        world.run(at(100_000));
        // also if the device could not be read before
        for circuit in &circuits {
            let ends = world.events.iter().filter(|event| matches!(event, Event::Ended(id, _) | Event::Failed(id, _) if *id == circuit.id));
            prop_assert_eq!(ends.count(), 1, "{} has one final event", circuit.id);
        }
        prop_assert_eq!(world.device.circuits(), BTreeMap::new());
    }
}
