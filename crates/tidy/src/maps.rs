//! Rule: `lib.rs` and `mod.rs` are maps, which define no items.

use crate::fault::Fault;
use crate::sources::Sources;

/// Finds items of maps other than documentation, attributes, `mod` and `use`.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let maps = sources
        .files
        .iter()
        .filter(|file| file.is_map() && file.path.contains("/src/"));
    let mut faults = Vec::new();
    for file in maps {
        let code = file.lines().map(|(nth, line)| (nth, line.trim()));
        // An attribute or a `pub use` may span several lines.
        let mut within: Option<char> = None;
        for (nth, line) in code {
            if let Some(end) = within {
                within = (!line.ends_with(end)).then_some(end);
            } else if line.starts_with('#') {
                within = (!line.ends_with(']')).then_some(']');
            } else if starts_with_any(line, &["use ", "pub use ", "pub(crate) use "]) {
                within = (!line.ends_with(';')).then_some(';');
            } else if !is_mapping(line) {
                let text = "a map defines no items: move this to another file";
                faults.push(Fault::new(format!("{}:{nth}", file.path), text));
                break;
            }
        }
        let lines = file.lines().count();
        if lines > LINES_MAX {
            let text = format!(
                "a map has at most {LINES_MAX} lines, not {lines}: shorten it or split the module"
            );
            faults.push(Fault::new(&file.path, text));
        }
    }
    faults
}

fn is_mapping(line: &str) -> bool {
    let declares = starts_with_any(
        line,
        &["mod ", "pub mod ", "pub(crate) mod ", "extern crate "],
    );
    line.is_empty() || line.starts_with("//") || (declares && line.ends_with(';'))
}

fn starts_with_any(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| line.starts_with(word))
}

const LINES_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_may_declare_and_reexport() {
        let text = "//! A room.\n#![expect(\n    unsafe_code,\n    reason = \"x\"\n)]\n#[cfg(test)]\n\
                    extern crate std;\n\npub mod a;\nmod b;\n\npub use a::{\n    B,\n    C,\n};\n";
        assert_eq!(check(&Sources::of(&[("crates/x/src/lib.rs", text)])), []);
    }

    #[test]
    fn maps_with_items_are_refused() {
        for text in [
            "pub fn f() {}\n",
            "mod a {\n}\n",
            "pub const A: u8 = 1;\n",
            "struct A;\n",
        ] {
            assert_eq!(
                check(&Sources::of(&[("crates/x/src/a/mod.rs", text)])).len(),
                1,
                "{text}"
            );
        }
        assert_eq!(
            check(&Sources::of(&[("crates/x/src/lib.rs", &"//\n".repeat(61))])).len(),
            1
        );
        assert_eq!(
            check(&Sources::of(&[("crates/x/src/a.rs", "struct A;\n")])),
            []
        );
    }
}
