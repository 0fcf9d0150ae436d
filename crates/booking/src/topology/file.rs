//! A file with a topology.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lighthaul_base::Rate;
use lighthaul_calendar::Topology;

use super::{graphml, toml};
use crate::error::{Error, Result};

/// Reads a topology: `GraphML` if the file is called so, else TOML. `capacity` is that of links that name none.
pub fn read(path: &Path, capacity: Option<Rate>) -> Result<Topology> {
    let place = path.display();
    let mut text = String::new();
    // only faces and this read files, at their start
    #[expect(
        clippy::disallowed_methods,
        reason = "a description, read once and whole, not an object to be moved"
    )]
    let file = File::open(path);
    let file =
        file.map_err(|why| Error::Misuse(format!("cannot open the topology {place}: {why}")))?;
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|why| Error::Misuse(format!("cannot read the topology {place}: {why}")))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Error::Misuse(format!(
            "the topology {place} has more than {BYTES_MAX} bytes: divide it into domains"
        )));
    }
    let is_graphml = path
        .extension()
        .is_some_and(|end| end == "graphml" || end == "xml");
    let topology = if is_graphml {
        graphml::parse(&text, capacity)
    } else {
        toml::parse(&text, capacity)
    };
    topology.map_err(|why| Error::Misuse(format!("{place}: {why}")))
}

/// The longest file.
const BYTES_MAX: u64 = 16 << 20;
