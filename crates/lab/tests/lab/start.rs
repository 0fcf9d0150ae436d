//! Start of a lab for a test, alone or beside others. Skips the test, by name, where no lab can
//! run.

use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_testkit::{Turn, lacks};

/// Running lab, with its test's turn on this host.
#[derive(Debug)]
pub(crate) struct Alone {
    /// Lab of the test.
    pub(crate) lab: Lab,
    _turn: Turn,
}

/// Starts the described lab while no other test runs. Returns `None` to skip the test.
pub(crate) fn start(test: &str, description: &str) -> Option<Alone> {
    start_in(test, description, Turn::alone)
}

/// Starts the described lab beside other tests, for a test that measures nothing.
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

/// Reports whether no lab can run here, and records the skip.
pub(crate) fn is_skipped(test: &str) -> bool {
    lacks(test, available())
}

/// Describes two hosts and a link with these properties.
pub(crate) fn pair(properties: &str) -> String {
    format!(
        "host = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nbetween = [\"a\", \"b\"]\n{properties}"
    )
}
