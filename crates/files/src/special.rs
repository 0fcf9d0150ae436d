//! Files that are neither data, folders nor links.

use rustix::fs::FileType;

/// What a device, FIFO or socket is called; nothing for anything else.
pub fn special(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::BlockDevice | FileType::CharacterDevice => Some("device"),
        FileType::Fifo => Some("FIFO"),
        FileType::Socket => Some("socket"),
        FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown => None,
    }
}
