//! Comparison of a file with the sent data, read back from the device instead of the page cache.

use std::path::Path;

use lighthaul_copy::error::Fault;
use lighthaul_files::digest::{Digest, Digester};
use lighthaul_files::object::Span;
use lighthaul_fs::device::DeviceFile;
use lighthaul_fs::disk::Root;
use lighthaul_session::error::{Error, FileAction};

/// Compares the bytes on the device of the file at `path` with `digests`. Calls `check` before each
/// range.
pub(crate) fn check(
    root: &mut Root,
    path: &Path,
    digests: &[(Vec<Span>, Digest)],
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
    Ok(())
}

/// Returns the begin of the first range, and the end of the last.
fn ends(ranges: &[Span]) -> Span {
    let first = ranges.first().map_or(0, |range| range.0);
    (first, ranges.last().map_or(0, |range| range.1))
}

#[cfg(test)]
mod tests {
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
            check(&mut root, Path::new("x"), &digests, || Ok(()))
        };
        check(&bytes).unwrap();
        assert_eq!(check(&bytes[1..]).unwrap_err().code(), Code::Integrity);
        assert_eq!(check(&bytes[..200_000]).unwrap_err().code(), Code::Io);
        for at in [0, 100_000, 100_001, 1_299_999] {
            bytes[at] ^= 1;
            assert_eq!(check(&bytes).unwrap_err().code(), Code::Integrity, "{at}");
            bytes[at] ^= 1;
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
