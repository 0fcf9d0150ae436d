//! Stage log: ranges of staged files that one part of a striped copy has written.
//!
//! A part records each range before it writes it, and again when the bytes have the digest of the source and are on
//! disk. The part that publishes does not compare a range again if all of this is true:
//!
//! - All records of the file are of its run, and from the version of the source that it has listed itself.
//! - The staged file was not changed after the last record.
//! - No part began a range there that it did not complete.
//!
//! All other ranges are compared with the source (see `lighthaul_receive::journal`). A torn or invalid record is ignored, with all records
//! after it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use lighthaul_base::Malformed;
use lighthaul_fs::disk::{InputFile, Root};
use lighthaul_fs::version::{Look, Version};
use lighthaul_io::crypto::identity::random_octets;

use crate::digest::{Digest, DigestKind};
use crate::object::Span;
use crate::temp_names::stage_log;

/// First octets of a stage log, with the version of its format.
const MAGIC: &[u8; 8] = b"LHSTAGE2";
/// Length of the header: magic, number of the run, kind of the part, checksum.
const HEADER_LEN: usize = 8 + 16 + 1 + 4;
/// Length of a record after its path: version and mark of the source, range, version of the staged file, digest,
/// checksum.
const FIXED_LEN: usize = 20 + 9 + 16 + 28 + 34 + 4;
/// Kind of the digest of a range that was begun.
const BEGUN: u8 = 3;
/// Maximum length of a log, for some millions of files.
const LEN_MAX: u64 = 1 << 30;

/// Part of a striped copy, to which a log belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOwner {
    /// Random number of the whole copy.
    pub run: [u8; 16],
    /// True for the part that publishes. It writes no records.
    pub publishes: bool,
}

/// Range of a staged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRange {
    /// Path of the file below the target.
    pub path: Vec<u8>,
    /// Size and time of the source file.
    pub look: Look,
    /// Mark of the version of the source file; see [`crate::manifest::version_mark`].
    pub mark: Option<u64>,
    /// Range of the file.
    pub span: Span,
    /// State of the range.
    pub state: RangeState,
}

/// States of a range of a staged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeState {
    /// The part may have written to the range.
    Begun,
    /// The range is on disk.
    Written {
        /// Version of the staged file afterwards. Hosts number devices differently, so the device is zero.
        version: Version,
        /// Digest of the range, on which both sides agreed.
        digest: Digest,
        /// True if the bytes were encrypted on the network.
        sealed: bool,
    },
}

/// Log that this part writes. It stays locked until this value is dropped.
#[derive(Debug)]
pub struct StageLog {
    root: Root,
    name: PathBuf,
    file: Mutex<Records>,
}

/// File of a log.
#[derive(Debug)]
struct Records {
    file: File,
    /// Length without the records that could not be written.
    len: u64,
    /// True if not all records are on disk.
    is_dirty: bool,
}

impl StageLog {
    /// Creates the log of a part of the copy `run` in the directory `root`.
    pub fn create(mut root: Root, run: [u8; 16]) -> io::Result<Self> {
        let publishes = false;
        let (name, file) = create(&mut root, LogOwner { run, publishes })?;
        Ok(Self {
            root,
            name,
            file: Mutex::new(Records {
                file,
                len: HEADER_LEN as u64,
                is_dirty: false,
            }),
        })
    }

    /// Returns the name of the log.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Adds ranges. If they cannot be written, the log is as before.
    pub fn append(&self, ranges: &[StagedRange]) -> io::Result<()> {
        let octets: Vec<u8> = ranges.iter().flat_map(encode).collect();
        let mut records = self.lock();
        let Records { file, len, .. } = &mut *records;
        if let Err(error) = file.write_all(&octets) {
            // no record could be read after a torn one
            file.set_len(*len)?;
            file.seek(SeekFrom::Start(*len))?;
            return Err(error);
        }
        *len += octets.len() as u64;
        records.is_dirty = true;
        Ok(())
    }

