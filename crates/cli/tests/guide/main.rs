//! Every shell block of the guide and of the README, run in order on test hosts.
//!
//! A page is a Markdown file below `docs/src`, or the README. Its fenced blocks say what happens to them:
//!
//! - `sh`: a shell on the host `here` runs the block; `sh far` has the host `far` run it
//! - `sh far service`: the block runs until the page ends; the test continues when the expected output is there
//! - `sh status=13`: the block ends with this exit status
//! - `python`: a program that Python runs on the host `here`, with the package `lighthaul`
//! - `output`, right behind: lines that the block prints, in this order; numbers may differ, and `…` stands for
//!   anything
//! - `console`: not run; the comment `<!-- not run: REASON -->` stands right before it. What its commands name must
//!   exist: see `not_run.rs`
//! - comments `<!-- sh ... -->` and `<!-- output ... -->` are blocks that readers do not see
#![expect(clippy::unwrap_used, reason = "a test")]

mod expected;
mod host;
#[path = "../wrap/library.rs"]
mod library;
mod not_run;
mod options;
mod page;
mod rules;
mod runner;
#[path = "../../../python/tests/pytest/site.rs"]
mod site;

use std::fs;
use std::path::Path;

/// One test for each page.
macro_rules! pages {
    ($($test:ident $path:literal)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[test]
            fn $test() {
                runner::follow($path);
            }
        )*
    };
}

pages! {
    readme "README.md"
    introduction "docs/src/introduction.md"
    install "docs/src/install.md"
    first_copy "docs/src/first-copy.md"
    daemons "docs/src/daemons.md"
    trees "docs/src/trees.md"
    compare_options "docs/src/compare-options.md"
    verification "docs/src/verification.md"
    paths "docs/src/paths.md"
    jobs "docs/src/jobs.md"
    streams "docs/src/streams.md"
    remote_files "docs/src/remote-files.md"
    object_stores "docs/src/object-stores.md"
    library_page "docs/src/library.md"
    python "docs/src/python.md"
    integrations "docs/src/integrations.md"
    c "docs/src/c.md"
    daemon "docs/src/daemon.md"
    scheduler "docs/src/scheduler.md"
    circuits "docs/src/circuits.md"
    nsi "docs/src/nsi.md"
    gateways "docs/src/gateways.md"
    monitor "docs/src/monitor.md"
    tuning "docs/src/tuning.md"
    troubleshooting "docs/src/troubleshooting.md"
    security "docs/src/security.md"
    drivers "docs/src/drivers.md"
    wire "docs/src/wire.md"
    domains "docs/src/domains.md"
    signaling "docs/src/signaling.md"
    decisions "docs/src/decisions.md"
    simulator "docs/src/simulator.md"
    contributing "docs/src/contributing.md"
}

/// The directory of the project.
fn project() -> &'static Path {
    let ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    ancestors.into_iter().nth(2).unwrap()
}

#[test]
fn every_chapter_is_in_the_summary_and_has_a_test() {
    let summary = fs::read_to_string(project().join("docs/src/SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1);
    let mut linked: Vec<String> = links
        .filter_map(|rest| rest.split(')').next())
        .map(|name| format!("docs/src/{name}"))
        .collect();
    linked.sort();
    let mut files: Vec<String> = fs::read_dir(project().join("docs/src"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.rsplit('.').next() == Some("md") && name != "SUMMARY.md")
        .map(|name| format!("docs/src/{name}"))
        .collect();
    files.sort();
    assert_eq!(linked, files, "SUMMARY.md and the files beside it");
    let missing: Vec<_> = files
        .iter()
        .filter(|name| !PAGES.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "no test follows {missing:?}");
}
