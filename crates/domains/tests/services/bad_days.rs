//! Table of bad days in the guide, with the test of each.

use std::fs;
use std::path::Path;

/// Directories of the tests that the table names.
const FOLDERS: [&str; 4] = [
    "crates/stargate/tests/world",
    "crates/stargate/tests/exhaustive",
    "crates/domains/tests/services",
    "crates/cli/tests/domains",
];

#[test]
fn tests_of_all_bad_days_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = String::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "rs") {
                sources += &fs::read_to_string(path).unwrap();
            }
        }
    }
    let guide = fs::read_to_string(root.join("docs/src/signaling.md")).unwrap();
    let (_, table) = guide.split_once("### Bad days").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut days = 0;
    for row in rows {
        let tests = row.split('|').nth(2).unwrap();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            assert!(sources.contains(&format!("#[test]\nfn {name}()")), "{name}");
        }
        days += 1;
    }
    assert!(days >= 11, "{days}");
}
