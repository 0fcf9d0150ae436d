//! Upload of an object that an earlier copy has begun, with the parts that the store has.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_buckets::attributes::HeldPart;
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::checksum;
use lighthaul_buckets::store::Upload;
use lighthaul_files::digest::Digest;
use lighthaul_files::object::Span;
use tokio::time::sleep;

use crate::stores::serving::served_bucket::ServedBucket;
use crate::stores::serving::upload_target::Target;
use lighthaul_buckets::upload_record::{NoRecord, UploadRecord};

/// Parts that the store has, by number from 0.
pub(crate) type Parts = BTreeMap<u64, HeldPart>;

/// Upload that can be continued.
#[derive(Debug, Default)]
pub(crate) struct EarlierUpload {
    /// Record of the upload, unless none can be kept.
    pub(crate) record: Option<UploadRecord>,
    /// Upload that an earlier copy has begun.
    pub(crate) upload: Option<Upload>,
    pub(crate) parts: Parts,
}

impl EarlierUpload {
    /// Looks for the upload of an object with parts of `part_len` bytes. An upload of another version is given up.
    pub(crate) fn find(
        shared: &ServedBucket,
        target: &Target,
        part_len: u64,
    ) -> Result<Self, CallError> {
        let Some(mut record) = open(shared, target, part_len)? else {
            return Ok(Self::default());
        };
        let Some((id, is_same)) = record.earlier.take() else {
            return Ok(Self::of_record(record));
        };
        let upload = Upload::S3(id.clone());
        let found = if is_same && part_len <= COMPARED_MAX {
            shared.wait(shared.bucket.parts(&target.key, &id))
        } else {
            Ok(Some(Vec::new()))
        };
        let found = match found {
            Ok(found) => found.map(|found| usable(found, (target.size, part_len))),
            Err(error) if error.is_passing() || error.reason == Reason::Stopped => {
                return Err(error);
            }
            // a key may write parts and not list them
            Err(_) => Some(Parts::new()),
        };
        match found {
            Some(parts) if !parts.is_empty() => Ok(Self {
                record: Some(record),
                upload: Some(upload),
                parts,
            }),
            Some(_) => {
                shared.give_up(&target.key, upload, []);
                Ok(Self::of_record(record))
            }
            None => Ok(Self::of_record(record)),
        }
    }

    fn of_record(record: UploadRecord) -> Self {
        Self {
            record: Some(record),
            ..Self::default()
        }
    }
}

/// Opens the record of an upload. Waits for a short time for the end of the copy that has it: a client that lost its
/// connection comes back before its last requests have ended.
fn open(
    shared: &ServedBucket,
    target: &Target,
    part_len: u64,
) -> Result<Option<UploadRecord>, CallError> {
    let Some(folder) = shared.kept.folder() else {
        return Ok(None);
    };
    let url = shared.bucket.url(&target.key);
    let version = format!("{} {} {part_len}", target.size, target.stamp.text());
    for _ in 0..LOOKS_MAX {
        match UploadRecord::open(folder, &url, &version) {
            Ok(record) => return Ok(Some(record)),
            Err(NoRecord::Unusable) => return Ok(None),
            Err(NoRecord::InUse) => shared.run(async { sleep(LOOK).await })?,
        }
    }
    Ok(None)
}

/// Returns the parts of an object of `size` bytes that can be compared.
fn usable(found: Vec<HeldPart>, (size, part_len): (u64, u64)) -> Parts {
    let found = found.into_iter().filter_map(|part| {
        let number = u64::from(part.number.checked_sub(1)?);
        let from = number.checked_mul(part_len).filter(|from| *from < size)?;
        let len = part_len.min(size - from);
        (part.size == len && part.crc.is_some()).then_some((number, part))
    });
    found.collect()
}

/// Returns true if the digests of a source are those of all bytes of a part, in order, and this is their checksum.
pub(crate) fn is_same(part: Span, source: &[(Span, Digest)], crc: Option<u64>) -> bool {
    let (mut at, mut whole) = (part.0, checksum::of(&[]));
    for ((from, till), digest) in source {
        let Digest::Crc128(nvme, _) = digest else {
            return false;
        };
        if *from != at || till < from {
            return false;
        }
        whole = checksum::combined(whole, *nvme, till - from);
        at = *till;
    }
    at == part.1 && crc == Some(whole)
}

/// Longest part that is compared: the sender does not wait for more answers.
const COMPARED_MAX: u64 = 64 << 20;
/// Times that the record of an upload is looked at, and the time between.
const LOOKS_MAX: u32 = 100;
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_parts_with_checksums_are_usable() {
        let part = |number, size, crc| HeldPart {
            number,
            size,
            etag: String::new(),
            crc,
        };
        let found = vec![
            part(1, 10, Some(1)),
            part(2, 10, None),
            part(3, 9, Some(3)),
            part(4, 5, Some(4)),
            part(5, 10, Some(5)),
            part(0, 10, Some(6)),
        ];
        let usable = usable(found, (35, 10));
        assert_eq!(usable.into_keys().collect::<Vec<_>>(), [0, 3]);
    }

    #[test]
    fn part_is_compared_with_the_digests_of_all_its_bytes() {
        let bytes = b"bytes of a part";
        let digest = |from: usize, till: usize| {
            let span = (100 + from as u64, 100 + till as u64);
            (span, Digest::Crc128(checksum::of(&bytes[from..till]), 0))
        };
        let crc = Some(checksum::of(bytes));
        let part = (100, 100 + bytes.len() as u64);
        assert!(is_same(part, &[digest(0, 15)], crc));
        assert!(is_same(part, &[digest(0, 4), digest(4, 15)], crc));
        assert!(!is_same(part, &[digest(0, 4), digest(4, 15)], Some(1)));
        assert!(!is_same(part, &[digest(0, 4), digest(4, 15)], None));
        assert!(!is_same(part, &[digest(4, 15), digest(0, 4)], crc));
        assert!(!is_same(part, &[digest(4, 15)], crc));
        assert!(!is_same(part, &[digest(0, 14)], crc));
        assert!(!is_same(part, &[], crc));
        assert!(!is_same(part, &[(part, Digest::None)], crc));
    }
}
