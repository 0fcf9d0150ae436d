//! A file gets its name only after both sides have compared its bytes in this run. The source, the partial file or its
//! journal may have changed since an earlier run was interrupted.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lighthaul_files::digest::{Digest, DigestKind, Digester};

use crate::far::Far;
use crate::resume::{SLOWLY, stopped_at};
use crate::scratch::{look, names, noise, tree};

/// Bytes of the file, of which about a quarter has arrived when the copy is interrupted.
const LEN: u64 = 24 << 20;

/// Returns names and content that an interrupted copy of `x` left in the target directory.
struct Leavings {
    far: Far,
    source: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

impl Leavings {
    /// Copies with `options`, and kills both sides halfway.
    fn of(name: &str, options: &[&str]) -> Self {
        Self::at(Far::start(name, &[]), options)
    }

    /// Copies to `far`. The source always has the same size and time.
    fn at(mut far: Far, options: &[&str]) -> Self {
        let source = far.near.file("x", LEN);
        set_time(
            &source,
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        );
        let options = [&SLOWLY[..], options].concat();
        let paths = [source.to_str().unwrap(), &far.place("x")];
        let mut copy = stopped_at(&far, &options, &paths, &far.target);
        copy.kill();
        far.restart();
        let read = |name: String| {
            let bytes = fs::read(far.target.join(&name)).unwrap();
            (name, bytes)
        };
        let files = names(&far.target).into_iter().map(read).collect();
        Self { far, source, files }
    }

    /// Restores the files that the interrupted copy left.
    fn restore(&self) {
        for name in names(&self.far.target) {
            fs::remove_file(self.far.target.join(name)).unwrap();
        }
        for (name, bytes) in &self.files {
            fs::write(self.far.target.join(name), bytes).unwrap();
        }
    }

    fn partial(&self) -> PathBuf {
        self.path(false)
    }

    fn journal(&self) -> PathBuf {
        self.path(true)
    }

    fn path(&self, journal: bool) -> PathBuf {
        let names = self.files.iter().map(|(name, _)| name.clone());
        self.far.target.join(left(names, journal))
    }

    /// Asserts that the same copy succeeds, and that the target has what the source has. Returns
    /// the bytes that were moved.
    fn ends_right(&self, options: &[&str], what: &str) -> u64 {
        let options = [options, &["--json"]].concat();
        let outcome = self.far.push(&options, &[&self.source], "x");
        let summary = outcome.assert_succeeded().event("summary");
        let (ours, theirs) = (look(&self.source), look(&self.far.target.join("x")));
        assert!(ours == theirs, "{what}: the target is not the source");
        assert_eq!(names(&self.far.target), ["x"], "{what}");
        summary["bytes_moved"].as_u64().unwrap()
    }
}

/// Returns the name of the journal, or of the partial file. There may also be a lock, which a killed process left.
fn left(mut names: impl Iterator<Item = String>, journal: bool) -> String {
    let is_it = |name: &String| name.ends_with(".journal") == journal && !name.contains(".lock");
    names.find(is_it).unwrap()
}

/// Replaces the bytes of `file` by others, with the same size and time.
fn swap(file: &Path) {
    let time = fs::metadata(file).unwrap().modified().unwrap();
    fs::write(file, noise(LEN, 77)).unwrap();
    set_time(file, time);
}

fn set_time(file: &Path, time: SystemTime) {
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_modified(time).unwrap();
}

/// Changes `len` bytes at `offset` of `file`.
fn alter(file: &Path, offset: u64, len: usize) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).unwrap();
    let altered: Vec<u8> = bytes.iter().map(|byte| byte ^ 1).collect();
    file.write_all_at(&altered, offset).unwrap();
}

#[test]
fn resume_detects_a_replaced_source_of_equal_size_and_time() {
    for (name, options) in [
        ("beside", &[][..]),
        ("blake3", &["--digest", "blake3"]),
        ("checksum", &["--checksum"]),
        ("inplace", &["--inplace"]),
        ("nosync", &["--no-sync"]),
    ] {
        let left = Leavings::of(&format!("proof-source-{name}"), options);
        swap(&left.source);
        left.ends_right(options, name);
    }
}

