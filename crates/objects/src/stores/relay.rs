//! Copies between stores: by the store itself if both sides are in one, and through this host otherwise.

use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use lighthaul_buckets::attributes::{Attributes, Condition, Listed};
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::store::Bucket;
use lighthaul_files::filter::Decision as Ruled;
use lighthaul_files::naming::Naming;
use lighthaul_session::error::Error;
use tokio::task::JoinSet;

use crate::fault::Fault;
use crate::stores::content_sums;
use crate::stores::decision::{self, Decision, There, Version};
use crate::stores::deletion;
use crate::stores::job::{Job, Seen, join};
use crate::stores::keys::{self, KeyPath};
use crate::stores::listed_objects::{self, Found};
use crate::stores::object_names::{self, ObjectNames, Objects, Top, unusable};
use crate::stores::object_sources::{self, Kind, Source};
use crate::stores::relay_item::Item;
use crate::stores::relay_object;

/// Copies all sources.
pub(crate) async fn run(job: &Arc<Job>) -> Result<(), Error> {
    let (sources, naming) = object_sources::find(job).await?;
    let first = sources
        .first()
        .map(|source| source.name.clone())
        .unwrap_or_default();
    let names = ObjectNames::new(job, naming, &first).await?;
    for source in &sources {
        check_prefixes(job, (&names, naming), source)?;
    }
    let top = |source: &Source| Top {
        name: source.name.clone(),
        is_folder: matches!(source.kind, Kind::Folder),
    };
    let tops = if naming == Naming::Several {
        sources.iter().map(top).collect()
    } else {
        Vec::new()
    };
    let mut objects = names.objects(job, &tops).await?;
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
            .map(String::from)
            .filter(|key| key.starts_with(&names.scope));
        deletion::of_objects(job, &names, rest.collect()).await;
    }
    Ok(())
}

/// Refuses a copy of a prefix into itself, which would copy its own objects again. Also refuses a deletion in a target
/// that contains the source.
fn check_prefixes(
    job: &Job,
    (names, naming): (&ObjectNames, Naming),
    source: &Source,
) -> Result<(), Error> {
    let is_folder = matches!(source.kind, Kind::Folder);
    if !is_folder || source.bucket.name != names.bucket.name {
        return Ok(());
    }
    let target = match naming {
        Naming::Several => keys::folder(&format!("{}{}", names.prefix, source.name)),
        Naming::Contents | Naming::Folder | Naming::File => names.scope.clone(),
    };
    let (from, to) = (source.bucket.url(&source.key), names.bucket.url(&target));
    let text = if target.starts_with(&source.key) {
        format!(
            "cannot copy {from} to {to}: the source contains the target; copy to another prefix"
        )
    } else if job.options.delete && source.key.starts_with(&target) {
        format!("cannot copy {from} to {to}: the target contains the source; omit --delete")
    } else {
        return Ok(());
    };
    Err(Fault::Request(text).into())
}

/// Copies one source.
async fn each(
    job: &Arc<Job>,
    (names, objects): (&ObjectNames, &mut Objects),
    source: Source,
    tasks: &mut JoinSet<()>,
) -> Result<(), Error> {
    let single = match &source.kind {
        Kind::Folder => None,
        Kind::Object(known) => Some((known, None)),
        Kind::Stream(known, size) => Some((known, Some(*size))),
    };
    if let Some((known, stream)) = single {
        let listed = Listed {
            key: source.key.clone(),
            size: known.size,
            modified: known.modified,
            etag: known.etag.clone(),
        };
        let name = source.name.clone();
        if let Some(mut item) = item(job, (names, objects), &source, (listed, name)) {
            item.known.clone_from(known);
            (item.is_known, item.stream) = (true, stream);
            start(job, item, tasks).await;
        }
        return Ok(());
    }
    let Some(list) = job.take_list() else {
        let from = (&source, source.key.as_str(), &mut Seen::default());
        return folder(job, (names, objects), from, tasks).await;
    };
    let mut seen = Seen::default();
    let mut found = listed_objects::find(&source.bucket, &source.key, list)?;
    while let Some(found) = found.next().await {
        match found {
            Found::Object(object, known) if seen.is_new(job, &object.key) => {
                if let Some(item) = below(job, (names, objects), &source, object) {
                    let is_known = true;
                    let item = Item {
                        known,
                        is_known,
                        ..item
                    };
                    start(job, item, tasks).await;
                }
            }
            Found::Folder(prefix) => {
                let from = (&source, prefix.as_str(), &mut seen);
                folder(job, (names, objects), from, tasks).await?;
            }
            Found::Object(..) => {}
            Found::Failed(failure) => {
                let (path, error) = failure.of(&source);
                job.report.fail(&path, &error);
            }
        }
    }
    Ok(())
}

