//! Upload of one large file in parts, which a later run resumes.
//!
//! ```text
//! list of the parts of an earlier run --> parts with another checksum, or without one --> object of all parts
//! ```

use std::sync::Arc;

use lighthaul_buckets::attributes::{Completion, Condition, HeldPart};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::checksum;
use lighthaul_session::error::Error;

use crate::stores::job::{Job, part_len};
use crate::stores::part_upload::{PartTarget, PartUpload};
use crate::stores::source_file::SourceFile;
use crate::stores::upload_item::Item;

/// Uploads a file. Returns true if the store reports an equal checksum, and none if the condition does not hold.
pub(crate) async fn send(
    job: &Arc<Job>,
    item: &Item,
    source: &SourceFile,
    condition: &Condition,
) -> Result<Option<bool>, Error> {
    let url = item.bucket.url(&item.key);
    let failed = |error: CallError| error.during(format!("cannot write {url}"));
    let target = PartTarget {
        bucket: item.bucket.clone(),
        key: item.key.clone(),
        stamp: Some(source.time),
        version: version(source, part_len(source.size)),
    };
    let mut upload = PartUpload::open(job, target).await.map_err(failed)?;
    let parts = match parts(job, source, &mut upload, failed).await {
        Ok(parts) => parts,
        Err(error) => {
            upload.leave().await;
            return Err(error);
        }
    };
    if let Err(error) = source.check() {
        // no later run sends these bytes
        upload.give_up().await;
        return Err(error);
    }
    let how = Completion {
        stamp: Some(source.time),
        crc: whole(&parts),
        condition,
    };
    match upload.complete(&parts, how).await {
        Ok(is_proven) => Ok(Some(is_proven)),
        Err(error) if error.reason == Reason::Condition => {
            upload.give_up().await;
            Ok(None)
        }
        Err(error) => {
            upload.leave().await;
            Err(failed(error))
        }
    }
}

/// Sends the parts that the store does not have. Returns all parts in order.
async fn parts(
    job: &Arc<Job>,
    source: &SourceFile,
    upload: &mut PartUpload,
    failed: impl Fn(CallError) -> Error,
) -> Result<Vec<HeldPart>, Error> {
    let len = part_len(source.size);
    for number in 1.. {
        let offset = u64::from(number - 1) * len;
        if offset >= source.size {
            break;
        }
        let len = len.min(source.size - offset);
        let room = job.room(len).await.map_err(&failed)?;
        let bytes = source.read(offset, len).await?;
        let held = upload.earlier(number, len);
        if held.is_some_and(|crc| crc == checksum::of(&bytes)) {
            upload.keep(number);
        } else {
            upload.send((number, bytes), room).map_err(&failed)?;
        }
    }
    upload.sent().await.map_err(failed)
}

/// Returns the version of a file whose parts have `part_len` bytes.
fn version(source: &SourceFile, part_len: u64) -> String {
    let (device, inode, changed, nanos) = source.version;
    format!(
        "{device} {inode} {changed}.{nanos:09} {} {part_len}",
        source.size
    )
}

/// Returns the checksum of all parts, if all have one.
fn whole(parts: &[HeldPart]) -> Option<u64> {
    let mut whole = checksum::of(&[]);
    for part in parts {
        whole = checksum::combined(whole, part.crc?, part.size);
    }
    Some(whole)
}
