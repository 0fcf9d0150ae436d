//! Rule: files and crates are short, since long ones have several purposes.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::sources::{Source, Sources};

/// Finds long files and crates, tests excluded.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let mut faults = check_crates(sources);
    faults.extend(check_pages(sources));
    for file in sources.ending(".rs") {
        let lines = file.lines().count();
        if lines > LINES_MAX {
            let text = format!("{lines} lines without tests, at most {LINES_MAX}: split the file");
            faults.push(Fault::new(&file.path, text));
        } else if lines > LINES_LOOK_AGAIN {
            let text = format!("{lines} lines without tests: consider splitting the file");
            faults.push(Fault::warning(&file.path, text));
        }
    }
    faults
}

/// Finds front pages that are too long to be read at once.
fn check_pages(sources: &Sources) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, most) in PAGE_LINES_MAX {
        let page = sources.files.iter().find(|file| file.path == path);
        let lines = page.map_or(0, |page| page.text.lines().count());
        if lines > most {
            faults.push(Fault::new(
                path,
                format!("{lines} lines, at most {most}: shorten it"),
            ));
        }
    }
    faults
}

/// Finds crates with too many lines of production code, comments and blank lines included.
fn check_crates(sources: &Sources) -> Vec<Fault> {
    let mut crates: BTreeMap<&str, usize> = BTreeMap::new();
    for file in sources.ending(".rs") {
        if let Some(folder) = crate_of(file) {
            *crates.entry(folder).or_default() += file.lines().count();
        }
    }
    let mut faults = Vec::new();
    for (folder, lines) in crates {
        if lines > CRATE_LINES_MAX {
            let text = format!(
                "{lines} lines without tests, at most {CRATE_LINES_MAX}: move a module to another crate"
            );
            faults.push(Fault::new(format!("crates/{folder}"), text));
        }
    }
    faults
}

/// Returns the folder of the crate whose production code contains the file.
fn crate_of(file: &Source) -> Option<&str> {
    let (folder, path) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
    let is_test =
        path.starts_with("tests/") || path.contains("/tests/") || file.name() == "tests.rs";
    (!is_test).then_some(folder)
}

const CRATE_LINES_MAX: usize = 8000;
const LINES_LOOK_AGAIN: usize = 400;
const LINES_MAX: usize = 600;
const PAGE_LINES_MAX: [(&str, usize); 2] = [("README.md", 150), ("ARCHITECTURE.md", 200)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found_without_counting_tests() {
        let long = "//\n".repeat(601);
        let longish = "//\n".repeat(401);
        let tested = format!("{}#[cfg(test)]\n{long}", "//\n".repeat(400));
        let files = [
            ("a.rs", long.as_str()),
            ("b.rs", &longish),
            ("c.rs", &tested),
            ("d.md", &long),
        ];
        let faults = check(&Sources::of(&files));
        assert_eq!(faults.len(), 2);
        assert!(!faults[0].is_warning && faults[1].is_warning);
    }

    #[test]
    fn long_front_pages_are_found() {
        let line = "line\n";
        for (lines, faults) in [(150, 0), (151, 1)] {
            let text = line.repeat(lines);
            let files = [("README.md", text.as_str()), ("ARCHITECTURE.md", &text)];
            assert_eq!(check(&Sources::of(&files)).len(), faults, "{lines} lines");
        }
    }

    #[test]
    fn large_crates_are_found_without_counting_tests() {
        let part = "//\n".repeat(390);
        let tested = format!("{part}#[cfg(test)]\n{part}");
        let path = |folder: &str, nth: usize| format!("crates/{folder}/{nth}.rs");
        let mut files: Vec<(String, &str)> = Vec::new();
        for nth in 0..21 {
            files.push((path("large/src", nth), &part));
            files.push((path("small/src/tests", nth), &part));
            files.push((path("small/tests", nth), &part));
        }
        files.extend((0..20).map(|nth| (path("small/src", nth), tested.as_str())));
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, *text)).collect();
        let faults = check(&Sources::of(&files));
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].place, "crates/large");
        assert!(
            faults[0].text.starts_with("8190 lines"),
            "{}",
            faults[0].text
        );
    }
}
