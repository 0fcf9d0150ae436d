//! Random changes with random misbehavior: the switch has what the last successful state says.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_base::Rng;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::Driver;

use crate::emulator::{Patch, Vendor};
use crate::testbed::{Testbed, VENDORS, channel};

/// Successful state: the number of channels of each circuit.
///
/// A failed increase leaves a circuit as it was. A failed decrease or removal is completed later.
type Model = BTreeMap<u64, u64>;

#[test]
fn switch_has_the_circuits_of_the_last_successful_state() {
    for vendor in VENDORS {
        for seed in 0..12 {
            println!("seed {seed} of {vendor:?}");
            run(vendor, seed);
        }
    }
}

fn run(vendor: Vendor, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut testbed = Testbed::new(vendor);
    let mut model = Model::new();
    for _ in 0..4 {
        testbed
            .switch
            .set_chaos(Some((Rng::new(rng.next_u64()), 6)));
        for _ in 0..8 {
            step(&mut rng, &mut testbed, &mut model);
        }
        testbed.switch.set_chaos(None);
        if rng.below(2) == 0 {
            testbed.restart();
        }
        let foreign = testbed.switch.foreign();
        let found = testbed.inspect().unwrap();
        assert_eq!(found, model, "seed {seed} of {vendor:?}");
        let ours = testbed.switch.ours();
        assert_eq!(
            ours.len() as u64,
            model.values().sum::<u64>(),
            "{ours:?}, {model:?}"
        );
        assert!(ours.is_subset(&testbed.channels(&[0, 1, 2, 3])), "{ours:?}");
        let patches = testbed.switch.patches();
        assert!(foreign.is_subset(&patches), "{foreign:?} of {patches:?}");
    }
}

fn step(rng: &mut Rng, testbed: &mut Testbed, model: &mut Model) {
    let id = 1 + rng.below(3);
    match rng.below(10) {
        0 => {
            let _ = testbed.inspect();
        }
        1 => {
            let _ = testbed.driver().remove(CircuitId(id));
            model.remove(&id);
        }
        2 => {
            testbed
                .switch
                .make_foreign(&foreign(rng, testbed.switch.vendor()));
        }
        3 => {
            let foreign: BTreeSet<Patch> = testbed.switch.foreign();
            if let Some(patch) = foreign.first() {
                testbed.switch.cut(patch);
            }
        }
        4 if rng.below(2) == 0 => testbed.restart(),
        _ => {
            let wanted = rng.below(4);
            let before = model.get(&id).copied().unwrap_or(0);
            let after = match testbed.set(id, wanted) {
                Ok(()) => wanted,
                Err(_) => before.min(wanted),
            };
            model.insert(id, after);
        }
    }
}

/// Returns a cross-connect of another client: a channel, or one with a port of a channel.
fn foreign(rng: &mut Rng, vendor: Vendor) -> Patch {
    let (from, to, is_both) = channel(vendor, rng.below(4));
    match rng.below(3) {
        0 => (from, to, is_both),
        1 => (from, "98".to_owned(), is_both),
        _ => ("97".to_owned(), to, is_both),
    }
}
