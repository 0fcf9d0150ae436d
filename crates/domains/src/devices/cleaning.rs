//! Removal of circuits from before the start.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error::Error;
use lighthaul_circuit::flow::Flow;
use lighthaul_stargate::Segment;

/// Removes the other circuits of a device. Returns the rates of those that are kept, whether others were removed, and
/// the first fault.
pub(super) fn clean_one(
    driver: &mut dyn Driver,
    kept: &BTreeMap<CircuitId, (Segment, Flow)>,
    is_stopping: &AtomicBool,
) -> (Vec<(Segment, Rate)>, bool, Option<Error>) {
    let installed = match driver.inspect() {
        Ok(installed) => installed,
        Err(why) => return (Vec::new(), false, Some(why)),
    };
    let (mut rates, mut has_removed, mut fault) = (Vec::new(), false, None);
    for one in installed {
        if is_stopping.load(Ordering::Relaxed) {
            break;
        }
        match kept.get(&one.id) {
            Some((segment, flow)) if one.flow == Some(*flow) => {
                rates.extend(one.rate.map(|rate| (*segment, rate)));
            }
            _ => match driver.remove(one.id) {
                Ok(()) => has_removed = true,
                Err(why) => fault = fault.or(Some(why)),
            },
        }
    }
    (rates, has_removed, fault)
}