#[test]
fn source_that_changes_during_a_copy_is_not_published() {
    // the bytes and the other file are ready before the copy begins, which takes at most five seconds
    let bytes = noise(LEN, 78);
    let rewrite = |file: &Path| {
        let time = fs::metadata(file).unwrap().modified().unwrap();
        let open = fs::File::options().write(true).open(file).unwrap();
        open.write_all_at(&bytes, 0).unwrap();
        set_time(file, time);
    };
    let replace = |file: &Path| fs::rename(file.with_extension("other"), file).unwrap();
    for (what, change) in [
        ("replaced", &replace as &dyn Fn(&Path)),
        ("rewritten", &rewrite),
    ] {
        for protocol in ["rbudp", "tcp"] {
            let far = Far::start(&format!("proof-during-{what}-{protocol}"), &[]);
            let source = far.near.file("x", LEN);
            let other = source.with_extension("other");
            fs::copy(&source, &other).unwrap();
            set_time(&other, fs::metadata(&source).unwrap().modified().unwrap());
            rewrite(&other);
            let options = [&SLOWLY[..], &["--protocol", protocol]].concat();
            let paths = [source.to_str().unwrap(), &far.place("x")];
            let copy = stopped_at(&far, &options, &paths, &far.target);
            change(&source);
            let outcome = copy.finish();
            assert!(outcome.said("changed"), "{what}: {outcome:?}");
            assert_ne!(outcome.code, Some(0), "{what}: {outcome:?}");
            assert!(!far.target.join("x").exists(), "{what}");
            // the same command then copies the current content
            far.push(&[], &[&source], "x").assert_succeeded();
            assert!(look(&source) == look(&far.target.join("x")), "{what}");
        }
    }
}

#[test]
fn target_in_place_that_is_replaced_during_a_copy_is_not_verified() {
    let far = Far::start("proof-replaced-target", &[]);
    let source = far.near.file("x", LEN);
    let there = far.target.join("x");
    let options = [&SLOWLY[..], &["--inplace"]].concat();
    let paths = [source.to_str().unwrap(), &far.place("x")];
    let bytes = noise(LEN, 79);
    let other = far.near.at("other");
    fs::write(&other, &bytes).unwrap();
    let copy = stopped_at(&far, &options, &paths, &far.target);
    fs::rename(&other, &there).unwrap();
    let outcome = copy.finish();
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.said("another process has replaced the file"),
        "{outcome:?}"
    );
    // the file that replaced it is unchanged
    assert!(fs::read(&there).unwrap() == bytes);
}

#[test]
fn target_in_place_that_grows_during_a_copy_is_not_verified() {
    let far = Far::start("proof-grown-target", &[]);
    let source = far.near.file("x", LEN);
    let there = far.target.join("x");
    let options = [&SLOWLY[..], &["--inplace"]].concat();
    let paths = [source.to_str().unwrap(), &far.place("x")];
    let copy = stopped_at(&far, &options, &paths, &far.target);
    let open = fs::File::options().write(true).open(&there).unwrap();
    open.write_all_at(b"more", LEN).unwrap();
    let outcome = copy.finish();
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.said("another process has changed the file"),
        "{outcome:?}"
    );
    // the next copy cuts it off
    far.push(&["--inplace"], &[&source], "x").assert_succeeded();
    assert!(look(&source) == look(&there));
}

#[test]
fn resume_detects_an_altered_partial_file() {
    let left = Leavings::of("proof-partial", &[]);
    let precious = left.far.near.file("precious", LEN);
    let before = look(&precious);
    let grow = |len: u64| {
        let file = fs::File::options()
            .write(true)
            .open(left.partial())
            .unwrap();
        file.set_len(len).unwrap();
    };
    let replace = |link: &dyn Fn(&Path)| {
        fs::remove_file(left.partial()).unwrap();
        link(&left.partial());
    };
    // the change, and whether the rest of what is left saves sending
    let changes: [(&str, &dyn Fn(), bool); 9] = [
        ("nothing", &|| (), true),
        ("one byte", &|| alter(&left.partial(), 4_000_000, 1), true),
        (
            "16 KiB",
            &|| alter(&left.partial(), 1 << 20, 16 << 10),
            true,
        ),
        ("the first byte", &|| alter(&left.partial(), 0, 1), true),
        ("truncated", &|| grow(3 << 20), false),
        ("extended", &|| grow(LEN + 12345), true),
        (
            "a symbolic link",
            &|| replace(&|path| std::os::unix::fs::symlink(&precious, path).unwrap()),
            false,
        ),
        (
            "a hard link",
            &|| replace(&|path| fs::hard_link(&precious, path).unwrap()),
            false,
        ),
        ("gone", &|| fs::remove_file(left.partial()).unwrap(), false),
    ];
    for (what, change, saves) in changes {
        left.restore();
        change();
        let moved = left.ends_right(&[], what);
        assert_eq!(moved < LEN, saves, "{what}: {moved} bytes were moved");
        assert!(look(&precious) == before, "{what}");
    }
}

