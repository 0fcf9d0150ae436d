//! Copies between stores: by the store itself if both sides are in one, and through this host otherwise.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use lighthaul_files::filter::Decision as Ruled;
use lighthaul_files::naming::Naming;
use lighthaul_session::error::Error;
use tokio::task::JoinSet;

use crate::stores::bucket::attributes::{Attributes, Condition, HeldPart, Listed};
use crate::stores::bucket::call_error::{CallError, Reason};
use crate::stores::bucket::checksum;
use crate::stores::bucket::store::{Bucket, Upload};
use crate::stores::decision::{self, Decision, Version};
use crate::stores::deletion;
use crate::stores::job::{Job, PART, join, part_len};
use crate::stores::keys::{self, KeyPath};
use crate::stores::object_names::{ObjectNames, Objects, unusable};
use crate::stores::object_sources::{self, Kind, Source};

/// Object to copy.
struct Item {
    from: Bucket,
    key: String,
    known: Attributes,
    is_known: bool,
    to: Bucket,
    target: String,
    /// Path for messages.
    name: String,
    there: Option<Listed>,
}

/// Copies all sources.
pub(crate) async fn run(job: &Arc<Job>) -> Result<(), Error> {
    let (sources, naming) = object_sources::find(job).await?;
    let first = sources
        .first()
        .map(|source| source.name.clone())
        .unwrap_or_default();
    let names = ObjectNames::new(job, naming, &first).await?;
    let mut objects = names.objects().await?;
    let mut tasks = JoinSet::new();
    let mut result = Ok(());
    for source in sources {
        result = each(job, (&names, &mut objects), source, &mut tasks).await;
        if result.is_err() {
            break;
        }
    }
    join(&mut tasks).await;
    result?;
    if job.options.delete && naming != Naming::File {
        let rest = objects
            .into_keys()
            .filter(|key| key.starts_with(&names.scope));
        deletion::of_objects(job, (&names.bucket, &names.prefix), rest.collect()).await;
    }
    Ok(())
}

/// Copies one source.
async fn each(
    job: &Arc<Job>,
    (names, objects): (&ObjectNames, &mut Objects),
    source: Source,
    tasks: &mut JoinSet<()>,
) -> Result<(), Error> {
    if let Kind::Object(known) | Kind::Stream(known) = &source.kind {
        let listed = Listed {
            key: source.key.clone(),
            size: known.size,
            modified: known.modified,
            etag: known.etag.clone(),
        };
        let name = source.name.clone();
        if let Some(mut item) = item(job, (names, objects), &source, (listed, name)) {
            item.known.clone_from(known);
            item.is_known = true;
            start(job, item, tasks).await;
        }
        return Ok(());
    }
    let failed =
        |error: CallError| error.during(format!("cannot list {}", source.bucket.url(&source.key)));
    let mut list = source.bucket.list(&source.key);
    while let Some(page) = list.next().await.map_err(failed)? {
        for object in page.objects {
            let path = match keys::path_of(&object.key, &source.key, object.size) {
                Ok(KeyPath::Prefix | KeyPath::Folder(_)) => continue,
                Ok(KeyPath::File(path)) => path,
                Err(why) => {
                    job.report
                        .fail(&object.key, &unusable(&source.bucket.url(&object.key), why));
                    continue;
                }
            };
            let name = Path::new(&source.name)
                .join(path)
                .to_string_lossy()
                .into_owned();
            if is_excluded(job, Path::new(&name)) {
                continue;
            }
            if let Some(item) = item(job, (names, objects), &source, (object, name)) {
                start(job, item, tasks).await;
            }
        }
    }
    Ok(())
}

fn is_excluded(job: &Job, path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let rules = &job.options.rules;
    let excludes = |path: &Path, is_folder| {
        let path = path.as_os_str().as_bytes();
        !path.is_empty() && matches!(rules.decide(path, is_folder), Ruled::Exclude(_))
    };
    excludes(path, false) || path.ancestors().skip(1).any(|above| excludes(above, true))
}

fn item(
    job: &Job,
    (names, objects): (&ObjectNames, &mut Objects),
    source: &Source,
    (object, name): (Listed, String),
) -> Option<Item> {
    let target = match names.key(Path::new(&name)) {
        Ok(target) => target,
        Err(why) => {
            job.report
                .fail(&name, &unusable(&source.bucket.url(&object.key), why));
            return None;
        }
    };
    if source.bucket.name == names.bucket.name && object.key == target {
        let error = CallError::new(Reason::Unsupported, "source and target are the same object");
        job.report.fail(
            &name,
            &error.during(format!("cannot copy {}", source.bucket.url(&target))),
        );
        return None;
    }
    Some(Item {
        from: source.bucket.clone(),
        key: object.key,
        known: Attributes {
            size: object.size,
            modified: object.modified,
            etag: object.etag,
            ..Attributes::default()
        },
        is_known: false,
        to: names.bucket.clone(),
        there: objects.remove(&target),
        target,
        name,
    })
}

async fn start(job: &Arc<Job>, item: Item, tasks: &mut JoinSet<()>) {
    let turn = job.turn(tasks).await;
    let job = Arc::clone(job);
    tasks.spawn(async move {
        if let Err(error) = copy(&job, &item).await {
            job.report.fail(&item.name, &error);
        }
        drop(turn);
    });
}

