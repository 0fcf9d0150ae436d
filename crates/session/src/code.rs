//! Exit status of each kind of failure.

use std::any::Any;
use std::fmt::{Debug, Display};

/// Fault with an exit status. Each crate has enums of its faults; their `Display` is one sentence with the failure, its
/// object, the reason and the remedy.
pub trait Coded: Any + Debug + Display + Send + Sync {
    /// Returns the kind of the failure, from the variant.
    fn code(&self) -> Code;
}

/// Kinds of failure; the numbers are the exit statuses of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The request is invalid.
    Usage = 1,
    /// The two sides do not understand each other, or one broke the protocol.
    Protocol = 2,
    /// The source or the target cannot be opened.
    Open = 3,
    /// The network failed; a retry may succeed.
    Network = 10,
    /// Reading or writing a file failed, for example because the disk is full.
    Io = 11,
    /// The received data differ from the sent data; nothing was published.
    Integrity = 12,
    /// The key or the permission is missing.
    Permission = 13,
    /// The user or a signal interrupted the command.
    Interrupted = 20,
    /// Some files failed.
    Partial = 23,
    /// Source files changed or vanished while they were sent.
    Changed = 24,
    /// Items stay because no more may be deleted.
    DeleteLimit = 25,
    /// The peer was silent for too long.
    TimedOut = 30,
    /// A deadline or a reservation is refused.
    Refused = 40,
    /// A thread of the program panicked (`EX_SOFTWARE` of sysexits.h).
    Internal = 70,
    /// The daemon on the other host is being stopped; a retry may succeed (`EX_TEMPFAIL` of sysexits.h).
    Stopping = 75,
}

impl Code {
    /// All kinds, by number.
    pub const ALL: [Self; 15] = [
        Self::Usage,
        Self::Protocol,
        Self::Open,
        Self::Network,
        Self::Io,
        Self::Integrity,
        Self::Permission,
        Self::Interrupted,
        Self::Partial,
        Self::Changed,
        Self::DeleteLimit,
        Self::TimedOut,
        Self::Refused,
        Self::Internal,
        Self::Stopping,
    ];

    /// Returns the code with the number `number`, or `Protocol` for an unknown number.
    pub fn from_number(number: u8) -> Self {
        Self::ALL
            .into_iter()
            .find(|code| *code as u8 == number)
            .unwrap_or(Self::Protocol)
    }

    /// Returns the remedy for a failure of this kind, if its sentence has none.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Usage => "correct the request",
            Self::Protocol => "use the same version of lighthaul on both hosts",
            Self::Open => "check that the path exists and may be opened",
            Self::Network | Self::Stopping => "try again later; a copy resumes",
            Self::Io => "check the disk and its free space, then try again; a copy resumes",
            Self::Integrity => "try again; if it fails again, check memory and disks of both hosts",
            Self::Permission => "let the other host allow this key, or use another key or token",
            Self::Interrupted => "start again to continue; a copy resumes",
            Self::Partial => "correct the reasons of the failed entries, then copy again",
            Self::Changed => "copy again when no program changes the files",
            Self::DeleteLimit => "allow more deletions, or check the source",
            Self::TimedOut => "check that the other host is up, then try again",
            Self::Refused => "ask for less, or for a later time",
            Self::Internal => "report this bug of lighthaul, with the error message",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guide_lists_each_exit_status() {
        let page = include_str!("../../../docs/src/first-copy.md");
        let (_, table) = page.split_once("| status | meaning |").unwrap();
        let rows = table.lines().skip(2);
        let rows = rows.map_while(|row| row.strip_prefix("| ")?.split(' ').next()?.parse().ok());
        let listed: Vec<u8> = rows.collect();
        let all: Vec<u8> = [0]
            .into_iter()
            .chain(Code::ALL.map(|code| code as u8))
            .collect();
        assert_eq!(listed, all);
    }

    #[test]
    fn exit_statuses_of_peers_are_decoded() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(code as u8), code);
        }
        assert_eq!(Code::from_number(0), Code::Protocol);
        assert_eq!(Code::from_number(200), Code::Protocol);
    }
}