#[test]
fn resume_detects_altered_holes() {
    let mut far = Far::start("proof-sparse", &[]);
    let source = far.near.file("x", LEN);
    let file = fs::File::options().write(true).open(&source).unwrap();
    file.write_all_at(&vec![0; 2 << 20], 1 << 20).unwrap();
    let options = [&SLOWLY[..], &["--sparse"]].concat();
    let paths = [source.to_str().unwrap(), &far.place("x")];
    let mut copy = stopped_at(&far, &options, &paths, &far.target);
    copy.kill();
    far.restart();
    let partial = left(names(&far.target).into_iter(), false);
    alter(&far.target.join(partial), 2 << 20, 5000);
    far.push(&["--sparse"], &[&source], "x").assert_succeeded();
    assert!(look(&source) == look(&far.target.join("x")));
}

#[test]
fn resume_survives_any_journal() {
    let left = Leavings::of("proof-journal", &[]);
    let whole = fs::read(left.journal()).unwrap();
    let other = {
        // the journal of another file with the same size and time
        let left = Leavings::of("proof-journal-other", &[]);
        fs::read(left.journal()).unwrap()
    };
    assert_eq!(other[..40], whole[..40], "another header is ignored");
    // a record of the whole file, of which only a part has arrived
    let mut all = [0_u64.to_be_bytes(), LEN.to_be_bytes()].concat();
    all.extend_from_slice(&whole[40 + 16..40 + 18]);
    let sum = blake3(&all);
    all.extend_from_slice(&sum[..4]);
    let all = [&whole[..40], &all].concat();
    let version = |version: &[u8; 2]| [&whole[..6], version, &whole[8..]].concat();
    let flipped = |at: usize| {
        let mut journal = whole.clone();
        journal[at] ^= 1;
        journal
    };
    // the journal, and whether its ranges save sending
    for (what, journal, saves) in [
        ("as it was", whole.clone(), true),
        ("truncated", whole[..whole.len() - 3].to_vec(), true),
        ("without records", whole[..20].to_vec(), false),
        ("empty", Vec::new(), false),
        ("another version", version(b"01"), false),
        ("a later version", version(b"99"), false),
        ("of another run", other, true),
        ("of the whole file", all, true),
        ("noise", noise(500, 5), false),
        ("a bit of its head", flipped(12), false),
        ("a bit of a record", flipped(whole.len() - 9), true),
        ("the last bit", flipped(whole.len() - 1), true),
    ] {
        left.restore();
        fs::write(left.journal(), journal).unwrap();
        let moved = left.ends_right(&[], what);
        assert_eq!(moved < LEN, saves, "{what}: {moved} bytes were moved");
    }
}

/// An attacker could choose bytes of a plain copy that a CRC does not detect. A later copy compares
/// them by BLAKE3, even if it is encrypted.
#[test]
fn resume_finds_forged_bytes_of_a_plain_copy() {
    let far = Far::start("proof-forged-part", &["--plain"]);
    let left = Leavings::at(far, &["--plain", "--digest", "crc128"]);
    left.restore();
    let mut partial = fs::read(left.partial()).unwrap();
    let before = crc(&partial[..1 << 20]);
    for (at, flip) in crc_neutral().into_iter().enumerate() {
        partial[100_000 + at] ^= flip;
    }
    assert_eq!(crc(&partial[..1 << 20]), before);
    fs::write(left.partial(), partial).unwrap();
    let moved = left.ends_right(&["--digest", "crc128"], "forged");
    assert!(moved < LEN, "{moved} bytes were moved");
}

#[test]
fn checksum_detects_changes_of_equal_size_and_time() {
    let far = Far::start("proof-checksum", &[]);
    let source = far.near.file("x", 70_000);
    let there = far.target.join("x");
    far.push(&[], &[&source], "x").assert_succeeded();
    set_time(
        &source,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
    );
    let plan = far.push(&["-c", "-n"], &[&source], "x").assert_succeeded();
    assert_eq!(plan.out, ["change   x (time)"]);
    let options = ["-c", "--json"];
    let outcome = far.push(&options, &[&source], "x").assert_succeeded();
    assert_eq!(outcome.event("summary")["bytes_moved"], 0);
    assert!(look(&there) == look(&source));
    // so that the next run finds nothing to do
    let outcome = far.push(&["--json"], &[&source], "x").assert_succeeded();
    assert_eq!(outcome.event("summary")["bytes_moved"], 0);
    alter(&there, 5, 1);
    set_time(
        &there,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
    );
    let outcome = far.push(&options, &[&source], "x").assert_succeeded();
    assert_eq!(outcome.event("summary")["bytes_moved"], 70_000);
    assert!(look(&there) == look(&source));
}

