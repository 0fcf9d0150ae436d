//! Rule: tests are skipped through one mechanism, which records them.

use crate::fault::Fault;
use crate::sources::Sources;
use crate::tokens::{after_group, tokens};

/// Finds tests that print that they are skipped, or that return silently if a variable, root or a kind of machine is
/// missing. Only `lighthaul-testkit` records skips, or fails where all tests are required.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let elsewhere = sources.ending(".rs").filter(|file| {
        let is_ours = file.path.starts_with("crates/");
        is_ours && !KNOWN.iter().any(|known| file.path.starts_with(known))
    });
    let mut faults = Vec::new();
    for file in elsewhere {
        if SAID.iter().any(|said| file.text.contains(said)) {
            let text =
                "prints that a test is skipped: call lighthaul_testkit::skip or lacks instead";
            faults.push(Fault::new(&file.path, text));
        }
        if let Some(test) = silent_test(&file.text) {
            let text = format!(
                "{test} returns in silence where an environment variable, root or a kind of machine is missing: call \
                 lighthaul_testkit::skip or lacks_root, or ignore a test that others start"
            );
            faults.push(Fault::new(&file.path, text));
        }
    }
    faults
}

/// Returns the name of a test that is not ignored and returns in silence. See [`CONDITIONS`] for what
/// the machine may lack.
fn silent_test(text: &str) -> Option<String> {
    let tokens = tokens(text);
    let tests = (0..tokens.len()).filter(|at| tokens[*at..].starts_with(&["#", "[", "test", "]"]));
    for at in tests {
        let function = at + tokens[at..].iter().position(|token| *token == "fn")?;
        let body = function + tokens[function..].iter().position(|token| *token == "{")?;
        let is_ignored = tokens[at..function].contains(&"ignore");
        let inside = &tokens[body..after_group(&tokens, body)];
        if !is_ignored && returns_in_silence(inside) {
            return tokens.get(function + 1).map(|name| (*name).to_owned());
        }
    }
    None
}

/// Reports whether a statement with one of [`CONDITIONS`] may return without a call.
fn returns_in_silence(body: &[&str]) -> bool {
    let asks = |at: &usize| CONDITIONS.iter().any(|call| body[*at..].starts_with(call));
    (0..body.len()).filter(asks).any(|at| {
        let statement = body[at..].iter().take_while(|token| **token != ";");
        let end = (at + statement.count() + 1).min(body.len());
        let mut pairs = body[at..end].windows(2);
        pairs.any(|pair| pair[0] == "return" && [";", "}"].contains(&pair[1]))
    })
}

/// Calls that test for a feature of the host.
const CONDITIONS: [&[&str]; 4] = [
    &["env", "::", "var", "("],
    &["env", "::", "var_os", "("],
    &["is_root", "("],
    &["cfg", "!", "("],
];

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

    #[test]
    fn tests_that_return_in_silence_are_found() {
        let found = |text: &str| check(&Sources::of(&[("crates/io/tests/a.rs", text)])).len();
        for text in [
            "#[test] fn a() { let Ok(url) = env::var(STORE) else { return; }; }",
            "#[test]\nfn a() { let Ok(x) = std::env::var(\"STORE\") else { return }; }",
            "#[test] fn a() { if env::var_os(STORE).is_none() { return; } work(); }",
            "#[test] fn a() { work(); if !is_root() { return; } more(); }",
            "#[test] fn a() { if cfg!(not(target_arch = \"x86_64\")) { return } work(); }",
        ] {
            assert_eq!(found(text), 1, "{text}");
        }
        for text in [
            "#[test] #[ignore = \"another test starts it\"] fn a() { let Ok(x) = env::var(X) else { return; }; }",
            "#[test] fn a() { let seed = env::var(SEED).ok(); if seed.is_none() { work(); } }",
            "fn a() { let Ok(url) = env::var(STORE) else { return; }; }",
            "#[test] fn a() { if is_root() { work(); } more(); }",
            "#[test] fn a() { if cfg!(unix) { return skip(\"a\", \"no reason\"); } work(); }",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
    }
}
