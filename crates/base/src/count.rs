//! Numbers with nouns in singular or plural.

use alloc::format;
use alloc::string::String;

/// Returns `number` with its noun, as in `1 entry` or `3 entries`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{number} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noun_follows_the_number() {
        for (number, text) in [(0, "0 files"), (1, "1 file"), (2, "2 files")] {
            assert_eq!(counted(number, "file", "files"), text);
        }
        assert_eq!(counted(u64::MAX, "a", "b"), "18446744073709551615 b");
    }
}
