//! Upload of local files: a walk, a comparison with the list of the target, and requests in parallel.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lighthaul_buckets::attributes::{Condition, Stamp};
use lighthaul_buckets::call_error::Reason;
use lighthaul_files::listed::ListWalk;
use lighthaul_files::manifest::{Entry, EntryKind};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::{Action, Detail};
use lighthaul_files::walk::{Found, Walk};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_session::error::{Code, Error};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::{JoinSet, spawn_blocking};

use crate::fault::Fault;
use crate::stores::content_sums;
use crate::stores::decision::{self, Decision, There, Version};
use crate::stores::deletion;
use crate::stores::job::{Job, PART, Seen, join, too_large};
use crate::stores::keys;
use crate::stores::large_upload;
use crate::stores::object_names::{self, ObjectNames, Objects, Top, unusable};
use crate::stores::source_file::SourceFile;
use crate::stores::upload_item::Item;

/// Uploads all sources.
pub(crate) async fn run(job: &Arc<Job>) -> Result<(), Error> {
    let access = Arc::new(job.options.sources(FileAccess::anywhere()));
    let sources = job
        .sources
        .iter()
        .map(|source| PathBuf::from(OsStr::from_bytes(source.path())));
    let paths: Vec<PathBuf> = sources.collect();
    let (mut walk, naming) = walk(job, &access, &paths)?;
    let first = paths
        .first()
        .and_then(|path| access.name(path).ok())
        .unwrap_or_default();
    let names = ObjectNames::new(job, naming, &first.to_string_lossy()).await?;
    if !names.bucket.has_checksums() && job.options.dry_run.is_none() {
        job.report.warn_unproven(&names.bucket.name);
    }
    let tops = if naming == Naming::Several {
        paths.iter().map(|path| top(&access, path)).collect()
    } else {
        Vec::new()
    };
    let mut objects = names.objects(job, &tops).await?;
    let (say, found) = channel(FOUND_MAX);
    let walking = spawn_blocking(move || {
        // ends early if the copy does
        walk.all(|found| say.blocking_send(found).is_ok())
    });
    let mounts = each(job, (&names, &access), &mut objects, found).await;
    walking.await.ok();
    if job.options.delete && naming != Naming::File {
        let is_below = |key: &str| mounts.iter().any(|mount| key.starts_with(mount));
        let rest = objects
            .into_keys()
            .map(String::from)
            .filter(|key| key.starts_with(&names.scope) && !is_below(key));
        deletion::of_objects(job, &names, rest.collect()).await;
    }
    Ok(())
}

/// Returns the entries of the sources, all or those of a list, and the naming of the objects.
fn walk(
    job: &Job,
    access: &Arc<FileAccess>,
    paths: &[PathBuf],
) -> Result<(Box<dyn Iterator<Item = Found> + Send>, Naming), Error> {
    let options = job.options.walk();
    if let (Some(list), [base]) = (job.take_list(), paths) {
        let walk = ListWalk::new(Arc::clone(access), base.clone(), list, options);
        return Ok((Box::new(walk), Naming::Contents));
    }
    let walk = Walk::new(Arc::clone(access), paths, options)?;
    let naming = walk.naming;
    Ok((Box::new(walk), naming))
}

/// Returns the name of a source, and whether it is a directory.
fn top(access: &FileAccess, path: &Path) -> Top {
    let name = access.name(path).unwrap_or_default();
    Top {
        name: name.to_string_lossy().into_owned(),
        is_folder: access.folder(path).is_ok(),
    }
}

/// Uploads the entries that the walk finds, and removes them from `objects`. The source lacks the remaining objects.
/// Returns the prefixes of directories on other file systems, whose contents are unknown.
async fn each(
    job: &Arc<Job>,
    (names, access): (&ObjectNames, &Arc<FileAccess>),
    objects: &mut Objects,
    mut found: Receiver<Found>,
) -> Vec<String> {
    let mut tasks = JoinSet::new();
    let (mut mounts, mut seen) = (Vec::new(), Seen::default());
    while let Some(found) = found.recv().await {
        if let Found::Mount(entry, _) = &found {
            let key = names.key(entry.path());
            mounts.extend(key.map(|key| keys::folder(&key)));
            continue;
        }
        let Some((entry, place)) = file(job, found) else {
            continue;
        };
        let EntryKind::File(size) = entry.kind else {
            continue;
        };
        let path = String::from_utf8_lossy(&entry.path).into_owned();
        let key = match names.key(entry.path()) {
            Ok(key) => key,
            Err(why) => {
                job.report
                    .fail(&path, &unusable(&place.display().to_string(), why));
                continue;
            }
        };
        if !seen.is_new(job, &key) {
            continue;
        }
        let mut item = Item {
            bucket: names.bucket.clone(),
            there: objects.remove(key.as_str()),
            key,
            path,
            place,
            size,
            time: Stamp {
                seconds: entry.seconds,
                nanos: entry.nanos,
            },
        };
        let turn = job.turn(&mut tasks).await;
        let (job, access) = (Arc::clone(job), Arc::clone(access));
        tasks.spawn(async move {
            if let Err(error) = upload(&job, access, &mut item).await {
                job.report.fail(&item.path, &error);
            }
            drop(turn);
        });
    }
    join(&mut tasks).await;
    mounts
}

