//! Faults of a program that ssh starts on another host.

use std::io;

use lighthaul_session::error::{Code, Coded};

/// Fault of a program that ssh starts on another host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SshError {
    /// The ssh command has no words.
    #[error("the ssh command is empty")]
    NoCommand,
    /// The ssh program cannot be started.
    #[error("{program} could not be started: {error}")]
    NotStarted {
        /// Program.
        program: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The remote shell does not find the program.
    #[error(
        "{remote} is not installed on {host}; install it there, or name its path there with --remote"
    )]
    NotInstalled {
        /// Program.
        remote: String,
        /// Host.
        host: String,
    },
    /// ssh cannot connect or log in.
    #[error("ssh could not reach {host} or log in there")]
    NoLogin {
        /// Host.
        host: String,
    },
    /// The remote program did not print its greeting.
    #[error(
        "{remote} on {host} did not answer; see what `ssh {host} {remote} --version` prints, and name its path there with --remote"
    )]
    NoGreeting {
        /// Program.
        remote: String,
        /// Host.
        host: String,
    },
    /// ssh opens no further connection.
    #[error("ssh opens no connection to the daemon on {host}")]
    NoChannel {
        /// Host.
        host: String,
    },
}

impl Coded for SshError {
    fn code(&self) -> Code {
        match self {
            Self::NoCommand => Code::Usage,
            Self::NotStarted { .. } | Self::NoLogin { .. } | Self::NoChannel { .. } => {
                Code::Network
            }
            Self::NotInstalled { .. } => Code::Open,
            Self::NoGreeting { .. } => Code::Protocol,
        }
    }
}
