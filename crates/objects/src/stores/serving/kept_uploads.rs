//! Uploads of interrupted copies. Their parts stay in the store for a time, so that a later copy continues, and are then given
//! up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::store::{Bucket, Upload};
use tokio::time::sleep;

use lighthaul_buckets::upload_record::UploadRecord;

/// Records of uploads, and the time for which they stay.
#[derive(Clone, Debug)]
pub(crate) struct KeptUploads {
    folder: PathBuf,
    time: Duration,
}

impl KeptUploads {
    pub(crate) const fn new(folder: PathBuf, time: Duration) -> Self {
        Self { folder, time }
    }

    /// Returns the directory of the records, or none if interrupted uploads are given up at once.
    pub(crate) fn folder(&self) -> Option<&Path> {
        (!self.time.is_zero()).then_some(&*self.folder)
    }

    /// Gives up the uploads to a bucket that no copy has used for the time, as long as the daemon runs.
    pub(crate) async fn sweep(self, bucket: Bucket) {
        let Some(folder) = self.folder() else {
            return;
        };
        let interval = (self.time / INTERVALS).clamp(INTERVAL_MIN, INTERVAL_MAX);
        let old = self.time.as_nanos().div_ceil(interval.as_nanos());
        // the number of intervals in which a record had no user
        let mut unused: BTreeMap<PathBuf, u128> = BTreeMap::new();
        loop {
            sleep(interval).await;
            let mut still = BTreeMap::new();
            for path in records(folder) {
                let Some((record, key, id)) = claim(&path, &bucket) else {
                    continue;
                };
                let intervals = unused.get(&path).map_or(1, |before| before + 1);
                if intervals > old && give_up(&bucket, &key, id).await.is_ok() {
                    record.remove();
                } else {
                    still.insert(path, intervals);
                }
            }
            unused = still;
        }
    }
}

/// Returns the paths of all records.
fn records(folder: &Path) -> Vec<PathBuf> {
    let items = std::fs::read_dir(folder).into_iter().flatten().flatten();
    items.map(|item| item.path()).collect()
}

/// Takes a record of this bucket that no copy uses. Returns it with the key and the name of its upload.
fn claim(path: &Path, bucket: &Bucket) -> Option<(UploadRecord, String, String)> {
    let (record, url, id) = UploadRecord::claim(path)?;
    let key = url.strip_prefix(&*bucket.name)?.strip_prefix('/')?;
    Some((record, key.to_owned(), id))
}

/// Gives up an upload, unless the store knows it no more.
async fn give_up(bucket: &Bucket, key: &str, id: String) -> Result<(), CallError> {
    match bucket.abort(key, &mut Upload::S3(id)).await {
        Err(error) if error.reason != Reason::Missing => Err(error),
        Ok(()) | Err(_) => {
            tracing::info!("gave up the interrupted upload to {}", bucket.url(key));
            Ok(())
        }
    }
}

/// Number of looks at the records within the time.
const INTERVALS: u32 = 4;
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_mins(1);
