//! Checks of a driver whose device or connection fails.

use lighthaul_base::Rate;

use crate::circuit::CircuitId;
use crate::conformance::kit::{Check, Checked, Kit, state_of, text};
use crate::conformance::outcome::Outcome;
use crate::conformance::subject::{Fault, State};
use crate::error::{Cause, Result as DriverResult};

/// Checks and their names.
pub(super) const ALL: &[(&str, &Check)] = &[
    ("a refusal leaves the old state", &refusal),
    ("a refused change does not affect other changes", &partial),
    ("an unreachable device", &|kit| {
        unclear(kit, Fault::Unreachable)
    }),
    ("no answer until the time limit", &|kit| {
        unclear(kit, Fault::Silence)
    }),
    ("a lost answer", &|kit| unclear(kit, Fault::AnswerLost)),
    ("a driver that ends early", &|kit| {
        unclear(kit, Fault::Death)
    }),
    ("several failures in a row", &row),
];

fn refusal(kit: &mut Kit<'_>) -> Checked {
    let (low, high) = (kit.quarters(1), kit.quarters(2));
    kit.set(1, low)?;
    if !kit.subject.inject(Fault::Refuse, 0) {
        return NOT_INJECTED;
    }
    let result = kit.apply(&[(1, high)])?.remove(0);
    check_cause(&result, kit.subject.refuser())?;
    kit.expect(&state_of(&[(1, low)]))?;
    kit.set(1, high)?;
    let mut model = state_of(&[(1, high)]);
    // a circuit whose end was refused has its rate, or none if that is reported
    if kit.subject.inject(Fault::Refuse, 0) {
        change(kit, &mut model, (1, None))?;
    }
    Ok(Outcome::Passed)
}

fn partial(kit: &mut Kit<'_>) -> Checked {
    let (low, high) = (kit.quarters(1), kit.quarters(2));
    for id in 1..=2 {
        kit.set(id, None)?;
    }
    if !kit.subject.inject(Fault::Refuse, 1) {
        return NOT_INJECTED;
    }
    let mut results = kit.apply(&[(1, low), (2, low), (3, low)])?;
    let (third, second, first) = (results.pop(), results.pop(), results.pop());
    for result in [first, third].into_iter().flatten() {
        result.map_err(|why| format!("a change failed with that of another circuit: {why}"))?;
    }
    check_cause(&second.unwrap_or(Ok(())), kit.subject.refuser())?;
    kit.expect(&state_of(&[(1, low), (2, None), (3, low)]))?;
    kit.remove(1)?;
    kit.set(2, high)?;
    kit.expect(&state_of(&[(2, high), (3, low)]))?;
    Ok(Outcome::Passed)
}

/// Checks changes with an unknown outcome. The driver may find it out by itself.
fn unclear(kit: &mut Kit<'_>, fault: Fault) -> Checked {
    let (low, high) = (kit.quarters(1), kit.quarters(2));
    kit.set(1, low)?;
    let mut model = state_of(&[(1, low)]);
    for (id, rate) in [(1, high), (2, low)] {
        if !kit.subject.inject(fault, 0) {
            return NOT_INJECTED;
        }
        change(kit, &mut model, (id, rate))?;
        // its repetition succeeds
        kit.set(id, rate)?;
        model.insert(CircuitId(id), rate);
        kit.expect(&model)?;
    }
    kit.reopen()?;
    kit.expect(&model)?;
    Ok(Outcome::Passed)
}

/// Makes a change that a fault may strike, and updates the model with the reported or actual result.
pub(super) fn change(
    kit: &mut Kit<'_>,
    model: &mut State,
    (id, rate): (u64, Option<Rate>),
) -> Checked<()> {
    let result = kit.apply(&[(id, rate)])?.remove(0);
    kit.subject.calm();
    let id = CircuitId(id);
    let mut done = model.clone();
    done.insert(id, rate);
    let found = kit.state()?;
    let mut created = model.clone();
    created.entry(id).or_insert(None);
    let refuser = kit.subject.refuser();
    let is_possible = match &result {
        Ok(()) => found == done,
        Err(why) if why.cause() == refuser => found == *model || found == created,
        Err(why) if why.cause() == Cause::NoAnswer => {
            found == *model || found == created || found == done
        }
        Err(why) => {
            return Err(format!(
                "the fault was reported as {:?}: {why}",
                why.cause()
            ));
        }
    };
    if !is_possible {
        let (found, before) = (text(&found), text(model));
        return Err(format!(
            "{id} was changed with {result:?}: {found} after {before}"
        ));
    }
    *model = found;
    kit.expect(&model.clone())
}

fn row(kit: &mut Kit<'_>) -> Checked {
    let mut model = State::new();
    for nth in 0..3 {
        for fault in [Fault::Death, Fault::AnswerLost] {
            if !kit.subject.inject(fault, 0) {
                return NOT_INJECTED;
            }
            let rate = kit.quarters(1 + nth % 2);
            change(kit, &mut model, (1, rate))?;
        }
    }
    kit.set(1, kit.quarters(1))?;
    kit.expect(&state_of(&[(1, kit.quarters(1))]))?;
    Ok(Outcome::Passed)
}

fn check_cause(result: &DriverResult<()>, cause: Cause) -> Checked<()> {
    match result {
        Ok(()) => Err("a fault was reported as success".to_owned()),
        Err(why) if why.cause() == cause => Ok(()),
        Err(why) => Err(format!(
            "a fault was reported as {:?} instead of {cause:?}: {why}",
            why.cause()
        )),
    }
}

const NOT_INJECTED: Checked = Ok(Outcome::NotApplicable("this fault cannot be injected"));
