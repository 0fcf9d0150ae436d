//! One lab at a time, or a test that is skipped by name.

use std::fs::{File, OpenOptions};

use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_testkit::lacks;

/// A lab that no other test runs beside.
#[derive(Debug)]
pub(crate) struct Alone {
    /// The lab.
    pub(crate) lab: Lab,
    _turn: File,
}

/// Starts the lab that `description` describes, or says by name that the test is skipped.
pub(crate) fn start(test: &str, description: &str) -> Option<Alone> {
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

/// Waits until no other test, of this process or another, has a lab.
pub(crate) fn turn() -> File {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/lab.lock");
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.lock().unwrap();
    file
}

/// Two hosts and a link of these properties.
pub(crate) fn pair(properties: &str) -> String {
    format!(
        "host = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nbetween = [\"a\", \"b\"]\n{properties}"
    )
}
