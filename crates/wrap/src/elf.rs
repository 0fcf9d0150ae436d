//! Linkage of a program, read from its file: the ELF of the System V ABI, chapters 4 and 5.
//!
//! `Elf::read` finds out if this library would be loaded into a program before the program is
//! started. It gets the file through a function, so it needs no file API and can be tested on
//! bytes. It reads only files of its own word size and byte order. It never panics, and reads at
//! most 1024 entries of a table and 64 KiB of a part. A part beyond the end of the file reads as
//! empty.

/// Properties of an ELF file that decide if the program can be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    /// True if the file has the word size and byte order of this library.
    pub(crate) is_own_kind: bool,
    /// True if a dynamic linker starts the program.
    pub(crate) has_interpreter: bool,
    /// True if Go's linker made the file, or a part of it.
    pub(crate) is_go: bool,
}

impl Elf {
    /// Reads a file in parts: `read` returns the octets at an offset, at most the given number. Returns `None` if the
    /// file is not ELF.
    pub(crate) fn read(read: &dyn Fn(u64, usize) -> Vec<u8>) -> Option<Self> {
        let head = read(0, HEAD);
        if !head.starts_with(b"\x7fELF") {
            return None;
        }
        let own = [if WIDE { 2 } else { 1 }, if LITTLE { 1 } else { 2 }];
        let mut elf = Self {
            is_own_kind: head.get(4..6) == Some(&own),
            has_interpreter: false,
            is_go: false,
        };
        if !elf.is_own_kind {
            return Some(elf);
        }
        let [segments, sections, names] = if WIDE { [54, 58, 62] } else { [42, 46, 50] };
        let [segments_at, sections_at] = if WIDE { [32, 40] } else { [28, 32] };
        // a truncated header has no tables
        let form = |at: usize| head.get(at..).unwrap_or_default();
        for segment in table(read, word(&head, segments_at), form(segments)) {
            let (offset, len) = if WIDE { (8, 32) } else { (4, 16) };
            match number::<4>(&segment, 0) {
                PT_INTERP => elf.has_interpreter = true,
                PT_NOTE => elf.is_go |= has_go_note(&part(read, &segment, (offset, len))),
                _ => {}
            }
        }
        let names = number::<2>(&head, names) as usize;
        let mut sections = table(read, word(&head, sections_at), form(sections));
        if let Some(section) = sections.nth(names) {
            let (offset, len) = if WIDE { (24, 32) } else { (16, 20) };
            let names = part(read, &section, (offset, len));
            let mut names = names.split(|octet| *octet == 0);
            elf.is_go |= names.any(|name| name == GO_SECTION);
        }
        Some(elf)
    }
}

/// Returns the entries of a table at `offset`. `form` begins with their length and count.
fn table<'a>(
    read: &'a dyn Fn(u64, usize) -> Vec<u8>,
    offset: u64,
    form: &[u8],
) -> impl Iterator<Item = Vec<u8>> + use<'a> {
    let (len, count) = (number::<2>(form, 0), number::<2>(form, 2));
    let line = move |nth: u64| read(offset.saturating_add(nth * len), len as usize);
    (0..count.min(LINES_MAX)).map(line)
}

/// Returns the part of the file that an entry describes. `form` has the places of its offset and length in the entry.
fn part(
    read: &dyn Fn(u64, usize) -> Vec<u8>,
    line: &[u8],
    (offset, len): (usize, usize),
) -> Vec<u8> {
    let len = usize::try_from(word(line, len)).unwrap_or(PART_MAX);
    read(word(line, offset), len.min(PART_MAX))
}

/// Returns true if one of the ELF notes is from Go. A note is three numbers, a name and a value, each padded to four
/// octets.
fn has_go_note(notes: &[u8]) -> bool {
    let mut rest = notes;
    while let Some((head, behind)) = rest.split_at_checked(12) {
        if behind.starts_with(b"Go\0\0") {
            return true;
        }
        let padded = |at| (number::<4>(head, at) as usize).saturating_add(3) & !3;
        let next = padded(0).saturating_add(padded(4));
        rest = behind.get(next..).unwrap_or_default();
    }
    false
}

/// Returns a number as wide as an address.
fn word(octets: &[u8], at: usize) -> u64 {
    number::<{ size_of::<usize>() }>(octets, at)
}

/// Returns a number of `len` octets, or zero beyond the end.
fn number<const LEN: usize>(octets: &[u8], at: usize) -> u64 {
    let octets = octets.get(at..at + LEN).unwrap_or_default();
    let add = |sum: u64, octet: &u8| (sum << 8) | u64::from(*octet);
    if LITTLE {
        octets.iter().rev().fold(0, add)
    } else {
        octets.iter().fold(0, add)
    }
}

/// Octets at the start of a file that are read, with its tables.
const HEAD: usize = 64;
const WIDE: bool = size_of::<usize>() == 8;
const LITTLE: bool = cfg!(target_endian = "little");
const PT_INTERP: u64 = 3;
const PT_NOTE: u64 = 4;
/// Section by which `go version` recognizes Go programs.
const GO_SECTION: &[u8] = b".go.buildinfo";
/// Maximum number of segments or sections. Linkers make fewer.
const LINES_MAX: u64 = 1 << 10;
/// Maximum number of octets of notes or names. Linkers make fewer.
const PART_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(octets: &[u8]) -> Option<Elf> {
        Elf::read(&|at, len| {
            let behind = octets.get(at as usize..).unwrap_or_default();
            behind[..len.min(behind.len())].to_vec()
        })
    }

    /// Returns a program with two empty segments and one empty section.
    fn program() -> Vec<u8> {
        let mut file = vec![0; SECTION + 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[32], file[54], file[56]) = (64, 56, 2);
        (file[40], file[58], file[60]) = (SECTION as u8, 64, 1);
        file
    }

    const SECTION: usize = 64 + 2 * 56;

    #[test]
    fn static_and_dynamic_programs_are_distinguished() {
        let mut file = program();
        let plain = elf(&file).unwrap();
        assert!(plain.is_own_kind && !plain.has_interpreter && !plain.is_go);
        file[64 + 56] = 3;
        assert!(elf(&file).unwrap().has_interpreter);
        file[4] = 1;
        assert!(!elf(&file).unwrap().is_own_kind);
        assert_eq!(elf(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn programs_of_go_are_known_by_their_note_or_their_section() {
        let mut noted = program();
        let len = noted.len();
        (noted[64], noted[64 + 8], noted[64 + 32]) = (4, len as u8, 36);
        noted.extend(b"\x04\0\0\0\x03\0\0\0\x01\0\0\0GNU\0abc\0");
        noted.extend(b"\x04\0\0\0\0\0\0\0\x04\0\0\0Go\0\0");
        assert!(elf(&noted).unwrap().is_go);
        assert!(!elf(&noted[..len + 20]).unwrap().is_go);
        for (name, is_go) in [(&b".go.buildinfo"[..], true), (b".go.buildinfos", false)] {
            let mut named = program();
            (named[SECTION + 24], named[SECTION + 32]) = (len as u8, 2 + name.len() as u8);
            named.extend([b"\0", name, b"\0"].concat());
            assert_eq!(elf(&named).unwrap().is_go, is_go);
        }
    }

    #[test]
    fn truncated_and_inconsistent_files_are_read_without_panic() {
        let file = program();
        for len in 0..file.len() {
            elf(&file[..len]);
        }
        for at in 6..file.len() {
            let mut file = file.clone();
            file[at] = 255;
            elf(&file);
            file[at..].fill(255);
            elf(&file);
        }
    }
}
