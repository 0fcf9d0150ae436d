//! Upload of one large file in parts, which a later run resumes.
//!
//! ```text
//! record of an earlier run --> list of its parts --> parts with another checksum, or without one --> object of all parts
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use lighthaul_buckets::attributes::{Completion, Condition, HeldPart};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::checksum;
use lighthaul_buckets::store::Upload;
use lighthaul_remote::paths;
use lighthaul_session::error::Error;
use tokio::task::JoinSet;

use crate::stores::job::{Job, part_len};
use crate::stores::source_file::SourceFile;
use crate::stores::upload_item::Item;
use crate::stores::upload_record::UploadRecord;

/// Parts that the store has, by number.
type Held = BTreeMap<u32, HeldPart>;

/// Uploads a file. Returns true if the store reports an equal checksum, and none if the condition does not hold.
pub(crate) async fn send(
    job: &Arc<Job>,
    item: &Item,
    source: &SourceFile,
    condition: &Condition,
) -> Result<Option<bool>, Error> {
    let url = item.bucket.url(&item.key);
    let failed = |error: CallError| error.during(format!("cannot write {url}"));
    let len = part_len(source.size);
    let mut record = if item.bucket.resumes_uploads() {
        UploadRecord::open(&paths::uploads(), &url, &version(source, len)).ok()
    } else {
        None
    };
    let (mut upload, held) = resume(item, record.as_mut()).await.map_err(failed)?;
    let held = if let Some(held) = held {
        held
    } else {
        let begun = item.bucket.begin(&item.key, Some(source.time)).await;
        upload = begun.map_err(failed)?;
        if let (Some(record), Upload::S3(id)) = (&mut record, &upload) {
            record.note(id);
        }
        Held::new()
    };
    let done = parts(job, (item, &mut upload), source, held).await;
    let done = done.and_then(|parts| source.check().map(|()| parts));
    let result = match done {
        Ok(parts) => {
            let how = Completion {
                stamp: Some(source.time),
                crc: whole(&parts),
                condition,
            };
            let made = item
                .bucket
                .complete((&item.key, &mut upload), &parts, how)
                .await;
            match made {
                Ok(is_proven) => Ok(Some(is_proven)),
                Err(error) if error.reason == Reason::Condition => Ok(None),
                Err(error) => Err(failed(error)),
            }
        }
        Err(error) => Err(error),
    };
    let stays = result.is_err() && record.is_some();
    if !stays {
        if !matches!(result, Ok(Some(_))) {
            item.bucket.abort(&item.key, &mut upload).await.ok();
        }
        if let Some(record) = record {
            record.remove();
        }
    }
    result
}

/// Returns the upload of an earlier run with its parts, if the store still has it and the file is the same.
async fn resume(
    item: &Item,
    record: Option<&mut UploadRecord>,
) -> Result<(Upload, Option<Held>), CallError> {
    let none = || Upload::S3(String::new());
    let Some((id, is_same)) = record.and_then(|record| record.earlier.take()) else {
        return Ok((none(), None));
    };
    let mut upload = Upload::S3(id.clone());
    if !is_same {
        item.bucket.abort(&item.key, &mut upload).await.ok();
        return Ok((none(), None));
    }
    let parts = item.bucket.parts(&item.key, &id).await?;
    let held = parts.map(|parts| parts.into_iter().map(|part| (part.number, part)).collect());
    Ok((upload, held))
}

/// Sends the parts that the store does not have. Returns all parts in order.
async fn parts(
    job: &Arc<Job>,
    (item, upload): (&Item, &mut Upload),
    source: &SourceFile,
    mut held: Held,
) -> Result<Vec<HeldPart>, Error> {
    let failed =
        |error: CallError| error.during(format!("cannot write {}", item.bucket.url(&item.key)));
    let len = part_len(source.size);
    let mut parts = Held::new();
    let mut tasks: JoinSet<Result<HeldPart, CallError>> = JoinSet::new();
    for number in 1.. {
        let offset = u64::from(number - 1) * len;
        if offset >= source.size {
            break;
        }
        let len = len.min(source.size - offset);
        let room = job.room(len).await.map_err(failed)?;
        let bytes = source.read(offset, len).await?;
        let there = held.remove(&number);
        if let Some(there) =
            there.filter(|there| there.size == len && there.crc == Some(checksum::of(&bytes)))
        {
            job.report.held(len);
            parts.insert(number, there);
            continue;
        }
        let sent = item.bucket.send_part(&item.key, upload, (number, bytes));
        let job = Arc::clone(job);
        tasks.spawn(async move {
            let part = sent.await?;
            job.report.moved(part.size);
            drop(room);
            Ok(part)
        });
        while let Some(ended) = tasks.try_join_next() {
            take(ended, &mut parts).map_err(failed)?;
        }
    }
    while let Some(ended) = tasks.join_next().await {
        take(ended, &mut parts).map_err(failed)?;
    }
    Ok(parts.into_values().collect())
}

fn take(
    ended: Result<Result<HeldPart, CallError>, tokio::task::JoinError>,
    parts: &mut Held,
) -> Result<(), CallError> {
    let part = match ended {
        Ok(part) => part?,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => return Err(CallError::new(Reason::Broken, "it was interrupted")),
        },
    };
    parts.insert(part.number, part);
    Ok(())
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