/// Returns the entry and place of a file. Reports what is no file.
fn file(job: &Job, found: Found) -> Option<(Entry, PathBuf)> {
    let report = &job.report;
    match found {
        Found::Entry(entry, place, _) => {
            if let EntryKind::Link(_) = entry.kind {
                let path = String::from_utf8_lossy(&entry.path);
                report.fail(&path, &link(&place));
            }
            return Some((entry, place));
        }
        Found::Skipped(text) => report.warn(format!("not copied: {text}")),
        Found::Noted(text) => report.warn(text),
        Found::Excluded(path, _) => {
            if job
                .options
                .dry_run
                .is_some_and(|detail| detail >= Detail::Explain)
            {
                let decision = Decision::new(Action::Exclude, "a rule excludes it");
                report.decided(&String::from_utf8_lossy(&path), 0, &decision);
            }
        }
        Found::Failed(path, error) => report.fail(&String::from_utf8_lossy(&path), &error),
        Found::Mount(..) => {}
    }
    None
}

fn link(place: &Path) -> Error {
    Fault::Failed {
        what: format!("cannot upload {}", place.display()),
        why: "object stores have no symbolic links; use -L to upload the file it points to, or exclude it".to_owned(),
        code: Code::Open,
    }
    .into()
}

/// Uploads one file, if it differs from the object.
async fn upload(job: &Arc<Job>, access: Arc<FileAccess>, item: &mut Item) -> Result<(), Error> {
    if job.options.listed {
        item.there = object_names::look(job, &item.bucket, &item.key).await?;
    }
    let item = &*item;
    let there = item.there.as_ref();
    let decision = match decision::first(&job.options, item.size, There::object(there)) {
        Some(decision) => decision,
        None => compare(job, &access, item).await?,
    };
    if !job.report.decided(&item.path, item.size, &decision) {
        return Ok(());
    }
    let source = SourceFile::open(access, item.place.clone()).await?;
    let max = item.bucket.size_max();
    if source.size > max {
        let fault = Fault::Failed {
            what: format!("cannot write {}", item.bucket.url(&item.key)),
            why: too_large(source.size, max),
            code: Code::Io,
        };
        return Err(fault.into());
    }
    let condition = decision::condition(&job.options, there);
    job.report.want(source.size);
    let written = if source.size > PART {
        large_upload::send(job, item, &source, &condition).await
    } else {
        small(job, item, &source, &condition).await
    };
    match written {
        Ok(Some(is_proven)) => {
            if !is_proven {
                job.report.unproven(&item.bucket.name);
            }
            job.report.placed(&item.path, source.size, &decision);
            Ok(())
        }
        Ok(None) => {
            let decision = decision::overtaken(&job.options);
            job.report.gave_up(source.size);
            job.report.decided(&item.path, source.size, &decision);
            Ok(())
        }
        Err(error) => {
            job.report.gave_up(source.size);
            Err(error)
        }
    }
}

/// Decides by the attributes of the object.
async fn compare(job: &Job, access: &Arc<FileAccess>, item: &Item) -> Result<Decision, Error> {
    let found = item.bucket.attributes(&item.key).await;
    let url = item.bucket.url(&item.key);
    let found =
        found.map_err(|error| error.during(format!("cannot read the attributes of {url}")))?;
    let Some(found) = found else {
        return Ok(Decision::new(Action::Create, "it does not exist"));
    };
    let mut source = Version {
        size: item.size,
        time: Some(item.time),
        stored: None,
        sums: Vec::new(),
    };
    if job.options.checksum
        && found.size == item.size
        && let Some(sum) = content_sums::of(&found).next()
    {
        let file = SourceFile::open(Arc::clone(access), item.place.clone()).await?;
        source.sums.push(file.checksum(sum).await?);
    }
    let target = Version {
        size: found.size,
        time: found.stamp,
        stored: Some(found.modified),
        sums: content_sums::of(&found).collect(),
    };
    Ok(decision::second(&job.options, &source, &target))
}

/// Uploads a file in one request. Returns true if the store has told an equal checksum, and none if the condition does not
/// hold.
async fn small(
    job: &Job,
    item: &Item,
    source: &SourceFile,
    condition: &Condition,
) -> Result<Option<bool>, Error> {
    let failed = |error: lighthaul_buckets::call_error::CallError| {
        error.during(format!("cannot write {}", item.bucket.url(&item.key)))
    };
    let _room = job.room(source.size).await.map_err(failed)?;
    let bytes = source.read(0, source.size).await?;
    source.check()?;
    match item
        .bucket
        .write(&item.key, bytes, (Some(source.time), condition))
        .await
    {
        Ok(is_proven) => {
            job.report.moved(source.size);
            Ok(Some(is_proven))
        }
        Err(error) if error.reason == Reason::Condition => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Maximum number of entries that the walk is ahead.
const FOUND_MAX: usize = 256;
