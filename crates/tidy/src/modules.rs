//! Modules of a crate, and the files that paths lead to.
//!
//! `Modules::read` finds the file of each module, and `uses` returns which file uses which other. A
//! path is followed through imports and re-exports to the file that defines the item, over at most
//! 16 of them:
//!
//! ```text
//! use crate::net::Udp;  ->  net/mod.rs: pub use udp::Udp;  ->  net/udp.rs
//! ```
//!
//! Maps are followed but are not a use. Files for tests only are left out. Paths to other crates
//! lead nowhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::{Code, Import};
use crate::sources::Source;

/// Modules of a crate.
#[derive(Debug)]
pub(crate) struct Modules<'a> {
    files: Vec<File<'a>>,
    /// Index of the file of each module, also of inline modules.
    homes: BTreeMap<Vec<String>, usize>,
}

/// File of a module.
#[derive(Debug)]
struct File<'a> {
    source: &'a Source,
    module: Vec<String>,
    code: Code,
}

impl<'a> Modules<'a> {
    /// Reads the modules of the crate in `folder`, such as `crates/io/src/`.
    pub(crate) fn read(folder: &str, sources: &'a [Source]) -> Self {
        let files: Vec<File<'a>> = sources
            .iter()
            .filter_map(|source| {
                let path = source.path.strip_prefix(folder)?.strip_suffix(".rs")?;
                let code = Code::read(&source.text);
                (!code.is_test).then(|| File {
                    source,
                    module: module(path),
                    code,
                })
            })
            .collect();
        let tests: BTreeSet<Vec<String>> = files
            .iter()
            .flat_map(|file| {
                let tests = file.code.test_modules.iter();
                tests.map(|name| below(&file.module, name))
            })
            .collect();
        let is_test =
            |module: &[String]| (1..=module.len()).any(|len| tests.contains(&module[..len]));
        let files: Vec<File<'a>> = files
            .into_iter()
            .filter(|file| !is_test(&file.module))
            .collect();
        let mut homes = BTreeMap::new();
        for (nth, file) in files.iter().enumerate() {
            homes.insert(file.module.clone(), nth);
            let inline = file.code.paths.iter().map(|(within, _)| within);
            let inline = inline.chain(file.code.imports.iter().map(|import| &import.within));
            for within in inline {
                homes
                    .entry([file.module.as_slice(), within].concat())
                    .or_insert(nth);
            }
        }
        Self { files, homes }
    }

    /// Returns the uses of each file that is not a map: the other file, and one name from it.
    pub(crate) fn uses(&self) -> BTreeMap<&'a str, BTreeMap<&'a str, String>> {
        let mut uses: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
        for (nth, file) in self.files.iter().enumerate() {
            if file.source.is_map() {
                continue;
            }
            let imports = file.code.imports.iter();
            let imports = imports.map(|import| (&import.within, &import.path));
            let paths = file.code.paths.iter().map(|(within, path)| (within, path));
            for (within, path) in imports.chain(paths) {
                let module = [file.module.as_slice(), within].concat();
                let Some((home, name)) = self.find(&module, path, HOPS_MAX) else {
                    continue;
                };
                let other = self.files[home].source;
                if home != nth && !other.is_map() {
                    let names = uses.entry(&file.source.path).or_default();
                    names.entry(&other.path).or_insert(name);
                }
            }
        }
        uses
    }

    /// Returns the file that a path in `module` leads to, and the name within that file.
    fn find(&self, module: &[String], path: &[String], hops: u8) -> Option<(usize, String)> {
        let hops = hops.checked_sub(1)?;
        let first = path.first()?;
        let (mut place, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.to_vec(), &path[1..]),
            "super" => {
                let above = path.iter().take_while(|name| *name == "super").count();
                let len = module.len().checked_sub(above)?;
                (module[..len].to_vec(), &path[above..])
            }
            name if self.knows(module, name) => (module.to_vec(), path),
            _ => return None,
        };
        while let Some(name) = rest.first() {
            let child = below(&place, name);
            if !self.homes.contains_key(&child) {
                return self.find_item(&place, rest, hops);
            }
            place = child;
            rest = &rest[1..];
        }
        let home = *self.homes.get(&place)?;
        Some((home, place.last().cloned().unwrap_or_default()))
    }

    /// Returns the file of an item that is defined in a module, or that the module imports.
    fn find_item(&self, place: &[String], path: &[String], hops: u8) -> Option<(usize, String)> {
        let home = *self.homes.get(place)?;
        let name = path.first()?;
        let item = || Some((home, name.clone()));
        if self.files[home].code.items.contains(name) {
            return item();
        }
        if let Some(import) = self.imports(place).find(|i| i.name.as_ref() == Some(name)) {
            let path = [import.path.as_slice(), &path[1..]].concat();
            return self.find(place, &path, hops);
        }
        for glob in self.imports(place).filter(|import| import.name.is_none()) {
            let path = [glob.path.as_slice(), path].concat();
            let found = self.find(place, &path, hops);
            if found
                .as_ref()
                .is_some_and(|(home, name)| self.files[*home].code.items.contains(name))
            {
                return found;
            }
        }
        item()
    }

    /// Reports whether a name in a module is a module of the crate, or imported.
    fn knows(&self, module: &[String], name: &str) -> bool {
        let is_import = |import: &Import| {
            let is_itself = import.path.first().is_some_and(|first| first == name);
            import.name.as_deref() == Some(name) && !is_itself
        };
        self.homes.contains_key(&below(module, name)) || self.imports(module).any(is_import)
    }

    fn imports(&self, module: &[String]) -> impl Iterator<Item = &Import> {
        let home = self.homes.get(module).map(|home| &self.files[*home]);
        home.into_iter().flat_map(|file| {
            let within = &module[file.module.len()..];
            let imports = file.code.imports.iter();
            imports.filter(move |import| import.within == within)
        })
    }
}

