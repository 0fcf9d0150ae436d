//! Every rule over every file.

use std::path::Path;

use crate::tidy::fault::Fault;
use crate::tidy::sources::Sources;
use crate::tidy::{floors, fuzz, links, maps, names, prose, sizes, skips, words};

/// Prints what breaks a rule; fails if anything must be mended.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let sources =
        Sources::read(root).map_err(|e| format!("cannot read {}: {e}", root.display()))?;
    let faults = check(&sources);
    for fault in &faults {
        eprintln!("{fault}");
    }
    match faults.iter().filter(|fault| !fault.may_stay).count() {
        0 => {
            println!("tidy: {} files, nothing to mend", sources.files.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} to mend")),
    }
}

fn check(sources: &Sources) -> Vec<Fault> {
    let rules = [
        floors::check,
        fuzz::check,
        links::check,
        maps::check,
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
    fn an_empty_house_is_tidy() {
        assert_eq!(check(&Sources::default()), []);
    }
}
