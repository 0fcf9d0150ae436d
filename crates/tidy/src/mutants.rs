//! Rule: the lists of mutation testing name files, tests and functions that exist.
//!
//! Mutation testing silently does less when an item is renamed, so `check` compares its two lists with the sources.
//! `scripts/mutants` lists groups of files, which it calls rooms: each has a crate, the files to mutate, and the tests
//! that must fail. `.cargo/mutants.toml` has regular expressions of mutants to skip. Names are recognized by their
//! form, without a parser for regular expressions. This rule runs no mutation test.

use crate::fault::Fault;
use crate::sources::{Source, Sources};

/// Finds names in [`ROOMS`] and [`EXCLUDED`] that do not exist. A group with a missing file ends the run. A filter that
/// selects no tests detects no mutant. An exclusion of a renamed function has no effect.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let of = |path: &str| sources.files.iter().find(|file| file.path == path);
    let mut faults = Vec::new();
    let lists = [("common=(", 0), ("rooms=(", 1)];
    let script = of(ROOMS).into_iter();
    let rooms = script.flat_map(|script| lists.map(|(begin, names)| (rooms(script, begin), names)));
    let rooms = rooms.flat_map(|(rooms, names)| rooms.into_iter().map(move |room| (room, names)));
    for ((line, room), names) in rooms {
        let place = format!("{ROOMS}:{line}");
        let mut words = room.split_whitespace().skip(names);
        let krate = words.next().unwrap_or_default();
        let others = words.clone().filter_map(|word| word.strip_prefix('@'));
        let crates: Vec<_> = others
            .chain([krate])
            .map(|krate| format!("crates/{krate}/"))
            .collect();
        let missing = words.filter_map(|word| missing(sources, (krate, &crates), word));
        faults.extend(missing.map(|text| Fault::new(&place, text)));
    }
    for (line, regex) in of(EXCLUDED).into_iter().flat_map(exclusions) {
        let place = format!("{EXCLUDED}:{line}");
        let names = names(regex).into_iter();
        let unknown = names.filter(|name| !sources.ending(".rs").any(|file| defines(file, name)));
        faults.extend(unknown.map(|name| {
            let text = format!(
                "excludes {name}, which no crate defines: name the item by which it was replaced"
            );
            Fault::new(&place, text)
        }));
    }
    faults
}

/// Returns the items of a list in the script with their line numbers. An item is the name of a group, its crate and the
/// words that select files and tests.
fn rooms<'a>(script: &'a Source, begin: &str) -> Vec<(usize, &'a str)> {
    let lines = script.lines();
    let lines = lines.skip_while(|(_, line)| *line != begin).skip(1);
    let lines = lines.take_while(|(_, line)| *line != ")");
    let quoted = lines.filter_map(|(nth, line)| {
        let room = line.trim().strip_prefix('"')?.strip_suffix('"')?;
        Some((nth, room))
    });
    quoted.collect()
}

/// Returns the fault of a word in a group: the name of a file, `:test`, `=filter`, `~filter` or `@crate`.
fn missing(sources: &Sources, (krate, crates): (&str, &[String]), word: &str) -> Option<String> {
    let folder = format!("crates/{krate}/");
    if let Some(test) = word.strip_prefix(':') {
        let paths = [
            format!("{folder}tests/{test}.rs"),
            format!("{folder}tests/{test}/main.rs"),
        ];
        let exists = paths.iter().any(|path| sources.has(path));
        return (!exists).then(|| format!("names the test {test}, which {krate} does not have"));
    }
    if let Some(other) = word.strip_prefix('@') {
        let exists = sources.has(&format!("crates/{other}/Cargo.toml"));
        return (!exists).then(|| format!("names the crate {other}, which does not exist"));
    }
    if let Some(filter) = word.strip_prefix(['=', '~']) {
        let filter = filter.strip_prefix("--skip=").unwrap_or(filter);
        let is_near = |file: &Source| crates.iter().any(|folder| file.path.starts_with(folder));
        let selects = sources
            .ending(".rs")
            .any(|file| is_near(file) && selects(file, filter));
        return (!selects)
            .then(|| format!("has the filter {filter}, which selects no test of {krate}"));
    }
    let path = format!("{folder}src/{word}");
    (!sources.has(&path)).then(|| format!("names {path}, which does not exist"))
}

/// Reports whether a filter selects a test of a file by its module or its name.
fn selects(file: &Source, filter: &str) -> bool {
    if !file.text.contains("#[test]") {
        return false;
    }
    let path = file.path.trim_end_matches(".rs");
    let inside = path
        .split("/src/")
        .nth(1)
        .or_else(|| path.split("/tests/").nth(1));
    let module = inside.unwrap_or_default().replace('/', "::") + "::";
    let is_named = |line: &str| {
        let name = line.trim().strip_prefix("fn ");
        name.and_then(|name| name.split('(').next())
            .is_some_and(|name| name.contains(filter))
    };
    module.contains(filter) || file.text.lines().any(is_named)
}

