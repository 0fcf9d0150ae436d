//! Lines of the demonstration, which the guide shows, too.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use crate::expected::missing;

/// Lines that were printed so far.
#[derive(Debug, Default)]
pub(crate) struct Transcript(RefCell<Vec<String>>);

impl Transcript {
    /// Prints one or more lines.
    pub(crate) fn say(&self, text: &str) {
        println!("{text}");
        let lines = text.lines().map(str::to_owned);
        self.0.borrow_mut().extend(lines);
    }

    /// Requires the guide to have exactly these lines. Numbers may differ, and `…` stands for any text there.
    pub(crate) fn assert_in_guide(&self) {
        let page = page();
        let printed = self.0.borrow();
        let all = printed.join("\n");
        let differing = missing(&page, &printed);
        assert_eq!(differing, None, "only in the guide; printed were:\n{all}");
        let count = |lines: &[String]| lines.iter().filter(|line| !line.is_empty()).count();
        assert_eq!(
            count(&page),
            count(&printed),
            "the guide does not have all lines:\n{all}"
        );
    }
}

/// Returns the lines of the guide: the last block of the section.
fn page() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/domains.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, section) = page.split_once(HEADING).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let block = section.rsplit("\n```text\n").next().unwrap();
    let lines = block.lines().take_while(|line| *line != "```");
    lines.map(str::to_owned).collect()
}

const HEADING: &str = "\n## Three domains with devices\n";
