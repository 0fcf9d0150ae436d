//! The grammar of `lighthaul forward`.

use clap::{Args, value_parser};

/// Connect standard input and output to a port of this host, as ssh starts it
#[derive(Args, Debug)]
pub struct Forward {
    /// Port that a daemon listens on
    #[arg(value_parser = value_parser!(u16).range(1..))]
    pub port: u16,
}
