//! Rule: files are short, since long ones have several purposes.

use crate::fault::Fault;
use crate::sources::Sources;

/// Finds long files, unit tests excluded.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let mut faults = Vec::new();
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

const LINES_LOOK_AGAIN: usize = 400;
const LINES_MAX: usize = 600;

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
}
