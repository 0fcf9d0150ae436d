//! Copies that are cancelled, beside others of the same process.

use std::fs;
use std::path::Path;
use std::thread;

use lighthaul::{Code, Rate, Timestamp, Transfer};
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_testkit::allowance;

use crate::host::{Host, are_equal};

/// Bytes of a file that takes some objects of 4 MiB, and about four seconds at [`RATE`].
const LEN: usize = 40 << 20;
const RATE: &str = "80Mb/s";

/// Starts a copy that takes some seconds.
fn slow(host: &Host, file: &Path, target: &str) -> Transfer {
    let mut request = host.push(file, target);
    request.rate = Some(RATE.parse::<Rate>().unwrap());
    host.client("a").copy(request).unwrap()
}

fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let clock = Clock::start();
    let until = clock.now() + allowance(30);
    while !is_true() {
        assert!(clock.now() < until, "{what}");
        thread::park_timeout(std::time::Duration::from_millis(5));
    }
}

/// Returns true if two objects are in a journal of the client's directory.
fn has_two_objects(host: &Host) -> bool {
    let folder = host.folder.join("a");
    let names = crate::host::names(&folder);
    let journals = names.iter().filter(|name| name.ends_with(".journal"));
    let lens = journals.map(|name| fs::metadata(folder.join(name)).map_or(0, |meta| meta.len()));
    lens.sum::<u64>() >= 40 + 2 * 22
}

#[test]
fn cancelled_copy_does_not_affect_another_copy_and_resumes() {
    let host = Host::start("cancel", &["a"]);
    let file = host.file("x", LEN);
    let cancelled = slow(&host, &file, "cancelled");
    wait_until("two objects have arrived", || has_two_objects(&host));
    let other = slow(&host, &file, "other");
    wait_until("the other copy moves", || other.progress().done > 0);
    cancelled.cancel();
    let error = cancelled.wait().unwrap_err();
    assert_eq!(error.code(), Code::Interrupted, "{error}");
    // nothing is there under the name of an incomplete file
    assert!(!host.folder.join("a/cancelled").exists());
    assert!(!other.is_finished());
    assert_eq!(other.wait().unwrap().entries, 1);
    assert!(are_equal(&file, &host.folder.join("a/other")));

    let request = host.push(&file, "cancelled");
    let summary = host.client("a").copy(request).unwrap().wait().unwrap();
    let most = (LEN - (8 << 20)) as u64;
    assert!(
        summary.motion.total <= most,
        "{} bytes",
        summary.motion.total
    );
    assert!(are_equal(&file, &host.folder.join("a/cancelled")));
}

#[test]
fn copy_ends_when_its_handle_is_dropped() {
    let host = Host::start("drop", &["a"]);
    let file = host.file("x", LEN);
    let dropped = slow(&host, &file, "dropped");
    wait_until("data moves", || dropped.progress().done > 0);
    drop(dropped);
    // the daemon lets go of the file, which another copy may then write
    let other = slow(&host, &file, "dropped");
    assert_eq!(other.wait().unwrap().entries, 1);
}

#[test]
fn stop_time_of_one_copy_does_not_apply_to_another_copy() {
    let host = Host::start("stop", &["a"]);
    let file = host.file("x", LEN);
    let other = slow(&host, &file, "other");
    let mut request = host.push(&file, "stopped");
    request.rate = Some(RATE.parse().unwrap());
    request.stop_at = Some(Timestamp(unix_nanos() + 500_000_000));
    let error = host.client("a").copy(request).unwrap().wait().unwrap_err();
    assert_eq!(error.code(), Code::TimedOut, "{error}");
    assert!(!host.folder.join("a/stopped").exists());
    assert_eq!(other.wait().unwrap().entries, 1);
}
