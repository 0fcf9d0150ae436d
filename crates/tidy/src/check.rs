//! Check of all rules on all files.

use std::path::Path;

use crate::fault::Fault;
use crate::sources::Sources;
use crate::{
    circles, doc_tests, fields, floors, fuzz, glossary, links, maps, mutants, names, prose, sizes,
    skips, words,
};

/// Prints all faults. Fails if there is one that must be fixed.
pub fn run(root: &Path) -> Result<(), String> {
    let sources =
        Sources::read(root).map_err(|e| format!("cannot read {}: {e}", root.display()))?;
    let faults = check(&sources);
    for fault in &faults {
        eprintln!("{fault}");
    }
    match faults.iter().filter(|fault| !fault.is_warning).count() {
        0 => {
            println!("tidy: {} files, no faults", sources.files.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} faults to fix")),
    }
}

fn check(sources: &Sources) -> Vec<Fault> {
    let rules = [
        circles::check,
        doc_tests::check,
        fields::check,
        floors::check,
        fuzz::check,
        glossary::check,
        links::check,
        maps::check,
        mutants::check,
        names::check,
        prose::check,
        sizes::check,
        skips::check,
        words::check,
    ];
    let mut faults: Vec<Fault> = rules.iter().flat_map(|rule| rule(sources)).collect();
    faults.sort();
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_project_has_no_faults() {
        assert_eq!(check(&Sources::default()), []);
    }
}
