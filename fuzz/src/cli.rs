//! The command's own reader of program files.

#[path = "../../crates/cli/src/wrap/elf.rs"]
mod elf;

use std::io;
use std::os::unix::fs::FileExt;

use elf::Elf;

/// Reads a program's file. Only files that begin as ELF are taken for it.
pub fn program(octets: &[u8]) {
    for kind in [[2, 1], [2, 2], [1, 1], [1, 2]] {
        let file = [b"\x7fELF", &kind[..], octets].concat();
        let found = Elf::read(&Octets(&file)).expect("memory can be read");
        if let Some(elf) = found {
            assert_eq!((elf.kind.0, elf.kind.1), (kind[0], kind[1]));
            assert!(u16::try_from(elf.kind.2).is_ok());
            assert!(elf.has_interpreter || elf.is_go || file.len() > HEAD_MIN);
        }
    }
    let found = Elf::read(&Octets(octets)).expect("memory can be read");
    assert!(found.is_none() || octets.starts_with(b"\x7fELF"));
}

/// A file in memory.
struct Octets<'a>(&'a [u8]);

impl FileExt for Octets<'_> {
    fn read_at(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let behind = self.0.get(at..).unwrap_or_default();
        let len = behind.len().min(room.len());
        room[..len].copy_from_slice(&behind[..len]);
        Ok(len)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Shortest head of a file.
const HEAD_MIN: usize = 51;
