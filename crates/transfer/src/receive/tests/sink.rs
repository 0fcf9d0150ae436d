//! Bytes that arrive for files, written to their temporary files.

use std::sync::Arc;

use lighthaul_files::filter::Rules;
use lighthaul_files::listed::SourceEntries;
use lighthaul_files::options::Options;
use lighthaul_files::walk::{Found, Walk};
use lighthaul_fs::file_access::FileAccess;

use super::bench::Bench;

/// A receiver without root's rights cannot open such a file again, for example to sync it.
#[test]
fn file_without_rights_of_its_owner_is_written_and_synced() {
    let (bench, _ordinary) = Bench::ordinary("closed");
    let modes = [0, 0o044, 0o200, 0o400, 0o444, 0o600, 0o640];
    for mode in modes {
        bench.put(&format!("{mode:o}"), [7; 100]);
    }
    let access = Arc::new(FileAccess::anywhere());
    let walk = Walk::new(Arc::clone(&access), &[bench.source("")], Rules::default()).unwrap();
    // as a sender lists it that may read every file
    let listed = walk.map(|mut found| {
        if let Found::Entry(entry, ..) = &mut found
            && let Some(name) = entry.path().to_str()
            && let Ok(mode) = u32::from_str_radix(name, 8)
        {
            entry.mode = mode;
        }
        found
    });
    let options = Options {
        sync: true,
        ..Options::default()
    };
    let finds = SourceEntries::from_entries(access, listed);
    bench.send(finds, "target/", &options, &mut |_| {}).whole();
    for mode in modes {
        assert_eq!(bench.look(&format!("{mode:o}")).0, mode, "{mode:o}");
    }
}
