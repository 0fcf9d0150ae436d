//! Tree to copy: a few files with most of the bytes, and many small files, with hard links, symbolic links and
//! attributes. Modes and times vary.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use lighthaul_base::Rng;

/// Fills `folder` with `files` files of about `bytes` bytes in all. Returns the bytes written.
///
/// Files of 5 to 15% of the total make up three fifths of the bytes. Of 100 small files, one is
/// empty, one is a hole, and one has a hole after its bytes. One in 500 has fifty times the mean
/// size.
pub(crate) fn make(folder: &Path, files: u64, bytes: u64, seed: u64) -> io::Result<u64> {
    let mut rng = Rng::new(seed);
    let mut noise = vec![0; NOISE_LEN as usize];
    rng.fill(&mut noise);
    let mut total = 0;
    let mut large = 0;
    while total < bytes * 3 / 5 {
        let len = bytes / 20 + rng.below(bytes / 10 + 1);
        write(
            &folder.join(format!("large-{large}")),
            len,
            &noise,
            &mut rng,
        )?;
        (large, total) = (large + 1, total + len);
    }
    let small = files.saturating_sub(large).max(1);
    let mean = (bytes.saturating_sub(total) / small).max(1);
    for nth in 0..small {
        let inner = folder.join(format!("d{}/e{}", nth % 37, nth % 5));
        fs::create_dir_all(&inner)?;
        let len = match nth {
            nth if nth % 100 == 3 => 0,
            nth if nth % 500 == 7 => mean * 50,
            _ => rng.below(mean * 9 / 5 + 1),
        };
        let path = inner.join(format!("small-{nth}"));
        total += match nth % 100 {
            53 => stretch(&path, mean.max(HOLE))?,
            54 => {
                write(&path, len, &noise, &mut rng)?;
                stretch(&path, len + HOLE)?;
                len
            }
            _ => {
                write(&path, len, &noise, &mut rng)?;
                len
            }
        };
        dress(&path, nth)?;
    }
    Ok(total)
}

/// Writes a file of `len` bytes of `noise`, from random positions.
fn write(path: &Path, len: u64, noise: &[u8], rng: &mut Rng) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut left = len as usize;
    while left > 0 {
        let from = rng.below(NOISE_LEN) as usize;
        let part = &noise[from..];
        let part = &part[..part.len().min(left)];
        file.write_all(part)?;
        left -= part.len();
    }
    file.flush()
}

/// Adds a hole up to `len` bytes at the end of a file. Returns the bytes written, which are none.
fn stretch(path: &Path, len: u64) -> io::Result<u64> {
    let mut options = File::options();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    file.set_len(len)?;
    Ok(0)
}

/// Gives some files links and attributes, and all files a mode and a time.
fn dress(path: &Path, nth: u64) -> io::Result<()> {
    if nth % 20 == 1 {
        fs::hard_link(path, path.with_file_name(format!("name-{nth}")))?;
    }
    if nth % 20 == 2 {
        let target = path.file_name().unwrap_or_default();
        symlink(target, path.with_file_name(format!("link-{nth}")))?;
    }
    if nth % 20 == 3 {
        let value = nth.to_le_bytes();
        rustix::fs::setxattr(path, ATTRIBUTE, &value, rustix::fs::XattrFlags::empty())?;
    }
    let mode = [0o644, 0o600, 0o755, 0o440, 0o666][nth as usize % 5];
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 + nth * 1000, nth as u32);
    File::options().read(true).open(path)?.set_modified(time)
}

/// Extended attribute that some files have.
pub(crate) const ATTRIBUTE: &str = "user.crash";

/// Bytes of a hole.
const HOLE: u64 = 256 << 10;
const NOISE_LEN: u64 = 4 << 20;
