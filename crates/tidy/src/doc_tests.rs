//! Rule: a library has documentation tests if and only if its documentation has code.
//!
//! `rustdoc` looks for such code for a second or more in each crate. A crate without any says
//! `doctest = false` in its manifest, so that `make test` does not wait for it.

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::sources::{Source, Sources};

/// Checks the manifests of all libraries.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let with_code: BTreeSet<&str> = sources
        .ending(".rs")
        .filter(|file| has_code(file))
        .filter_map(|file| file.path.split_once("/src/"))
        .map(|(folder, _)| folder)
        .collect();
    let mut faults = Vec::new();
    let ours = sources
        .ending("/src/lib.rs")
        .filter(|file| file.path.starts_with("crates/"));
    for map in ours {
        let Some(folder) = map.path.strip_suffix("/src/lib.rs") else {
            continue;
        };
        let path = format!("{folder}/Cargo.toml");
        let Some(manifest) = sources.files.iter().find(|file| file.path == path) else {
            continue;
        };
        let is_tested = !manifest.text.lines().any(|line| line == OFF);
        match (with_code.contains(folder), is_tested) {
            (true, false) => faults.push(Fault::new(
                path,
                format!("documentation has code: remove {OFF}"),
            )),
            (false, true) => faults.push(Fault::new(
                path,
                format!("no documentation has code: add {OFF} to [lib]"),
            )),
            _ => {}
        }
    }
    faults
}

/// Returns true if `rustdoc` would compile a block of the file's documentation.
fn has_code(file: &Source) -> bool {
    let mut is_inside = false;
    file.text.lines().any(|line| {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("//!")
            .or_else(|| line.strip_prefix("///"));
        let Some(language) = comment.and_then(|text| text.trim_start().strip_prefix("```")) else {
            return false;
        };
        is_inside = !is_inside;
        is_inside && !OTHER_LANGUAGES.contains(&language.trim())
    })
}

const OFF: &str = "doctest = false";

/// Languages of blocks that `rustdoc` does not compile.
const OTHER_LANGUAGES: [&str; 5] = ["text", "toml", "json", "sh", "xml"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_with_code_are_tested() {
        let code = "//! ```no_run\n//! run();\n//! ```\n";
        let text = "//! ```text\n//! a picture\n//! ```\n";
        let off = "[lib]\ndoctest = false\n";
        for (source, manifest, fault) in [
            (code, "", None),
            (code, off, Some("remove")),
            (text, "", Some("add")),
            (text, off, None),
        ] {
            let sources = Sources::of(&[
                ("crates/x/Cargo.toml", manifest),
                ("crates/x/src/lib.rs", ""),
                ("crates/x/src/part.rs", source),
            ]);
            let faults: Vec<String> = check(&sources)
                .into_iter()
                .map(|fault| fault.text)
                .collect();
            assert_eq!(faults.len(), usize::from(fault.is_some()), "{faults:?}");
            assert!(
                fault.is_none_or(|word| faults[0].contains(word)),
                "{faults:?}"
            );
        }
    }
}
