//! The one place where a test is skipped.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::thread;

/// Environment variable that turns every skip into a failure if it is `all`.
pub const REQUIRE: &str = "LIGHTHAUL_TEST_REQUIRE";

/// Environment variable with the path of the file that skips are appended to, one a line: reason, tab, test.
pub const SKIPPED: &str = "LIGHTHAUL_TEST_SKIPPED";

/// Records that a test, or a part of it, is skipped.
///
/// # Panics
///
/// Panics where [`REQUIRE`] is set, and if the record cannot be written: a skip is never silent.
pub fn skip(test: &str, why: impl Display) {
    let test = full_name(test);
    // a reason is one line of the file
    let why = why.to_string().replace(['\n', '\t'], " ");
    if let Some(required) = env::var_os(REQUIRE) {
        assert!(
            required == "all",
            "{REQUIRE} is {}, and only knows \"all\"",
            required.display()
        );
        panic!("{test} would be skipped, but {REQUIRE}=all: {why}");
    }
    // past the capture of the test runner
    write(&mut io::stderr(), &format!("skipped: {test}: {why}\n"));
    if let Some(path) = env::var_os(SKIPPED) {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.unwrap_or_else(|error| panic!("cannot record a skip: {error}"));
        write(&mut file, &format!("{why}\t{test}\n"));
    }
}

/// Name of a test with its binary, and with its modules where the test runner has named the thread after it.
fn full_name(test: &str) -> String {
    let exe = env::current_exe().unwrap_or_default();
    let exe = exe.file_stem().unwrap_or_default().to_string_lossy();
    let binary = exe.rsplit_once('-').map_or(&*exe, |(name, _hash)| name);
    let thread = thread::current();
    let name = thread.name().filter(|name| *name != "main");
    format!("{binary} {}", name.unwrap_or(test))
}

/// One write, so that lines of tests that run side by side do not mix.
fn write(sink: &mut impl Write, line: &str) {
    sink.write_all(line.as_bytes())
        .unwrap_or_else(|error| panic!("cannot record a skip: {error}"));
}
