//! The grammar of `lighthaul forward`.

use clap::{Args, value_parser};

/// Connect standard input and output to a port of this host (started by ssh)
#[derive(Args, Debug)]
pub struct Forward {
    /// Port that a daemon listens on [default: the first line of standard input]
    #[arg(value_parser = value_parser!(u16).range(1..))]
    pub port: Option<u16>,
}
