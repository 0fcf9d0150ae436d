//! Hash function of an option.

use lighthaul_files::hash::HashKind;
use lighthaul_grammar::sums::Hash;

/// Returns the hash function that an option names.
pub(super) const fn hash_kind(option: Hash) -> HashKind {
    match option {
        Hash::Sha256 => HashKind::Sha256,
        Hash::Md5 => HashKind::Md5,
        Hash::Blake3 => HashKind::Blake3,
        Hash::Crc32c => HashKind::Crc32c,
        Hash::Adler32 => HashKind::Adler32,
    }
}
