//! Options for output that several commands share.

use clap::{Args, ValueEnum};

/// Format of the output.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print one JSON object per line on standard output
    #[arg(long)]
    pub json: bool,
}

/// Progress of a command.
#[derive(Args, Clone, Copy, Debug)]
pub struct ProgressArgs {
    /// Progress: auto, bar, plain or none
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "HOW",
        help_heading = "Output"
    )]
    pub progress: Progress,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// Progress bar if standard error is a terminal, otherwise one line every 10 seconds
    #[default]
    Auto,
    /// Progress bar, and the files in transfer
    Bar,
    /// One line per second
    Plain,
    /// No progress
    None,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum LogFormat {
    /// One line of text per event
    #[default]
    Text,
    /// One JSON object per event
    Json,
}

/// Log of a service.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Output")]
pub struct LogArgs {
    /// Log format: text or json
    ///
    /// `LIGHTHAUL_LOG` sets the level, as in `debug` or `warn,lighthaul_daemon=debug`.
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        env = "LIGHTHAUL_LOG_FORMAT"
    )]
    pub log_format: LogFormat,
}
