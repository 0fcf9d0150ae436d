//! Faults in a configuration file, in one plain sentence with line and column.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

/// Returns a parser's error for `text` as one sentence with its place: "line 3, column 5: ...".
///
/// Columns are counted in letters, and lines and columns from 1.
pub fn fault_in(text: &str, place: Option<Range<usize>>, says: &str) -> String {
    let mut why = String::with_capacity(says.len());
    for part in says.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if !why.is_empty() {
            why.push_str(", ");
        }
        why.push_str(part);
    }
    let Some(before) = place.and_then(|place| text.get(..place.start)) else {
        return why;
    };
    let line = before.matches('\n').count() + 1;
    let column = before
        .chars()
        .rev()
        .take_while(|letter| *letter != '\n')
        .count()
        + 1;
    format!("line {line}, column {column}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_a_single_sentence_with_a_position() {
        let text = "a = 1\n\u{e9} = b\n";
        assert_eq!(fault_in(text, Some(0..1), "no"), "line 1, column 1: no");
        assert_eq!(fault_in(text, Some(11..12), "no"), "line 2, column 5: no");
        assert_eq!(fault_in(text, Some(13..13), "no"), "line 3, column 1: no");
        let says = "invalid key\n  expected a word\n\n";
        assert_eq!(fault_in(text, None, says), "invalid key, expected a word");
        // no place in the text
        assert_eq!(fault_in(text, Some(7..8), "no"), "no");
        assert_eq!(fault_in(text, Some(99..99), "no"), "no");
    }
}
