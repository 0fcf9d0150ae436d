//! Rule: GLOSSARY.md has at most [`TERMS_MAX`] terms, each once.

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::sources::{Source, Sources};

/// Finds terms that are repeated, and a glossary with too many.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let glossary = sources.ending("GLOSSARY.md");
    glossary.flat_map(check_file).collect()
}

fn check_file(file: &Source) -> Vec<Fault> {
    let mut terms = BTreeSet::new();
    let mut faults = Vec::new();
    for (nth, line) in file.lines() {
        for term in terms_of(line) {
            if !terms.insert(term.to_lowercase()) {
                let text = format!("the term \"{term}\" is defined twice");
                faults.push(Fault::new(format!("{}:{nth}", file.path), text));
            }
        }
    }
    if terms.len() > TERMS_MAX {
        let text = format!(
            "{} terms, at most {TERMS_MAX}: remove those of common standards",
            terms.len()
        );
        faults.push(Fault::new(&file.path, text));
    }
    faults
}

/// Returns the terms that a line of the table defines. A comma separates them.
fn terms_of(line: &str) -> impl Iterator<Item = &str> {
    let first = line.strip_prefix('|').and_then(|row| row.split('|').next());
    let terms = first.unwrap_or_default().split(',').map(str::trim);
    terms.filter(|term| !term.is_empty() && *term != "word" && !term.starts_with('-'))
}

/// Maximum number of terms that a newcomer can learn.
const TERMS_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rows: &str) -> usize {
        let text = format!("| word | meaning |\n|---|---|\n{rows}");
        check(&Sources::of(&[("GLOSSARY.md", &text)])).len()
    }

    #[test]
    fn terms_within_a_row_are_counted() {
        let rows: Vec<String> = (0..59).map(|nth| format!("| term {nth} | x |\n")).collect();
        let rows = rows.concat();
        assert_eq!(faults(&format!("{rows}| a | x |\n")), 0);
        assert_eq!(faults(&format!("{rows}| a, b | x |\n")), 1);
    }

    #[test]
    fn terms_are_defined_once() {
        assert_eq!(faults("| ack | x |\n| NAK, ACK | x |\n"), 1);
    }
}
