//! Special files: devices, FIFOs and sockets.

use rustix::fs::FileType;

/// Returns the name of a type of special file, or none for files, directories and links.
pub fn special(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::BlockDevice | FileType::CharacterDevice => Some("device"),
        FileType::Fifo => Some("FIFO"),
        FileType::Socket => Some("socket"),
        FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown => None,
    }
}
