//! Tests that no path leaves a root, even while another thread swaps directories for symbolic links.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "tests use the real system")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use lighthaul_base::Rng;
use lighthaul_fs::file_access::FileAccess;

/// Root directory, and files beside it that must be unreachable.
struct TestTree(PathBuf);

impl TestTree {
    fn new(name: &str) -> Self {
        let place =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::remove_dir_all(&place).ok();
        for folder in ["root/a/deep", "out/deep"] {
            fs::create_dir_all(place.join(folder)).unwrap();
        }
        for (file, text) in [
            ("root/a/x", "inside"),
            ("root/a/deep/x", "inside"),
            ("out/x", "secret"),
            ("out/deep/x", "secret"),
            ("out/only", "secret"),
        ] {
            fs::write(place.join(file), text).unwrap();
        }
        Self(place)
    }

    fn access(&self) -> FileAccess {
        FileAccess::beneath(&self.0.join("root")).unwrap()
    }
}

impl Drop for TestTree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn read(access: &FileAccess, path: &str) -> std::io::Result<Vec<u8>> {
    let file = access.file(Path::new(path))?;
    let mut bytes = vec![0; 16];
    let len = file.read_at(&mut bytes, 0)?;
    bytes.truncate(len);
    Ok(bytes)
}

#[test]
fn only_paths_beneath_the_root_open() {
    let world = TestTree::new("beneath");
    let at = |path: &str| world.0.join("root").join(path);
    symlink(world.0.join("out"), at("absolute")).unwrap();
    symlink("../out", at("upward")).unwrap();
    symlink("a/deep", at("inner")).unwrap();
    symlink("/proc/self/root", at("a/magic")).unwrap();
    let access = world.access();
    for path in ["a/x", "/a/x", "//a//x", "inner/x", "a/deep/../x"] {
        assert_eq!(read(&access, path).unwrap(), b"inside", "{path}");
    }
    let ways_out = [
        "absolute/x",
        "upward/x",
        "../out/x",
        "a/../../out/x",
        "/../out/x",
        "a/magic/etc/passwd",
    ];
    for path in ways_out {
        let error = read(&access, path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CrossesDevices, "{path}");
    }
    for path in ["absolute", "upward", "..", "a/magic"].map(Path::new) {
        let path_is = path.display();
        assert!(
            access.root(path).is_err() && access.folder(path).is_err(),
            "{path_is}"
        );
        assert!(access.within(path).is_err(), "{path_is}");
        assert!(access.make_folder(&path.join("made")).is_err(), "{path_is}");
    }
    // A symbolic link as the last name is not followed.
    assert!(read(&access, "inner").is_err());
    let deep = access.within(Path::new("/a/deep")).unwrap();
    assert_eq!(read(&deep, "x").unwrap(), b"inside");
    assert_eq!(
        read(&deep, "../x").unwrap_err().kind(),
        ErrorKind::CrossesDevices
    );
}

/// Exchanges `a` and `s` in a directory atomically, again and again, until `stop` is set. `s` may be a
/// link to `out`.
fn swap(folder: &Path, stop: &AtomicBool, swaps: &AtomicU64) {
    let folder = fs::File::open(folder).unwrap();
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    while !stop.load(Relaxed) {
        rustix::fs::renameat_with(&folder, "a", &folder, "s", flags).unwrap();
        swaps.fetch_add(1, Relaxed);
    }
}

/// Calls `something` while `a` and `s` in a directory are swapped. Returns the number of swaps.
fn while_swapped(folder: &Path, something: impl FnOnce(&AtomicU64)) -> u64 {
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| swap(folder, &stop, &swaps));
        let done = catch_unwind(AssertUnwindSafe(|| something(&swaps)));
        stop.store(true, Relaxed);
        done.unwrap();
    });
    swaps.into_inner()
}

#[test]
fn parent_paths_resolve_during_renames_elsewhere() {
    let world = TestTree::new("elsewhere");
    let busy = world.0.join("busy");
    fs::create_dir_all(busy.join("a")).unwrap();
    fs::create_dir_all(busy.join("s")).unwrap();
    symlink("../x", world.0.join("root/a/deep/up")).unwrap();
    let access = world.access();
    let swaps = while_swapped(&busy, |_| {
        for _ in 0..20_000 {
            assert_eq!(read(&access, "a/deep/../x").unwrap(), b"inside");
            assert!(access.within(Path::new("a/deep/../../a")).is_ok());
            let error = read(&access, "a/../../out/x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CrossesDevices);
        }
    });
    println!("{swaps} swaps");
    assert!(swaps > 0, "no rename happened meanwhile");
}

/// Tries a random operation on the present `a`. Returns true if it succeeded.
fn try_something(access: &FileAccess, nth: u64, rng: &mut Rng) -> bool {
    let made = PathBuf::from(format!("a/made-{nth}"));
    let root = || access.root(Path::new("")).unwrap();
    match rng.next_u64() % 8 {
        0 => read(access, "a/x")
            .map(|bytes| assert_eq!(bytes, b"inside"))
            .is_ok(),
        1 => read(access, "a/deep/x")
            .map(|bytes| assert_eq!(bytes, b"inside"))
            .is_ok(),
        2 => access
            .folder(Path::new("a"))
            .map(|mut folder| {
                assert!(
                    !folder
                        .names(100_000)
                        .unwrap()
                        .iter()
                        .any(|name| name == "only")
                );
            })
            .is_ok(),
        3 => access
            .within(Path::new("a"))
            .map(|inner| {
                assert_eq!(read(&inner, "x").unwrap(), b"inside");
            })
            .is_ok(),
        4 => access.make_folder(&made).is_ok(),
        5 => root()
            .create(&made)
            .map(|mut file| file.write_at(b"made", 0).unwrap())
            .is_ok(),
        6 => {
            assert!(root().remove(Path::new("a/only")).is_err());
            root().rename(Path::new("a/x"), Path::new("a/x")).is_ok()
        }
        _ => {
            assert!(!matches!(root().look(Path::new("a/only")), Ok(Some(_))));
            matches!(root().look(Path::new("a/x")), Ok(Some(_)))
        }
    }
}

#[test]
fn folders_replaced_by_links_never_lead_outside() {
    const SEED: u64 = 20_261_121;
    /// Attempts: at least the first number, then more until both outcomes were frequent.
    const ATTEMPTS: std::ops::Range<u64> = 10_000..400_000;
    println!("seed {SEED}");
    let world = TestTree::new("swapped");
    let place = world.0.join("root");
    symlink(world.0.join("out"), place.join("s")).unwrap();
    let (mut let_in, mut refused) = (0, 0);
    let swaps = while_swapped(&place, |swaps| {
        let (access, mut rng) = (world.access(), Rng::new(SEED));
        for nth in 0..ATTEMPTS.end {
            if nth >= ATTEMPTS.start && let_in.min(refused).min(swaps.load(Relaxed)) >= 200 {
                break;
            }
            if try_something(&access, nth, &mut rng) {
                let_in += 1;
            } else {
                refused += 1;
            }
        }
    });
    println!("{swaps} swaps, {let_in} let in, {refused} refused");
    assert!(
        swaps >= 200 && let_in >= 200 && refused >= 200,
        "too few operations raced with a swap"
    );
    let mut outside: Vec<_> = fs::read_dir(world.0.join("out"))
        .unwrap()
        .map(|item| item.unwrap().file_name())
        .collect();
    outside.sort();
    assert_eq!(
        outside,
        ["deep", "only", "x"],
        "an operation changed a directory outside the root"
    );
    assert_eq!(fs::read(world.0.join("out/only")).unwrap(), b"secret");
}
