//! Options for output that several commands share.

use clap::{Args, ValueEnum};

/// For whom output is.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Print one JSON object a line on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// A line that moves if standard error is a terminal
    #[default]
    Auto,
    /// A line that moves
    Bar,
    /// A line a second
    Plain,
    /// Nothing
    None,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of words
    #[default]
    Text,
    /// A JSON object a line
    Json,
}
