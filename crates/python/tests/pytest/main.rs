//! The Python package: its tests in Python with daemons of this build, its types, and its integrations.
//!
//! The package is laid out in `target/debug/python`, with the library that cargo has built, so that no second build is
//! needed. Tools of each suite of tests are installed beside it once.
#![expect(clippy::unwrap_used, reason = "a test")]

mod site;
mod suite;
mod wheel;

use lighthaul_testkit::{lacks, lacks_root};

use crate::suite::{Suite, slurm};

#[test]
fn package_passes_its_tests() {
    if let Some(package) = Suite::prepare("package_passes_its_tests", "python") {
        package.pass(&[]);
    }
}

#[test]
fn wheel_is_complete_and_can_be_installed() {
    if let Some(suite) = Suite::prepare("wheel_is_complete_and_can_be_installed", "wheel") {
        wheel::install(&suite);
        suite.pass_installed(&[("LIGHTHAUL_TEST_VERSION", wheel::VERSION)]);
    }
}

#[test]
fn types_are_complete_and_match_the_module() {
    let Some(package) = Suite::prepare("types_are_complete_and_match_the_module", "python") else {
        return;
    };
    let cache = package.folder.join("mypy").display().to_string();
    package.run(&[
        "mypy",
        "--cache-dir",
        &cache,
        "python/lighthaul",
        "tests/conftest.py",
        "tests/python",
        "examples/stream_arrays.py",
        "../../docs/src/notebooks/local_hosts.py",
    ]);
    package.run(&[
        "mypy.stubtest",
        "lighthaul._lighthaul",
        "--mypy-config-file",
        "pyproject.toml",
    ]);
}

#[test]
fn libraries_for_data_read_and_write_remote_files() {
    if let Some(libraries) =
        Suite::prepare("libraries_for_data_read_and_write_remote_files", "data")
    {
        libraries.pass(&[]);
    }
}

#[test]
fn notebooks_of_the_guide_run() {
    if let Some(notebooks) = Suite::prepare("notebooks_of_the_guide_run", "notebooks") {
        notebooks.pass(&[]);
    }
}

#[test]
fn snakemake_plugin_passes_the_conformance_class() {
    if let Some(snakemake) = Suite::prepare(
        "snakemake_plugin_passes_the_conformance_class",
        "snakemake_plugin",
    ) {
        snakemake.install("snakemake");
        snakemake.pass(&[]);
    }
}

#[test]
fn airflow_finds_the_provider() {
    if let Some(airflow) = Suite::prepare("airflow_finds_the_provider", "airflow_provider") {
        airflow.install("airflow");
        let home = airflow.folder.join("home").display().to_string();
        airflow.pass(&[("AIRFLOW_HOME", &home)]);
    }
}

#[test]
fn slurm_stages_data_of_jobs() {
    let test = "slurm_stages_data_of_jobs";
    if lacks_root(test) {
        return;
    }
    let Some(package) = Suite::prepare(test, "slurm") else {
        return;
    };
    let tree = slurm(&package.program);
    if !lacks(test, tree.as_ref().map(drop).map_err(Clone::clone)) {
        package.pass_in_namespace(&[("LIGHTHAUL_TEST_SLURM", &tree.unwrap())]);
    }
}