/// Copies one object, if the target differs.
async fn copy(job: &Arc<Job>, item: &Item) -> Result<(), Error> {
    let size = item.known.size;
    let there = item.there.as_ref().map(|there| there.size);
    let decision = match decision::first(&job.options, size, there) {
        Some(decision) => decision,
        None => compare(job, item).await?,
    };
    if !job.report.decided(&item.name, size, &decision) {
        return Ok(());
    }
    job.report.want(size);
    let condition = match &item.there {
        None if job.options.skip.existing => Condition::Absent,
        _ => Condition::Always,
    };
    let failed = |error: CallError| {
        let (from, to) = (item.from.url(&item.key), item.to.url(&item.target));
        error.during(format!("cannot copy {from} to {to}"))
    };
    let copied = if item.to.copies_from(&item.from, size) {
        let etag = item.known.etag.as_deref();
        let copied = item
            .to
            .copy((&item.from, &item.key, etag), (&item.target, &condition))
            .await;
        copied.map(|()| job.report.moved(size))
    } else {
        through(job, item, &condition).await
    };
    if let Err(error) = copied {
        job.report.gave_up(size);
        return Err(failed(error));
    }
    job.report.placed(&item.name, size, &decision);
    Ok(())
}

/// Decides by the attributes of both objects.
async fn compare(job: &Job, item: &Item) -> Result<Decision, Error> {
    let look = async |bucket: &Bucket, key: &str| {
        let found = bucket.attributes(key).await;
        let failed = |error: CallError| {
            error.during(format!("cannot read the attributes of {}", bucket.url(key)))
        };
        Ok::<_, Error>(found.map_err(failed)?.unwrap_or_default())
    };
    let version = |found: &Attributes| Version {
        size: found.size,
        time: found.stamp,
        stored: Some(found.modified),
        crc: found.crc,
    };
    let source = if item.is_known {
        item.known.clone()
    } else {
        look(&item.from, &item.key).await?
    };
    let target = look(&item.to, &item.target).await?;
    Ok(decision::second(
        &job.options,
        &version(&source),
        &version(&target),
    ))
}

/// Copies an object through this host.
async fn through(job: &Arc<Job>, item: &Item, condition: &Condition) -> Result<(), CallError> {
    let known = if item.is_known {
        item.known.clone()
    } else {
        let found = item.from.attributes(&item.key).await?;
        found.ok_or_else(|| CallError::new(Reason::Missing, "it was removed meanwhile"))?
    };
    let stamp = Some(known.time());
    if known.size <= PART {
        let _room = job.room(known.size).await?;
        let piece = item.from.read(&item.key, None, &known).await?;
        check(
            known.crc.or(piece.attributes.crc),
            checksum::of(&piece.bytes),
        )?;
        item.to
            .write(&item.target, piece.bytes.into(), (stamp, condition))
            .await?;
        job.report.moved(known.size);
        return Ok(());
    }
    let mut upload = item.to.begin(&item.target, stamp).await?;
    let done = async {
        let parts = parts(job, (item, &known), &mut upload).await?;
        let crc = parts.iter().try_fold(checksum::of(&[]), |crc, part| {
            Some(checksum::combined(crc, part.crc?, part.size))
        });
        if let Some(crc) = crc {
            check(known.crc, crc)?;
        }
        item.to
            .complete((&item.target, &mut upload), &parts, (crc, condition))
            .await
    };
    let done = done.await;
    if done.is_err() {
        item.to.abort(&item.target, &mut upload).await.ok();
    }
    done
}

/// Reads ranges of an object and sends them as parts.
async fn parts(
    job: &Arc<Job>,
    (item, known): (&Item, &Attributes),
    upload: &mut Upload,
) -> Result<Vec<HeldPart>, CallError> {
    let len = part_len(known.size);
    let mut tasks: JoinSet<Result<HeldPart, CallError>> = JoinSet::new();
    let mut parts = std::collections::BTreeMap::new();
    for number in 1.. {
        let from = u64::from(number - 1) * len;
        if from >= known.size {
            break;
        }
        let till = (from + len).min(known.size);
        let room = job.room(till - from).await?;
        let piece = item.from.read(&item.key, Some((from, till)), known).await?;
        let sent = item
            .to
            .send_part(&item.target, upload, (number, Bytes::from(piece.bytes)));
        let job = Arc::clone(job);
        tasks.spawn(async move {
            let part = sent.await?;
            job.report.moved(part.size);
            drop(room);
            Ok(part)
        });
        while let Some(ended) = tasks.try_join_next() {
            let part = ended.map_err(|_| interrupted())??;
            parts.insert(part.number, part);
        }
    }
    while let Some(ended) = tasks.join_next().await {
        let part = ended.map_err(|_| interrupted())??;
        parts.insert(part.number, part);
    }
    Ok(parts.into_values().collect())
}

fn interrupted() -> CallError {
    CallError::new(Reason::Broken, "it was interrupted")
}

fn check(theirs: Option<u64>, ours: u64) -> Result<(), CallError> {
    if theirs.is_some_and(|theirs| theirs != ours) {
        let text = "the received bytes differ from the checksum of the store";
        return Err(CallError::new(Reason::Integrity, text));
    }
    Ok(())
}