    /// Writes all records to disk.
    pub fn sync(&self) -> io::Result<()> {
        let mut records = self.lock();
        if records.is_dirty {
            records.file.sync_data()?;
            records.is_dirty = false;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StageLog {
    /// Removes a log without records.
    fn drop(&mut self) {
        let records = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        if records.len == HEADER_LEN as u64 {
            self.root.remove(&self.name).ok();
        }
    }
}

/// Creates a locked log of `owner` in the directory `root`.
pub fn create(root: &mut Root, owner: LogOwner) -> io::Result<(PathBuf, File)> {
    let name = stage_log(u64::from_be_bytes(random_octets()));
    let mut file = root.lock(&name)?;
    file.write_all(&header(owner))?;
    file.sync_data()?;
    root.sync_folder()?;
    Ok((name, file))
}

/// Use of a temporary file by parts of a striped copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Staging {
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
pub struct StageLogs {
    /// Log of this part, if it publishes nothing.
    own: OnceLock<StageLog>,
    /// Locked logs of all parts, if this part publishes.
    locked: Mutex<Vec<(PathBuf, File)>>,
}

impl StageLogs {
    /// Sets the log of this part.
    pub fn begin(&self, log: StageLog) {
        self.own.set(log).ok();
    }

    /// Returns the log of this part, if it publishes nothing.
    pub fn own(&self) -> Option<&StageLog> {
        self.own.get()
    }

    /// Keeps the locked logs of all parts until the end of the copy.
    pub fn keep(&self, logs: Vec<(PathBuf, File)>) {
        *self.lock() = logs;
    }

    /// Returns the ranges in the logs of all parts.
    pub fn ranges(&self) -> Vec<StagedRange> {
        let mut logs = self.lock();
        let logs = logs.iter_mut().flat_map(|(_, log)| read(log)).flatten();
        logs.flat_map(|(_, ranges)| ranges).collect()
    }

    /// Takes the logs of all parts, which are no longer needed.
    pub fn take(&self) -> Vec<(PathBuf, File)> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PathBuf, File)>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the owner and the ranges of a log. A log without a header is that of a part that has just begun, or was killed
/// then.
pub fn read(file: &mut File) -> io::Result<Option<(LogOwner, Vec<StagedRange>)>> {
    let mut octets = Vec::new();
    file.rewind()?;
    file.take(LEN_MAX + 1).read_to_end(&mut octets)?;
    bounded(&octets)
}

/// Decodes a log of a length that is allowed. The records that were not read could make others doubtful.
fn bounded(octets: &[u8]) -> io::Result<Option<(LogOwner, Vec<StagedRange>)>> {
    if octets.len() as u64 > LEN_MAX {
        let text = "the log of a striped copy is larger than 1 GiB: copy fewer files at a time";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(decode(octets).ok())
}

/// Reads a log that another part may be writing.
pub fn look(file: &InputFile) -> io::Result<Option<(LogOwner, Vec<StagedRange>)>> {
    let len = file.version()?.look.size.min(LEN_MAX + 1);
    let mut octets = vec![0; usize::try_from(len).unwrap_or_default()];
    let len = file.read_at(&mut octets, 0)?;
    bounded(&octets[..len])
}

/// Reads the owner of a log.
pub fn owner(file: &InputFile) -> io::Result<Option<LogOwner>> {
    let mut octets = [0; HEADER_LEN];
    let len = file.read_at(&mut octets, 0)?;
    Ok(decode(&octets[..len]).ok().map(|(owner, _)| owner))
}

/// Returns `version` without its device.
pub const fn without_device(version: Version) -> Version {
    Version {
        inode: (0, version.inode.1),
        ..version
    }
}

fn header(owner: LogOwner) -> Vec<u8> {
    let mut header = [&MAGIC[..], &owner.run, &[u8::from(owner.publishes)]].concat();
    header.extend_from_slice(&checksum(&header));
    header
}

fn encode(range: &StagedRange) -> Vec<u8> {
    let StagedRange {
        path,
        look,
        mark,
        span,
        state,
    } = range;
    let len = u32::try_from(path.len()).unwrap_or(u32::MAX);
    let mut octets = len.to_be_bytes().to_vec();
    octets.extend_from_slice(path);
    put_look(&mut octets, look);
    octets.push(u8::from(mark.is_some()));
    octets.extend_from_slice(&mark.unwrap_or(0).to_be_bytes());
    octets.extend_from_slice(&span.0.to_be_bytes());
    octets.extend_from_slice(&span.1.to_be_bytes());
    match state {
        RangeState::Begun => {
            octets.extend_from_slice(&[0; 28]);
            octets.push(BEGUN);
            octets.extend_from_slice(&[0; 33]);
        }
        RangeState::Written {
            version,
            digest,
            sealed,
        } => {
            octets.extend_from_slice(&version.inode.1.to_be_bytes());
            octets.extend_from_slice(&version.changed.to_be_bytes());
            octets.extend_from_slice(&version.look.seconds.to_be_bytes());
            octets.extend_from_slice(&version.look.nanos.to_be_bytes());
            put_digest(&mut octets, digest);
            octets.push(u8::from(*sealed));
        }
    }
    let sum = checksum(&octets);
    octets.extend_from_slice(&sum);
    octets
}

fn put_digest(octets: &mut Vec<u8>, digest: &Digest) {
    let mut words = [0; 32];
    match digest {
        Digest::Crc128(nvme, xz) => {
            words[..8].copy_from_slice(&nvme.to_be_bytes());
            words[8..16].copy_from_slice(&xz.to_be_bytes());
        }
        Digest::Blake3(hash) => words = *hash,
        Digest::None => {}
    }
    octets.push(match digest.kind() {
        DigestKind::Crc128 => 0,
        DigestKind::Blake3 => 1,
        DigestKind::None => 2,
    });
    octets.extend_from_slice(&words);
}

fn put_look(octets: &mut Vec<u8>, look: &Look) {
    octets.extend_from_slice(&look.size.to_be_bytes());
    octets.extend_from_slice(&look.seconds.to_be_bytes());
    octets.extend_from_slice(&look.nanos.to_be_bytes());
}

fn checksum(octets: &[u8]) -> [u8; 4] {
    let mut sum = [0; 4];
    sum.copy_from_slice(&blake3::hash(octets).as_bytes()[..4]);
    sum
}

/// Decodes a log: its owner, and its ranges in the order in which they were written.
pub fn decode(octets: &[u8]) -> Result<(LogOwner, Vec<StagedRange>), Malformed> {
    let (found, mut rest) = octets.split_first_chunk::<HEADER_LEN>().ok_or(Malformed)?;
    let mut run = [0; 16];
    run.copy_from_slice(&found[8..24]);
    let publishes = found[24] == 1;
    let owner = LogOwner { run, publishes };
    if found[..] != header(owner) {
        return Err(Malformed);
    }
    let mut ranges = Vec::new();
    while let Some((range, after)) = decode_range(rest) {
        ranges.push(range);
        rest = after;
    }
    Ok((owner, ranges))
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
    let has_mark = fields.octet()? == 1;
    let mark = Some(fields.number()?).filter(|_| has_mark);
    let span = (fields.number()?, fields.number()?);
    let version = Version {
        inode: (0, fields.number()?),
        changed: fields.number()?.cast_signed(),
        look: Look {
            size: look.size,
            seconds: fields.number()?.cast_signed(),
            nanos: fields.short()?,
        },
    };
    let state = match fields.octet()? {
        BEGUN => RangeState::Begun,
        kind => RangeState::Written {
            version,
            digest: fields.digest(kind)?,
            sealed: fields.octet()? == 1,
        },
    };
    let range = StagedRange {
        path: path.to_vec(),
        look,
        mark,
        span,
        state,
    };
    (span.0 < span.1 && span.1 <= look.size).then_some((range, rest))
}

/// Fields of a record.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn octet(&mut self) -> Option<u8> {
        let (octet, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*octet)
    }

    fn digest(&mut self, kind: u8) -> Option<Digest> {
        let (words, rest) = self.0.split_first_chunk::<32>()?;
        self.0 = rest;
        Some(match kind {
            0 => Digest::Crc128(
                u64::from_be_bytes(*words.first_chunk()?),
                u64::from_be_bytes(*words.get(8..)?.first_chunk()?),
            ),
            1 => Digest::Blake3(*words),
            _ => Digest::None,
        })
    }

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

    fn range(path: &str, span: Span, digest: Option<Digest>) -> StagedRange {
        let look = Look {
            size: 1000,
            seconds: -5,
            nanos: 7,
        };
        let version = Version {
            inode: (0, 99),
            changed: -3,
            look: Look {
                seconds: 8,
                nanos: 9,
                ..look
            },
        };
        let written = |digest| RangeState::Written {
            version,
            digest,
            sealed: path.is_empty(),
        };
        StagedRange {
            path: path.into(),
            look,
            mark: (span.0 > 0).then_some(77),
            span,
            state: digest.map_or(RangeState::Begun, written),
        }
    }

    #[test]
    fn ranges_are_read_back_up_to_a_torn_or_changed_record() {
        let all = [
            range("a/b", (0, 1000), Some(Digest::Crc128(1, 2))),
            range("a/b", (2, 1000), None),
            range("", (5, 6), Some(Digest::Blake3([7; 32]))),
            range("x", (999, 1000), Some(Digest::None)),
        ];
        for publishes in [false, true] {
            let run = [9; 16];
            let owner = LogOwner { run, publishes };
            let mut octets = header(owner);
            let mut ends = vec![octets.len()];
            for range in &all {
                octets.extend(encode(range));
                ends.push(octets.len());
            }
            for len in 0..=octets.len() {
                let whole = ends.iter().rposition(|end| *end <= len);
                let expected = whole.map(|count| (owner, all[..count].to_vec()));
                assert_eq!(decode(&octets[..len]).ok(), expected, "{len}");
            }
            for at in 0..octets.len() {
                let mut changed = octets.clone();
                changed[at] ^= 4;
                let intact = ends.iter().rposition(|end| *end <= at);
                let found = decode(&changed).ok();
                let expected = intact.map(|count| (owner, all[..count].to_vec()));
                assert_eq!(found, expected, "{at}");
            }
        }
    }

    #[test]
    fn ranges_beyond_the_file_are_rejected() {
        for span in [(5, 5), (6, 5), (0, 1001)] {
            let run = [1; 16];
            let publishes = false;
            let mut octets = header(LogOwner { run, publishes });
            octets.extend(encode(&range("a", span, None)));
            assert_eq!(decode(&octets).unwrap().1, []);
        }
    }
}
