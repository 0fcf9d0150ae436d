//! Hashes and digest of one file.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::{self, Digester};
use crate::hash::{self, FileHashes, RunningHashes};

/// Hashes and digests to compute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedSums {
    /// Hash functions.
    pub hashes: Vec<hash::HashKind>,
    /// True for the default digest of transfers.
    pub crc128: bool,
}

/// Hashes and digests of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSums {
    /// Size in bytes.
    pub size: u64,
    /// Name and lower-case digits of each hash or digest.
    pub sums: Vec<(&'static str, String)>,
}

impl From<FileHashes> for FileSums {
    fn from(hashes: FileHashes) -> Self {
        let sums = hashes.hashes.into_iter();
        Self {
            size: hashes.size,
            sums: sums.map(|(kind, digits)| (kind.name(), digits)).collect(),
        }
    }
}

/// Reads all of `file` and returns its hashes and digests. Adds the bytes to `bytes` as it reads
/// them.
pub fn compute(file: &mut File, wanted: &WantedSums, bytes: &AtomicU64) -> io::Result<FileSums> {
    let expected = file.metadata()?.len();
    let mut hashes = RunningHashes::new(&wanted.hashes);
    let mut crc128 = wanted
        .crc128
        .then(|| Digester::new(digest::DigestKind::Crc128, expected));
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut size = 0;
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hashes.update(&buffer[..count]);
        if let Some(crc128) = &mut crc128 {
            crc128.update(size, &buffer[..count]);
        }
        size += count as u64;
        bytes.fetch_add(count as u64, Ordering::Relaxed);
    }
    if crc128.is_some() && size != expected {
        return Err(io::Error::other("it changed while it was read"));
    }
    let mut sums: Vec<_> = hashes
        .finish()
        .into_iter()
        .map(|(kind, digits)| (kind.name(), digits))
        .collect();
    if let Some(digest) = crc128.and_then(|digester| digester.finish()) {
        let text = digest.to_string();
        let digits = text.split_once(':').map_or(text.as_str(), |(_, d)| d);
        sums.push((CRC128, digits.to_owned()));
    }
    Ok(FileSums { size, sums })
}

/// Name of the default digest of transfers.
pub const CRC128: &str = "crc128";
const BUFFER_BYTES: usize = 1 << 20;
