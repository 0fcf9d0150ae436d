//! Fetching one object into its temporary file: in one request, in ranges, or as it comes.

use std::io;
use std::sync::Arc;

use lighthaul_buckets::attributes::Attributes;
use lighthaul_buckets::call_error::{CallError, Reason};
use lighthaul_buckets::checksum;
use lighthaul_buckets::client::retry;
use lighthaul_buckets::range_reader::RangeReader;
use lighthaul_buckets::web::Web;
use lighthaul_copy::error::Fault as CopyFault;
use lighthaul_session::error::{Code, Error, FileAction};
use tokio::task::JoinSet;

use crate::stores::decision::Decision;
use crate::stores::download_item::{Item, Shared};
use crate::stores::job::{PART, blocking};
use crate::stores::object_sources::StreamSize;
use crate::stores::partial::Partial;
use crate::stores::parts_writer::{PartsWriter, range, stretches};
use crate::stores::publisher::Complete;

/// Fetches an object, and passes the complete file to the publisher.
pub(crate) async fn run(
    shared: &Shared,
    item: &Arc<Item>,
    (decision, mode): (Decision, u32),
) -> Result<(), Error> {
    let report = &shared.job.report;
    report.want(item.known.size);
    let fetched = if item.stream.is_some() {
        stream(shared, item).await
    } else if item.known.size > PART {
        ranges(shared, item).await
    } else {
        whole(shared, item).await
    };
    let (partial, attributes) = match fetched {
        Ok(fetched) => fetched,
        Err(error) => {
            report.gave_up(item.known.size);
            return Err(error);
        }
    };
    if attributes.crc.is_none() {
        report.unproven(&item.bucket.name);
    }
    let (shared, path, name) = (shared.clone(), item.path.clone(), item.name.clone());
    blocking(move || {
        let (size, place) = (attributes.size, shared.landing.place(&path));
        let finished = partial.finish(size, attributes.time(), mode);
        finished.map_err(|error| {
            partial.discard(&mut shared.landing.root());
            Error::file(FileAction::SetMetadata, &place, &error)
        })?;
        shared
            .files
            .send(Complete {
                partial,
                path,
                name,
                size,
                decision,
            })
            .ok();
        Ok(())
    })
    .await
}

/// Fetches a small object in one request.
async fn whole(shared: &Shared, item: &Item) -> Result<(Partial, Attributes), Error> {
    let (size, report) = (item.known.size, &shared.job.report);
    let room = shared.job.room(size).await;
    let _room = room.map_err(|error| failed(item, error))?;
    let (own, path) = (shared.clone(), item.path.clone());
    let partial = blocking(move || open(&own, &path, None)).await?;
    let mut unfinished = Unfinished {
        shared,
        partial: Some(Arc::new(partial)),
    };
    let Some(partial) = &unfinished.partial else {
        return Err(differs(item));
    };
    let mut reader = RangeReader::new(&item.bucket, &item.key, None, &item.known);
    let mut writer = PartsWriter::new(partial, 0, size);
    take(shared, item, (&mut reader, &mut writer)).await?;
    report.moved(0);
    let (attributes, parts) = (reader.into_attributes(), writer.finish());
    let crc = parts
        .first()
        .map_or_else(|| checksum::of(&[]), |part| part.1);
    if attributes.crc.is_some_and(|theirs| theirs != crc) {
        return Err(differs(item));
    }
    let partial = unfinished.partial.take().and_then(Arc::into_inner);
    Ok((partial.ok_or_else(|| differs(item))?, attributes))
}

/// Temporary file that no later run can use, and that is removed if the copy ends before it is complete.
struct Unfinished<'a> {
    shared: &'a Shared,
    partial: Option<Arc<Partial>>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(partial) = self.partial.take() {
            partial.discard(&mut self.shared.landing.root());
        }
    }
}

/// Writes all bytes of a reader as they come. They go into the page cache at once, which takes no longer than a copy in
/// memory, unless the disk is far behind.
async fn take(
    shared: &Shared,
    item: &Item,
    (reader, writer): (&mut RangeReader, &mut PartsWriter),
) -> Result<(), Error> {
    while let Some(chunk) = reader.next().await.map_err(|error| failed(item, error))? {
        writer.write(&chunk).map_err(|error| {
            Error::file(FileAction::Write, &shared.landing.place(&item.path), &error)
        })?;
        shared.job.report.arrived(chunk.len() as u64);
    }
    Ok(())
}

/// Fetches a large object in ranges, of which an earlier run may have left some.
async fn ranges(shared: &Shared, item: &Arc<Item>) -> Result<(Partial, Attributes), Error> {
    let known = if item.is_known {
        item.known.clone()
    } else {
        let found = item
            .bucket
            .attributes(&item.key)
            .await
            .map_err(|error| failed(item, error))?;
        found.ok_or_else(|| {
            failed(
                item,
                CallError::new(Reason::Missing, "it was removed meanwhile"),
            )
        })?
    };
    let size = known.size;
    let mut partial = opened(shared, item, &known).await?;
    let mut sums = std::mem::take(&mut partial.held);
    let partial = Arc::new(partial);
    for number in sums.keys() {
        let (from, till) = range(*number, size);
        shared.job.report.held(till - from);
    }
    let mut tasks: JoinSet<Result<Parts, Error>> = JoinSet::new();
    for (from, till) in stretches(size, |number| sums.contains_key(&number)) {
        let room = shared.job.room((till - from).min(STREAM)).await;
        let room = room.map_err(|error| failed(item, error))?;
        let (own, object, known) = (shared.clone(), Arc::clone(item), known.clone());
        let mut writer = PartsWriter::new(&partial, from, size);
        tasks.spawn(async move {
            let range = Some((from, till));
            let mut reader = RangeReader::new(&object.bucket, &object.key, range, &known);
            take(&own, &object, (&mut reader, &mut writer)).await?;
            own.job.report.moved(0);
            drop(room);
            Ok(writer.finish())
        });
        while let Some(ended) = tasks.try_join_next() {
            sums.extend(taken(ended, item)?);
        }
    }
    while let Some(ended) = tasks.join_next().await {
        sums.extend(taken(ended, item)?);
    }
    let crc = sums.iter().fold(checksum::of(&[]), |crc, (number, part)| {
        let (from, till) = range(*number, size);
        checksum::combined(crc, *part, till - from)
    });
    let partial = Arc::into_inner(partial).ok_or_else(|| differs(item))?;
    if known.crc.is_some_and(|theirs| theirs != crc) {
        partial.discard(&mut shared.landing.root());
        return Err(differs(item));
    }
    Ok((partial, known))
}

