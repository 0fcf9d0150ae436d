//! Checks of a driver whose device works correctly.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Trc, trc::Step};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;

use crate::agent::{Agent, LeasedCircuit};
use crate::circuit::CircuitId;
use crate::conformance::kit::{Check, Checked, Kit, shown, state_of, text};
use crate::conformance::outcome::Outcome;
use crate::conformance::subject::State;
use crate::controller::Event;

/// Checks and their names.
pub(super) const ALL: &[(&str, &Check)] = &[
    ("capabilities stay the same", &capabilities_stay),
    ("circuits are set and read back", &set_and_read_back),
    ("rates are replaced", &replace),
    ("calls can be repeated", &repeat),
    ("an unknown circuit can be removed", &remove_unknown),
    ("circuits survive the driver", &survive),
    ("rates never exceed the requested rates", &rates),
    ("decreases make way for increases", &swap),
    ("at a boundary, decreases come first", &boundary),
    ("many circuits", &many),
    ("a full device refuses another circuit", &full),
    ("circuits of other clients are kept", &foreign),
    ("timers close circuits without the driver", &timers),
];

fn capabilities_stay(kit: &mut Kit<'_>) -> Checked {
    kit.reopen()?;
    let again = kit.driver()?.capabilities();
    if again != kit.can {
        return Err(format!("{again:?} instead of {:?}", kit.can));
    }
    Ok(Outcome::Passed)
}

fn set_and_read_back(kit: &mut Kit<'_>) -> Checked {
    let quarter = kit.quarters(1);
    kit.set(1, None)?;
    kit.expect(&state_of(&[(1, None)]))?;
    kit.set(2, quarter)?;
    kit.expect(&state_of(&[(1, None), (2, quarter)]))?;
    kit.set(1, quarter)?;
    kit.expect(&state_of(&[(1, quarter), (2, quarter)]))?;
    kit.remove(2)?;
    kit.expect(&state_of(&[(1, quarter)]))?;
    Ok(Outcome::Passed)
}

fn replace(kit: &mut Kit<'_>) -> Checked {
    for quarters in [1, 4, 2, 3] {
        let rate = kit.quarters(quarters);
        kit.set(1, rate)?;
        kit.expect(&state_of(&[(1, rate)]))?;
    }
    kit.set(1, None)?;
    kit.expect(&state_of(&[(1, None)]))?;
    Ok(Outcome::Passed)
}

fn repeat(kit: &mut Kit<'_>) -> Checked {
    for rate in [None, kit.quarters(2), kit.quarters(1)] {
        for _ in 0..3 {
            kit.set(1, rate)?;
            kit.expect(&state_of(&[(1, rate)]))?;
        }
    }
    for _ in 0..3 {
        kit.remove(1)?;
        kit.expect(&State::new())?;
    }
    Ok(Outcome::Passed)
}

fn remove_unknown(kit: &mut Kit<'_>) -> Checked {
    let quarter = kit.quarters(1);
    kit.set(1, quarter)?;
    kit.remove(77)?;
    kit.expect(&state_of(&[(1, quarter)]))?;
    Ok(Outcome::Passed)
}

fn survive(kit: &mut Kit<'_>) -> Checked {
    let expected = state_of(&[(1, kit.quarters(1)), (2, None), (3, kit.quarters(2))]);
    for (id, rate) in &expected {
        kit.set(id.0, *rate)?;
    }
    for _ in 0..2 {
        kit.reopen()?;
        kit.expect(&expected)?;
    }
    // the new driver changes them, too
    kit.set(3, kit.quarters(1))?;
    kit.remove(1)?;
    kit.expect(&state_of(&[(2, None), (3, kit.quarters(1))]))?;
    Ok(Outcome::Passed)
}

