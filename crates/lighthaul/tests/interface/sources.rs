//! Files of the crates of this workspace, and where an exported name comes from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::{Item, UseTree, Visibility};

/// Crates with their modules.
pub(crate) struct Crates {
    /// Modules by their crate and their path, as in `lighthaul_remote` and `ssh::start`.
    modules: BTreeMap<(String, String), syn::File>,
}

/// Name that the library exports, and the item behind it.
pub(crate) struct Export {
    pub(crate) name: String,
    /// Crate that defines the item.
    pub(crate) krate: String,
    pub(crate) item: Item,
}

impl Crates {
    /// Reads all crates of the workspace.
    pub(crate) fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut crates = Self {
            modules: BTreeMap::new(),
        };
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap().replace('-', "_");
            let krate = if name == "lighthaul" {
                name
            } else {
                format!("lighthaul_{name}")
            };
            let source = entry.path().join("src");
            if source.join("lib.rs").exists() {
                crates.read_module(&krate, "", &source.join("lib.rs"), &source);
            }
        }
        crates
    }

    /// Reads a module and those in files below it.
    fn read_module(&mut self, krate: &str, path: &str, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap();
        let parsed = syn::parse_file(&text);
        let parsed = parsed.unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        let mut inner = Vec::new();
        for item in &parsed.items {
            if let Item::Mod(module) = item
                && module.content.is_none()
            {
                inner.push(module.ident.to_string());
            }
        }
        let key = (krate.to_owned(), path.to_owned());
        self.modules.insert(key, parsed);
        for name in inner {
            let (flat, deep) = (folder.join(format!("{name}.rs")), folder.join(&name));
            let file = if flat.exists() {
                flat
            } else {
                deep.join("mod.rs")
            };
            // modules of other systems and of tests may be elsewhere
            if file.exists() {
                self.read_module(krate, &join(path, &name), &file, &deep);
            }
        }
    }

    /// Returns the names that a crate exports.
    pub(crate) fn exports(&self, krate: &str) -> Vec<Export> {
        let names = self.names(krate, "");
        let export = |name: String| {
            let (krate, item) = self
                .find(krate, "", &name)
                .unwrap_or_else(|| panic!("the source of {name} was not found"));
            Export { name, krate, item }
        };
        names.into_iter().map(export).collect()
    }

    /// Returns the files of a crate.
    pub(crate) fn files(&self, krate: &str) -> impl Iterator<Item = &syn::File> {
        let of = krate.to_owned();
        let files = self.modules.iter();
        files
            .filter(move |((krate, _), _)| *krate == of)
            .map(|(_, file)| file)
    }

    /// Returns the public names of a module.
    fn names(&self, krate: &str, path: &str) -> Vec<String> {
        let mut names = Vec::new();
        for item in &self.module(krate, path).items {
            if let Some((name, visibility)) = defined(item)
                && is_public(visibility)
            {
                names.push(name);
            }
            if let Item::Use(used) = item
                && is_public(&used.vis)
            {
                for (segments, name) in leaves(&used.tree, &[]) {
                    if name == "*" {
                        let (krate, path) = Self::place(krate, path, &segments);
                        names.extend(self.names(&krate, &path));
                    } else {
                        names.push(name);
                    }
                }
            }
        }
        names
    }

    /// Returns the item with a name in a module, and its crate.
    fn find(&self, krate: &str, path: &str, name: &str) -> Option<(String, Item)> {
        let module = self.module(krate, path);
        let defined = module
            .items
            .iter()
            .find(|item| defined(item).is_some_and(|(found, _)| found == name));
        if let Some(item) = defined {
            return Some((krate.to_owned(), item.clone()));
        }
        let uses = module.items.iter().filter_map(|item| match item {
            Item::Use(used) if is_public(&used.vis) => Some(&used.tree),
            _ => None,
        });
        for (segments, found) in uses.flat_map(|tree| leaves(tree, &[])) {
            if found == "*" {
                let (krate, path) = Self::place(krate, path, &segments);
                if let Some(item) = self.find(&krate, &path, name) {
                    return Some(item);
                }
            } else if found == name {
                let (last, before) = segments.split_last()?;
                let (krate, path) = Self::place(krate, path, before);
                return self.find(&krate, &path, last);
            }
        }
        None
    }

    /// Returns the module that a path names, within a module.
    fn place(krate: &str, path: &str, segments: &[String]) -> (String, String) {
        let (mut krate, mut place) = (krate.to_owned(), path.to_owned());
        for (nth, segment) in segments.iter().enumerate() {
            match segment.as_str() {
                "crate" => place.clear(),
                "self" => {}
                other if nth == 0 && other.starts_with("lighthaul_") => {
                    other.clone_into(&mut krate);
                    place.clear();
                }
                other => place = join(&place, other),
            }
        }
        (krate, place)
    }

    fn module(&self, krate: &str, path: &str) -> &syn::File {
        let key = (krate.to_owned(), path.to_owned());
        let found = self.modules.get(&key);
        found.unwrap_or_else(|| panic!("there is no module {path} in {krate}"))
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}::{name}")
    }
}

/// Returns the name and the visibility of an item that programs can use.
fn defined(item: &Item) -> Option<(String, &Visibility)> {
    let (name, visibility) = match item {
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        Item::Const(item) => (&item.ident, &item.vis),
        Item::Fn(item) => (&item.sig.ident, &item.vis),
        _ => return None,
    };
    Some((name.to_string(), visibility))
}

pub(crate) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns the names of a `use`: the path in full, and the name that it gets.
fn leaves(tree: &UseTree, before: &[String]) -> Vec<(Vec<String>, String)> {
    let with = |name: String| [before, &[name]].concat();
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &with(path.ident.to_string())),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            vec![(with(name.clone()), name)]
        }
        UseTree::Rename(name) => vec![(with(name.ident.to_string()), name.rename.to_string())],
        UseTree::Glob(_) => vec![(before.to_vec(), "*".to_owned())],
        UseTree::Group(group) => {
            let trees = group.items.iter();
            trees.flat_map(|tree| leaves(tree, before)).collect()
        }
    }
}
