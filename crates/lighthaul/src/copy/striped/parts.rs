//! Parts of a striped copy, each a copy of its own between one pair of hosts.

use std::sync::Arc;

use lighthaul_files::filter::Rules;
use lighthaul_files::naming::Naming;
use lighthaul_files::options::{DeltaMode, Detail, Options, Striped, StripedPart};
use lighthaul_files::skip::Skip;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::copy::job::Job;
use crate::fault::Fault;
use crate::list::List;

/// Hosts of a striped copy, and its parts.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    job: Job,
    run: [u8; 16],
    sources: Vec<Place>,
    targets: Vec<Place>,
}

impl Parts {
    /// Creates the parts of `job`. Fails if it has options that a striped copy cannot have.
    pub(super) fn new(job: &Job) -> Result<Self, Error> {
        let request = &job.request;
        let options = &request.options;
        let unfit = [
            (options.inplace, "--inplace"),
            (request.split && options.delete, "--split with --delete"),
            (
                request.split && options.hard_links,
                "--split with --hard-links",
            ),
            (request.booking.is_some(), "a booking"),
            (!options.trc.is_empty(), "--trc"),
            (job.settings.route.gateway.is_some(), "a gateway"),
            (
                request.sources.iter().any(is_pattern),
                "patterns in source paths",
            ),
            (
                request.list.as_ref().is_some_and(List::is_read_once),
                "a list from standard input",
            ),
        ];
        if let Some((_, what)) = unfit.iter().find(|(has, _)| *has) {
            return Err(Fault::NotStriped(what).into());
        }
        let first = request.sources.first().ok_or(Fault::NoSource)?;
        let sources = [first].into_iter().chain(&request.more_sources);
        let targets = [&request.target].into_iter().chain(&request.more_targets);
        let parts = Self {
            job: job.clone(),
            run: random_octets(),
            sources: sources.cloned().collect(),
            targets: targets.cloned().collect(),
        };
        parts.base()?;
        Ok(parts)
    }

    /// Returns the number of pairs of hosts. Each host is in one pair at least.
    pub(super) fn pairs(&self) -> usize {
        self.sources.len().max(self.targets.len())
    }

    /// Returns the names of both hosts of pair `number`.
    pub(super) fn name(&self, number: usize) -> String {
        let (source, target) = self.hosts(number);
        format!("{} to {}", source.host_name(), target.host_name())
    }

    fn hosts(&self, number: usize) -> (&Place, &Place) {
        let at = |hosts: &[Place]| number % hosts.len();
        (
            &self.sources[at(&self.sources)],
            &self.targets[at(&self.targets)],
        )
    }

    /// Returns the whole copy between the hosts of pair `number`.
    fn between(&self, number: usize) -> Job {
        let (source, target) = self.hosts(number);
        // attempts of different parts run at the same time
        let mut job = Job::new(self.job.request.clone(), Arc::clone(&self.job.settings));
        let request = &mut job.request;
        for place in &mut request.sources {
            *place = source.with_path(place.path().to_vec());
        }
        request.target = target.with_path(request.target.path().to_vec());
        request.more_sources.clear();
        request.more_targets.clear();
        job
    }

    /// Returns the part that compares both sides, as a dry run.
    pub(super) fn plan(&self, number: usize) -> Job {
        let mut job = self.last(number);
        let options = &mut job.request.options;
        options.dry_run = Some(Detail::Brief);
        options.itemize = true;
        options.delete = false;
        job
    }

    /// Returns the part that publishes all files.
    pub(super) fn last(&self, number: usize) -> Job {
        let mut job = self.between(number);
        job.request.options.striped = Some(Striped {
            run: self.run,
            part: StripedPart::Publish { naming: None },
        });
        job
    }