#[test]
fn checksum_finds_bytes_that_a_crc_does_not() {
    let bytes = noise(1000, 7);
    let flips = crc_neutral();
    let forged: Vec<u8> = bytes
        .iter()
        .zip(flips)
        .map(|(byte, flip)| byte ^ flip)
        .collect();
    assert!(forged != bytes && crc(&forged) == crc(&bytes));
    let far = Far::start("proof-forged", &[]);
    let source = far.near.file("x", 0);
    fs::write(&source, &bytes).unwrap();
    far.push(&[], &[&source], "x").assert_succeeded();
    let time = fs::metadata(&source).unwrap().modified().unwrap();
    fs::write(far.target.join("x"), &forged).unwrap();
    set_time(&far.target.join("x"), time);
    far.push(&["-c"], &[&source], "x").assert_succeeded();
    assert!(fs::read(far.target.join("x")).unwrap() == bytes);
}

/// Returns the two CRCs of the default digest.
fn crc(bytes: &[u8]) -> u128 {
    let Digest::Crc128(one, two) = digest(DigestKind::Crc128, bytes) else {
        panic!("not a CRC");
    };
    (u128::from(one) << 64) | u128::from(two)
}

fn blake3(bytes: &[u8]) -> [u8; 32] {
    let Digest::Blake3(hash) = digest(DigestKind::Blake3, bytes) else {
        panic!("not BLAKE3");
    };
    hash
}

fn digest(kind: DigestKind, bytes: &[u8]) -> Digest {
    let read = |at: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&bytes[at as usize..][..buffer.len()]);
        Ok(buffer.len())
    };
    Digester::compute(kind, bytes.len() as u64, read).unwrap()
}

/// Returns 1000 bytes that no CRC detects if they are added (XOR) to a file at any place. A CRC is
/// linear: bits can be chosen whose flips cancel out.
fn crc_neutral() -> Vec<u8> {
    let pattern = |bits: &[usize]| {
        let mut bytes = vec![0; 1000];
        for bit in bits {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        bytes
    };
    let zeros = crc(&pattern(&[]));
    // 129 differences of 128 bits depend on each other: Gaussian elimination finds those that cancel out
    let mut rows: Vec<(u128, Vec<usize>)> = Vec::new();
    for bit in 0..=128 {
        let (mut row, mut bits) = (crc(&pattern(&[bit])) ^ zeros, vec![bit]);
        for (other, others) in &rows {
            if row.leading_zeros() == other.leading_zeros() && row != 0 {
                row ^= other;
                for bit in others {
                    match bits.iter().position(|have| have == bit) {
                        Some(at) => drop(bits.swap_remove(at)),
                        None => bits.push(*bit),
                    }
                }
            }
        }
        if row == 0 {
            return pattern(&bits);
        }
        rows.push((row, bits));
        rows.sort_by_key(|(row, _)| row.leading_zeros());
    }
    panic!("the differences are independent");
}

#[test]
fn verify_disk_reads_the_target_back() {
    let far = Far::start("proof-disk", &[]);
    let folder = far.near.folder("folder");
    for (name, len) in [("empty", 0), ("small", 777), ("large", LEN + 1)] {
        far.near.file(&format!("folder/{name}"), len);
    }
    for options in [&["--verify=disk"][..], &["--verify=disk", "--inplace"]] {
        far.push(options, &[&folder], "copy").assert_succeeded();
        assert!(tree(&folder) == tree(&far.target.join("copy")));
        fs::remove_dir_all(far.target.join("copy")).unwrap();
    }
}

#[test]
fn default_digest_depends_on_encryption() {
    let far = Far::start("proof-digest", &["--plain"]);
    let file = far.near.file("x", 1000);
    for (options, digest) in [
        (&[][..], "crc128"),
        (&["--plain"], "blake3"),
        (&["--plain", "--digest", "crc128"], "crc128"),
        (&["--digest", "blake3"], "blake3"),
        (&["--plain", "--verify=none"], "none"),
    ] {
        let options = [options, &["--json"]].concat();
        let outcome = far.push(&options, &[&file], "x").assert_succeeded();
        assert_eq!(outcome.event("start")["digest"], digest, "{options:?}");
        fs::remove_file(far.target.join("x")).unwrap();
    }
}
