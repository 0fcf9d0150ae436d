//! Client of other hosts.

use std::ffi::OsString;
use std::sync::Arc;

use lighthaul::{FileReply, FileRequest, Place};
use pyo3::prelude::*;

use crate::errors::raised;
use crate::files::Files;
use crate::notes::Notes;
use crate::options::{ClientSettings, CopyOptions, place};
use crate::records::{ItemRecord, PlanRecord};
use crate::stream::{Stream, StreamOptions};
use crate::transfer::Transfer;
use crate::work::interruptible;

/// Items of a reply, and the exit status and reason of each item that failed.
type Reply = (Vec<ItemRecord>, Vec<(u8, String)>);

/// Client of other hosts.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Client {
    client: lighthaul::Client,
    notes: Arc<Notes>,
}

#[pymethods]
impl Client {
    #[new]
    fn new(settings: ClientSettings) -> PyResult<Self> {
        let notes = Arc::<Notes>::default();
        let settings = settings.settings(Arc::clone(&notes))?;
        Ok(Self {
            client: lighthaul::Client::new(settings),
            notes,
        })
    }

    /// Starts a copy.
    fn start(&self, py: Python<'_>, options: CopyOptions) -> PyResult<Transfer> {
        let request = options.request(py)?;
        let notes = Arc::clone(&self.notes);
        let started = self
            .client
            .copy_observed(request, move |event| notes.see(event));
        started
            .map(Transfer::new)
            .map_err(|error| raised(py, &error))
    }

    /// Returns the number of entries and bytes that a copy would transfer.
    fn plan(&self, py: Python<'_>, options: CopyOptions) -> PyResult<PlanRecord> {
        let request = options.request(py)?;
        let client = self.client.clone();
        interruptible(py, move || client.plan(&request)).map(PlanRecord::from)
    }

    /// Lists a directory.
    fn ls(&self, py: Python<'_>, at: OsString, hidden: bool, recursive: bool) -> PyResult<Reply> {
        let at = place(py, at)?;
        let request = FileRequest::List {
            path: at.path().to_vec(),
            hidden,
            recursive,
        };
        self.execute(py, at, request)
    }

    /// Describes an item.
    fn stat(&self, py: Python<'_>, at: OsString) -> PyResult<Reply> {
        let at = place(py, at)?;
        let paths = vec![at.path().to_vec()];
        self.execute(py, at, FileRequest::Stat { paths })
    }

    /// Removes items of one host.
    fn remove(&self, py: Python<'_>, at: Vec<OsString>, recursive: bool) -> PyResult<Reply> {
        let places: Vec<Place> = at
            .into_iter()
            .map(|at| place(py, at))
            .collect::<PyResult<_>>()?;
        let Some(host) = places.first().cloned() else {
            return Ok(Reply::default());
        };
        let paths = places.iter().map(|place| place.path().to_vec()).collect();
        self.execute(py, host, FileRequest::Remove { paths, recursive })
    }

    /// Creates a directory.
    fn make(&self, py: Python<'_>, at: OsString, parents: bool) -> PyResult<Reply> {
        let at = place(py, at)?;
        let paths = vec![at.path().to_vec()];
        self.execute(py, at, FileRequest::Make { paths, parents })
    }

    /// Connects to the files of a host.
    fn files(&self, py: Python<'_>, at: OsString, changes: bool) -> PyResult<Files> {
        let at = place(py, at)?;
        let client = self.client.clone();
        let host = at.clone();
        let files = interruptible(py, move || client.files(&at, changes))?;
        Ok(Files::new(files, host))
    }

    /// Opens a stream.
    fn stream(&self, py: Python<'_>, options: StreamOptions) -> PyResult<Stream> {
        let request = options.request(py)?;
        let opened = self.client.stream(request);
        opened.map(Stream::new).map_err(|error| raised(py, &error))
    }

    /// Returns the host and the path of a place; no host for a local place.
    #[staticmethod]
    fn split(py: Python<'_>, at: OsString) -> PyResult<(Option<String>, Vec<u8>)> {
        let at = place(py, at)?;
        let is_here = matches!(at, Place::Here(_));
        let host = (!is_here).then(|| at.with_host(""));
        Ok((host, at.path().to_vec()))
    }

    /// Returns the notes that were not fetched before, each with its level.
    fn notes(&self) -> Vec<(u8, String)> {
        self.notes.take()
    }
}

impl Client {
    fn execute(&self, py: Python<'_>, at: Place, request: FileRequest) -> PyResult<Reply> {
        let client = self.client.clone();
        interruptible(py, move || {
            let (mut found, mut failed) = (Vec::new(), Vec::new());
            client.execute(&at, &request, &mut |part| {
                match part {
                    FileReply::Listed { items } => {
                        found.extend(items.into_iter().map(ItemRecord::from));
                    }
                    FileReply::Failed { code, why } => failed.push((code, why)),
                    FileReply::Hashed { .. }
                    | FileReply::Unreadable { .. }
                    | FileReply::Busy { .. }
                    | FileReply::Done { .. } => {}
                }
                Ok(())
            })?;
            Ok((found, failed))
        })
    }
}
