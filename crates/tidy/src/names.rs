//! Rule: directories and files are named after their content.

use crate::fault::Fault;
use crate::sources::Sources;

/// Finds files and directories with empty names, such as `util`.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &sources.files {
        let names = file
            .path
            .split('/')
            .map(|name| name.split('.').next().unwrap_or(name));
        let words = names.flat_map(|name| name.split(['_', '-']));
        if let Some(word) = words
            .map(str::to_ascii_lowercase)
            .find(|word| is_empty(word))
        {
            let text = format!("\"{word}\" is an empty name: name it after its content");
            faults.push(Fault::new(&file.path, text));
        }
    }
    faults
}

fn is_empty(word: &str) -> bool {
    EMPTY
        .iter()
        .any(|empty| word == *empty || word.strip_suffix('s') == Some(empty))
}

const EMPTY: [&str; 6] = ["util", "utilitie", "common", "helper", "misc", "manager"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_found() {
        for path in [
            "util/a.rs",
            "a/utils.rs",
            "x/string_helpers.rs",
            "Common.md",
            "task-manager/x",
        ] {
            assert_eq!(check(&Sources::of(&[(path, "")])).len(), 1, "{path}");
        }
        assert_eq!(
            check(&Sources::of(&[("a/commons_of_land/b.rs", "")])).len(),
            1
        );
        assert_eq!(
            check(&Sources::of(&[("a/utility.rs", ""), ("a/uncommon.rs", "")])),
            []
        );
    }
}
