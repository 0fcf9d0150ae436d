//! Faults of requests about files: sources, lists of names, rules and hashes.
//!
//! [`Fault`] has one variant for each fault. Its message names the file or option, and the remedy
//! where there is one. [`Coded`] maps each variant to the exit status of the command.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use lighthaul_session::error::{Code, Coded};

/// Fault of a request about files.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The contents of a directory and another source.
    #[error(
        "{} names the contents of a directory, which can only be copied alone; copy it by itself, or without the slash",
        .0.display()
    )]
    SeveralContents(PathBuf),
    /// A source without a name, such as `..`.
    #[error("cannot derive a target name from {place}; write {place}/ to copy its contents", place = .0.display())]
    Nameless(PathBuf),
    /// Two sources of one name.
    #[error("two sources have the name {}; copy them one at a time", .0.display())]
    SameName(OsString),
    /// A path that exceeds the limit.
    #[error("cannot open {}: its path is too long", .0.display())]
    PathTooLong(PathBuf),
    /// A directory beyond the deepest level.
    #[error("cannot open {}: directories are nested too deeply", .0.display())]
    TooDeep(PathBuf),
    /// A link to one of the directories above it.
    #[error("cannot read {}: it is a link to a directory that contains it", .0.display())]
    ContainsItself(PathBuf),
    /// A pattern that no file matches.
    #[error("no file matches {}", .0.display())]
    NoMatch(PathBuf),
    /// A pattern that matches more files than one copy takes by name.
    #[error(
        "{} matches too many files; copy their directory, and select with --include and --exclude",
        .0.display()
    )]
    TooManyMatches(PathBuf),
    /// An invalid change of modes, and all changes that were asked for.
    #[error("--chmod {0}: \"{1}\" is invalid; write changes as in D755,F644 or ug=rwX,o-w")]
    ModeChange(String, String),
    /// More changes of modes than the limit.
    #[error("--chmod takes at most {0} changes: give fewer, or join those that set the same bits")]
    TooManyModeChanges(usize),
    /// A file that another process removed.
    #[error("cannot read {}: it was removed during the walk", .0.display())]
    Vanished(PathBuf),
    /// A file with another hash than the expected one.
    #[error("its {name} is {found} instead of the expected {expected}")]
    WrongHash {
        /// Name of the hash function.
        name: &'static str,
        /// Hash of the file.
        found: String,
        /// Hash that the user expects.
        expected: String,
    },
    /// An expected hash that was not computed.
    #[error("its {name} was not computed, so it cannot be compared with {expected}")]
    NoHash {
        /// Name of the hash function.
        name: &'static str,
        /// Hash that the user expects.
        expected: String,
    },
    /// A hash function that Lighthaul does not have.
    #[error("unknown hash \"{name}\"; choose one of {all}")]
    UnknownHash {
        /// Name of the hash function.
        name: String,
        /// Names of all hash functions.
        all: String,
    },
    /// A text that is no hash.
    #[error("\"{value}\" is not a {name}, which has {digits} hexadecimal digits")]
    HashDigits {
        /// Text that the user gave.
        value: String,
        /// Name of the hash function.
        name: String,
        /// Length of the function's hashes.
        digits: usize,
    },
    /// Rules beyond the limit.
    #[error(
        "too many filter rules: at most {rules} rules and {kib} KiB; merge some with wildcards"
    )]
    TooManyRules {
        /// Maximum number of rules.
        rules: usize,
        /// Maximum number of KiB of all rules.
        kib: usize,
    },
    /// A malformed rule.
    #[error("filter rule \"{rule}\": {why}")]
    Rule {
        /// Text of the rule.
        rule: String,
        /// Fault of the text.
        why: String,
    },
    /// A malformed entry of a list of files.
    #[error("entry {line} of the list of files is invalid: {why}")]
    ListEntry {
        /// Number of the entry.
        line: u64,
        /// Fault of the entry.
        why: String,
    },
    /// Entry in a list of files that is longer than any path, given by its first characters.
    #[error("{0}... in the list of files is longer than any path")]
    ListName(String),
    /// A list of files that cannot be read.
    #[error("cannot read the list of files: {0}")]
    ListUnreadable(io::Error),
    /// The thread that reads a list cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A path as the directory of partial files.
    #[error(
        "--partial-dir needs a name without slashes: a directory of that name is created beside each file"
    )]
    PartialDir,
    /// Options that lose data together; the text names them.
    #[error("{0}")]
    Contradiction(&'static str),
    /// The key may not write.
    #[error(
        "your key may only read there; the daemon's operator can change that with `lighthaul allow`"
    )]
    ReadOnly,
    /// The list of entries cannot be encoded.
    #[error("cannot encode the list of entries: {0}")]
    Encode(String),
    /// The peer does not read the replies.
    #[error("the peer stopped reading the replies")]
    Unread,
    /// The wait for the peer failed.
    #[error("cannot wait for the peer: {0}")]
    Wait(io::Error),
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::SeveralContents(_)
            | Self::Nameless(_)
            | Self::SameName(_)
            | Self::UnknownHash { .. }
            | Self::HashDigits { .. }
            | Self::TooManyRules { .. }
            | Self::Rule { .. }
            | Self::ListEntry { .. }
            | Self::ListName(_)
            | Self::TooManyMatches(_)
            | Self::ModeChange(..)
            | Self::TooManyModeChanges(_)
            | Self::Contradiction(_)
            | Self::PartialDir => Code::Usage,
            Self::PathTooLong(_)
            | Self::TooDeep(_)
            | Self::ContainsItself(_)
            | Self::NoMatch(_)
            | Self::ListUnreadable(_) => Code::Open,
            Self::Vanished(_) => Code::Changed,
            Self::WrongHash { .. } | Self::NoHash { .. } => Code::Integrity,
            Self::Thread(_) | Self::Wait(_) => Code::Io,
            Self::ReadOnly => Code::Permission,
            Self::Encode(_) => Code::Internal,
            Self::Unread => Code::TimedOut,
        }
    }
}
