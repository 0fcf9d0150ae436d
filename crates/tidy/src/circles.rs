//! Rule: files of a crate do not use each other in a circle.
//!
//! `check` reads the uses of each crate from `Modules`, and searches a shortest circle from each
//! file. Files that can all reach each other are one group, which is reported once, with a name
//! that each file uses from the next. Maps (`lib.rs` and `mod.rs`) and tests do not count. Circles
//! between crates are excluded by `floors`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fault::Fault;
use crate::modules::Modules;
use crate::sources::Sources;

/// Finds circles of files: each uses the next, and the last uses the first.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let manifests = sources.files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("Cargo.toml")?;
        folder
            .starts_with("crates/")
            .then(|| format!("{folder}src/"))
    });
    let mut faults = Vec::new();
    for folder in manifests {
        let uses = Modules::read(&folder, &sources.files).uses();
        for circle in circles(&uses) {
            faults.push(Fault::new(circle[0], describe(&folder, &circle, &uses)));
        }
    }
    faults
}

/// Returns a shortest circle for each group of files that use each other.
fn circles<'a>(uses: &Uses<'a>) -> Vec<Vec<&'a str>> {
    let mut circles = Vec::new();
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for file in uses.keys() {
        if told.contains(file) {
            continue;
        }
        let Some(circle) = circle(uses, file) else {
            continue;
        };
        let reached = reachable(uses, file);
        let group = reached
            .iter()
            .filter(|other| reachable(uses, other).contains(file));
        told.extend(group);
        circles.push(circle);
    }
    circles
}

/// Returns a shortest circle through a file.
fn circle<'a>(uses: &Uses<'a>, file: &&'a str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([*file]);
    while let Some(from) = queue.pop_front() {
        for to in uses.get(from).into_iter().flat_map(BTreeMap::keys) {
            if to == file {
                let mut circle = vec![from];
                while let Some(earlier) = before.get(circle[circle.len() - 1]) {
                    circle.push(earlier);
                }
                circle.reverse();
                return Some(circle);
            }
            if !before.contains_key(to) {
                before.insert(to, from);
                queue.push_back(to);
            }
        }
    }
    None
}

fn reachable<'a>(uses: &Uses<'a>, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left = vec![file];
    while let Some(from) = left.pop() {
        for to in uses.get(from).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*to) {
                left.push(to);
            }
        }
    }
    reached
}

fn describe(folder: &str, circle: &[&str], uses: &Uses<'_>) -> String {
    let short = |file: &str| file.strip_prefix(folder).unwrap_or(file).to_owned();
    let next = circle.iter().skip(1).chain(&circle[..1]);
    let steps = circle.iter().zip(next).map(|(from, to)| {
        let name = uses.get(from).and_then(|names| names.get(to));
        let name = name.map_or("", String::as_str);
        format!(" -> {} ({name})", short(to))
    });
    format!(
        "circle of files: {}{}: move what both need to a file below them",
        short(circle[0]),
        steps.collect::<String>()
    )
}

/// Names that each file uses from other files, one of each.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, String>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = ("crates/x/Cargo.toml", "");
        let sources = Sources::of(&[&[manifest], files].concat());
        let faults = check(&sources).into_iter();
        faults.map(|fault| fault.text).collect()
    }

    #[test]
    fn files_that_use_lower_files_are_allowed() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("crates/x/src/a.rs", "use crate::b::B;\n"),
            (
                "crates/x/src/b.rs",
                "#[cfg(test)]\nmod tests { use crate::a::A; }\n",
            ),
        ];
        assert_eq!(faults(&files), Vec::<String>::new());
    }

    #[test]
    fn circles_are_named_file_by_file() {
        let files = [
            (
                "crates/x/src/lib.rs",
                "mod a;\nmod m;\nmod c;\npub use m::b::B;\n",
            ),
            ("crates/x/src/a.rs", "use crate::B;\n"),
            ("crates/x/src/m/mod.rs", "pub mod b;\n"),
            ("crates/x/src/m/b.rs", "fn f() { crate::c::g() }\n"),
            ("crates/x/src/c.rs", "use super::a::A;\n"),
        ];
        let text = "circle of files: a.rs -> m/b.rs (B) -> c.rs (g) -> a.rs (A): move what both need to a file below them";
        assert_eq!(faults(&files), [text]);
    }

    #[test]
    fn each_group_of_files_is_reported_once() {
        let files = [
            (
                "crates/x/src/lib.rs",
                "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\n",
            ),
            ("crates/x/src/a.rs", "use crate::b::B;\nuse crate::c::C;\n"),
            ("crates/x/src/b.rs", "use crate::a::A;\n"),
            ("crates/x/src/c.rs", "use crate::a::A;\nuse crate::d::D;\n"),
            ("crates/x/src/d.rs", "use crate::e::E;\n"),
            ("crates/x/src/e.rs", "use crate::d::D;\n"),
        ];
        assert_eq!(faults(&files).len(), 2);
    }
}
