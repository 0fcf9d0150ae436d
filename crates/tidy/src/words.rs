//! Rule: one word for one concept. Names of items follow GLOSSARY.md.

use crate::fault::Fault;
use crate::sources::{Source, Sources};

/// Finds names of types, functions and modules that contain banned words.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let files = sources
        .ending(".rs")
        .filter(|file| file.path.starts_with("crates/"));
    files.flat_map(check_file).collect()
}

fn check_file(file: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (nth, line) in file.lines() {
        let Some(name) = declared(line.trim_start()) else {
            continue;
        };
        let first = name.split_once('_').map(|(first, _)| first);
        let banned = BANNED
            .iter()
            .find(|(word, _)| parts(name).any(|part| part == *word))
            .or_else(|| VERBS.iter().find(|(word, _)| first == Some(word)));
        if let Some((word, instead)) = banned {
            let text = format!("{name}: not \"{word}\" but {instead} (GLOSSARY.md)");
            faults.push(Fault::new(format!("{}:{nth}", file.path), text));
        }
    }
    faults
}

/// Returns the name that a line declares for a type, a function or a module.
fn declared(line: &str) -> Option<&str> {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| LEADING.contains(word));
    if !DECLARING.contains(&words.next()?) {
        return None;
    }
    let name = words.next()?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// Splits a name into its words, in lower case.
fn parts(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && name.chars().any(char::is_lowercase)) {
            words.push(String::new());
        }
        if let (Some(word), true) = (words.last_mut(), letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words.into_iter()
}

const LEADING: [&str; 5] = ["pub", "pub(crate)", "const", "unsafe", "async"];
const DECLARING: [&str; 8] = [
    "struct", "enum", "trait", "fn", "type", "mod", "static", "union",
];

const BANNED: [(&str, &str); 4] = [
    ("chunk", "span"),
    ("extent", "span"),
    ("blob", "object"),
    ("throttle", "pacer"),
];

/// Words that no name starts with.
const VERBS: [(&str, &str); 4] = [
    ("get", "the name of the thing itself"),
    ("do", "a verb of the glossary"),
    ("process", "a verb of the glossary"),
    ("manage", "a verb of the glossary"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(line: &str) -> usize {
        check(&Sources::of(&[("crates/x/src/a.rs", line)])).len()
    }

    #[test]
    fn banned_words_are_found_in_names() {
        for line in [
            "pub(crate) struct FileChunk;",
            "    pub fn extent(&self) -> u64 {",
            "pub const fn get_rate() {}",
            "const BLOB_LEN: usize = 1;",
            "mod throttle;",
        ] {
            let found = faults(line);
            let expected = usize::from(!line.contains("BLOB"));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn banned_words_within_other_words_are_allowed() {
        for line in [
            "fn bandwidth() {}",
            "fn target() {}",
            "fn done() {}",
            "fn get() {}",
            "struct Processor;",
            "let chunk = 1;",
        ] {
            assert_eq!(faults(line), 0, "{line}");
        }
    }
}