fn module(path: &str) -> Vec<String> {
    let mut names: Vec<String> = path.split('/').map(str::to_owned).collect();
    if names
        .last()
        .is_some_and(|name| ["lib", "main", "mod"].contains(&name.as_str()))
    {
        names.pop();
    }
    names
}

fn below(module: &[String], name: &str) -> Vec<String> {
    let mut child = module.to_vec();
    child.push(name.to_owned());
    child
}

/// Largest number of imports through which a path is followed.
const HOPS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Sources;

    /// Returns the uses of a crate in the directory `x/`, as `file -> file (name)`.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let sources = Sources::of(files);
        let uses = Modules::read("x/", &sources.files).uses();
        let said = |(from, to): (&str, BTreeMap<&str, String>)| {
            let said = |(to, name): (&str, String)| format!("{from} -> {to} ({name})");
            to.into_iter().map(said).collect::<Vec<_>>()
        };
        uses.into_iter().flat_map(said).collect()
    }

    #[test]
    fn imports_lead_to_files() {
        let files = [
            ("x/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("x/a.rs", "use crate::b::B;\nuse super::c::{self, C};\n"),
            ("x/b.rs", "pub struct B;\n"),
            ("x/c.rs", "use std::fmt;\nuse self::d::D;\n"),
        ];
        assert_eq!(
            uses(&files),
            ["x/a.rs -> x/b.rs (B)", "x/a.rs -> x/c.rs (c)"]
        );
    }

    #[test]
    fn reexports_of_maps_lead_to_the_defining_file() {
        let files = [
            (
                "x/lib.rs",
                "mod a;\nmod m;\npub use m::{B as Renamed, c};\n",
            ),
            (
                "x/a.rs",
                "use crate::{Renamed, m};\nfn f() { m::d::e(); m::C::new(); crate::c::g() }\n",
            ),
            (
                "x/m/mod.rs",
                "pub mod b;\npub mod c;\npub mod d;\npub use self::b::B;\npub use c::*;\n",
            ),
            ("x/m/b.rs", "pub struct B;\n"),
            ("x/m/c.rs", "pub struct C;\npub fn g() {}\n"),
            ("x/m/d.rs", "pub fn e() {}\n"),
        ];
        let expected = [
            "x/a.rs -> x/m/b.rs (B)",
            "x/a.rs -> x/m/c.rs (C)",
            "x/a.rs -> x/m/d.rs (e)",
        ];
        assert_eq!(uses(&files), expected);
    }

    #[test]
    fn paths_begin_at_imported_and_declared_modules() {
        let files = [
            ("x/main.rs", "mod a;\nmod b;\nfn main() { a::run() }\n"),
            (
                "x/a.rs",
                "use crate::b as other;\nfn run() { other::go(); crate::root(); b::no() }\n",
            ),
            ("x/b.rs", "fn go() {}\n"),
        ];
        let expected = [
            "x/a.rs -> x/b.rs (b)",
            "x/a.rs -> x/main.rs (root)",
            "x/main.rs -> x/a.rs (run)",
        ];
        assert_eq!(uses(&files), expected);
    }

    #[test]
    fn inline_modules_belong_to_their_file() {
        let files = [
            ("x/lib.rs", "mod a;\nmod b;\n"),
            (
                "x/a.rs",
                "mod inner { use super::super::b::B; fn f() { super::g() } }\nfn g() {}\n",
            ),
            ("x/b.rs", "pub struct B;\n"),
        ];
        assert_eq!(uses(&files), ["x/a.rs -> x/b.rs (B)"]);
    }

    #[test]
    fn files_of_tests_are_left_out() {
        let files = [
            ("x/lib.rs", "mod a;\n#[cfg(test)]\nmod tests;\n"),
            (
                "x/a.rs",
                "fn g() {}\n#[cfg(test)]\nmod tests { use crate::tests::T; }\n",
            ),
            ("x/tests/mod.rs", "mod deep;\n"),
            ("x/tests/deep.rs", "use crate::a::g;\n"),
        ];
        assert_eq!(uses(&files), Vec::<String>::new());
    }

    #[test]
    fn circular_imports_terminate() {
        let files = [
            ("x/lib.rs", "pub use a::b;\nmod a;\nmod c;\n"),
            ("x/a.rs", "pub use crate::b;\n"),
            ("x/c.rs", "use crate::b::D;\nuse c::d;\n"),
        ];
        assert_eq!(uses(&files), Vec::<String>::new());
    }
}
