//! Rates that the devices carry for the paths.

use std::time::Duration;

use lighthaul_circuit::sim_device::{FaultModel, SimFault};
use lighthaul_stargate::Segment;

use crate::devices::link_book::LinkBook;
use crate::devices::segment_circuit::id_of;
use crate::devices::tests::example::{Interface, carried, change, link, segment};

const ONE: Segment = segment(1, 2);
const OTHER: Segment = segment(3, 4);

/// Returns an interface with two paths on one circuit, which shares a link with another interface.
fn begun() -> (Interface, Interface) {
    let links = LinkBook::new(&[link("a-b", &[(ONE, 0), (OTHER, 0)])]);
    let mut interface = Interface::new(&links, &[ONE], Duration::ZERO);
    let mut other = Interface::new(&links, &[OTHER], Duration::ZERO);
    assert_eq!(other.reset(0, &[change(9, OTHER, 50)]), []);
    let paths = [change(1, ONE, 20), change(2, ONE, 10)];
    assert_eq!(interface.reset(0, &paths), []);
    (interface, other)
}

#[test]
fn paths_have_their_rates_and_an_increase_that_waits_has_the_rest() {
    let (mut interface, mut other) = begun();
    assert_eq!(carried(&interface), [(1, Some(20)), (2, Some(10))]);
    assert_eq!(interface.apply(10, &[change(1, ONE, 60)]), []);
    assert_eq!(carried(&interface), [(1, Some(20)), (2, Some(10))]);
    assert_eq!(interface.apply(20, &[change(3, ONE, 5)]), []);
    let waiting = [(1, Some(20)), (2, Some(10)), (3, Some(0))];
    assert_eq!(carried(&interface), waiting);
    assert_eq!(other.apply(30, &[change(9, OTHER, 0)]), []);
    assert_eq!(interface.apply(30, &[]), []);
    let whole = [(1, Some(60)), (2, Some(10)), (3, Some(5))];
    assert_eq!(carried(&interface), whole);
    assert_eq!(interface.apply(40, &[change(1, ONE, 0)]), []);
    assert_eq!(carried(&interface), [(2, Some(10)), (3, Some(5))]);
}

#[test]
fn lost_circuit_is_dark_once_it_is_noticed() {
    let (mut interface, _other) = begun();
    interface.device.forget(id_of(ONE));
    assert_eq!(interface.apply(30_000, &[]), []);
    assert_eq!(carried(&interface), [(1, Some(0)), (2, Some(0))]);
    assert_eq!(interface.apply(30_000, &[]), []);
    assert_eq!(carried(&interface), [(1, Some(20)), (2, Some(10))]);
}

#[test]
fn rate_after_a_failed_change_or_reading_is_unknown() {
    let (mut interface, _other) = begun();
    interface.device.fail_change(Some(SimFault::AnswerLost), 0);
    assert_eq!(interface.apply(10, &[change(2, ONE, 15)]), []);
    assert_eq!(carried(&interface), [(1, None), (2, None)]);
    assert_eq!(interface.apply(20, &[]), []);
    assert_eq!(carried(&interface), [(1, Some(20)), (2, Some(15))]);
    let failing = |is_failing| FaultModel {
        latency_max: Duration::ZERO,
        fail_ppb: if is_failing { 1_000_000_000 } else { 0 },
    };
    interface.device.set_fault_model(failing(true));
    assert_eq!(interface.apply(30_000, &[]), []);
    assert_eq!(carried(&interface), [(1, None), (2, None)]);
    interface.device.set_fault_model(failing(false));
    assert_eq!(interface.apply(40_000, &[]), []);
    assert_eq!(carried(&interface), [(1, Some(20)), (2, Some(15))]);
}
