//! What a file could not take over, in words.

use std::fmt;

use rustix::io::Errno;

/// Something that is not on the target as it was at the source. It says nothing of the file, so that the
/// same for many files is said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotKept {
    /// What.
    pub part: Part,
    /// Why.
    pub reason: Reason,
}

/// Part of what a file has besides name and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// User and group.
    Owner,
    /// Permissions.
    Mode,
    /// The bits that make a program run as its owner, and the sticky bit.
    SetId,
    /// Times.
    Times,
    /// POSIX access lists.
    Acls,
    /// Attributes called `user.*`.
    UserAttributes,
    /// Attributes called `security.*` or `trusted.*`.
    RootAttributes,
}

/// Why it is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The file system has no such thing.
    Unsupported,
    /// It takes more rights.
    Denied,
    /// It is larger than the file system, or Lighthaul, takes.
    TooLarge,
    /// The owner, who would gain by it, is another one.
    OtherOwner,
    /// Who copies is not allowed to set it.
    Withheld,
    /// What else the system said, by number.
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
            Reason::Unsupported => write!(f, "the file system has none"),
            Reason::Denied => write!(f, "that takes root, or the file's owner"),
            Reason::TooLarge => write!(f, "they are larger than the file system takes"),
            Reason::OtherOwner => write!(f, "the file belongs to somebody else now"),
            Reason::Withheld => write!(
                f,
                "that is not allowed to your key there (its operator can: `lighthaul allow {}`)",
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
