//! Reading of topology files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lighthaul_base::Rate;
use lighthaul_calendar::Topology;

use super::{graphml, toml};
use crate::error::{self, SetupError, TopologyFileError};

/// Reads a topology: `GraphML` if the extension is `graphml` or `xml`, otherwise TOML. `capacity`
/// is the default capacity of links.
pub fn read(path: &Path, capacity: Option<Rate>) -> error::Result<Topology> {
    read_file(path, capacity).map_err(|why| {
        let path = path.to_owned();
        SetupError::TopologyFile { path, why }.into()
    })
}

fn read_file(path: &Path, capacity: Option<Rate>) -> Result<Topology, TopologyFileError> {
    let mut text = String::new();
    // configuration files are read only here and in the command line
    #[expect(
        clippy::disallowed_methods,
        reason = "a configuration file, not data of a transfer"
    )]
    let file = File::open(path);
    let file = file.map_err(|why| TopologyFileError::Read(why.to_string()))?;
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|why| TopologyFileError::Read(why.to_string()))?;
    if text.len() as u64 > BYTES_MAX {
        return Err(TopologyFileError::Length(BYTES_MAX));
    }
    let is_graphml = path
        .extension()
        .is_some_and(|end| end == "graphml" || end == "xml");
    if is_graphml {
        graphml::parse(&text, capacity)
    } else {
        toml::parse(&text, capacity)
    }
}

/// Maximum length of a file in bytes.
const BYTES_MAX: u64 = 16 << 20;
