//! No path leads out of a root, even while another process swaps directories for links.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lighthaul_base::Rng;
use lighthaul_io::host::wait::pause;

use crate::far::Far;
use crate::scratch::names;

/// Swaps the directory `d` in `root` with the link `s` now and then, until told to stop.
fn swap(root: &Path, seed: u64, stop: &AtomicBool) {
    let folder = fs::File::open(root).unwrap();
    let mut rng = Rng::new(seed);
    while !stop.load(Relaxed) {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(&folder, "d", &folder, "s", flags).unwrap();
        // as often within a session as between two
        pause(std::time::Duration::from_nanos(rng.next_u64() % 3_000_000));
    }
}

#[test]
fn directories_swapped_for_links_do_not_lead_out_of_the_root() {
    const SEED: u64 = 20_261_123;
    println!("seed {SEED}");
    let far = Far::start("swapped-root", &["--root", "ROOT"]);
    let file = far.near.file("x", 100_000);
    let (inside, outside) = (far.target.join("d"), far.near.folder("outside"));
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("known"), "inside").unwrap();
    fs::write(outside.join("known"), "secret").unwrap();
    symlink(&outside, far.target.join("s")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut let_in, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&far.target, SEED, &stop));
        let tries = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for nth in 0..400 {
                if nth >= 40 && let_in >= 5 && refused >= 5 {
                    break;
                }
                let back = far.near.at("back");
                let place = |name: &str| format!("lh://127.0.0.1:{}/d/{name}", far.port);
                let outcome = if nth % 2 == 0 {
                    far.run(
                        &[],
                        &[file.to_str().unwrap(), &place(&format!("new-{nth}"))],
                    )
                } else {
                    far.run(&[], &[&place("known"), back.to_str().unwrap()])
                };
                if outcome.code == Some(0) {
                    let_in += 1;
                } else {
                    refused += 1;
                }
                if let Ok(bytes) = fs::read(&back) {
                    assert_eq!(bytes, b"inside", "what is outside was read");
                    fs::remove_file(&back).unwrap();
                }
            }
        }));
        stop.store(true, Relaxed);
        tries.unwrap();
    });
    println!("{let_in} let in, {refused} refused");
    assert_eq!(names(&outside), ["known"], "something was written outside");
    assert_eq!(fs::read(outside.join("known")).unwrap(), b"secret");
    assert!(
        let_in >= 5 && refused >= 5,
        "{let_in} let in, {refused} refused: it was no race"
    );
}
