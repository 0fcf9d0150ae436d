//! Targets that are links to devices, FIFOs and open files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use lighthaul_files::options::Options;
use lighthaul_session::error::Code;

use super::bench::{Bench, make_fifo};
use super::checked_list::{CONTENTS, NOTHING, file};

#[test]
fn link_to_a_special_file_is_refused_only_if_the_user_named_the_link() {
    let bench = Bench::new("special-link");
    make_fifo(&bench.target("pipe"));
    fs::write(bench.target("plain"), "old").unwrap();
    let link = bench.target("a");
    for (text, what) in [
        ("pipe", "is a link to a FIFO"),
        ("/dev/null", "is a link to a device"),
        ("/proc/self/status", "is a link into /proc"),
    ] {
        symlink(text, &link).unwrap();
        let checked = bench.check_list(("target/a", true), &[file("b", 0)], &Options::default());
        let (path, code, why) = checked.failure();
        assert_eq!((path.as_str(), code), ("a", Code::Open as u8));
        assert!(why.contains(what), "{why}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(text));
        // an entry of a tree replaces the link
        let checked = bench.check_list(CONTENTS, &[file("a", 0)], &Options::default());
        assert_eq!(checked.wants(), NOTHING);
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        fs::remove_file(&link).unwrap();
    }
    for text in ["plain", "nowhere", "/dev/shm/nowhere"] {
        symlink(text, &link).unwrap();
        let checked = bench.check_list(("target/a", true), &[file("b", 0)], &Options::default());
        assert_eq!(checked.wants(), NOTHING, "{text}");
        fs::remove_file(&link).unwrap();
    }
}
