//! Thread that gives complete files their names, after their bytes are on disk. Files that come together are synced together.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use lighthaul_fs::disk::Root;
use lighthaul_session::error::{Error, FileAction};

use crate::fault::Fault;
use crate::stores::decision::Decision;
use crate::stores::job::Job;
use crate::stores::landing::Landing;
use crate::stores::partial::Partial;

/// File with all of its bytes.
#[derive(Debug)]
pub(crate) struct Complete {
    pub(crate) partial: Partial,
    pub(crate) path: PathBuf,
    /// Path for messages.
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) decision: Decision,
}

/// Thread that publishes files.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) files: SyncSender<Complete>,
    thread: JoinHandle<()>,
}

impl Publisher {
    pub(crate) fn start(job: &Arc<Job>, landing: &Arc<Landing>) -> Result<Self, Error> {
        // complete files are still open
        let (files, complete) = sync_channel(AHEAD);
        let root = landing.another()?;
        let (job, landing) = (Arc::clone(job), Arc::clone(landing));
        let thread = thread::Builder::new().name("publisher".into());
        let thread = thread.spawn(move || run(&job, &landing, root, &complete));
        let thread =
            thread.map_err(|error| Fault::Request(format!("cannot start a thread: {error}")))?;
        Ok(Self { files, thread })
    }

    /// Waits until all files have their names.
    pub(crate) fn finish(self) {
        drop(self.files);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

fn run(job: &Job, landing: &Landing, mut root: Root, complete: &Receiver<Complete>) {
    let mut any = false;
    while let Ok(first) = complete.recv() {
        let mut files = vec![first];
        files.extend(complete.try_iter().take(TOGETHER - 1));
        let synced = if job.options.sync {
            sync(&root, &files)
        } else {
            Ok(())
        };
        for file in files {
            let place = landing.place(&file.path);
            let named = match &synced {
                Ok(()) => file
                    .partial
                    .publish(&mut root, &file.path)
                    .map_err(|error| (FileAction::Publish, error)),
                Err(error) => Err((FileAction::Sync, std::io::Error::from(error.kind()))),
            };
            match named {
                Ok(()) => job.report.placed(&file.name, file.size, &file.decision),
                Err((action, error)) => {
                    file.partial.discard(&mut root);
                    job.report
                        .fail(&file.name, &Error::file(action, &place, &error));
                }
            }
            any = true;
        }
    }
    if any
        && job.options.sync
        && let Err(error) = root.sync()
    {
        job.report.fail(
            "",
            &Error::file(FileAction::Sync, &landing.place("".as_ref()), &error),
        );
    }
}

/// Writes files to disk: all changes of the file system at once, if there are many.
fn sync(root: &Root, files: &[Complete]) -> std::io::Result<()> {
    if files.len() > SINGLE_MAX {
        return root.sync();
    }
    files.iter().try_for_each(|file| file.partial.sync())
}

/// Maximum number of complete files that wait. With the files that are being published and copied, and a journal for
/// each, they stay below the usual limit of 1024 descriptors.
const AHEAD: usize = 64;
/// Maximum number of files that are published together.
const TOGETHER: usize = 128;
/// Maximum number of files that are synced one after the other.
const SINGLE_MAX: usize = 4;
