//! Names that the code of a file uses and defines.
//!
//! `Code::read` splits a file into tokens, and collects its imports, the paths in its text, and its
//! items. Items behind `#[cfg(test)]` are skipped, but their modules are remembered, because they
//! may be in files of their own. Names are not resolved here: `modules` does that. The reader does
//! not parse Rust: it never fails, and unusual code may yield too few or too many names.

use std::collections::BTreeSet;

use crate::tokens::{after_group, is_word, tokens};

/// Names in a file, without its tests.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// True if the file is compiled for tests only.
    pub(crate) is_test: bool,
    /// Modules that are declared for tests only.
    pub(crate) test_modules: Vec<String>,
    /// Paths that the file imports.
    pub(crate) imports: Vec<Import>,
    /// Paths with at least two names, outside imports, with the inline modules around them.
    pub(crate) paths: Vec<(Vec<String>, Vec<String>)>,
    /// Items that the file defines.
    pub(crate) items: BTreeSet<String>,
}

/// One path of a `use` declaration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// Inline modules around the declaration.
    pub(crate) within: Vec<String>,
    /// Names of the path.
    pub(crate) path: Vec<String>,
    /// Name in the file, or none for `*`.
    pub(crate) name: Option<String>,
}

impl Code {
    /// Reads the names of a file.
    pub(crate) fn read(text: &str) -> Self {
        let tokens = tokens(text);
        let mut code = Self {
            is_test: tokens.windows(TEST_FILE.len()).any(|at| at == TEST_FILE),
            ..Self::default()
        };
        code.walk(&tokens);
        code
    }

