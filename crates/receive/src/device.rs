//! Comparison of a file with the sent data, read back from the device instead of the page cache.

use std::path::Path;

use lighthaul_copy::error::Fault;
use lighthaul_files::digest::{Digest, Digester};
use lighthaul_files::object::Span;
use lighthaul_fs::device::DeviceFile;
use lighthaul_fs::disk::Root;
use lighthaul_session::error::{Error, FileAction};

/// Bytes of a hole that are read at once.
const STEP: u64 = 64 << 20;

/// Compares the bytes of the file at `path`, as read from the device, with `digests`, and `holes` with zeros. Calls
/// `check` before each range.
pub(crate) fn check(
    root: &mut Root,
    path: &Path,
    digests: &[(Vec<Span>, Digest)],
    holes: &[Span],
    check: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let failed = |error| Error::file(FileAction::ReadBack, path, &error);
    let mut file = DeviceFile::open(root, path).map_err(failed)?;
    for (ranges, sent) in digests {
        check()?;
        let read = |at: u64, buffer: &mut [u8]| file.read_at(buffer, at);
        let there = Digester::compute_ranges(sent.kind(), ranges, read).map_err(failed)?;
        if there != *sent {
            let (from, till) = ends(ranges);
            return Err(Fault::ReadBack { from, till }.into());
        }
    }
    for (from, till) in holes.iter().flat_map(steps) {
        check()?;
        if !file.is_zero(from..till).map_err(failed)? {
            return Err(Fault::ReadBack { from, till }.into());
        }
    }
    Ok(())
}

/// Splits a hole into the parts that are read between two calls of `check`.
fn steps((from, till): &Span) -> impl Iterator<Item = Span> {
    let till = *till;
    let begins = (*from..till).step_by(STEP as usize);
    begins.map(move |at| (at, till.min(at + STEP)))
}

/// Returns the start of the first range, and the end of the last.
fn ends(ranges: &[Span]) -> Span {
    let first = ranges.first().map_or(0, |range| range.0);
    (first, ranges.last().map_or(0, |range| range.1))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use lighthaul_files::digest::DigestKind;
    use lighthaul_session::error::Code;

    use super::*;

    #[test]
    fn data_that_the_disk_changed_are_found() {
        let folder = std::env::temp_dir().join(format!("read-back-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // the second range is read in several parts
        let mut bytes: Vec<u8> = (0..1_300_000_u32).map(|n| (n % 251) as u8).collect();
        let digest = |kind, (from, till): (usize, usize)| {
            let mut digester = Digester::new(kind, (till - from) as u64);
            digester.update(0, &bytes[from..till]);
            let range = (from as u64, till as u64);
            (vec![range], digester.finish().unwrap())
        };
        let digests = [
            digest(DigestKind::Blake3, (0, 100_001)),
            digest(DigestKind::Crc128, (100_001, bytes.len())),
        ];
        let mut root = Root::open(&folder).unwrap();
        let mut check = |bytes: &[u8]| {
            std::fs::write(folder.join("x"), bytes).unwrap();
            check(&mut root, Path::new("x"), &digests, &[], || Ok(()))
        };
        check(&bytes).unwrap();
        assert_eq!(check(&bytes[1..]).unwrap_err().code(), Code::Integrity);
        assert_eq!(check(&bytes[..200_000]).unwrap_err().code(), Code::Io);
        for at in [0, 100_000, 100_001, 1_299_999] {
            bytes[at] ^= 1;
            let error = check(&bytes).unwrap_err();
            assert_eq!(error.code(), Code::Integrity, "{at}");
            let range = if at < 100_001 {
                "0 to 100001"
            } else {
                "100001 to 1300000"
            };
            let text = error.text();
            assert!(
                text.ends_with(&format!("in the range from {range}")),
                "{text}"
            );
            bytes[at] ^= 1;
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn nonzero_bytes_in_holes_are_found() {
        let folder = std::env::temp_dir().join(format!("read-holes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let data: Span = (1 << 20, (1 << 20) + 5);
        let mut digester = Digester::new(DigestKind::Blake3, 5);
        digester.update(0, b"bytes");
        let digests = [(vec![data], digester.finish().unwrap())];
        let size = data.1 + 2 * STEP + 1;
        let holes = [(0, data.0), (data.1, size)];
        let mut root = Root::open(&folder).unwrap();
        let mut check = |wrong: Option<u64>| {
            let file = File::create(folder.join("x")).unwrap();
            file.set_len(size).unwrap();
            file.write_all_at(b"bytes", data.0).unwrap();
            if let Some(at) = wrong {
                file.write_all_at(b"x", at).unwrap();
            }
            let checks = Cell::new(0);
            let count = || {
                checks.set(checks.get() + 1);
                Ok(())
            };
            let checked = check(&mut root, Path::new("x"), &digests, &holes, count);
            (checked.map_err(|error| error.code()), checks.get())
        };
        // one for the data, and one for each part of a hole
        assert_eq!(check(None), (Ok(()), 5));
        let ends = [0, data.0 - 1, data.1, data.1 + STEP, size - 1];
        for at in ends {
            assert_eq!(check(Some(at)).0, Err(Code::Integrity), "{at}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
