//! Reports of metadata that could not be kept.

use std::fmt;

use rustix::io::Errno;

/// Metadata that the target lacks. It does not name a file, so that equal reports about many files
/// are shown once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotKept {
    /// Kind of metadata.
    pub part: MetadataKind,
    /// Reason why the metadata is not kept.
    pub reason: NotKeptReason,
}

/// Kind of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataKind {
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
pub enum NotKeptReason {
    /// The file system does not support the metadata.
    Unsupported,
    /// The operation requires more privileges.
    Denied,
    /// The value exceeds a limit of the file system, or of Lighthaul.
    TooLarge,
    /// The file has another owner now, so set-ID bits would give that user rights.
    OtherOwner,
    /// The client's key has no right to set the metadata.
    Withheld,
    /// Any other error of the system, by error number.
    Other(i32),
}

impl NotKept {
    pub(crate) fn new(part: MetadataKind, errno: Errno) -> Self {
        let reason = match errno {
            Errno::OPNOTSUPP | Errno::NOSYS => NotKeptReason::Unsupported,
            Errno::PERM | Errno::ACCESS => NotKeptReason::Denied,
            Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::DQUOT => NotKeptReason::TooLarge,
            other => NotKeptReason::Other(other.raw_os_error()),
        };
        Self { part, reason }
    }
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            MetadataKind::Owner => "owner and group",
            MetadataKind::Mode => "permissions",
            MetadataKind::SetId => "set-user-ID, set-group-ID and sticky bits",
            MetadataKind::Times => "times",
            MetadataKind::Acls => "access lists",
            MetadataKind::UserAttributes => "attributes (user.*)",
            MetadataKind::RootAttributes => "attributes (security.*, trusted.*)",
        };
        write!(f, "{part} could not be kept: ")?;
        match self.reason {
            NotKeptReason::Unsupported => {
                write!(f, "the target's file system does not support this")
            }
            NotKeptReason::Denied => write!(f, "only root, or the file's owner, may set this"),
            NotKeptReason::TooLarge => write!(f, "larger than the target's file system allows"),
            NotKeptReason::OtherOwner => write!(f, "the file has another owner on the target"),
            NotKeptReason::Withheld => write!(
                f,
                "your key has no right to set this there (the operator can grant it: `lighthaul allow {}`)",
                match self.part {
                    MetadataKind::Owner => "--owners",
                    MetadataKind::SetId => "--owners --special",
                    MetadataKind::Mode
                    | MetadataKind::Times
                    | MetadataKind::Acls
                    | MetadataKind::UserAttributes
                    | MetadataKind::RootAttributes => "--special",
                }
            ),
            NotKeptReason::Other(number) => {
                write!(f, "{}", std::io::Error::from_raw_os_error(number))
            }
        }
    }
}