/// Returns the regular expressions of `exclude_re` with their lines.
fn exclusions(list: &Source) -> Vec<(usize, &str)> {
    let lines = list
        .lines()
        .skip_while(|(_, line)| !line.starts_with("exclude_re"));
    let quoted = lines.filter_map(|(nth, line)| {
        let regex = line.trim().strip_prefix('"')?;
        Some((nth, regex.split('"').next()?))
    });
    quoted.collect()
}

/// Returns the functions and types that a regular expression for mutants names.
fn names(regex: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = regex;
    while let Some(from) = rest.find(|char: char| char.is_ascii_alphabetic()) {
        let before = &rest[..from];
        let word = &rest[from..];
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let end = word.find(|char| !is_part(char)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        let is_function = name.contains('_') || before.ends_with("::");
        let is_type = after.starts_with('<') || (before == " " && names_place(regex, name));
        if is_function && name.starts_with(|char: char| char.is_ascii_lowercase()) || is_type {
            names.push(name);
        }
        rest = after;
    }
    names
}

/// Reports whether a name follows the word `in`, like the name of a function or a type.
fn names_place(regex: &str, name: &str) -> bool {
    regex.contains(&format!(" in {name}"))
}

/// Reports whether a file defines a function or a type.
fn defines(file: &Source, name: &str) -> bool {
    let is_ours = file.path.starts_with("crates/") && file.path.contains("/src/");
    let follows = |kind: &str| {
        let definition = format!("{kind} {name}");
        file.text.match_indices(&definition).any(|(at, _)| {
            let after = file.text[at + definition.len()..].chars().next();
            after.is_none_or(|char| !char.is_alphanumeric() && char != '_')
        })
    };
    is_ours && ["fn", "struct", "enum", "trait"].into_iter().any(follows)
}

/// Script with the groups of files (rooms).
const ROOMS: &str = "scripts/mutants";
/// Configuration with the excluded mutants.
const EXCLUDED: &str = ".cargo/mutants.toml";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_tests_and_filters_are_found() {
        let script = "common=(\n    \"io ~slow::\"\n    \"io ~fast::\"\n)\nrooms=(\n    \"room io :quick =seal =--skip=slow:: crypto/seal.rs\"\n    \"other io =absent :gone lost.rs\"\n)\n";
        let files = [
            (ROOMS, script),
            ("crates/io/src/crypto/seal.rs", "#[test]\nfn a() {}\n"),
            ("crates/io/src/slow.rs", "#[test]\nfn b() {}\n"),
            ("crates/io/tests/quick/main.rs", ""),
        ];
        let faults = check(&Sources::of(&files));
        let places: Vec<&str> = faults.iter().map(|fault| fault.place.as_str()).collect();
        let lines = [3, 7, 7, 7].map(|line| format!("{ROOMS}:{line}"));
        assert_eq!(places, lines, "{faults:?}");
        for words in [
            "filter fast::",
            "filter absent",
            "test gone",
            "crates/io/src/lost.rs",
        ] {
            assert!(
                faults.iter().any(|fault| fault.text.contains(words)),
                "{words}"
            );
        }
    }

    #[test]
    fn filter_selects_tests_by_name() {
        let files = [
            (ROOMS, "rooms=(\n\"room io =survives wire.rs\"\n)\n"),
            (
                "crates/io/src/wire.rs",
                "#[test]\n    fn tally_survives_the_wire() {}\n",
            ),
        ];
        assert_eq!(check(&Sources::of(&files)), []);
    }

    #[test]
    fn exclusions_of_renamed_items_are_found() {
        let excluded = "exclude_re = [\n    \"impl (fmt::)?(Debug|Display) for\", # words\n    \"replace Publisher<.*>::sync -> .* with Ok\",\n    \
                        \"replace Publisher<.*>::dressed with\",\n    \"with false in HeldCheck\",\n    \" has_wide_aes\",\n]\n";
        let files = [
            (EXCLUDED, excluded),
            (
                "crates/io/src/a.rs",
                "struct Publisher<T>;\nfn sync() {}\nfn dressed_up() {}\n",
            ),
        ];
        let faults = check(&Sources::of(&files));
        let found: Vec<&str> = faults.iter().map(|fault| fault.place.as_str()).collect();
        let lines = [4, 5, 6].map(|line| format!("{EXCLUDED}:{line}"));
        assert_eq!(found, lines, "{faults:?}");
    }
}
