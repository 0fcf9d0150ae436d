//! Check that no other process has changed a temporary file since this copy wrote it.
//!
//! `check` runs before a file gets its name. It compares the version (inode, size, times) with that
//! noted after the last write, which costs no reading. If only that differs, it reads the file and
//! compares it with the digests of the source. It does not detect a process that writes afterwards.

use std::io;
use std::ops::Range;

use lighthaul_files::digest::Digester;
use lighthaul_files::object::within;
use lighthaul_fs::disk::{InputFile, Root};
use lighthaul_fs::sparse;

use super::entry_table::PendingFile;
use super::journal::{merged, missing};
use super::temp_files::replaced;

/// Bytes of one read.
const BLOCK: usize = 1 << 18;

/// Fails if another process has replaced or changed the file.
///
/// A file with the version that was noted after the last write is unchanged. Otherwise its bytes
/// are read and compared, since only its metadata may have changed.
pub(super) fn check(root: &mut Root, file: &PendingFile) -> io::Result<()> {
    let Some(written) = file.fill().version else {
        return Ok(());
    };
    let there = root.look(&file.temporary)?.ok_or_else(replaced)?;
    if there.inode != written.inode {
        return Err(replaced());
    }
    if there.size != file.entry.size() {
        return Err(changed());
    }
    if there.version() == written {
        return Ok(());
    }
    if !equals_source(root, file)? {
        return Err(changed());
    }
    let again = root.look(&file.temporary)?;
    let unchanged = again.is_some_and(|again| again.version() == there.version());
    unchanged.then_some(()).ok_or_else(changed)
}

/// Notes the version of a file whose metadata this copy has changed.
pub(super) fn note(root: &mut Root, file: &PendingFile) -> io::Result<()> {
    let mut fill = file.fill();
    if fill.version.is_some() {
        let there = root.look(&file.temporary)?;
        fill.version = there.map(|there| there.version());
    }
    Ok(())
}

/// Returns true if the file has the digests that were compared with the source.
fn equals_source(root: &mut Root, file: &PendingFile) -> io::Result<bool> {
    let digests = file.fill().digests.clone();
    // parts of a striped copy may have compared a range twice
    let covered = digests.iter().flat_map(|(ranges, _)| ranges).copied();
    let covered = within(&merged(covered.collect()), &file.entry.data());
    if covered != merged(file.entry.data()) {
        return Ok(false);
    }
    let open = root.read(&file.temporary)?;
    for (from, till) in missing(&file.entry.data(), file.entry.size()) {
        if !is_hole(&open, from..till)? {
            return Ok(false);
        }
    }
    for (ranges, sent) in digests {
        let read = |at: u64, buffer: &mut [u8]| open.read_at(buffer, at);
        if Digester::compute_ranges(sent.kind(), &ranges, read)? != sent {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a range reads as zeros.
fn is_hole(open: &InputFile, range: Range<u64>) -> io::Result<bool> {
    let mut buffer = vec![0; BLOCK];
    for at in range.clone().step_by(BLOCK) {
        let part = (range.end - at).min(BLOCK as u64) as usize;
        if open.read_at(&mut buffer[..part], at)? < part || !sparse::is_zero(&buffer[..part]) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the error of a file that another process has written to.
fn changed() -> io::Error {
    io::Error::other("another process has changed the file while it was written")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// Directory that is removed with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("written-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Returns a file with these bytes.
        fn file(&self, bytes: &[u8]) -> InputFile {
            fs::write(self.0.join("a"), bytes).unwrap();
            let mut root = Root::open(&self.0).unwrap();
            root.read("a".as_ref()).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn hole_has_zeros_from_its_first_byte_to_its_last() {
        let folder = Folder::new("hole");
        let len = 3 * BLOCK as u64 + 7;
        for at in [0, 1, 5, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 6] {
            let mut bytes = vec![0; len as usize];
            bytes[at] = 1;
            let open = folder.file(&bytes);
            let at = at as u64;
            for (range, is_zero) in [
                (0..len, false),
                (at..at + 1, false),
                (0..at, true),
                (at + 1..len, true),
                (at..at, true),
            ] {
                let found = is_hole(&open, range.clone()).unwrap();
                assert_eq!(found, is_zero, "{at} {range:?}");
            }
        }
        let open = folder.file(&[0; 9]);
        assert!(is_hole(&open, 0..9).unwrap());
        assert!(!is_hole(&open, 0..10).unwrap(), "the file ends before");
    }
}
