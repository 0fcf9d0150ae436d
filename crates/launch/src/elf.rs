//! Linkage of a program file: the ELF format of the System V ABI, chapters 4 and 5.
//!
//! `Elf::read` finds out if a program can be captured with `LD_PRELOAD`. Programs without a dynamic
//! linker cannot, and programs of Go make their system calls without the C library. The reader
//! accepts 32-bit and 64-bit files in both byte orders. It never panics, and reads at most 256
//! segments and 64 KiB of each part, whatever the file claims. A truncated file is read as far as
//! it goes.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// Properties of a program file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    /// Class, byte order and machine of the program.
    pub(crate) kind: (u8, u8, u64),
    /// True if a dynamic linker starts the program.
    pub(crate) has_interpreter: bool,
    /// True if the file has the note of Go's linker, or the section that `go version` reads.
    pub(crate) is_go: bool,
}

impl Elf {
    /// Reads a file. Returns `None` if it is not ELF.
    pub(crate) fn read(file: &impl FileExt) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD];
        let len = read_some(file, &mut head, 0)?;
        if len < HEAD_NARROW || !head.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let form = Form {
            is_wide: head[4] == WIDE,
            is_little: head[5] == LITTLE,
        };
        let machine = form.number(&head[18..20]);
        let (offset, size, count) = if form.is_wide {
            (&head[32..40], &head[54..56], &head[56..58])
        } else {
            (&head[28..32], &head[42..44], &head[44..46])
        };
        let is_go = form.has_go_section(file, &head)?;
        let size = form.number(size);
        let mut elf = Self {
            kind: (head[4], head[5], machine),
            has_interpreter: false,
            is_go,
        };
        for nth in 0..form.number(count).min(SEGMENTS_MAX) {
            let at = nth
                .checked_mul(size)
                .and_then(|at| at.checked_add(form.number(offset)));
            let mut segment = [0; SEGMENT];
            if at.map_or(Ok(0), |at| read_some(file, &mut segment, at))? < SEGMENT_NARROW {
                break;
            }
            match form.number(&segment[..4]) {
                INTERPRETER => elf.has_interpreter = true,
                NOTES => elf.is_go |= form.has_go_note(file, &segment)?,
                _ => {}
            }
        }
        Ok(Some(elf))
    }
}

/// Byte order and word size of a file.
#[derive(Clone, Copy, Debug)]
struct Form {
    is_wide: bool,
    is_little: bool,
}

impl Form {
    /// Returns a number of at most eight octets.
    fn number(self, octets: &[u8]) -> u64 {
        let add = |sum: u64, octet: &u8| (sum << 8) | u64::from(*octet);
        if self.is_little {
            octets.iter().rev().fold(0, add)
        } else {
            octets.iter().fold(0, add)
        }
    }

    /// Reads a part of the file, of at most [`PART_MAX`] octets.
    fn part(self, file: &impl FileExt, (offset, len): (&[u8], &[u8])) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.number(len)).unwrap_or(PART_MAX);
        let mut part = vec![0; len.min(PART_MAX)];
        let len = read_some(file, &mut part, self.number(offset))?;
        part.truncate(len);
        Ok(part)
    }

    /// Returns true if a section of the file has a name that only Go uses.
    fn has_go_section(self, file: &impl FileExt, head: &[u8; HEAD]) -> io::Result<bool> {
        let (offset, size, names) = if self.is_wide {
            (&head[40..48], &head[58..60], &head[62..64])
        } else {
            (&head[32..36], &head[46..48], &head[50..52])
        };
        let before = self.number(names) * self.number(size);
        let mut section = [0; SECTION];
        let at = self.number(offset).saturating_add(before);
        read_some(file, &mut section, at)?;
        let names = if self.is_wide {
            (&section[24..32], &section[32..40])
        } else {
            (&section[16..20], &section[20..24])
        };
        let names = self.part(file, names)?;
        let mut names = names.split(|octet| *octet == 0);
        Ok(names.any(|name| name == GO_SECTION))
    }

    /// Returns true if a note of the segment is from Go.
    fn has_go_note(self, file: &impl FileExt, segment: &[u8; SEGMENT]) -> io::Result<bool> {
        let notes = if self.is_wide {
            (&segment[8..16], &segment[32..40])
        } else {
            (&segment[4..8], &segment[16..20])
        };
        let notes = self.part(file, notes)?;
        let mut rest = notes.as_slice();
        while let Some((head, behind)) = rest.split_at_checked(12) {
            let padded =
                |at: usize| (self.number(&head[at..at + 4]) as usize).saturating_add(3) & !3;
            if behind.starts_with(b"Go\0\0") {
                return Ok(true);
            }
            let next = padded(0).saturating_add(padded(4));
            rest = behind.get(next..).unwrap_or_default();
        }
        Ok(false)
    }
}

