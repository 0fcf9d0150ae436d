//! End of an upload: all of its parts, its condition, and its name.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_buckets::attributes::{Completion, Condition, HeldPart};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::checksum;
use lighthaul_buckets::store::{Bucket, Upload};
use lighthaul_copy::object_target::Published;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::stores::serving::upload_target::Target;

/// Completes an object from its parts, with the checksum of all of them.
pub(crate) async fn complete(
    (bucket, target): (&Bucket, &Target),
    upload: &mut Upload,
    (parts, crc): (&[HeldPart], Option<u64>),
) -> Result<bool, CallError> {
    let stamp = Some(target.stamp);
    let whole = |condition| Completion {
        stamp,
        crc,
        condition,
    };
    let how = whole(&target.condition);
    let made = bucket.complete((&target.key, upload), parts, how).await;
    if !may_check(target, &made) {
        return made;
    }
    checked(bucket, target).await?;
    let how = whole(&Condition::Always);
    bucket.complete((&target.key, upload), parts, how).await
}

/// Waits for the parts of an object, beside those that the store had. Returns all of them, and the checksum of the whole object
/// if the store reports those of parts.
pub(crate) async fn gathered(
    target: &Target,
    sent: BTreeMap<u64, JoinHandle<Result<HeldPart, CallError>>>,
    mut all: BTreeMap<u64, HeldPart>,
) -> Result<(Vec<HeldPart>, Option<u64>), CallError> {
    let mut sent = sent.into_iter();
    while let Some((number, task)) = sent.next() {
        let part = match task.await.unwrap_or_else(|_| Err(unpublished())) {
            Ok(part) => part,
            Err(error) => {
                // a part that arrives after the end of the upload could stay in the store
                for (_, other) in sent {
                    end_of(other).await;
                }
                return Err(error);
            }
        };
        all.insert(number, part);
    }
    let (mut whole, mut size) = (Some(checksum::of(&[])), 0);
    let parts: Vec<_> = all.into_values().collect();
    for part in &parts {
        let joined = whole.zip(part.crc);
        whole = joined.map(|(crc, more)| checksum::combined(crc, more, part.size));
        size += part.size;
    }
    if size != target.size {
        return Err(unpublished());
    }
    Ok((parts, whole))
}

/// Waits for the end of a request for a short time, and then ends it. A store that still works on a part would keep it when
/// its upload is given up.
pub(crate) async fn end_of<T>(mut request: JoinHandle<T>) {
    if timeout(END_TIMEOUT, &mut request).await.is_err() {
        request.abort();
        request.await.ok();
    }
}

/// Time for requests of an upload that is given up.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns true if the store does not check conditions, and this host may check them just before.
pub(crate) fn may_check(target: &Target, made: &Result<bool, CallError>) -> bool {
    let is_refused = matches!(made, Err(error) if error.reason == Reason::Unsupported);
    is_refused && !target.is_strict && target.condition != Condition::Always
}

/// Fails if the condition does not hold now.
pub(crate) async fn checked(bucket: &Bucket, target: &Target) -> Result<(), CallError> {
    if bucket.holds(&target.key, &target.condition).await? {
        return Ok(());
    }
    let text = "the object has changed meanwhile";
    Err(CallError::new(Reason::Condition, text))
}

/// Returns the result of an upload. Another program may have written or removed the object.
pub(crate) async fn published(
    bucket: &Bucket,
    target: &Target,
    made: Result<bool, CallError>,
) -> Result<Published, CallError> {
    let error = match made {
        Ok(true) => return Ok(Published::Verified),
        Ok(false) => return Ok(Published::Unverified),
        Err(error) => error,
    };
    let is_replacement = matches!(target.condition, Condition::Unchanged(_));
    match error.reason {
        Reason::Condition => Ok(Published::Overtaken),
        // the object that it replaces was removed
        Reason::Missing if is_replacement => {
            let there = bucket.attributes(&target.key).await?;
            there.map_or(Ok(Published::Overtaken), |_| Err(error))
        }
        Reason::Missing
        | Reason::Denied
        | Reason::Expired
        | Reason::Busy
        | Reason::Network
        | Reason::Unsupported
        | Reason::Integrity
        | Reason::Broken
        | Reason::Stopped => Err(error),
    }
}

/// Returns the error of an upload that was not completed.
pub(crate) fn unpublished() -> CallError {
    CallError::new(Reason::Broken, "the upload was interrupted")
}
