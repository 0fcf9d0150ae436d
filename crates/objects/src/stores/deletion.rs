//! Removal of what the source does not have, after everything else is in place.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lighthaul_base::counted;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::filter::{Decision as Ruled, Rules};
use lighthaul_files::options::Action;
use lighthaul_session::error::{Code, Error, FileAction};
use tokio::task::JoinSet;

use crate::fault::Fault;
use crate::stores::decision::Decision;
use crate::stores::job::{Job, blocking, join};
use crate::stores::landing::Landing;
use crate::stores::object_names::ObjectNames;
use lighthaul_buckets::name_set::NameSet;

/// Removes objects that the source does not have.
pub(crate) async fn of_objects(job: &Arc<Job>, names: &ObjectNames, keys: Vec<String>) {
    let bucket = &names.bucket;
    let rules = &job.options.rules;
    let paths = keys.into_iter().filter_map(|key| {
        let (path, source) = names.paths(&key);
        // objects that mark directories belong to no file of the source
        let stays = path.ends_with('/') || is_protected(rules, &source);
        (!stays).then_some((path, key))
    });
    let paths: Vec<(String, String)> = paths.collect();
    let mut tasks = JoinSet::new();
    for (path, key) in allowed(job, paths) {
        let turn = job.turn(&mut tasks).await;
        let (job, bucket) = (Arc::clone(job), bucket.clone());
        tasks.spawn(async move {
            match bucket.remove(&key).await {
                Ok(()) => job.report.tell(CopyEvent::Removed(vec![path.into_bytes()])),
                Err(error) => {
                    let error = error.during(format!("cannot remove {}", bucket.url(&key)));
                    job.report.fail(&path, &error);
                }
            }
            drop(turn);
        });
    }
    join(&mut tasks).await;
}

/// Removes files below the directory `top` that are not in `seen`. `source` is the path of the directory among the
/// entries of the source.
pub(crate) async fn of_files(
    job: &Arc<Job>,
    landing: &Arc<Landing>,
    (top, source): (PathBuf, PathBuf),
    seen: NameSet,
) -> Result<(), Error> {
    let (own, inside) = (Arc::clone(job), Arc::clone(landing));
    let found = blocking(move || {
        let mut files = Vec::new();
        inside.files(&top, &mut |place| {
            let rest = place.strip_prefix(&top).unwrap_or(place);
            let at_source = source.join(rest);
            if !seen.has(place) && !is_protected(&own.options.rules, &at_source.to_string_lossy()) {
                files.push((place.to_string_lossy().into_owned(), place.to_owned()));
            }
        })?;
        Ok(files)
    });
    let files = allowed(job, found.await?);
    let (job, landing) = (Arc::clone(job), Arc::clone(landing));
    blocking(move || {
        for (path, place) in files {
            match landing.remove(&place) {
                Ok(()) => job.report.tell(CopyEvent::Removed(vec![path.into_bytes()])),
                Err(error) => {
                    let error = Error::file(FileAction::Remove, &landing.place(&place), &error);
                    job.report.fail(&path, &error);
                }
            }
        }
        Ok(())
    })
    .await
}

/// Returns those that may be removed now. A dry run only reports them.
fn allowed<T>(job: &Job, mut paths: Vec<(String, T)>) -> Vec<(String, T)> {
    if paths.is_empty() {
        return paths;
    }
    if job.report.has_failures() {
        job.report
            .warn("nothing is deleted, since some entries failed");
        return Vec::new();
    }
    let max = job
        .options
        .max_delete
        .and_then(|max| usize::try_from(max).ok());
    if let Some(left) = max
        .and_then(|max| paths.len().checked_sub(max))
        .filter(|left| *left > 0)
    {
        let items = counted(left as u64, "item stays", "items stay");
        let fault = Fault::Failed {
            what: "cannot delete more".to_owned(),
            why: format!("{items}, since --max-delete allows no more"),
            code: Code::DeleteLimit,
        };
        job.report.fail("", &fault.into());
        paths.truncate(paths.len() - left);
    }
    if job.options.dry_run.is_some() {
        let decision = Decision::new(Action::Delete, "the source does not have it");
        for (path, _) in paths.drain(..) {
            job.report.decided(&path, 0, &decision);
        }
    }
    paths
}

/// Returns true if rules protect a path, or a directory above it.
fn is_protected(rules: &Rules, path: &str) -> bool {
    let excludes = |path: &Path, is_folder| {
        let path = path.as_os_str().as_bytes();
        !path.is_empty() && matches!(rules.decide_deletion(path, is_folder), Ruled::Exclude(_))
    };
    let path = Path::new(path);
    excludes(path, false) || path.ancestors().skip(1).any(|above| excludes(above, true))
}
