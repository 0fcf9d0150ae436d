//! Remote files: ranges, readers, writers, and changes of names.

use std::fmt::{self, Debug, Formatter};
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use lighthaul::{ByteRange, Error, Failure, Place, RemoteFiles, RemoteReader, RemoteWriter};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};

use crate::errors::exception;
use crate::records::ItemRecord;
use crate::work::interruptible;

/// Value that only the process that created it may use. In a child its threads are missing, and it must not send
/// anything on the connections of its parent.
struct Owned<T> {
    value: Option<Arc<T>>,
    process: u32,
}

impl<T> Owned<T> {
    fn new(value: T) -> Self {
        Self {
            value: Some(Arc::new(value)),
            process: std::process::id(),
        }
    }

    fn get(&self) -> PyResult<Arc<T>> {
        let is_ours = self.process == std::process::id();
        let value = self.value.as_ref().filter(|_| is_ours);
        value.cloned().ok_or_else(|| {
            let text =
                "the connection belongs to the parent of this process: open the file again here";
            PyRuntimeError::new_err(text)
        })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            mem::forget(self.value.take());
        }
    }
}

impl<T> Debug for Owned<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Owned({})", self.process)
    }
}

/// Host of the files, for the names in messages.
#[derive(Clone, Debug)]
struct Host(Arc<Place>);

impl Deref for Host {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Host {
    /// Returns a failure with the name of the host in its text.
    fn named(&self, mut failure: Failure, paths: &[&[u8]]) -> Error {
        failure.text = self.name_host(&failure.text, paths);
        failure.into()
    }
}

/// Files of a host.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Files {
    files: Owned<RemoteFiles>,
    host: Host,
}

impl Files {
    /// Returns the files of the host of `place`.
    pub(crate) fn new(files: RemoteFiles, place: Place) -> Self {
        Self {
            files: Owned::new(files),
            host: Host(Arc::new(place)),
        }
    }

    /// Does `work` with the files. Failures name the host before these paths.
    fn with<T: Send + 'static>(
        &self,
        py: Python<'_>,
        paths: Vec<Vec<u8>>,
        work: impl FnOnce(&RemoteFiles, &[Vec<u8>]) -> Result<T, Failure> + Send + 'static,
    ) -> PyResult<T> {
        let files = self.files.get()?;
        let host = self.host.clone();
        interruptible(py, move || {
            work(&files, &paths).map_err(|failure| {
                let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
                host.named(failure, &paths)
            })
        })
    }
}

