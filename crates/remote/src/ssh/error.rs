//! Faults of a program that ssh starts on another host.
//!
//! Most messages of `SshError` name the host and the command that helps. The [`Code`] of an error
//! decides the exit status and if another attempt is made: only network faults are worth one.
//! Messages of ssh itself go to the standard error of the user and are not repeated here. Faults of
//! daemons and places are in `crate::error`.

use std::io;

use lighthaul_session::error::{Code, Coded};

/// Fault of a program that ssh starts on another host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SshError {
    /// The ssh command has no words.
    #[error("the ssh command is empty")]
    NoCommand,
    /// The ssh program cannot be started.
    #[error("cannot start {program}: {error}")]
    NotStarted {
        /// Name of the program.
        program: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The remote shell does not find the program.
    #[error(
        "{remote} is not installed on {host}; install it there, or name its path there with --remote"
    )]
    NotInstalled {
        /// Name of the program.
        remote: String,
        /// Name of the host.
        host: String,
    },
    /// The host has neither the program nor a copy of it.
    #[error(
        "lighthaul is not installed on {host}; add --install to put a copy of this program there, or name its path there with --remote"
    )]
    NothingInstalled {
        /// Name of the host.
        host: String,
    },
    /// The installed program has another version of the protocol.
    #[error(
        "{theirs} on {host} has another protocol version than lighthaul {} here; add --install to put a copy of this program there, or \
         install the same version on both hosts",
        env!("CARGO_PKG_VERSION")
    )]
    OtherVersion {
        /// Name of the host.
        host: String,
        /// Name and version of the installed program.
        theirs: String,
    },
    /// The host cannot run this program.
    #[error(
        "lighthaul is not installed on {host}, which cannot run a copy of this program ({kernel} on {machine}, not Linux on {}); \
         install lighthaul for {machine} there",
        std::env::consts::ARCH
    )]
    OtherSystem {
        /// Name of the host.
        host: String,
        /// Kernel of the host.
        kernel: String,
        /// Architecture of the host.
        machine: String,
    },
    /// This program cannot be read.
    #[error("cannot read this program: {0}")]
    Program(io::Error),
    /// The copy of this program cannot be written.
    #[error(
        "cannot put a copy of lighthaul into the cache directory on {host}: {why}; correct that, or set XDG_CACHE_HOME there to another directory"
    )]
    CopyNotWritten {
        /// Name of the host.
        host: String,
        /// Error of the host.
        why: String,
    },
    /// The copy of this program is on a file system that does not allow execution.
    #[error(
        "the cache directory on {host} executes no programs (is its file system mounted with noexec?); set XDG_CACHE_HOME there to another one, or \
         install lighthaul there"
    )]
    CopyNotExecutable {
        /// Name of the host.
        host: String,
    },
    /// The copy of this program does not run, or is damaged.
    #[error(
        "the copy of lighthaul does not run on {host}: {why}; install lighthaul there, or use the static program of a package here"
    )]
    CopyNotUsable {
        /// Name of the host.
        host: String,
        /// Output of the copy.
        why: String,
    },
    /// ssh cannot connect or log in.
    #[error("ssh could not reach {host} or log in there; see what `{command}` says")]
    NoLogin {
        /// Name of the host.
        host: String,
        /// ssh command with its options and the host.
        command: String,
    },
    /// The remote program did not print its greeting.
    #[error(
        "{remote} on {host} did not answer; see what `{command} {remote} --version` prints, and name its path there with --remote"
    )]
    NoGreeting {
        /// Name of the program.
        remote: String,
        /// Name of the host.
        host: String,
        /// ssh command with its options and the host.
        command: String,
    },
    /// The remote program is silent.
    #[error(
        "{remote} on {host} did not answer within {seconds} s; see whether `{command} {remote} --version` ends there"
    )]
    Silent {
        /// Name of the program.
        remote: String,
        /// Name of the host.
        host: String,
        /// ssh command with its options and the host.
        command: String,
        /// Longest silence.
        seconds: u64,
    },
    /// The ssh process ended before the copy began.
    #[error("the ssh connection to {host} was lost: {why}")]
    Lost {
        /// Name of the host.
        host: String,
        /// Error of the session.
        why: String,
    },
    /// ssh opens no further connection.
    #[error("ssh opens no connection to the daemon on {host}")]
    NoChannel {
        /// Name of the host.
        host: String,
    },
}

impl Coded for SshError {
    fn code(&self) -> Code {
        match self {
            Self::NoCommand => Code::Usage,
            Self::NotStarted { .. }
            | Self::NoLogin { .. }
            | Self::NoChannel { .. }
            | Self::Lost { .. } => Code::Network,
            Self::Silent { .. } => Code::TimedOut,
            Self::NotInstalled { .. }
            | Self::NothingInstalled { .. }
            | Self::OtherSystem { .. }
            | Self::Program(_)
            | Self::CopyNotExecutable { .. }
            | Self::CopyNotUsable { .. } => Code::Open,
            Self::CopyNotWritten { .. } => Code::Io,
            Self::NoGreeting { .. } | Self::OtherVersion { .. } => Code::Protocol,
        }
    }
}
