//! Reports of metadata that could not be kept.

use std::fmt;

use rustix::io::Errno;

/// Metadata that the target lacks. It does not name a file, so that equal reports about many files
/// are shown once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotKept {
    /// Kind of metadata.
    pub part: Part,
    /// Reason.
    pub reason: Reason,
}

/// Kind of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// User ID and group ID.
    Owner,
    /// Permission bits.
    Mode,
    /// Set-user-ID, set-group-ID and sticky bits.
    SetId,
    /// Times of access and modification.
    Times,
    /// POSIX access control lists.
    Acls,
    /// Attributes named `user.*`.
    UserAttributes,
    /// Attributes named `security.*` or `trusted.*`.
    RootAttributes,
}

/// Reason why metadata is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The file system does not support it.
    Unsupported,
    /// The operation requires more privileges.
    Denied,
    /// The value exceeds a limit of the file system, or of Lighthaul.
    TooLarge,
    /// The file has another owner now, so set-ID bits would give that user rights.
    OtherOwner,
    /// The client's key has no right to set it.
    Withheld,
    /// Any other error of the system, by its number.
    Other(i32),
}

impl NotKept {
    pub(crate) fn new(part: Part, errno: Errno) -> Self {
        let reason = match errno {
            Errno::OPNOTSUPP | Errno::NOSYS => Reason::Unsupported,
            Errno::PERM | Errno::ACCESS => Reason::Denied,
            Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::DQUOT => Reason::TooLarge,
            other => Reason::Other(other.raw_os_error()),
        };
        Self { part, reason }
    }
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            Part::Owner => "owner and group",
            Part::Mode => "permissions",
            Part::SetId => "set-user-ID, set-group-ID and sticky bits",
            Part::Times => "times",
            Part::Acls => "access lists",
            Part::UserAttributes => "attributes (user.*)",
            Part::RootAttributes => "attributes (security.*, trusted.*)",
        };
        write!(f, "{part} could not be kept: ")?;
        match self.reason {
            Reason::Unsupported => write!(f, "the target's file system does not support this"),
            Reason::Denied => write!(f, "only root, or the file's owner, may set this"),
            Reason::TooLarge => write!(f, "larger than the target's file system allows"),
            Reason::OtherOwner => write!(f, "the file has another owner on the target"),
            Reason::Withheld => write!(
                f,
                "your key has no right to set this there (the operator can grant it: `lighthaul allow {}`)",
                match self.part {
                    Part::Owner => "--owners",
                    Part::SetId => "--owners --special",
                    Part::Mode
                    | Part::Times
                    | Part::Acls
                    | Part::UserAttributes
                    | Part::RootAttributes => "--special",
                }
            ),
            Reason::Other(number) => {
                write!(f, "{}", std::io::Error::from_raw_os_error(number))
            }
        }
    }
}
