//! Reports that no client reads.

use std::fs;

use lighthaul_copy::message::{self, Way};
use lighthaul_files::filter::{FilterOption, Rules};
use lighthaul_files::options::{Detail, Options};
use lighthaul_testkit::{Turn, report};

use crate::endless::{ask, growth};
use crate::far::Far;
use crate::resource_limits::{let_in, memory};

/// Entries of the folder that the dry run excludes.
const ENTRIES: usize = 30_000;

/// Asks for a dry run that reports more than a hundred MiB, and reads nothing of it.
#[test]
fn unread_report_of_a_dry_run_takes_bounded_memory() {
    let _turn = Turn::beside_others();
    let far = Far::start("unread", &["--max-memory", "256MiB"]);
    let folder = far.target.join("many");
    let deep = folder.join(format!("{}/", "d".repeat(250)).repeat(12));
    fs::create_dir_all(&deep).unwrap();
    for nth in 0..ENTRIES {
        fs::write(deep.join(format!("{nth}.x")), "").unwrap();
    }
    let key = let_in(&far, "reader-of-nothing");
    let request = message::Request {
        way: Way::Send(vec![folder.into_os_string().into_encoded_bytes()]),
        options: Options {
            dry_run: Some(Detail::Explain),
            rules: Rules::parse(&[FilterOption::Exclude(b"*.x".to_vec())]).unwrap(),
            ..Options::default()
        },
    };
    let (id, before) = (far.daemon.id(), memory(far.daemon.id()));
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(ask::<message::Message>(&far, &key, &request, false));
    }
    let more = growth(id, before, 5) >> 10;
    report(format_args!(
        "{more} MiB more for {} dry runs that no client reads",
        held.len()
    ));
    // half of the memory is for one key
    assert!(more < 128, "{more} MiB");
    drop(held);
}