/// Reads until the buffer is full or the file ends.
fn read_some(file: &impl FileExt, room: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read_at(&mut room[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            // an offset that no file can have
            Err(why) if why.kind() == ErrorKind::InvalidInput => break,
            Err(why) => return Err(why),
        }
    }
    Ok(filled)
}

const HEAD: usize = 64;
const HEAD_NARROW: usize = 52;
const WIDE: u8 = 2;
const LITTLE: u8 = 1;
/// Length of a segment's entry in a 64-bit file. It is shorter in others.
const SEGMENT: usize = 56;
const SEGMENT_NARROW: usize = 32;
/// Type of a segment with the path of an interpreter (`PT_INTERP`).
const INTERPRETER: u64 = 3;
/// Type of a segment with notes (`PT_NOTE`).
const NOTES: u64 = 4;
/// Maximum number of segments or sections. Linkers make fewer.
const SEGMENTS_MAX: u64 = 256;
/// Maximum octets of notes or names that are read. Linkers make fewer.
const PART_MAX: usize = 64 << 10;
/// Octets that are read of a section header.
const SECTION: usize = 40;
const GO_SECTION: &[u8] = b".go.buildinfo";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::path::Path;

    use proptest::prelude::*;

    fn read(octets: &[u8]) -> Option<Elf> {
        let own = format!(
            "lighthaul-elf-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let path = std::env::temp_dir().join(own);
        fs::write(&path, octets).unwrap();
        let elf = Elf::read(&File::open(&path).unwrap()).unwrap();
        fs::remove_file(path).unwrap();
        elf
    }

    #[test]
    fn programs_of_this_system_have_an_interpreter() {
        let elf = Elf::read(&File::open(Path::new("/proc/self/exe")).unwrap()).unwrap();
        assert!(elf.is_some_and(|elf| elf.has_interpreter && !elf.is_go));
    }

    #[test]
    fn arbitrary_bytes_parse_without_panic() {
        assert_eq!(read(b""), None);
        assert_eq!(read(b"#!/bin/sh\n"), None);
        let any = prop::collection::vec(any::<u8>(), 0..300);
        let outcome = proptest::test_runner::TestRunner::default().run(&any, |octets| {
            let head = [b"\x7fELF\x02\x01", &octets[..]].concat();
            read(&head);
            Ok(())
        });
        assert!(outcome.is_ok(), "{outcome:?}");
    }

    #[test]
    fn static_programs_and_go_programs_are_detected() {
        let mut file = vec![0; HEAD + SEGMENT];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[32], file[54], file[56]) = (HEAD as u8, SEGMENT as u8, 1);
        assert!(read(&file).is_some_and(|elf| !elf.has_interpreter && !elf.is_go));
        file[HEAD] = 4;
        file[HEAD + 8] = (HEAD + SEGMENT) as u8;
        file[HEAD + 32] = 36;
        file.extend(b"\x04\0\0\0\x04\0\0\0\x01\0\0\0GNU\0abcd");
        file.extend(b"\x04\0\0\0\0\0\0\0\x04\0\0\0Go\0\0");
        assert!(read(&file).is_some_and(|elf| elf.is_go));
        // without the note, and with the section
        file[HEAD] = 1;
        assert!(read(&file).is_some_and(|elf| !elf.is_go));
        let section = file.len();
        (file[40], file[58], file[60]) = (section as u8, 64, 1);
        file.resize(section + 64, 0);
        let names = file.len();
        (file[section + 24], file[section + 32]) = (names as u8, 16);
        file.extend(b"\0.go.buildinfo\0\0");
        assert!(read(&file).is_some_and(|elf| elf.is_go));
    }
}
