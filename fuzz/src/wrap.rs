//! Programs' files, from which `wrap` reads how they are linked.

#[path = "../../crates/wrap/src/elf.rs"]
mod elf;

use elf::Elf;

/// Reads a program's file. Only files that begin as ELF are taken for it, and nothing beyond the end of the file counts.
pub fn elf(octets: &[u8]) {
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