fn rates(kit: &mut Kit<'_>) -> Checked {
    let (unit, least) = (kit.can.granularity.as_bps(), kit.least().as_bps());
    let most = kit.can.rate_max.as_bps() / unit * unit;
    for bits in [least, least + unit, most - unit, most] {
        let rate = Rate::from_bps(bits).filter(|rate| kit.can.fit(*rate) == Some(*rate));
        let Some(rate) = rate else { continue };
        kit.set(1, Some(rate))?;
        kit.expect(&state_of(&[(1, Some(rate))]))?;
    }
    // the scheduler asks for no such rates; a driver refuses them, or sets less
    for bits in [least + unit / 2, most.saturating_add(unit), least / 2] {
        let asked = Rate::from_bps(bits).filter(|rate| kit.can.fit(*rate) != Some(*rate));
        let Some(asked) = asked else { continue };
        kit.set(1, Some(kit.least()))?;
        let result = kit.apply(&[(1, Some(asked))])?.remove(0);
        let set = kit.state()?.get(&CircuitId(1)).copied().flatten();
        let limit = if result.is_ok() { asked } else { kit.least() };
        if set > Some(limit) {
            let (asked, set) = (shown(Some(asked)), shown(set));
            return Err(format!("a request for {asked} gave {set}"));
        }
    }
    Ok(Outcome::Passed)
}

fn swap(kit: &mut Kit<'_>) -> Checked {
    let (low, high) = (kit.quarters(1), kit.quarters(3));
    kit.set(1, high)?;
    kit.set(2, low)?;
    for (down, up) in [(1, 2), (2, 1)] {
        let results = kit.apply(&[(down, low), (up, high)])?;
        for result in results {
            result.map_err(|why| format!("two circuits did not exchange their rates: {why}"))?;
        }
        kit.expect(&state_of(&[(down, low), (up, high)]))?;
    }
    Ok(Outcome::Passed)
}

/// Two circuits exchange their rates at a boundary of their vectors, which an agent enforces.
fn boundary(kit: &mut Kit<'_>) -> Checked {
    let clock = Clock::start();
    let [Some(low), Some(high)] = [kit.quarters(1), kit.quarters(3)] else {
        return Err("a quarter of its capacity is no rate".to_owned());
    };
    let guard = kit.can.guard();
    let (begin, middle) = (clock.now() + TURN, clock.now() + TURN + TURN + guard);
    let end = middle + LONG;
    let vector = |first, second| {
        let step = |from, till, rate| Step { from, till, rate };
        let steps = vec![step(begin, middle, first), step(middle, end, second)];
        Trc::new(steps).map_err(|why| why.to_string())
    };
    let mut wanted = Vec::new();
    for (id, trc) in [(1, vector(low, high)?), (2, vector(high, low)?)] {
        let circuit = crate::circuit::Circuit {
            trc,
            ..kit.circuit(id)
        };
        let lease_till = end;
        wanted.push(LeasedCircuit {
            circuit,
            lease_till,
        });
    }
    let driver = kit.take_driver()?;
    let drivers = BTreeMap::from([(kit.subject.interface(), driver)]);
    let started = Agent::start(clock, drivers, wanted).map_err(|why| why.to_string())?;
    let (agent, refused) = started;
    if let Some((id, why)) = refused.first() {
        return Err(format!("{id}: {why}"));
    }
    let mut changes = Vec::new();
    while changes.len() < 4 {
        let next = agent.wait_event(end).map_err(|why| why.to_string())?;
        match next {
            Some((_, Event::Changed { id, rate, at, .. })) => changes.push((id.0, rate, at)),
            Some((_, Event::Created(_))) => {}
            other => return Err(format!("the change at the boundary resulted in {other:?}")),
        }
    }
    drop(agent);
    let (down, up) = (changes[2], changes[3]);
    let is_right = (down.0, down.1) == (2, Some(low)) && (up.0, up.1) == (1, Some(high));
    if !is_right || up.2 < down.2 + guard {
        return Err(format!("the changes were {changes:?}"));
    }
    kit.expect(&State::new())?;
    Ok(Outcome::Passed)
}