/// Opens the temporary file of a large object. Ranges that it holds are those that an earlier run has written.
async fn opened(shared: &Shared, item: &Item, known: &Attributes) -> Result<Partial, Error> {
    let size = known.size;
    let subject = format!(
        "lighthaul-object 1 {size} {PART} {} {} {}",
        known.etag.as_deref().unwrap_or("-"),
        known.modified.text(),
        item.bucket.url(&item.key)
    );
    let (own, path) = (shared.clone(), item.path.clone());
    blocking(move || {
        let mut partial = open(&own, &path, Some(&subject))?;
        let failed =
            |error: io::Error| Error::file(FileAction::Write, &own.landing.place(&path), &error);
        partial.allocate(size).map_err(failed)?;
        let held = std::mem::take(&mut partial.held);
        for (number, crc) in held {
            let range = range(number, size);
            if range.0 < range.1 && partial.has(range, crc).map_err(failed)? {
                partial.held.insert(number, crc);
            }
        }
        Ok(partial)
    })
    .await
}

/// Fetches a file of a web server in one response. After a network failure, the download starts from the beginning.
async fn stream(shared: &Shared, item: &Item) -> Result<(Partial, Attributes), Error> {
    let Some(web) = item.bucket.web() else {
        return whole(shared, item).await;
    };
    let (own, path) = (shared.clone(), item.path.clone());
    let partial = blocking(move || open(&own, &path, None)).await?;
    let fetched = async {
        let mut pauses = web.pauses();
        loop {
            let error = match once(shared, (item, web), &partial).await? {
                Ok(attributes) => return Ok(attributes),
                Err(error) => error,
            };
            let waited = retry(error, &mut pauses).await;
            waited.map_err(|error| failed(item, error))?;
        }
    };
    let fetched: Result<Attributes, Error> = fetched.await;
    if fetched.is_err() {
        partial.discard(&mut shared.landing.root());
    }
    Ok((partial, fetched?))
}

/// Fetches a file in one response. The inner error is that of the server.
async fn once(
    shared: &Shared,
    (item, web): (&Item, &Web),
    partial: &Partial,
) -> Result<Result<Attributes, CallError>, Error> {
    let mut file = match web.stream(&item.key).await {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let mut offset = 0;
    loop {
        let chunk = match web.next(&mut file).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(error) => {
                // these bytes are fetched again
                shared.job.report.want(offset);
                return Ok(Err(error));
            }
        };
        let len = chunk.len() as u64;
        partial.write(&chunk, offset).map_err(|error| {
            Error::file(FileAction::Write, &shared.landing.place(&item.path), &error)
        })?;
        shared.job.report.moved(len);
        offset += len;
    }
    let known = match item.stream {
        Some(StreamSize::Known) | None => Some(item.known.size),
        Some(StreamSize::Unknown) => {
            shared.job.report.want(offset);
            None
        }
    };
    if let Some(size) = known.or(file.size).filter(|size| *size != offset) {
        let text = format!("the server sends {offset} of {size} bytes; the file may have changed");
        return Ok(Err(CallError::new(Reason::Condition, text)));
    }
    Ok(Ok(Attributes {
        size: offset,
        ..file.attributes
    }))
}

fn open(shared: &Shared, path: &std::path::Path, subject: Option<&str>) -> Result<Partial, Error> {
    let opened = Partial::open(&mut shared.landing.root(), path, subject);
    opened.map_err(|error| {
        let place = shared.landing.place(path);
        if error.kind() == io::ErrorKind::WouldBlock {
            return CopyFault::Busy(place).into();
        }
        Error::file(FileAction::Create, &place, &error)
    })
}

/// Numbers and checksums of parts.
type Parts = Vec<(u64, u64)>;

fn taken(
    ended: Result<Result<Parts, Error>, tokio::task::JoinError>,
    item: &Item,
) -> Result<Parts, Error> {
    match ended {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(failed(
                item,
                CallError::new(Reason::Broken, "it was interrupted"),
            )),
        },
    }
}

fn failed(item: &Item, error: CallError) -> Error {
    error.during(format!("cannot read {}", item.bucket.url(&item.key)))
}

/// Returns the error of bytes that differ from those of the store.
fn differs(item: &Item) -> Error {
    crate::fault::Fault::Failed {
        what: format!("cannot publish {}", item.name),
        why: "the received bytes differ from the checksum of the store; run the same command again"
            .to_owned(),
        code: Code::Integrity,
    }
    .into()
}

/// Memory that is reserved for a range that is written as it comes: buffers of the connection and of the client.
const STREAM: u64 = PART;
