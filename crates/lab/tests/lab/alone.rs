//! One lab at a time, or a test that is skipped by name.

use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_testkit::{Turn, lacks};

/// A lab, and the turn of the machine that its test has.
#[derive(Debug)]
pub(crate) struct Alone {
    /// The lab.
    pub(crate) lab: Lab,
    _turn: Turn,
}

/// Starts the lab that `description` describes while no other is there, or skips the test.
pub(crate) fn start(test: &str, description: &str) -> Option<Alone> {
    start_in(test, description, Turn::alone)
}

/// Starts it beside others, for a test that measures nothing.
pub(crate) fn start_beside(test: &str, description: &str) -> Option<Alone> {
    start_in(test, description, Turn::beside_others)
}

fn start_in(test: &str, description: &str, turn: fn() -> Turn) -> Option<Alone> {
    if is_skipped(test) {
        return None;
    }
    let turn = turn();
    let lab = Lab::start(&Description::parse(description).unwrap()).unwrap();
    Some(Alone { lab, _turn: turn })
}

/// Whether there can be no lab here.
pub(crate) fn is_skipped(test: &str) -> bool {
    lacks(test, available())
}

/// Two hosts and a link of these properties.
pub(crate) fn pair(properties: &str) -> String {
    format!(
        "host = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nbetween = [\"a\", \"b\"]\n{properties}"
    )
}
