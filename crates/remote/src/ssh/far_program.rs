//! Program on another host that ssh starts.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use crate::ssh::command::Ssh;
use crate::ssh::program_copy::ProgramCopy;

/// Program on another host that ssh starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FarProgram {
    /// Program by its name or path on the host.
    Named(String),
    /// Installed program, or else a copy of this program: it is not known yet which of them exists. Each gets this time
    /// to answer.
    Sought(ProgramCopy, Duration),
    /// Copy of this program.
    Copy(ProgramCopy),
}

impl FarProgram {
    /// Returns the program that the user names as `name`. The default is also sought among copies of this program,
    /// which get the time `patience` to answer.
    pub(crate) fn new(name: &str, patience: Duration) -> std::io::Result<Self> {
        if name == DEFAULT {
            let copy = ProgramCopy::of_this_program()?;
            return Ok(Self::Sought(copy, patience));
        }
        Ok(Self::Named(name.to_owned()))
    }

    /// Returns the command that runs the program with `words` on the host of `ssh`; `options` are added to the user's.
    pub(crate) fn run(&self, ssh: &Ssh, options: &[String], words: &[&str]) -> Command {
        match self {
            Self::Named(name) => ssh.run(options, name, words),
            Self::Sought(copy, patience) => ssh.run(options, &copy.search(words, *patience), &[]),
            Self::Copy(copy) => ssh.run(options, &copy.command(words), &[]),
        }
    }
}

impl fmt::Display for FarProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Sought(..) => f.write_str(DEFAULT),
            Self::Copy(_) => f.write_str("a copy of lighthaul"),
        }
    }
}

/// Default name of the program.
pub(super) const DEFAULT: &str = "lighthaul";