/// Copies all objects below a prefix that the copy has not seen yet.
async fn folder(
    job: &Arc<Job>,
    (names, objects): (&ObjectNames, &mut Objects),
    (source, prefix, seen): (&Source, &str, &mut Seen),
    tasks: &mut JoinSet<()>,
) -> Result<(), Error> {
    let failed =
        |error: CallError| error.during(format!("cannot list {}", source.bucket.url(prefix)));
    let mut list = source.bucket.list(prefix);
    while let Some(page) = list.next().await.map_err(failed)? {
        for object in page.objects {
            if seen.is_new(job, &object.key)
                && let Some(item) = below(job, (names, objects), source, object)
            {
                start(job, item, tasks).await;
            }
        }
    }
    Ok(())
}

/// Returns the item of an object below the prefix of its source, unless it is left out.
fn below(
    job: &Job,
    place: (&ObjectNames, &mut Objects),
    source: &Source,
    object: Listed,
) -> Option<Item> {
    let path = match keys::path_of(&object.key, &source.key, object.size) {
        Ok(KeyPath::Prefix | KeyPath::Folder(_)) => return None,
        Ok(KeyPath::File(path)) => path,
        Err(why) => {
            let error = unusable(&source.bucket.url(&object.key), why);
            job.report.fail(&object.key, &error);
            return None;
        }
    };
    let name = Path::new(&source.name).join(path);
    let name = name.to_string_lossy().into_owned();
    if is_excluded(job, Path::new(&name)) {
        return None;
    }
    item(job, place, source, (object, name))
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
        stream: None,
        to: names.bucket.clone(),
        there: objects.remove(target.as_str()),
        target,
        name,
    })
}

async fn start(job: &Arc<Job>, item: Item, tasks: &mut JoinSet<()>) {
    let turn = job.turn(tasks).await;
    let (job, mut item) = (Arc::clone(job), item);
    tasks.spawn(async move {
        if let Err(error) = copy(&job, &mut item).await {
            job.report.fail(&item.name, &error);
        }
        drop(turn);
    });
}

/// Copies one object, if the target differs.
async fn copy(job: &Arc<Job>, item: &mut Item) -> Result<(), Error> {
    if job.options.listed {
        item.there = object_names::look(job, &item.to, &item.target).await?;
    }
    let item = &*item;
    let size = item.known.size;
    let there = There::object(item.there.as_ref());
    let decision = match decision::first(&job.options, size, there) {
        Some(decision) => decision,
        None => compare(job, item).await?,
    };
    if !job.report.decided(&item.name, size, &decision) {
        return Ok(());
    }
    job.report.want(size);
    let condition = decision::condition(&job.options, item.there.as_ref());
    let error = match copied(job, item, &condition).await {
        Ok(is_proven) => {
            if !is_proven {
                job.report.unproven(unproving(item));
            }
            job.report.placed(&item.name, size, &decision);
            return Ok(());
        }
        Err(error) => error,
    };
    job.report.gave_up(size);
    // the failed condition may be that of the source
    if error.reason == Reason::Condition
        && matches!(item.to.holds(&item.target, &condition).await, Ok(false))
    {
        let decision = decision::overtaken(&job.options);
        job.report.decided(&item.name, size, &decision);
        return Ok(());
    }
    let (from, to) = (item.from.url(&item.key), item.to.url(&item.target));
    Err(error.during(format!("cannot copy {from} to {to}")))
}

/// Copies one object. Returns true if both stores report equal checksums.
async fn copied(job: &Arc<Job>, item: &Item, condition: &Condition) -> Result<bool, CallError> {
    let known = if item.is_known {
        item.known.clone()
    } else {
        let found = item.from.attributes(&item.key).await?;
        found.ok_or_else(|| CallError::new(Reason::Missing, "it was removed meanwhile"))?
    };
    if item.to.copies_from(&item.from, known.size, condition) {
        within(job, (item, &known), condition).await
    } else {
        relay_object::copy(job, (item, &known), condition).await
    }
}

/// Returns the name of the store that reports no checksums.
fn unproving(item: &Item) -> &str {
    if item.to.has_checksums() {
        &item.from.name
    } else {
        &item.to.name
    }
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
        sums: content_sums::of(found).collect(),
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

/// Requests the store to copy an object, and compares the copy.
async fn within(
    job: &Job,
    (item, known): (&Item, &Attributes),
    condition: &Condition,
) -> Result<bool, CallError> {
    let etag = known.etag.as_deref();
    let from = (&item.from, item.key.as_str(), etag);
    item.to.copy(from, (&item.target, condition)).await?;
    job.report.moved(known.size);
    let made = match item.to.attributes(&item.target).await {
        // some access keys may write, but not read
        Err(error) if error.reason == Reason::Denied => return Ok(false),
        made => made?,
    };
    let made = made.ok_or_else(|| CallError::new(Reason::Missing, "the copy was removed"))?;
    if made.size != known.size {
        let (made, known) = (made.size, known.size);
        let text = format!("the copy has {made} bytes instead of {known}");
        return Err(CallError::new(Reason::Integrity, text));
    }
    if let Some(crc) = made.crc {
        relay_object::check(known.crc, crc)?;
    }
    Ok(known.crc.is_some() && made.crc.is_some())
}