    /// Returns the part that publishes the entries at `paths`, where each target has files of its own.
    pub(super) fn last_of(
        &self,
        number: usize,
        naming: Naming,
        paths: &[Vec<u8>],
    ) -> Result<Job, Error> {
        let mut job = self.last(number);
        self.select(&mut job, List::of_paths(paths))?;
        let options = &mut job.request.options;
        options.rules = Rules::default();
        options.striped = Some(Striped {
            run: self.run,
            part: StripedPart::Publish {
                naming: Some(naming),
            },
        });
        Ok(job)
    }

    /// Returns true if each target host has files of its own.
    pub(super) const fn is_split(&self) -> bool {
        self.job.request.split
    }

    /// Returns the number of target hosts. The first pairs have one each.
    pub(super) const fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Makes `list` select the entries of a part.
    fn select(&self, job: &mut Job, list: List) -> Result<(), Error> {
        let base = self.base()?;
        let request = &mut job.request;
        // the target has the same meaning as for all sources
        if request.sources.len() > 1 && !request.target.path().ends_with(b"/") {
            let path = [request.target.path(), b"/"].concat();
            request.target = request.target.with_path(path);
        }
        let first = request.sources.first().ok_or(Fault::NoSource)?;
        request.sources = vec![first.with_path(base)];
        request.list = Some(list);
        Ok(())
    }

    /// Returns the part that stages the entries of `list`, which are named by `naming` in the whole copy.
    pub(super) fn stage(&self, number: usize, naming: Naming, list: List) -> Result<Job, Error> {
        let mut job = self.between(number);
        let is_listed = job.request.list.is_some() || self.is_split();
        self.select(&mut job, list)?;
        let request = &mut job.request;
        request.stop_at = None;
        request.options = Options {
            rules: Rules::default(),
            hard_links: false,
            checksum: false,
            update: false,
            delete: false,
            max_delete: None,
            skip: Skip::default(),
            remove_source: false,
            backup: None,
            link_dest: Vec::new(),
            itemize: false,
            verify_disk: false,
            hash: Vec::new(),
            delta: DeltaMode::Never,
            striped: Some(Striped {
                run: self.run,
                part: StripedPart::Stage {
                    naming,
                    is_whole: !is_listed && !naming.is_named(),
                },
            }),
            ..request.options.clone()
        };
        Ok(job)
    }

    /// Returns the directory at the source that names of entries are relative to.
    fn base(&self) -> Result<Vec<u8>, Error> {
        let request = &self.job.request;
        let mut bases = request.sources.iter().map(|place| {
            let path = place.path();
            if request.list.is_some() || path.ends_with(b"/") {
                return path;
            }
            match path.iter().rposition(|octet| *octet == b'/') {
                Some(end) => &path[..=end],
                None => b"./",
            }
        });
        let first = bases.next().ok_or(Fault::NoSource)?;
        if bases.any(|base| base != first) {
            return Err(Fault::SeveralFolders.into());
        }
        Ok(first.to_vec())
    }

    /// Returns the name at the source of the entry that the plan calls `path`, and the naming of all entries.
    pub(super) fn source_name(&self, path: &[u8]) -> (Vec<u8>, Naming) {
        let request = &self.job.request;
        let [only] = request.sources.as_slice() else {
            return (path.to_vec(), Naming::Several);
        };
        let from = only.path();
        if request.list.is_some() || from.ends_with(b"/") {
            return (path.to_vec(), Naming::Contents);
        }
        let start = from.iter().rposition(|octet| *octet == b'/');
        let name = &from[start.map_or(0, |start| start + 1)..];
        // the target may have another name for it
        match path.iter().position(|octet| *octet == b'/') {
            Some(end) => ([name, &path[end..]].concat(), Naming::Folder),
            None => (name.to_vec(), Naming::File),
        }
    }
}

/// Returns true if the host of the source would expand a pattern in its path.
fn is_pattern(source: &Place) -> bool {
    let has_stars = source.path().iter().any(|octet| b"*?[".contains(octet));
    has_stars && !matches!(source, Place::Here(_))
}