    fn walk(&mut self, tokens: &[&str]) {
        // the inline modules around, each with the index of its end
        let mut within: Vec<(String, usize)> = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            within.retain(|(_, end)| at < *end);
            let rest = &tokens[at..];
            if rest.starts_with(&TEST_ITEM) {
                at = self.skip_test(tokens, at);
                continue;
            }
            let names = || within.iter().map(|(name, _)| name.clone()).collect();
            match rest[0] {
                "use" if begins_import(tokens, at) => {
                    let end = find(tokens, at, ";");
                    self.import(&tokens[at + 1..end], &[], names());
                    at = end;
                }
                "mod" if rest.get(2) == Some(&"{") => {
                    within.push((rest[1].to_owned(), after_group(tokens, at + 2)));
                    at += 2;
                }
                keyword if ITEMS.contains(&keyword) && rest.len() > 1 => {
                    let name = rest[1..].iter().find(|token| is_word(token));
                    self.items.extend(name.map(|name| (*name).to_owned()));
                }
                // a visibility such as `pub(super)` names a module but does not use it
                "pub" if rest.get(1) == Some(&"(") => at = after_group(tokens, at + 1) - 1,
                _ => {
                    let path = path(tokens, at);
                    if path.len() > 1 {
                        at += 2 * (path.len() - 1);
                        self.paths.push((names(), path));
                    }
                }
            }
            at += 1;
        }
    }

    /// Adds the paths of a tree of imports, below `above`.
    fn import(&mut self, tree: &[&str], above: &[String], within: Vec<String>) {
        let mut path = above.to_vec();
        let mut at = 0;
        while at < tree.len() {
            match tree[at] {
                "{" => {
                    for branch in branches(&tree[at + 1..after_group(tree, at) - 1]) {
                        self.import(branch, &path, within.clone());
                    }
                    return;
                }
                "*" => {
                    let name = None;
                    self.imports.push(Import { within, path, name });
                    return;
                }
                "as" => break,
                "self" if !path.is_empty() => {}
                "::" => {
                    if at == 0 {
                        return; // another crate
                    }
                }
                name => path.push(name.to_owned()),
            }
            at += 1;
        }
        let renamed = tree.get(at + 1).map(|name| (*name).to_owned());
        let name = renamed.or_else(|| path.last().cloned());
        if name.is_some() {
            self.imports.push(Import { within, path, name });
        }
    }

    /// Returns the index after the item for tests at `at`.
    fn skip_test(&mut self, tokens: &[&str], at: usize) -> usize {
        let mut at = at + TEST_ITEM.len();
        while tokens.get(at) == Some(&"#") {
            at = after_group(tokens, at + 1);
        }
        let mut is_import = false;
        while let Some(token) = tokens.get(at) {
            match *token {
                "mod" if tokens.get(at + 2) == Some(&";") => {
                    self.test_modules.push(tokens[at + 1].to_owned());
                }
                "use" => is_import = true,
                ";" => return at + 1,
                "}" | ")" => return at,
                "{" if !is_import => return after_group(tokens, at),
                "{" | "(" | "[" => {
                    at = after_group(tokens, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        at
    }
}

/// Reports whether `use` at `at` begins a declaration. In bounds, it names captured lifetimes.
fn begins_import(tokens: &[&str], at: usize) -> bool {
    tokens.get(at + 1) != Some(&"<")
}

fn find(tokens: &[&str], at: usize, wanted: &str) -> usize {
    let found = tokens[at..].iter().position(|token| *token == wanted);
    found.map_or(tokens.len(), |nth| at + nth)
}

/// Returns the path that begins at `at`, or an empty path.
fn path(tokens: &[&str], at: usize) -> Vec<String> {
    let behind = at.checked_sub(1).map(|at| tokens[at]);
    if !is_word(tokens[at]) || matches!(behind, Some("::" | "." | "$")) {
        return Vec::new();
    }
    let mut names = vec![tokens[at].to_owned()];
    let mut at = at;
    while tokens.get(at + 1) == Some(&"::") && tokens.get(at + 2).is_some_and(|name| is_word(name))
    {
        at += 2;
        names.push(tokens[at].to_owned());
    }
    names
}

/// Splits the branches of a tree of imports at their commas.
fn branches<'a, 'b>(tree: &'a [&'b str]) -> Vec<&'a [&'b str]> {
    let mut branches = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < tree.len() {
        match tree[at] {
            "{" => at = after_group(tree, at),
            "," => {
                branches.push(&tree[start..at]);
                at += 1;
                start = at;
            }
            _ => at += 1,
        }
    }
    branches.push(&tree[start..]);
    branches
}

const TEST_FILE: [&str; 8] = ["#", "!", "[", "cfg", "(", "test", ")", "]"];

const TEST_ITEM: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// Keywords before the name of an item.
const ITEMS: [&str; 9] = [
    "const",
    "enum",
    "fn",
    "macro_rules",
    "static",
    "struct",
    "trait",
    "type",
    "union",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let said = |import: &Import| {
            let name = import.name.as_deref().unwrap_or("*");
            format!("{} as {name}", import.path.join("::"))
        };
        Code::read(text).imports.iter().map(said).collect()
    }

    fn paths(text: &str) -> Vec<String> {
        let said = |(within, path): &(Vec<String>, Vec<String>)| {
            [within.join("::"), path.join("::")].join(" ")
        };
        Code::read(text).paths.iter().map(said).collect()
    }

    #[test]
    fn nested_imports_are_read() {
        let text = "pub(in crate::z) use crate::a::{self, b as c, d::{E, F}};\nuse super::g::*;\n\
                    fn f() -> impl A + use<'a> { use h; }\nuse ::i::j;\n";
        let expected = [
            "crate::a as a",
            "crate::a::b as c",
            "crate::a::d::E as E",
            "crate::a::d::F as F",
            "super::g as *",
            "h as h",
        ];
        assert_eq!(imports(text), expected);
    }

    #[test]
    fn paths_are_read_in_and_out_of_inline_modules() {
        let text =
            "mod a { fn f() { crate::b::c(x.d::<E>()); } }\nfn g(x: super::H) -> ::i::J {}\n";
        assert_eq!(paths(text), ["a crate::b::c", " super::H"]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "#[cfg(test)]\nuse crate::a::{B};\nfn f() { c::d() }\n#[cfg(test)]\n#[path = \"x\"]\nmod e;\n\
                    #[cfg(test)]\nmod tests { use crate::f::G; }\nuse h::I;\n";
        assert_eq!(imports(text), ["h::I as I"]);
        assert_eq!(paths(text), [" c::d"]);
        assert_eq!(Code::read(text).test_modules, ["e"]);
        assert!(Code::read("#![cfg(test)]\n").is_test);
    }

    #[test]
    fn items_are_named() {
        let code = Code::read("pub const A: u8 = 1;\nmacro_rules! b { () => {} }\nenum C {}\n");
        assert_eq!(code.items.into_iter().collect::<Vec<_>>(), ["A", "C", "b"]);
    }
}
