//! Reading of topology files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lighthaul_base::Rate;
use lighthaul_calendar::Topology;

use super::{graphml, toml};
use crate::error::{Error, Result};

/// Reads a topology: `GraphML` if the extension is `graphml` or `xml`, otherwise TOML. `capacity`
/// is the default capacity of links.
pub fn read(path: &Path, capacity: Option<Rate>) -> Result<Topology> {
    let place = path.display();
    let mut text = String::new();
    // configuration files are read only here and in the command line
    #[expect(
        clippy::disallowed_methods,
        reason = "a configuration file, not data of a transfer"
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

/// Maximum length of a file in bytes.
const BYTES_MAX: u64 = 16 << 20;
