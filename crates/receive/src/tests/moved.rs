//! Copies that remove files at the source, and options that would lose data together.

use std::fs;
use std::os::unix::fs::MetadataExt;

use lighthaul_files::digest::DigestKind;
use lighthaul_files::options::Options;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_session::error::Code;

use super::bench::Bench;

fn moving() -> Options {
    Options {
        remove_source: true,
        ..Options::default()
    }
}

/// Each side refuses the options, since the peer may be any program.
#[test]
fn options_that_lose_data_are_refused_by_both_sides() {
    for options in [
        Options {
            digest: DigestKind::None,
            ..moving()
        },
        Options {
            inplace: true,
            update: true,
            ..Options::default()
        },
    ] {
        let bench = Bench::new("contradiction");
        bench.put("a", "new");
        bench.leave("a", "old");
        let outcome = bench.copy(&options);
        for side in [outcome.sender, outcome.receiver] {
            assert_eq!(side.unwrap_err().code(), Code::Usage);
        }
        assert!(bench.source("a").exists());
        assert_eq!(bench.read("a"), b"old");
    }
}

/// A change within the same step of time as the last one would not be seen, and its bytes would be lost.
#[test]
fn file_that_changed_just_now_is_removed_only_after_its_time_has_passed() {
    for (path, size) in [("small", 1), ("large", 1 << 20)] {
        let bench = Bench::new("just-changed");
        bench.put(path, vec![b'x'; size]);
        let changed = fs::metadata(bench.source(path)).unwrap();
        let changed = changed.ctime() * 1_000_000_000 + changed.ctime_nsec();
        bench.copy(&moving()).whole();
        assert!(!bench.source(path).exists());
        assert_eq!(bench.read(path).len(), size);
        let age = i64::try_from(unix_nanos()).unwrap() - changed;
        assert!(age >= 100_000_000, "{age} ns");
    }
}
