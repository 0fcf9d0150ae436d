//! Directories whose contents the source leaves out, since they are on another file system.

use lighthaul_copy::message::Listing;
use lighthaul_files::manifest::pack;
use lighthaul_files::naming::Naming;
use lighthaul_files::options::Options;

use super::bench::Bench;
use super::checked_list::{folder, leave};
use super::entry_checker::deleting;

/// Contents of another file system are not listed, and not deleted. Only deletion keeps the paths of their
/// directories, so that their number has no limit without it.
#[test]
fn contents_of_an_unlisted_mount_are_not_deleted() {
    let bench = Bench::new("mounts");
    for path in ["mount/mine", "other/mine"] {
        bench.leave(path, "x");
    }
    let begin = Listing::Begin {
        naming: Naming::Contents,
    };
    let mount = Listing::Mount(b"mount".to_vec());
    let entries = ["mount", "other"].map(|path| [folder(path), leave(path)]);
    let entries = Listing::Entries(pack(&entries.concat()).unwrap());
    let list = [begin.clone(), mount, entries, Listing::End];
    let checked = bench.check_messages("target/", &list, &deleting());
    assert_eq!(checked.result, Ok(()));
    assert_eq!(bench.names("mount"), ["mine"]);
    assert!(bench.names("other").is_empty());

    let mounts = (0..=1 << 12).map(|nth: u32| Listing::Mount(nth.to_be_bytes().to_vec()));
    let list: Vec<_> = [begin]
        .into_iter()
        .chain(mounts)
        .chain([Listing::End])
        .collect();
    for (options, is_rejected) in [(Options::default(), false), (deleting(), true)] {
        let checked = bench.check_messages("target/", &list, &options);
        assert_eq!(checked.result.is_err(), is_rejected);
    }
}
