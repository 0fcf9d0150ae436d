//! The package as a directory for `PYTHONPATH`: its sources, and the library that cargo has built.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Lays out the package below `folder`. `sources` is `crates/python/python`, and `built` has the command of this build.
/// Fails if the library was not built.
pub(crate) fn lay_out(folder: &Path, sources: &Path, built: &Path) -> Result<(), String> {
    let library = built.join("deps/lib_lighthaul.so");
    if !library.exists() {
        return Err("needs the library for Python: test the whole workspace".to_owned());
    }
    let copied = copy(
        &sources.join("lighthaul"),
        &folder.join("lighthaul"),
        &library,
    )
    .and_then(|()| describe(&folder.join("lighthaul-0.dist-info"), sources));
    copied.map_err(|error| format!("cannot lay out the package: {error}"))
}

fn copy(sources: &Path, site: &Path, library: &Path) -> io::Result<()> {
    fs::remove_dir_all(site).ok();
    fs::create_dir_all(site)?;
    for item in fs::read_dir(sources)? {
        let item = item?;
        if item.file_type()?.is_file() {
            fs::copy(item.path(), site.join(item.file_name()))?;
        }
    }
    symlink(library, site.join("_lighthaul.abi3.so"))
}

/// Writes the metadata of an installed package, from which fsspec finds the class for `lh://`.
fn describe(folder: &Path, sources: &Path) -> io::Result<()> {
    const GROUP: &str = "[project.entry-points.\"fsspec.specs\"]\n";
    let project = fs::read_to_string(sources.with_file_name("pyproject.toml"))?;
    let entries = project.split_once(GROUP).map_or("", |(_, rest)| rest);
    let entries = entries.split("\n\n").next().unwrap_or_default();
    let entries = entries.replace('"', "");
    fs::create_dir_all(folder)?;
    let metadata = "Metadata-Version: 2.1\nName: lighthaul\nVersion: 0\n";
    fs::write(folder.join("METADATA"), metadata)?;
    fs::write(
        folder.join("entry_points.txt"),
        format!("[fsspec.specs]\n{entries}\n"),
    )
}
