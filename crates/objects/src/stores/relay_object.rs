//! Copy of one object through this host, from one store to another.
//!
//! A large object goes in parts. A later run continues after those that the store has: of the same version of the object
//! they are not read again, and those of a file that is read in one response are compared.

use std::sync::Arc;

use bytes::Bytes;
use lighthaul_buckets::attributes::{Attributes, Completion, Condition, HeldPart};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::checksum;
use lighthaul_buckets::range_reader::RangeReader;
use lighthaul_buckets::web::{Download, Web};

use crate::stores::job::{Job, PART, part_len};
use crate::stores::object_sources::StreamSize;
use crate::stores::part_upload::{PartTarget, PartUpload, may_continue};
use crate::stores::relay_item::Item;

/// Copies an object. Returns true if both stores report equal checksums.
pub(crate) async fn copy(
    job: &Arc<Job>,
    (item, known): (&Item, &Attributes),
    condition: &Condition,
) -> Result<bool, CallError> {
    if item.stream == Some(StreamSize::Unknown) {
        let text = "the server does not tell its size; copy it here first";
        return Err(CallError::new(Reason::Unsupported, text));
    }
    let stamp = Some(known.time());
    if known.size <= PART {
        let _room = job.room(known.size).await?;
        let piece = RangeReader::new(&item.from, &item.key, None, known);
        let piece = piece.all().await?;
        let theirs = known.crc.or(piece.attributes.crc);
        check(theirs, checksum::of(&piece.bytes))?;
        let how = (stamp, condition);
        let is_proven = item
            .to
            .write(&item.target, Bytes::from_owner(piece.bytes), how)
            .await?;
        job.report.moved(known.size);
        return Ok(is_proven && theirs.is_some());
    }
    let target = PartTarget {
        bucket: item.to.clone(),
        key: item.target.clone(),
        stamp,
        version: version(item, known),
    };
    let mut upload = PartUpload::open(job, target).await?;
    let made = async {
        let (parts, ours) = parts(job, (item, known), &mut upload).await?;
        check(known.crc, ours)?;
        let how = Completion {
            stamp,
            crc: parts.iter().all(|part| part.crc.is_some()).then_some(ours),
            condition,
        };
        let is_proven = upload.complete(&parts, how).await?;
        Ok(is_proven && known.crc.is_some())
    };
    match made.await {
        Err(error) if may_continue(&error) => {
            upload.leave().await;
            Err(error)
        }
        Err(error) => {
            upload.give_up().await;
            Err(error)
        }
        made => made,
    }
}

/// Returns the version of an object for the record of its upload.
fn version(item: &Item, known: &Attributes) -> String {
    // a key may have a line feed
    let url = checksum::of(item.from.url(&item.key).as_bytes());
    let tag = known.etag.as_deref().unwrap_or_default();
    let tag = tag.trim_matches('"');
    let (size, len) = (known.size, part_len(known.size));
    format!("{url:016x} {tag} {} {size} {len}", known.time().text())
}

/// Object that is read: in ranges, or in one response.
struct Reader<'a> {
    item: &'a Item,
    known: &'a Attributes,
    stream: Option<(&'a Web, Download)>,
}

impl<'a> Reader<'a> {
    async fn open(item: &'a Item, known: &'a Attributes) -> Result<Self, CallError> {
        let stream = match item.from.web().filter(|_| item.stream.is_some()) {
            Some(web) => Some((web, web.stream(&item.key).await?)),
            None => None,
        };
        Ok(Self {
            item,
            known,
            stream,
        })
    }

    /// Returns true if parts can be left out, since all reads are of one version.
    fn can_skip(&self) -> bool {
        self.stream.is_none() && self.known.etag.is_some()
    }

    /// Reads the bytes from `from` to `till`. A file that is read in one response is read from where the last call ended.
    async fn read(&mut self, from: u64, till: u64) -> Result<Bytes, CallError> {
        let Some((web, download)) = &mut self.stream else {
            let (bucket, range) = (&self.item.from, Some((from, till)));
            let piece = RangeReader::new(bucket, &self.item.key, range, self.known);
            let piece = piece.all().await?;
            return Ok(Bytes::from_owner(piece.bytes));
        };
        let bytes = web.take(download, till - from).await?;
        if till == self.known.size && web.next(download).await?.is_some() {
            let text = "the file is longer than the server reported";
            return Err(CallError::new(Reason::Condition, text));
        }
        Ok(bytes.into())
    }
}

/// Reads an object and sends the parts that the store does not have. Returns all parts, and the checksum of all bytes.
async fn parts(
    job: &Arc<Job>,
    (item, known): (&Item, &Attributes),
    upload: &mut PartUpload,
) -> Result<(Vec<HeldPart>, u64), CallError> {
    let len = part_len(known.size);
    let mut reader = Reader::open(item, known).await?;
    let mut whole = checksum::of(&[]);
    for number in 1.. {
        let from = u64::from(number - 1) * len;
        if from >= known.size {
            break;
        }
        let till = (from + len).min(known.size);
        let held = upload.earlier(number, till - from);
        if let Some(crc) = held
            && reader.can_skip()
        {
            whole = checksum::combined(whole, crc, till - from);
            upload.keep(number);
            continue;
        }
        let room = job.room(till - from).await?;
        let bytes = reader.read(from, till).await?;
        let crc = checksum::of(&bytes);
        whole = checksum::combined(whole, crc, till - from);
        if held == Some(crc) {
            upload.keep(number);
        } else {
            upload.send((number, bytes), room)?;
        }
    }
    Ok((upload.sent().await?, whole))
}

/// Compares the checksum of a store with that of the bytes.
pub(crate) fn check(theirs: Option<u64>, ours: u64) -> Result<(), CallError> {
    if theirs.is_some_and(|theirs| theirs != ours) {
        let text = "the received bytes differ from the checksum of the store";
        return Err(CallError::new(Reason::Integrity, text));
    }
    Ok(())
}
