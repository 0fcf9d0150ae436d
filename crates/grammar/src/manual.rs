//! The grammar of the commands that describe this program.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Print completions for a shell
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul completions bash > ~/.local/share/bash-completion/completions/lighthaul
  lighthaul completions zsh > ~/.zfunc/_lighthaul
  lighthaul completions fish > ~/.config/fish/completions/lighthaul.fish")]
pub struct Completions {
    /// Shell
    pub shell: Shell,
}

/// Print the settings in force and where each comes from
///
/// Settings are options in `config.toml`, in a section with the name of their command, and environment variables.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_long_help = "Examples:
  lighthaul config
  lighthaul config --all | grep -A 20 '^.cp'")]
pub struct Config {
    /// Print the options that are not set, too, with their defaults
    #[arg(short, long, help_heading = "Selection")]
    pub all: bool,
}

/// Print the help of a command
#[derive(Args, Debug)]
pub struct Help {
    /// Command, as in `jobs submit`
    pub command: Vec<String>,
}

/// Write the man pages of all commands
#[derive(Args, Debug)]
pub struct Man {
    /// Directory for the man pages
    pub folder: PathBuf,
}