fn many(kit: &mut Kit<'_>) -> Checked {
    let count = (kit.can.entries_max as u64).min(MANY);
    let all: Vec<(u64, Option<Rate>)> = (1..=count).map(|id| (id, None)).collect();
    for result in kit.apply(&all)? {
        result.map_err(|why| format!("one of {count} circuits was not made: {why}"))?;
    }
    let quarter = kit.quarters(1);
    kit.set(count, quarter)?;
    let mut expected = state_of(&all);
    expected.insert(CircuitId(count), quarter);
    kit.expect(&expected)?;
    for id in (1..=count).step_by(2) {
        kit.remove(id)?;
        expected.remove(&CircuitId(id));
    }
    kit.expect(&expected)?;
    Ok(Outcome::Passed)
}

fn full(kit: &mut Kit<'_>) -> Checked {
    let count = kit.can.entries_max as u64;
    if count > FULL {
        return Ok(Outcome::NotApplicable("it has room for more circuits"));
    }
    let all: Vec<(u64, Option<Rate>)> = (1..=count).map(|id| (id, None)).collect();
    for result in kit.apply(&all)? {
        result.map_err(|why| format!("one of {count} circuits was not made: {why}"))?;
    }
    if kit.apply(&[(count + 1, None)])?.remove(0).is_ok() {
        return Err(format!("it took more than its maximum of {count} circuits"));
    }
    kit.expect(&state_of(&all))?;
    Ok(Outcome::Passed)
}

fn foreign(kit: &mut Kit<'_>) -> Checked {
    let quarter = kit.quarters(1);
    kit.set(1, quarter)?;
    if !kit.subject.make_foreign() {
        return Ok(Outcome::NotApplicable("no other client can be simulated"));
    }
    kit.expect(&state_of(&[(1, quarter)]))?;
    kit.set(2, quarter)?;
    kit.reopen()?;
    kit.expect(&state_of(&[(1, quarter), (2, quarter)]))?;
    kit.remove(1)?;
    kit.set(2, None)?;
    kit.expect(&state_of(&[(2, None)]))?;
    if !kit.subject.take_foreign() {
        return Err("it changed the configuration of another client".to_owned());
    }
    Ok(Outcome::Passed)
}

fn timers(kit: &mut Kit<'_>) -> Checked {
    if kit.can.timer_max.is_none() {
        return Ok(Outcome::NotApplicable("it has no timers"));
    }
    let quarter = kit.quarters(1);
    let clock = Clock::start();
    for id in 1..=3 {
        kit.set_for(id, quarter, TIMER)?;
    }
    // each change resets the timer, also a change without a timer or with the same rate
    kit.set_for(2, quarter, LONG)?;
    kit.set(3, quarter)?;
    let open = state_of(&[(1, quarter), (2, quarter), (3, quarter)]);
    let closed = state_of(&[(1, None), (2, quarter), (3, quarter)]);
    kit.expect(&open)?;
    loop {
        kit.close();
        pause(TURN);
        let state = kit.state()?;
        let time = clock.now().since(Instant::ZERO);
        if state == closed && time < TIMER {
            return Err("a timer ended too early".to_owned());
        } else if state == closed {
            break;
        } else if time > LATE {
            return Err(format!("it has {} after {time:?}", text(&state)));
        }
    }
    kit.expect(&closed)?;
    // a closed circuit can be opened again
    kit.set_for(1, quarter, LONG)?;
    kit.expect(&open)?;
    Ok(Outcome::Passed)
}

/// Timer that a check waits for, and the time by which it must have ended.
const TIMER: Duration = Duration::from_secs(3);
const LATE: Duration = Duration::from_secs(40);
const TURN: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_mins(1);
const MANY: u64 = 200;
/// Maximum number of circuits that fill a device.
const FULL: u64 = 1024;
