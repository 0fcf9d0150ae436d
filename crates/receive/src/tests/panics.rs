//! Copies in which a part of the program panics, on either side.

use std::iter;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use lighthaul_files::hash::HashRequest;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_session::error::Code;

use super::bench::{Bench, Outcome, octets};

/// Parts of the sender and of the receiver, each with a thread.
const OF_SENDER: [&str; 4] = ["scan", "answers", "comparison", "lane"];
const OF_RECEIVER: [&str; 6] = [
    "entry checker",
    "lane",
    "comparison",
    "publisher",
    "cleaning",
    "hasher",
];
/// Longest duration of a copy that fails.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs `copy`, which must end.
fn ended(copy: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
    let (done, outcome) = sync_channel(1);
    thread::spawn(move || {
        // a test that stopped waiting has failed
        done.send(copy()).ok();
    });
    let outcome = outcome.recv_timeout(PATIENCE);
    outcome.expect("a copy with a part that panics ends")
}

/// Checks that both sides fail with the panic.
fn check(outcome: Outcome, part: &str) {
    let errors = [outcome.sender.unwrap_err(), outcome.receiver.unwrap_err()];
    for error in errors {
        assert_eq!(error.code(), Code::Internal, "{part}: {error}");
        assert!(
            error.text().contains("broken on purpose"),
            "{part}: {error}"
        );
    }
}

fn bench(part: &str) -> Bench {
    let bench = Bench::new(&format!("panics-{part}"));
    bench.put("small", "abc");
    bench.put("large", octets(3 << 20, 1));
    bench
}

#[test]
fn panic_in_any_part_of_the_sender_ends_the_copy_on_both_sides() {
    for part in OF_SENDER {
        let mut bench = bench(&format!("sender-{part}"));
        bench.broken = [Some(part), None];
        check(ended(move || bench.copy(&Options::default())), part);
    }
}

#[test]
fn panic_in_any_part_of_the_receiver_ends_the_copy_on_both_sides() {
    let options = Options {
        hash: HashRequest::parse_list("md5").unwrap(),
        ..Options::default()
    };
    for part in OF_RECEIVER {
        let mut bench = bench(&format!("receiver-{part}"));
        bench.broken = [None, Some(part)];
        let options = options.clone();
        check(ended(move || bench.copy(&options)), part);
    }
}

#[test]
fn panic_of_the_watcher_ends_the_copy_on_both_sides() {
    let bench = bench("watcher");
    let copy = move || {
        let watcher = &mut |_| panic!("broken on purpose");
        bench.watch(("source/", "target/"), &Options::default(), watcher)
    };
    check(ended(copy), "watcher");
}

#[test]
fn panic_in_the_walk_does_not_end_the_list_normally() {
    let bench = bench("walk");
    let copy = move || {
        let found = iter::repeat_with(|| panic!("broken on purpose"));
        let finds = SourceEntries::from_entries(Arc::new(FileAccess::anywhere()), found);
        bench.send(finds, "target/", &Options::default(), &mut |_| {})
    };
    check(ended(copy), "walk");
}
