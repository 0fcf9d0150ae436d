//! Rule: a crate may only use crates on lower floors.
//!
//! `FLOORS` assigns a floor to each crate, so dependencies between crates cannot form a circle. `check` compares the
//! dependencies in each manifest with it, also those of build scripts, those of some targets only, and renamed ones.
//! Tests may also use crates on their own floor. Crates in `PURE` have no clock, socket or file, and must be `no_std`.
//! Dependencies on crates of others are checked by `deny.toml`, not here.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::fault::Fault;
use crate::sources::{Source, Sources};

/// Checks the dependencies of all crates.
///
/// Every crate has a floor and a package named after its directory. It uses only lower floors (in
/// tests, also its own). Pure crates are `no_std`.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let manifests = sources
        .ending("/Cargo.toml")
        .filter_map(|file| Some((folder(file)?, file)));
    let mut faults = Vec::new();
    let shared = shared(sources, &mut faults);
    for (folder, file) in manifests {
        check_crate(folder, file, &shared, &mut faults);
        if PURE.contains(&folder) {
            let map = format!("crates/{folder}/src/lib.rs");
            if !sources
                .ending(&map)
                .any(|map| map.lines().any(|(_, line)| line == "#![no_std]"))
            {
                let text = format!("{folder} is a pure crate: add #![no_std]");
                faults.push(Fault::new(map, text));
            }
        }
    }
    faults
}

fn folder(file: &Source) -> Option<&str> {
    file.path
        .strip_prefix("crates/")?
        .strip_suffix("/Cargo.toml")
}

fn check_crate(folder: &str, file: &Source, shared: &Dependencies, faults: &mut Vec<Fault>) {
    let mut fault = |text: String| faults.push(Fault::new(&file.path, text));
    let Some(floor) = floor(folder) else {
        fault(format!(
            "{folder} has no floor: add it to FLOORS in crates/tidy/src/floors.rs"
        ));
        return;
    };
    let manifest: Manifest = match toml::from_str(&file.text) {
        Ok(manifest) => manifest,
        Err(why) => {
            fault(format!("cannot be parsed: {}", why.message()));
            return;
        }
    };
    let name = match folder {
        FACE => FACE.to_owned(),
        _ => format!("{PREFIX}{folder}"),
    };
    if manifest.package.name != name {
        fault(format!(
            "the package must be named {name}, not {}",
            manifest.package.name
        ));
    }
    let (used, used_by_tests) = manifest.packages(shared);
    for other in used.iter().filter_map(|name| folder_of(name)) {
        if floor_of(other) >= floor {
            fault(format!(
                "{folder} (floor {floor}) may not use {other} (floor {}): only lower floors",
                floor_of(other)
            ));
        }
    }
    let used_by_tests = used_by_tests.iter();
    for other in used_by_tests.filter_map(|name| folder_of(name)) {
        if floor_of(other) > floor {
            fault(format!(
                "tests of {folder} (floor {floor}) may not use {other}, which is on a higher floor"
            ));
        }
    }
}

/// Returns the dependencies that the manifest of the workspace shares with the crates.
fn shared(sources: &Sources, faults: &mut Vec<Fault>) -> Dependencies {
    let Some(file) = sources.files.iter().find(|file| file.path == WORKSPACE) else {
        return Dependencies::new();
    };
    match toml::from_str(&file.text) {
        Ok(WorkspaceManifest { workspace }) => workspace.dependencies,
        Err(why) => {
            let text = format!("cannot be parsed: {}", why.message());
            faults.push(Fault::new(WORKSPACE, text));
            Dependencies::new()
        }
    }
}

/// Returns the package of a dependency, which may have another name in this crate.
fn package<'a>(name: &'a str, about: &'a toml::Value, shared: &'a Dependencies) -> &'a str {
    let renamed = |about: &'a toml::Value| about.get("package").and_then(toml::Value::as_str);
    let is_shared = about.get("workspace").is_some();
    let shared = shared.get(name).filter(|_| is_shared);
    renamed(about)
        .or_else(|| shared.and_then(renamed))
        .unwrap_or(name)
}

/// Returns the directory of a package of this workspace.
fn folder_of(name: &str) -> Option<&str> {
    match name {
        FACE => Some(FACE),
        _ => name.strip_prefix(PREFIX),
    }
}

fn floor_of(folder: &str) -> u8 {
    floor(folder).unwrap_or(u8::MAX)
}

fn floor(folder: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(_, rooms)| rooms.contains(&folder))
        .map(|(floor, _)| *floor)
}

type Dependencies = BTreeMap<String, toml::Value>;

#[derive(Debug, Deserialize)]
struct Manifest {
    package: Package,
    #[serde(flatten)]
    tables: Tables,
    /// Tables for some targets only.
    #[serde(default)]
    target: BTreeMap<String, Tables>,
}

/// Tables of dependencies.
#[derive(Debug, Deserialize)]
struct Tables {
    #[serde(default)]
    dependencies: Dependencies,
    #[serde(default, rename = "build-dependencies")]
    build_dependencies: Dependencies,
    #[serde(default, rename = "dev-dependencies")]
    dev_dependencies: Dependencies,
}

#[derive(Debug, Deserialize)]
struct WorkspaceManifest {
    workspace: Workspace,
}

#[derive(Debug, Deserialize)]
struct Workspace {
    #[serde(default)]
    dependencies: Dependencies,
}

