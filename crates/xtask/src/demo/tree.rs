//! Tree of the demonstration: the build's output, and one large random file.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use lighthaul_base::Rng;

/// Size of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Fills `tree` with files of `release` and a random file of 1 GiB.
pub(crate) fn make(release: &Path, tree: &Path) -> Result<Size, String> {
    let mut size = Size::default();
    link(release, &tree.join("build"), &mut size)
        .and_then(|()| noise(&tree.join("noise"), NOISE_BYTES))
        .map_err(|e| format!("cannot create the tree to copy: {e}"))?;
    size.files += 1;
    size.bytes += NOISE_BYTES;
    Ok(size)
}

/// Hard-links the files of `from` into `to`, up to 256 MiB in all.
fn link(from: &Path, to: &Path, size: &mut Size) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    let mut entries = fs::read_dir(from)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            link(&entry.path(), &target, size)?;
        } else if kind.is_file() {
            let bytes = entry.metadata()?.len();
            if size.bytes + bytes <= BUILD_BYTES_MAX {
                fs::hard_link(entry.path(), &target)
                    .or_else(|_| fs::copy(entry.path(), &target).map(drop))?;
                size.files += 1;
                size.bytes += bytes;
            }
        }
    }
    Ok(())
}

/// Writes a file of random bytes, which cannot be compressed.
pub(super) fn noise(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut rng = Rng::new(SEED);
    for _ in 0..bytes / 8 {
        file.write_all(&rng.next_u64().to_le_bytes())?;
    }
    file.flush()
}

const NOISE_BYTES: u64 = 1 << 30;
const BUILD_BYTES_MAX: u64 = 256 << 20;
const SEED: u64 = 1;
