//! Download of objects: lists, a comparison with the files of the target, and requests in parallel.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use lighthaul_buckets::attributes::{Attributes, Listed, Stamp};
use lighthaul_buckets::call_error::CallError;
use lighthaul_files::filter::Decision as Ruled;
use lighthaul_files::list::PathList;
use lighthaul_files::options::{Action, Detail};
use lighthaul_fs::meta::Meta;
use lighthaul_session::error::{Code, Error};
use tokio::task::JoinSet;

use crate::fault::Fault;
use crate::stores::content_sums;
use crate::stores::decision::{self, Decision, There, Version};
use crate::stores::deletion;
use crate::stores::download_item::{Item, Shared};
use crate::stores::fetch;
use crate::stores::job::{Job, Seen, blocking, join};
use crate::stores::keys::{self, KeyPath};
use crate::stores::landing::Landing;
use crate::stores::listed_objects::{self, Found};
use crate::stores::object_names::{OBJECTS_MAX, unusable};
use crate::stores::object_sources::{self, Kind, Source, StreamSize};
use crate::stores::publisher::Publisher;
use crate::stores::source_file::SourceFile;
use lighthaul_buckets::name_set::NameSet;

/// Downloads all sources.
pub(crate) async fn run(job: &Arc<Job>) -> Result<(), Error> {
    let (sources, naming) = object_sources::find(job).await?;
    job.check_deletion(naming)?;
    let landing = Arc::new(Landing::open(job, naming)?);
    let publisher = Publisher::start(job, &landing)?;
    let shared = Shared {
        job: Arc::clone(job),
        landing: Arc::clone(&landing),
        files: publisher.files.clone(),
    };
    let mut deletions = Vec::new();
    let mut tasks = JoinSet::new();
    let mut result = Ok(());
    for source in sources {
        let mut download = Download {
            shared: shared.clone(),
            top: landing.at(&source.name),
            seen: NameSet::default(),
            listed: Seen::default(),
        };
        let is_folder = matches!(source.kind, Kind::Folder);
        let name = PathBuf::from(&source.name);
        result = download.source(source, &mut tasks).await;
        if result.is_err() {
            break;
        }
        // neither a single object nor a list gives a reason to delete others
        if job.options.delete && is_folder && !job.options.listed {
            deletions.push(((download.top, name), download.seen));
        }
    }
    join(&mut tasks).await;
    drop(shared);
    blocking(move || {
        publisher.finish();
        Ok(())
    })
    .await?;
    result?;
    for (tops, seen) in deletions {
        let name = tops.0.to_string_lossy().into_owned();
        if let Err(error) = deletion::of_files(job, &landing, tops, seen).await {
            job.report.fail(&name, &error);
        }
    }
    Ok(())
}

/// Download of one source.
struct Download {
    shared: Shared,
    /// Path of the source below the target.
    top: PathBuf,
    /// Paths that the source has, if others are deleted.
    seen: NameSet,
    /// Objects that a list has named.
    listed: Seen,
}

impl Download {
    async fn source(&mut self, source: Source, tasks: &mut JoinSet<()>) -> Result<(), Error> {
        let (known, stream) = match source.kind {
            Kind::Folder => match self.shared.job.take_list() {
                Some(list) => return self.list(&source, list, tasks).await,
                None => return self.folder(&source, &source.key, tasks).await,
            },
            Kind::Object(known) => (known, None),
            Kind::Stream(known, size) => (known, Some(size)),
        };
        let item = Item {
            bucket: source.bucket,
            key: source.key,
            known,
            is_known: true,
            stream,
            path: self.top.clone(),
            name: source.name,
        };
        self.start(item, tasks).await;
        Ok(())
    }

