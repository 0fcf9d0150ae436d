//! Uploads in parts that the tasks of a cancelled copy have left, so that the copy gives them up before it ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use crate::call_error::Reason;
use crate::store::{Bucket, Upload};

/// Uploads that are in work, and those that were left.
#[derive(Debug, Default)]
pub struct LeftUploads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: usize,
    left: Vec<(Bucket, String, Upload)>,
}

/// Upload that counts as open.
#[derive(Debug)]
pub struct OpenUpload(Arc<LeftUploads>);

impl Drop for OpenUpload {
    fn drop(&mut self) {
        self.0.state().open -= 1;
    }
}

impl LeftUploads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an upload that begins.
    pub fn open(self: &Arc<Self>) -> OpenUpload {
        self.state().open += 1;
        OpenUpload(Arc::clone(self))
    }

    /// Takes an upload that no later run can continue.
    pub fn leave(&self, bucket: Bucket, key: String, upload: Upload) {
        self.state().left.push((bucket, key, upload));
    }

    /// Gives up the uploads that tasks have left, until none is in work.
    pub async fn give_up_left(&self) {
        loop {
            let (left, open) = {
                let mut state = self.state();
                (std::mem::take(&mut state.left), state.open)
            };
            if left.is_empty() && open == 0 {
                return;
            }
            let aborts = left
                .into_iter()
                .map(|(bucket, key, mut upload)| async move {
                    give_up(&bucket, &key, &mut upload).await;
                });
            futures_util::future::join_all(aborts).await;
            if open > 0 {
                sleep(LOOK).await;
            }
        }
    }
}

/// Gives up an upload. A request that was cut off may add a part meanwhile, so this is repeated until the store does not
/// know the upload. Returns true if the store has ended it, or does not know it.
pub async fn give_up(bucket: &Bucket, key: &str, upload: &mut Upload) -> bool {
    for _ in 0..ABORTS_MAX {
        let is_over = match bucket.abort(key, upload).await {
            Ok(()) => true,
            Err(error) => error.reason == Reason::Missing,
        };
        let Upload::S3(id) = &*upload else {
            return is_over;
        };
        if !is_over || !matches!(bucket.parts(key, id).await, Ok(Some(_))) {
            return is_over;
        }
    }
    false
}

/// Times that the end of an upload is requested.
const ABORTS_MAX: u32 = 3;
/// Interval at which uploads are looked for that a cancelled task has just left.
const LOOK: Duration = Duration::from_millis(20);
