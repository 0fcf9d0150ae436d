//! Random sequences of calls beside a model, which is a map of rates.

use lighthaul_base::{Rate, Rng};

use crate::circuit::CircuitId;
use crate::conformance::faulty::change;
use crate::conformance::kit::{Checked, Kit};
use crate::conformance::outcome::Outcome;
use crate::conformance::subject::{Fault, State};

/// Number of sequences.
pub(super) const SEQUENCES: u64 = 4;

/// Makes random calls, and compares the device with the model after each. An error names the seed.
pub(super) fn sequence(kit: &mut Kit<'_>, seed: u64) -> Checked {
    let mut rng = Rng::new(seed);
    let mut model = State::new();
    for nth in 0..STEPS {
        step(kit, &mut rng, &mut model)
            .map_err(|why| format!("step {nth} of seed {seed}: {why}"))?;
    }
    Ok(Outcome::Passed)
}

fn step(kit: &mut Kit<'_>, rng: &mut Rng, model: &mut State) -> Checked<()> {
    let id = 1 + rng.below(IDS);
    match rng.below(10) {
        0 => kit.reopen()?,
        1 | 2 => {
            kit.remove(id)?;
            model.remove(&CircuitId(id));
        }
        3 | 4 => {
            let nth = rng.below(Fault::UNCLEAR.len() as u64 + 1) as usize;
            let fault = Fault::UNCLEAR.get(nth).copied().unwrap_or(Fault::Refuse);
            // silence takes the whole time limit
            let is_quick = fault != Fault::Silence;
            if is_quick && kit.subject.inject(fault, 0) {
                let rate = rate(kit, rng, model, id);
                change(kit, model, (id, rate))?;
            }
        }
        _ => {
            let rate = rate(kit, rng, model, id);
            kit.set(id, rate)?;
            model.insert(CircuitId(id), rate);
        }
    }
    kit.expect(model)
}

/// Returns a rate for a circuit that fits beside the other circuits.
fn rate(kit: &Kit<'_>, rng: &mut Rng, model: &State, id: u64) -> Option<Rate> {
    let others = model.iter().filter(|(other, _)| other.0 != id);
    let used: u64 = others.filter_map(|(_, rate)| rate.map(Rate::as_bps)).sum();
    let free = kit.can.rate_max.as_bps().saturating_sub(used);
    let bits = rng.below(free.saturating_add(1));
    let unit = kit.can.granularity.as_bps();
    let rate = Rate::from_bps(bits - bits % unit)?;
    (rate >= kit.least()).then_some(rate)
}

/// Number of circuits.
const IDS: u64 = 4;
const STEPS: u64 = 60;