    /// Downloads all objects below a prefix.
    async fn folder(
        &mut self,
        source: &Source,
        prefix: &str,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Error> {
        let failed =
            |error: CallError| error.during(format!("cannot list {}", source.bucket.url(prefix)));
        let mut list = source.bucket.list(prefix);
        while let Some(page) = list.next().await.map_err(failed)? {
            for object in page.objects {
                if let Some(item) = self.item(source, object) {
                    self.start(item, tasks).await;
                }
                if self.seen.count() > OBJECTS_MAX {
                    let why = format!(
                        "it has more than {OBJECTS_MAX} objects: copy parts of the tree at a time"
                    );
                    let what = format!("cannot compare {}", source.bucket.url(&source.key));
                    let code = Code::Usage;
                    return Err(Fault::Failed { what, why, code }.into());
                }
            }
        }
        Ok(())
    }

    /// Downloads the objects that a list names.
    async fn list(
        &mut self,
        source: &Source,
        list: PathList,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Error> {
        let mut found = listed_objects::find(&source.bucket, &source.key, list)?;
        while let Some(found) = found.next().await {
            match found {
                Found::Object(object, known) => {
                    if let Some(item) = self.item(source, object) {
                        let is_known = true;
                        let item = Item {
                            known,
                            is_known,
                            ..item
                        };
                        self.start(item, tasks).await;
                    }
                }
                Found::Folder(prefix) => self.folder(source, &prefix, tasks).await?,
                Found::Failed(failure) => {
                    let (path, error) = failure.of(source);
                    self.shared.job.report.fail(&path, &error);
                }
            }
        }
        Ok(())
    }

    /// Returns the item of a listed object, unless it is left out.
    fn item(&mut self, source: &Source, object: Listed) -> Option<Item> {
        let report = &self.shared.job.report;
        if !self.listed.is_new(&self.shared.job, &object.key) {
            return None;
        }
        let (path, is_file) = match keys::path_of(&object.key, &source.key, object.size) {
            Ok(KeyPath::Prefix) => return None,
            Ok(KeyPath::File(path)) => (path, true),
            Ok(KeyPath::Folder(path)) => (path, false),
            Err(why) => {
                report.fail(&object.key, &unusable(&source.bucket.url(&object.key), why));
                return None;
            }
        };
        let named = Path::new(&source.name).join(&path);
        let name = named.to_string_lossy().into_owned();
        if let Some(rule) = self.excluding(&named, is_file) {
            if self
                .shared
                .job
                .options
                .dry_run
                .is_some_and(|detail| detail >= Detail::Explain)
            {
                report.decided(&name, 0, &Decision::new(Action::Exclude, rule));
            }
            return None;
        }
        let path = self.top.join(path);
        if !is_file {
            if self.shared.job.options.dry_run.is_none()
                && let Err(error) = self.shared.landing.make_folder(&path)
            {
                report.fail(&name, &error);
            }
            return None;
        }
        if self.shared.job.options.delete {
            self.seen.add(path.as_path());
        }
        Some(Item {
            bucket: source.bucket.clone(),
            key: object.key,
            known: Attributes {
                size: object.size,
                modified: object.modified,
                etag: object.etag,
                ..Attributes::default()
            },
            is_known: false,
            stream: None,
            path,
            name,
        })
    }

    /// Returns a reason if a rule excludes the path or a directory above it.
    fn excluding(&self, path: &Path, is_file: bool) -> Option<&'static str> {
        use std::os::unix::ffi::OsStrExt;
        let rules = &self.shared.job.options.rules;
        let excludes = |path: &Path, is_folder| {
            let path = path.as_os_str().as_bytes();
            !path.is_empty() && matches!(rules.decide(path, is_folder), Ruled::Exclude(_))
        };
        if rules.is_empty() {
            return None;
        }
        let is_above = path.ancestors().skip(1).any(|above| excludes(above, true));
        (is_above || excludes(path, !is_file)).then_some("a rule excludes it")
    }

    async fn start(&self, item: Item, tasks: &mut JoinSet<()>) {
        let turn = self.shared.job.turn(tasks).await;
        let shared = self.shared.clone();
        let item = Arc::new(item);
        tasks.spawn(async move {
            if let Err(error) = download(&shared, &item).await {
                shared.job.report.fail(&item.name, &error);
            }
            drop(turn);
        });
    }
}

/// Downloads one object, if it differs from the file.
async fn download(shared: &Shared, item: &Arc<Item>) -> Result<(), Error> {
    let (job, landing) = (&shared.job, &shared.landing);
    let place = landing.place(&item.path);
    let there = landing.look(&item.path)?;
    if let Some(there) = &there {
        check_kind(there, &place)?;
    }
    let has = there.map_or(There::Nothing, |there| {
        if there.kind.is_file() {
            There::File(there.size)
        } else {
            There::Other
        }
    });
    let decision = match (decision::first(&job.options, item.known.size, has), there) {
        (None, Some(there)) => compare(shared, item, &there).await?,
        (decision, _) => decision.unwrap_or(Decision::new(Action::Create, "it does not exist")),
    };
    if !job.report.decided(&item.name, item.known.size, &decision) {
        return Ok(());
    }
    if let Some(above) = item.path.parent() {
        landing.make_folder(above)?;
    }
    let mode = there
        .filter(|there| there.kind.is_file())
        .map_or_else(usual_mode, |there| there.mode);
    fetch::run(shared, item, (decision, mode)).await
}

/// Fails if what is at the target cannot be replaced.
fn check_kind(there: &Meta, place: &Path) -> Result<(), Error> {
    let what = if there.kind.is_dir() {
        "a directory"
    } else if there.kind.is_file() || there.kind.is_symlink() {
        return Ok(());
    } else {
        "a device, FIFO or socket"
    };
    let fault = Fault::Failed {
        what: format!("cannot replace {}", place.display()),
        why: format!("it is {what}; copy to another place"),
        code: Code::Open,
    };
    Err(fault.into())
}

/// Decides by the attributes of both.
async fn compare(shared: &Shared, item: &Item, there: &Meta) -> Result<Decision, Error> {
    let options = &shared.job.options;
    let mut target = Version {
        size: there.size,
        time: Some(Stamp {
            seconds: there.seconds,
            nanos: there.nanos,
        }),
        stored: None,
        sums: Vec::new(),
    };
    let mut source = Version {
        // an unknown size equals no other size
        size: match item.stream {
            Some(StreamSize::Unknown) => !there.size,
            Some(StreamSize::Known) | None => item.known.size,
        },
        time: item.known.stamp,
        stored: Some(item.known.modified),
        sums: content_sums::of(&item.known).collect(),
    };
    let seconds = |time: Option<Stamp>| time.map(|time| time.seconds);
    let is_same = seconds(source.stored) == seconds(target.time) && source.size == target.size;
    if !item.is_known && (options.update || options.checksum || !is_same) {
        let url = item.bucket.url(&item.key);
        let found = item.bucket.attributes(&item.key).await;
        let found =
            found.map_err(|error| error.during(format!("cannot read the attributes of {url}")))?;
        let found = found.unwrap_or_default();
        source.time = found.stamp;
        source.sums = content_sums::of(&found).collect();
        source.stored = Some(found.modified);
    }
    if options.checksum
        && source.size == target.size
        && let Some(sum) = source.sums.first()
    {
        let access = Arc::new(lighthaul_fs::file_access::FileAccess::anywhere());
        let file = SourceFile::open(access, shared.landing.place(&item.path)).await?;
        target.sums.push(file.checksum(*sum).await?);
    }
    Ok(decision::second(options, &source, &target))
}

/// Returns the mode of a new file.
fn usual_mode() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    0o666 & !mask.unwrap_or(0o022)
}
