//! Rule: tests are skipped through one mechanism, which records them.

use crate::fault::Fault;
use crate::sources::Sources;

/// Finds tests that print that they are skipped. Only `lighthaul-testkit` records skips, or fails
/// where all tests are required.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let elsewhere = sources.ending(".rs").filter(|file| {
        let is_ours = file.path.starts_with("crates/");
        is_ours && !KNOWN.iter().any(|known| file.path.starts_with(known))
    });
    let says = |text: &str| SAID.iter().any(|said| text.contains(said));
    elsewhere
        .filter(|file| says(&file.text))
        .map(|file| {
            let text =
                "prints that a test is skipped: call lighthaul_testkit::skip or lacks instead";
            Fault::new(&file.path, text)
        })
        .collect()
}

/// Crate that records skips, and the code of this rule.
const KNOWN: [&str; 2] = ["crates/testkit/", "crates/tidy/src/"];

const SAID: [&str; 2] = ["\"skipped", "\"skipping"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrecorded_skips_are_found() {
        let silent = "eprintln!(\"skipped: no rsync\"); return;";
        let counted = "if lacks_tool(\"a_test\", \"rsync\") { return; }";
        let files = [
            ("crates/io/tests/a.rs", silent),
            ("crates/io/tests/b.rs", counted),
            ("crates/testkit/src/skip.rs", silent),
        ];
        assert_eq!(check(&Sources::of(&files)).len(), 1);
    }
}
