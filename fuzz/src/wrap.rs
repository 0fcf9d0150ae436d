//! Programs' files, from which `wrap` reads how they are linked.

#[path = "../../crates/wrap/src/elf.rs"]
mod elf;
#[path = "../../crates/wrap/src/script.rs"]
mod script;

use elf::Elf;
use script::interpreter;

/// Reads a program's file. Only files that begin as ELF or as a script are taken for it, and nothing beyond the end of
/// the file counts. The interpreter of a script is one word of its first line.
pub fn elf(octets: &[u8]) {
    for file in [octets.to_vec(), [b"#!", octets].concat()] {
        if let Some(word) = interpreter(&file) {
            let line = file.strip_prefix(b"#!").expect("a script begins so");
            let line = line.split(|octet| *octet == b'\n').next().expect("a line");
            let word = word.to_bytes();
            let is_space = |octet: &u8| matches!(octet, b' ' | b'\t');
            assert!(!word.is_empty() && !word.iter().any(is_space));
            let begin = line.iter().position(|octet| !is_space(octet));
            assert!(line[begin.expect("a word")..].starts_with(word), "{line:?}");
        }
    }
    let part = |file: &[u8], at: u64, len: usize| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let behind = file.get(at..).unwrap_or_default();
        behind[..len.min(behind.len())].to_vec()
    };
    let read = |file: &[u8]| Elf::read(&|at, len| part(file, at, len));
    for file in [octets.to_vec(), [OWN, octets].concat()] {
        let found = read(&file);
        assert_eq!(found.is_some(), file.starts_with(b"\x7fELF"));
        if let Some(found) = found {
            assert!(found.is_own_kind || !(found.has_interpreter || found.is_go));
        }
    }
}

/// First octets of a 64-bit program of this host's byte order.
const OWN: &[u8] = if cfg!(target_endian = "little") {
    b"\x7fELF\x02\x01"
} else {
    b"\x7fELF\x02\x02"
};