#[pymethods]
impl Files {
    /// Returns the bytes of each range, or the exception of a failed range. A range is a path, an offset and a length.
    fn cat_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(Vec<u8>, u64, u64)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let files = self.files.get()?;
        let wanted = ranges
            .into_iter()
            .map(|(path, offset, len)| ByteRange { path, offset, len });
        let wanted: Vec<ByteRange> = wanted.collect();
        let (wanted, found) = interruptible(py, move || {
            let found = files.cat_ranges(&wanted);
            Ok((wanted, found))
        })?;
        let list = PyList::empty(py);
        for (range, found) in wanted.iter().zip(found) {
            match found {
                Ok(bytes) => list.append(PyBytes::new(py, &bytes))?,
                Err(failure) => {
                    let error = self.host.named(failure, &[&range.path]);
                    list.append(exception(py, &error)?)?;
                }
            }
        }
        Ok(list)
    }

    /// Passes the index of each range, and its bytes or its exception, to `take`, as soon as they are complete. A range
    /// without a length extends to the end of its file. Raises the first exception of `take`.
    fn cat_each(
        &self,
        py: Python<'_>,
        ranges: Vec<(Vec<u8>, u64, Option<u64>)>,
        take: Py<PyAny>,
    ) -> PyResult<()> {
        let files = self.files.get()?;
        let wanted = ranges.into_iter().map(|(path, offset, len)| ByteRange {
            path,
            offset,
            len: len.unwrap_or(ByteRange::TO_END),
        });
        let wanted: Vec<ByteRange> = wanted.collect();
        let host = self.host.clone();
        let failed = interruptible(py, move || {
            let mut failed = None;
            files.cat_each(&wanted, &mut |range, found| {
                let passed = Python::attach(|py| {
                    let found = match found {
                        Ok(bytes) => PyBytes::new(py, &bytes).into_any(),
                        Err(failure) => {
                            let error = host.named(failure, &[&wanted[range].path]);
                            exception(py, &error)?
                        }
                    };
                    take.call1(py, (range, found)).map(drop)
                });
                failed = failed.take().or_else(|| passed.err());
            });
            Ok(failed)
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Opens a file for reading.
    fn open(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<Reader> {
        let reader = self.with(py, vec![path.clone()], |files, paths| files.open(&paths[0]))?;
        Ok(Reader {
            opened: Owned::new(reader),
            host: self.host.clone(),
            path,
        })
    }

    /// Creates a file, which gets its name when it is committed. Fails if it is new and the path exists.
    fn create(&self, py: Python<'_>, path: Vec<u8>, is_new: bool) -> PyResult<Writer> {
        let writer = self.with(py, vec![path.clone()], move |files, paths| {
            files.create(&paths[0], None, is_new)
        })?;
        Ok(self.writer(writer, path))
    }

    /// Opens a file for writing at its end.
    fn append(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<Writer> {
        let writer = self.with(py, vec![path.clone()], |files, paths| {
            files.append(&paths[0], None)
        })?;
        Ok(self.writer(writer, path))
    }

    /// Describes the item at `path`, or the target if it is a link and `follow` is true.
    fn stat(&self, py: Python<'_>, path: Vec<u8>, follow: bool) -> PyResult<ItemRecord> {
        self.with(py, vec![path], move |files, paths| {
            files.stat(&paths[0], follow).map(|(info, _)| info.into())
        })
    }

    /// Lists a directory.
    fn ls(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<Vec<ItemRecord>> {
        self.with(py, vec![path], |files, paths| {
            let items = files.list(&paths[0])?;
            Ok(items.into_iter().map(ItemRecord::from).collect())
        })
    }

    /// Renames `from` to `to`, and replaces a file at `to`.
    fn rename(&self, py: Python<'_>, from: Vec<u8>, to: Vec<u8>) -> PyResult<()> {
        self.with(py, vec![from, to], |files, paths| {
            files.rename(&paths[0], &paths[1], true)
        })
    }

    /// Copies the file `from` to `to` on the server, and replaces a file at `to`.
    fn copy(&self, py: Python<'_>, from: Vec<u8>, to: Vec<u8>) -> PyResult<()> {
        self.with(py, vec![from, to], |files, paths| {
            files.copy(&paths[0], &paths[1], true)
        })
    }

    /// Removes a file or link.
    fn remove(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<()> {
        self.with(py, vec![path], |files, paths| files.remove(&paths[0]))
    }

    /// Removes an empty directory.
    fn remove_dir(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<()> {
        self.with(py, vec![path], |files, paths| {
            files.remove_folder(&paths[0])
        })
    }

    /// Sets the modification time of an item, in nanoseconds since 1970.
    fn set_time(&self, py: Python<'_>, path: Vec<u8>, time: i128) -> PyResult<()> {
        let seconds = i64::try_from(time.div_euclid(SECOND))?;
        let nanos = u32::try_from(time.rem_euclid(SECOND))?;
        self.with(py, vec![path], move |files, paths| {
            files.set(&paths[0], None, Some((seconds, nanos)))
        })
    }

    /// Creates a directory.
    fn make_dir(&self, py: Python<'_>, path: Vec<u8>) -> PyResult<()> {
        self.with(py, vec![path], |files, paths| files.make_folder(&paths[0]))
    }
}

impl Files {
    fn writer(&self, writer: RemoteWriter, path: Vec<u8>) -> Writer {
        Writer {
            opened: Owned::new(writer),
            host: self.host.clone(),
            path,
        }
    }
}

/// File that is open for reading.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Reader {
    opened: Owned<RemoteReader>,
    host: Host,
    path: Vec<u8>,
}

#[pymethods]
impl Reader {
    /// Size in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.opened.get()?.size())
    }

    /// Returns up to `len` bytes from `offset`; fewer only at the end of the file.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        len: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let reader = self.opened.get()?;
        let (host, path) = (self.host.clone(), self.path.clone());
        let bytes = interruptible(py, move || {
            let read = reader.read_at(offset, len);
            read.map_err(|failure| host.named(failure, &[&path]))
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// File that is open for writing. Without a commit, a new file leaves nothing.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Writer {
    opened: Owned<RemoteWriter>,
    host: Host,
    path: Vec<u8>,
}

impl Writer {
    fn with(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&RemoteWriter) -> Result<(), Failure> + Send + 'static,
    ) -> PyResult<()> {
        let writer = self.opened.get()?;
        let (host, path) = (self.host.clone(), self.path.clone());
        interruptible(py, move || {
            work(&writer).map_err(|failure| host.named(failure, &[&path]))
        })
    }
}

#[pymethods]
impl Writer {
    /// Size in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.opened.get()?.size())
    }

    /// Writes bytes at an offset.
    fn write(&self, py: Python<'_>, bytes: PyBackedBytes, offset: u64) -> PyResult<()> {
        self.with(py, move |writer| writer.write(&bytes, offset))
    }

    /// Completes the file, which gets its name once it is on disk.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |writer| writer.commit(None).map(drop))
    }
}

/// Nanoseconds per second.
const SECOND: i128 = 1_000_000_000;