impl Manifest {
    /// Returns the packages that the crate or its build script uses, and the packages that its tests use.
    fn packages<'a>(&'a self, shared: &'a Dependencies) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
        let tables = || std::iter::once(&self.tables).chain(self.target.values());
        let names = |dependencies: &'a Dependencies| {
            dependencies
                .iter()
                .map(|(name, about)| package(name, about, shared))
        };
        let used =
            tables().flat_map(|of| names(&of.dependencies).chain(names(&of.build_dependencies)));
        let used_by_tests = tables().flat_map(|of| names(&of.dev_dependencies));
        (used.collect(), used_by_tests.collect())
    }
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
}

const PREFIX: &str = "lighthaul-";
const WORKSPACE: &str = "Cargo.toml";

/// Floors of all crates. A new dependency between crates may require a change here.
///
/// Floor 0 uses no crate of ours: the library that runs in other programs, the tests' toolkit, and
/// the types that all share. The tasks of `xtask` may use all crates.
const FLOORS: [(u8, &[&str]); 14] = [
    (0, &["wrap", "testkit", "tidy", "base", "packing"]),
    (1, &["parts", "plot", "launch", "kernel"]),
    (2, &["proto", "slabs", "calendar", "sim", "io"]),
    (
        3,
        &[
            "workload", "stargate", "session", "circuit", "capture", "fs", "database",
        ],
    ),
    (
        4,
        &[
            "files",
            "stream",
            "gateway",
            "booking-client",
            "domain-links",
            "monitor",
            "queue",
            "buckets",
        ],
    ),
    (5, &["copy", "booking", "domains", "nsi", "remote-files"]),
    (
        6,
        &[
            "send",
            "receive",
            "scheduler",
            "lab",
            "powercut",
            "timeline",
        ],
    ),
    (7, &["booking-figures", "daemon"]),
    (8, &["remote", "bench"]),
    (9, &["service", "mount", "objects"]),
    (10, &["lighthaul"]),
    (11, &["grammar", "python", "capi"]),
    (12, &["cli"]),
    (13, &["xtask"]),
];

/// Crate that other programs use; it has the name of the project.
const FACE: &str = "lighthaul";

/// Crates without clocks, sockets, files and own randomness.
const PURE: [&str; 8] = [
    "base", "parts", "proto", "slabs", "calendar", "sim", "workload", "stargate",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(folder: &str, manifest: &str) -> Vec<String> {
        let path = format!("crates/{folder}/Cargo.toml");
        let map = format!("crates/{folder}/src/lib.rs");
        let sources = Sources::of(&[(&path, manifest), (&map, "#![no_std]\n")]);
        check(&sources)
            .into_iter()
            .map(|fault| fault.text)
            .collect()
    }

    #[test]
    fn dependencies_on_lower_floors_are_allowed() {
        let text = "[package]\nname = \"lighthaul-proto\"\n[dependencies]\nlighthaul-base.workspace = true\n\
                    [dev-dependencies]\nlighthaul-sim.workspace = true\n";
        assert_eq!(faults("proto", text), Vec::<String>::new());
    }

    #[test]
    fn dependencies_on_equal_or_higher_floors_are_refused() {
        let text = "[package]\nname = \"lighthaul-proto\"\n[dependencies]\nlighthaul-io.workspace = true\n\
                    [dev-dependencies]\nlighthaul-lab.workspace = true\n";
        let faults = faults("proto", text);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].contains("may not use io (floor 2)"), "{faults:?}");
        assert!(
            faults[1].contains("which is on a higher floor"),
            "{faults:?}"
        );
    }

    #[test]
    fn dependencies_of_build_scripts_targets_and_aliases_are_checked() {
        for table in [
            "[build-dependencies]\nlighthaul-io.workspace = true\n",
            "[target.'cfg(unix)'.dependencies]\nlighthaul-io.workspace = true\n",
            "[target.'cfg(unix)'.build-dependencies]\nlighthaul-io.workspace = true\n",
            "[target.'cfg(unix)'.dev-dependencies]\nlighthaul-lab.workspace = true\n",
            "[dependencies]\nsockets = { path = \"../io\", package = \"lighthaul-io\" }\n",
            "[dependencies]\nshared.workspace = true\n",
        ] {
            let manifest = format!("[package]\nname = \"lighthaul-proto\"\n{table}");
            let sources = Sources::of(&[
                (
                    "Cargo.toml",
                    "[workspace.dependencies]\nshared = { package = \"lighthaul-io\" }\n",
                ),
                ("crates/proto/Cargo.toml", &manifest),
                ("crates/proto/src/lib.rs", "#![no_std]\n"),
            ]);
            let faults = check(&sources);
            assert_eq!(faults.len(), 1, "{table}: {faults:?}");
            assert!(faults[0].text.contains("may not use"), "{faults:?}");
        }
    }

    #[test]
    fn packages_need_their_folders_name_and_a_floor() {
        assert_eq!(faults("io", "[package]\nname = \"net\"\n").len(), 1);
        assert!(faults("attic", "[package]\nname = \"lighthaul-attic\"\n")[0].contains("no floor"));
        assert!(faults("io", "[package")[0].contains("cannot be parsed"));
    }

    #[test]
    fn library_crate_has_the_name_of_the_project_and_a_floor() {
        let manifest = "[package]\nname = \"lighthaul\"\n";
        assert_eq!(faults("lighthaul", manifest), Vec::<String>::new());
        let manifest =
            "[package]\nname = \"lighthaul-io\"\n[dependencies]\nlighthaul.workspace = true\n";
        assert!(faults("io", manifest)[0].contains("may not use lighthaul"));
    }

    #[test]
    fn pure_crates_must_be_no_std() {
        let manifest = "[package]\nname = \"lighthaul-base\"\n";
        let files = [
            ("crates/base/Cargo.toml", manifest),
            ("crates/base/src/lib.rs", ""),
        ];
        assert_eq!(check(&Sources::of(&files)).len(), 1);
    }
}
