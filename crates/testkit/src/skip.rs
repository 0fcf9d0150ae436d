//! Record of skipped tests.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::thread;

/// Environment variable that turns every skip into a failure if it is `all`.
pub const REQUIRE: &str = "LIGHTHAUL_TEST_REQUIRE";

/// Environment variable with the path of the file to which skips are appended, one per line:
/// reason, tab, test.
pub const SKIPPED: &str = "LIGHTHAUL_TEST_SKIPPED";

/// Records that a test, or a part of the test, is skipped.
///
/// # Panics
///
/// Panics if [`REQUIRE`] is set, or if the record cannot be written: a skip is never silent.
pub fn skip(test: &str, why: impl Display) {
    let test = full_name(test);
    // A reason must fit on one line of the file.
    let why = why.to_string().replace(['\n', '\t'], " ");
    if let Some(required) = env::var_os(REQUIRE) {
        assert!(
            required == "all",
            "{REQUIRE} is {}: the only allowed value is \"all\"",
            required.display()
        );
        panic!("{test} would be skipped, but {REQUIRE}=all: {why}");
    }
    // Bypass the test runner's capture of output.
    write(&mut io::stderr(), &format!("skipped: {test}: {why}\n"));
    if let Some(path) = env::var_os(SKIPPED) {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.unwrap_or_else(|error| panic!("cannot record a skip: {error}"));
        write(&mut file, &format!("{why}\t{test}\n"));
    }
}

/// Returns a test's name with its binary. Includes its modules if the thread has the test's name.
fn full_name(test: &str) -> String {
    let exe = env::current_exe().unwrap_or_default();
    let exe = exe.file_stem().unwrap_or_default().to_string_lossy();
    let binary = exe.rsplit_once('-').map_or(&*exe, |(name, _hash)| name);
    let thread = thread::current();
    let name = thread.name().filter(|name| *name != "main");
    format!("{binary} {}", name.unwrap_or(test))
}

/// Writes a line at once, so that lines of parallel tests do not mix.
fn write(sink: &mut impl Write, line: &str) {
    sink.write_all(line.as_bytes())
        .unwrap_or_else(|error| panic!("cannot record a skip: {error}"));
}
