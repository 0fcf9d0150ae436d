//! Stage log: ranges of staged files that one part of a striped copy has written.
//!
//! A record is written when the bytes of a range have the digest of the source and are on disk. Other parts of the run
//! do not stage the range again. The part that publishes compares it with the source, like the ranges of earlier runs
//! (see `held`). A torn or invalid record is ignored, with all records after it.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use lighthaul_base::Malformed;
use lighthaul_files::digest::DigestKind;
use lighthaul_files::object::Span;
use lighthaul_files::temp_names::stage_log;
use lighthaul_fs::disk::{InputFile, Root};
use lighthaul_fs::version::Look;
use lighthaul_io::crypto::identity::random_octets;

use super::journal::Protection;

/// First octets of a stage log, with the version of its format.
const MAGIC: &[u8; 8] = b"LHSTAGE1";
/// Length of the header: magic, number of the run, checksum.
const HEADER_LEN: usize = 8 + 16 + 4;
/// Length of a record after its path: version of the source, range, protection, checksum.
const FIXED_LEN: usize = 20 + 16 + 2 + 4;
/// Maximum number of octets of a log that are read.
const LEN_MAX: u64 = 256 << 20;

/// Range of a staged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRange {
    /// Path of the file below the target.
    pub path: Vec<u8>,
    /// Version of the source file.
    pub look: Look,
    /// Range of the file.
    pub span: Span,
    /// Protection of the bytes on the network, with the kind of the digest on which both sides agreed.
    pub protection: Protection,
}

/// Log that this part writes. It stays locked until this value is dropped.
#[derive(Debug)]
pub(crate) struct StageLog {
    root: Root,
    name: PathBuf,
    file: Mutex<(File, bool)>,
}

impl StageLog {
    /// Creates the log of a part of the copy `run` in the directory `root`.
    pub(crate) fn create(mut root: Root, run: [u8; 16]) -> io::Result<Self> {
        let name = stage_log(u64::from_be_bytes(random_octets()));
        let mut file = root.lock(&name)?;
        file.write_all(&header(run))?;
        Ok(Self {
            root,
            name,
            file: Mutex::new((file, false)),
        })
    }

    /// Adds ranges that are on disk.
    pub(crate) fn append(&self, ranges: &[StagedRange]) -> io::Result<()> {
        let octets: Vec<u8> = ranges.iter().flat_map(encode).collect();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.1 = true;
        file.0.write_all(&octets)
    }
}

impl Drop for StageLog {
    /// Removes a log without records.
    fn drop(&mut self) {
        let file = self.file.get_mut();
        if !file.unwrap_or_else(PoisonError::into_inner).1 {
            self.root.remove(&self.name).ok();
        }
    }
}

/// Use of a temporary file by parts of a striped copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Staging {
    /// Only this copy uses it.
    #[default]
    Private,
    /// Other parts write to it, too, and another part publishes it.
    Shared,
    /// Other parts have written it, and this part publishes it.
    Adopted,
}

/// Stage logs that a part of a striped copy uses.
#[derive(Debug, Default)]
pub(crate) struct StageLogs {
    /// Log of this part, if it publishes nothing.
    own: OnceLock<StageLog>,
    /// Locked logs of all parts, if this part publishes.
    locked: Mutex<Vec<(PathBuf, File)>>,
}

impl StageLogs {
    /// Sets the log of this part.
    pub(crate) fn begin(&self, log: StageLog) {
        self.own.set(log).ok();
    }

    /// Returns the log of this part, if it publishes nothing.
    pub(crate) fn own(&self) -> Option<&StageLog> {
        self.own.get()
    }

    /// Keeps the locked logs of all parts until the end of the copy.
    pub(crate) fn keep(&self, logs: Vec<(PathBuf, File)>) {
        *self.lock() = logs;
    }

    /// Returns the ranges in the logs of all parts.
    pub(crate) fn ranges(&self) -> Vec<StagedRange> {
        let mut logs = self.lock();
        let ranges = logs.iter_mut().flat_map(|(_, log)| read(log));
        ranges.flat_map(|(_, ranges)| ranges).collect()
    }

    /// Takes the logs of all parts, which are no longer needed.
    pub(crate) fn take(&self) -> Vec<(PathBuf, File)> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PathBuf, File)>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the number of the run and the ranges of a log.
pub(crate) fn read(file: &mut File) -> io::Result<([u8; 16], Vec<StagedRange>)> {
    let mut octets = Vec::new();
    file.rewind()?;
    file.take(LEN_MAX).read_to_end(&mut octets)?;
    // a log without a header is that of a part that has just begun, or was killed then
    Ok(decode(&octets).unwrap_or_default())
}

/// Reads a log that another part may be writing.
pub(crate) fn look(file: &InputFile) -> io::Result<([u8; 16], Vec<StagedRange>)> {
    let len = file.version()?.look.size.min(LEN_MAX);
    let mut octets = vec![0; usize::try_from(len).unwrap_or_default()];
    let len = file.read_at(&mut octets, 0)?;
    Ok(decode(&octets[..len]).unwrap_or_default())
}

