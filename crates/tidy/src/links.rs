//! Rule: links in documents have a target.
//!
//! `check` reads Markdown line by line, without code blocks. Relative links need a file, and a
//! heading if they name one. Paths of the project in code spans need a file, too. Pages of the
//! guide may link only to each other, because the guide is published alone. Links to the web are
//! not followed, so the result does not depend on the network.

use crate::fault::Fault;
use crate::sources::{Source, Sources};

/// Finds links in Markdown files, and paths in code spans, whose target is missing.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in sources.ending(".md") {
        for (nth, line) in prose(file) {
            let place = || format!("{}:{nth}", file.path);
            for target in targets(line).filter(|target| !is_elsewhere(target)) {
                if let Some(why) = missing(sources, file, target) {
                    faults.push(Fault::new(place(), why));
                }
            }
            for path in paths(line).filter(|path| !sources.has(path)) {
                faults.push(Fault::new(place(), format!("missing file {path}")));
            }
        }
    }
    faults
}

/// Returns the lines outside of code blocks.
fn prose(file: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Returns the targets of `[text](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

/// Returns the project's paths in code spans.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split('`').skip(1).step_by(2);
    code.filter(|code| {
        (code.starts_with("crates/") || code.starts_with("figures/") || code.starts_with("fuzz/"))
            && !code.contains([' ', '*', '<', '{'])
    })
}

fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

fn missing(sources: &Sources, file: &Source, target: &str) -> Option<String> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let resolved = if path.is_empty() {
        file.path.clone()
    } else {
        resolve(&file.path, path)
    };
    if !sources.has(&resolved) {
        return Some(format!("the link to {target} has no target"));
    }
    if file.path.starts_with(BOOK) && !resolved.starts_with(BOOK) {
        return Some(format!(
            "the link to {target} leads out of the book: name the path in code, or link to the web"
        ));
    }
    let there = sources.files.iter().find(|other| other.path == resolved);
    let found = |other: &Source| {
        other
            .text
            .lines()
            .any(|line| line.starts_with('#') && anchor(line) == heading)
    };
    (!heading.is_empty() && !there.is_some_and(found))
        .then(|| format!("the heading #{heading} is missing in {resolved}"))
}

/// Resolves `path` relative to the file `from`.
fn resolve(from: &str, path: &str) -> String {
    let mut steps: Vec<&str> = from.split('/').collect();
    steps.pop();
    for step in path.split('/') {
        match step {
            "." | "" => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.join("/")
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Pages of the guide, which are published without other files of the repository.
const BOOK: &str = "docs/src/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_guide_link_only_to_each_other() {
        let files = [
            ("docs/src/a.md", "[b](b.md#b) [c](../../README.md)\n"),
            ("docs/src/b.md", "# B\n"),
            ("README.md", "[a](docs/src/a.md)\n"),
        ];
        let faults = check(&Sources::of(&files));
        assert_eq!(faults.len(), 1);
        assert!(faults[0].text.contains("out of the book"));
    }

    fn faults(text: &str) -> Vec<String> {
        let files = [
            ("docs/a.md", text),
            ("README.md", "# The name\n"),
            ("crates/x/src/lib.rs", ""),
        ];
        check(&Sources::of(&files))
            .into_iter()
            .map(|fault| fault.text)
            .collect()
    }

    #[test]
    fn links_with_targets_are_accepted() {
        let text = "## Own: words\n[a](../README.md) [b](../README.md#the-name) [c](#own-words) \
                    [d](https://example.org/x) ![e](../crates/x) `crates/x/src/lib.rs`\n\
                    ```\n[x](nowhere) `crates/none`\n```\n";
        assert_eq!(faults(text), Vec::<String>::new());
    }

    #[test]
    fn broken_links_and_paths_are_found() {
        for text in [
            "[a](b.md)",
            "[a](../README.md#x)",
            "[a](#x)",
            "see `crates/y/src/lib.rs`",
        ] {
            assert_eq!(faults(text).len(), 1, "{text}");
        }
    }
}