fn header(run: [u8; 16]) -> Vec<u8> {
    let mut header = [&MAGIC[..], &run].concat();
    header.extend_from_slice(&checksum(&header));
    header
}

fn encode(range: &StagedRange) -> Vec<u8> {
    let StagedRange {
        path,
        look,
        span,
        protection,
    } = range;
    let len = u32::try_from(path.len()).unwrap_or(u32::MAX);
    let mut octets = len.to_be_bytes().to_vec();
    octets.extend_from_slice(path);
    octets.extend_from_slice(&look.size.to_be_bytes());
    octets.extend_from_slice(&look.seconds.to_be_bytes());
    octets.extend_from_slice(&look.nanos.to_be_bytes());
    octets.extend_from_slice(&span.0.to_be_bytes());
    octets.extend_from_slice(&span.1.to_be_bytes());
    octets.push(match protection.digest {
        DigestKind::Crc128 => 0,
        DigestKind::Blake3 => 1,
        DigestKind::None => 2,
    });
    octets.push(u8::from(protection.sealed));
    let sum = checksum(&octets);
    octets.extend_from_slice(&sum);
    octets
}

fn checksum(octets: &[u8]) -> [u8; 4] {
    let mut sum = [0; 4];
    sum.copy_from_slice(&blake3::hash(octets).as_bytes()[..4]);
    sum
}

/// Decodes a log: the number of its run, and its ranges in the order in which they were written.
pub fn decode(octets: &[u8]) -> Result<([u8; 16], Vec<StagedRange>), Malformed> {
    let (found, mut rest) = octets.split_first_chunk::<HEADER_LEN>().ok_or(Malformed)?;
    let mut run = [0; 16];
    run.copy_from_slice(&found[8..24]);
    if found[..] != header(run) {
        return Err(Malformed);
    }
    let mut ranges = Vec::new();
    while let Some((range, after)) = decode_range(rest) {
        ranges.push(range);
        rest = after;
    }
    Ok((run, ranges))
}

fn decode_range(octets: &[u8]) -> Option<(StagedRange, &[u8])> {
    let (len, _) = octets.split_first_chunk::<4>()?;
    let path_len = u32::from_be_bytes(*len) as usize;
    let (record, rest) = octets.split_at_checked(path_len.checked_add(4 + FIXED_LEN)?)?;
    let (body, sum) = record.split_at(record.len() - 4);
    if checksum(body) != *sum {
        return None;
    }
    let (path, fields) = body[4..].split_at(path_len);
    let mut fields = Fields(fields);
    let look = Look {
        size: fields.number()?,
        seconds: fields.number()?.cast_signed(),
        nanos: fields.short()?,
    };
    let span = (fields.number()?, fields.number()?);
    let [kind, sealed] = *fields.0.first_chunk()?;
    let digest = match kind {
        0 => DigestKind::Crc128,
        1 => DigestKind::Blake3,
        _ => DigestKind::None,
    };
    let range = StagedRange {
        path: path.to_vec(),
        look,
        span,
        protection: Protection {
            digest,
            sealed: sealed == 1,
        },
    };
    (span.0 < span.1 && span.1 <= look.size).then_some((range, rest))
}

/// Fields of a record.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn number(&mut self) -> Option<u64> {
        let (octets, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*octets))
    }

    fn short(&mut self) -> Option<u32> {
        let (octets, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(path: &str, span: Span, digest: DigestKind) -> StagedRange {
        let look = Look {
            size: 1000,
            seconds: -5,
            nanos: 7,
        };
        StagedRange {
            path: path.into(),
            look,
            span,
            protection: Protection {
                digest,
                sealed: path.is_empty(),
            },
        }
    }

    #[test]
    fn ranges_are_read_back_up_to_a_torn_or_changed_record() {
        let all = [
            range("a/b", (0, 1000), DigestKind::Crc128),
            range("", (5, 6), DigestKind::Blake3),
            range("x", (999, 1000), DigestKind::None),
        ];
        let run = [9; 16];
        let mut octets = header(run);
        let mut ends = vec![octets.len()];
        for range in &all {
            octets.extend(encode(range));
            ends.push(octets.len());
        }
        for len in 0..=octets.len() {
            let whole = ends.iter().rposition(|end| *end <= len);
            let expected = whole.map(|count| (run, all[..count].to_vec()));
            assert_eq!(decode(&octets[..len]).ok(), expected, "{len}");
        }
        for at in 0..octets.len() {
            let mut changed = octets.clone();
            changed[at] ^= 4;
            let intact = ends.iter().rposition(|end| *end <= at);
            let found = decode(&changed).ok();
            let expected = intact.map(|count| (run, all[..count].to_vec()));
            assert_eq!(found, expected, "{at}");
        }
    }

    #[test]
    fn ranges_beyond_the_file_are_rejected() {
        for span in [(5, 5), (6, 5), (0, 1001)] {
            let mut octets = header([1; 16]);
            octets.extend(encode(&range("a", span, DigestKind::None)));
            assert_eq!(decode(&octets).unwrap().1, []);
        }
    }
}
