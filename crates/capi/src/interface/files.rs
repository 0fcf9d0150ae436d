//! Files of another host: lists, renames, readers and writers.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

use lighthaul::{
    Client, Error, Failure, FileInfo, FileKind, Place, RemoteFiles, RemoteReader, RemoteWriter,
};

use super::client::ClientHandle;
use super::code::{ResultCode, result};
use crate::call::run;
use crate::fault::Fault;
use crate::handles::{self, Object};
use crate::memory;

/// Connection to the files of a host.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilesHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// File that is open for reading.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReaderHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// File that is open for writing. A new file gets its name at `lh_writer_commit()`; without a commit, it is removed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WriterHandle {
    /// Number of the handle; zero for none.
    pub id: u64,
}

/// Kind of an item: a file.
pub const LH_FILE: i32 = 1;
/// Kind of an item: a directory.
pub const LH_DIRECTORY: i32 = 2;
/// Kind of an item: a symbolic link.
pub const LH_LINK: i32 = 3;
/// Kind of an item: a device, a socket or a FIFO.
pub const LH_OTHER: i32 = 4;

/// Item of a file system.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Name in the listed directory; null from `lh_files_stat()`.
    pub name: *const c_char,
    /// Size of a file in bytes.
    pub bytes: u64,
    /// Modification time, in seconds since 1970.
    pub modified_s: i64,
    /// Nanosecond part of the modification time.
    pub modified_ns: u32,
    /// Permission bits.
    pub mode: u32,
    /// User ID of the owner.
    pub user: u32,
    /// Group ID.
    pub group: u32,
    /// `LH_FILE`, `LH_DIRECTORY`, `LH_LINK` or `LH_OTHER`.
    pub kind: i32,
}

/// Function that receives an item of a directory, in the thread of the call. A nonzero return value ends the list with
/// `LH_INTERRUPTED`.
pub type ItemFunction = Option<extern "C" fn(data: *mut c_void, item: *const Item) -> i32>;

/// Files of a host, and the host's name for messages.
struct Files {
    files: RemoteFiles,
    host: Arc<Place>,
}

/// Open file, and its path for messages.
struct Opened<T> {
    file: T,
    host: Arc<Place>,
    path: Vec<u8>,
}

impl Object for Files {
    const NAME: &'static str = "connection to files";
}

impl Object for Opened<RemoteReader> {
    const NAME: &'static str = "reader";
}

impl Object for Opened<RemoteWriter> {
    const NAME: &'static str = "writer";
}

/// Connects to the files of the host of `place`, as in `lh://HOST/`. `writable` is 1 to ask for the right to write.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_open(
    client: ClientHandle,
    place: *const c_char,
    writable: i32,
    files: *mut FilesHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(files, "files")?;
        let client = handles::get::<Client>(client.id)?;
        let place = memory::place(place, "place")?;
        let connected = Files {
            files: client.files(&place, writable != 0)?,
            host: Arc::new(place),
        };
        let id = handles::open(connected);
        memory::store(files, FilesHandle { id });
        Ok(())
    }))
}

/// Closes a connection to files. Open readers and writers continue.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_close(files: FilesHandle) -> ResultCode {
    result(run(|| handles::close::<Files>(files.id).map(drop)))
}

/// Describes the item at `path`, or the target of a link if `follow` is 1.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_stat(
    files: FilesHandle,
    path: *const c_char,
    follow: i32,
    item: *mut Item,
) -> ResultCode {
    result(run(|| {
        memory::require(item, "item")?;
        let (info, _) = at(files, path, |files, path| files.stat(path, follow != 0))?;
        memory::store(item, described(&info, ptr::null()));
        Ok(())
    }))
}

/// Calls `each` for each item of the directory at `path`.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_list(
    files: FilesHandle,
    path: *const c_char,
    each: ItemFunction,
    data: *mut c_void,
) -> ResultCode {
    result(run(|| {
        let each = each.ok_or(Fault::Null("each"))?;
        for info in at(files, path, RemoteFiles::list)? {
            let name = CString::new(info.path.clone()).unwrap_or_default();
            let item = described(&info, name.as_ptr());
            if each(data, &raw const item) != 0 {
                return Err(Fault::Stopped.into());
            }
        }
        Ok(())
    }))
}

/// Creates a directory.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_make_directory(files: FilesHandle, path: *const c_char) -> ResultCode {
    result(run(|| at(files, path, RemoteFiles::make_folder)))
}

/// Removes a file or a link.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_remove(files: FilesHandle, path: *const c_char) -> ResultCode {
    result(run(|| at(files, path, RemoteFiles::remove)))
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_remove_directory(files: FilesHandle, path: *const c_char) -> ResultCode {
    result(run(|| at(files, path, RemoteFiles::remove_folder)))
}

/// Renames `from` to `to`. An existing `to` is replaced only if `replace` is 1.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_rename(
    files: FilesHandle,
    from: *const c_char,
    to: *const c_char,
    replace: i32,
) -> ResultCode {
    result(run(|| {
        let target = memory::bytes(to, "to")?;
        at(files, from, |files, from| {
            files.rename(from, &target, replace != 0)
        })
    }))
}

/// Copies the file `from` to `to` on the host, without its bytes passing this host. An existing `to` is replaced only if
/// `replace` is 1.
#[unsafe(no_mangle)]
pub extern "C" fn lh_files_copy(
    files: FilesHandle,
    from: *const c_char,
    to: *const c_char,
    replace: i32,
) -> ResultCode {
    result(run(|| {
        let target = memory::bytes(to, "to")?;
        at(files, from, |files, from| {
            files.copy(from, &target, replace != 0)
        })
    }))
}

/// Opens a file for reading. Reads fail with `LH_CHANGED` if another program changes the file.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reader_open(
    files: FilesHandle,
    path: *const c_char,
    reader: *mut ReaderHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(reader, "reader")?;
        let id = handles::open(opened(files, path, RemoteFiles::open)?);
        memory::store(reader, ReaderHandle { id });
        Ok(())
    }))
}

/// Stores the size of the file in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reader_size(reader: ReaderHandle, bytes: *mut u64) -> ResultCode {
    result(run(|| {
        memory::require(bytes, "bytes")?;
        let size = handles::get::<Opened<RemoteReader>>(reader.id)?.file.size();
        memory::store(bytes, size);
        Ok(())
    }))
}

/// Reads up to `len` bytes at `offset` into `buffer`, and stores the number of bytes read. It is below `len` only at
/// the end of the file. Sequential reads use read-ahead.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reader_read(
    reader: ReaderHandle,
    offset: u64,
    buffer: *mut c_void,
    len: usize,
    got: *mut usize,
) -> ResultCode {
    result(run(|| {
        memory::require(got, "got")?;
        let reader = handles::get::<Opened<RemoteReader>>(reader.id)?;
        if len > 0 {
            memory::require(buffer, "buffer")?;
        }
        let bytes = reader.named(reader.file.read_at(offset, len))?;
        memory::output(&bytes, (buffer, len), "buffer")?;
        memory::store(got, bytes.len());
        Ok(())
    }))
}

/// Closes a reader.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reader_close(reader: ReaderHandle) -> ResultCode {
    result(run(|| {
        handles::close::<Opened<RemoteReader>>(reader.id).map(drop)
    }))
}

/// Creates a file, which replaces an existing file at the commit. If `is_new` is 1, the path must not exist.
#[unsafe(no_mangle)]
pub extern "C" fn lh_writer_create(
    files: FilesHandle,
    path: *const c_char,
    is_new: i32,
    writer: *mut WriterHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(writer, "writer")?;
        let created = opened(files, path, |files, path| {
            files.create(path, None, is_new != 0)
        })?;
        let id = handles::open(created);
        memory::store(writer, WriterHandle { id });
        Ok(())
    }))
}

/// Opens a file for appending.
#[unsafe(no_mangle)]
pub extern "C" fn lh_writer_append(
    files: FilesHandle,
    path: *const c_char,
    writer: *mut WriterHandle,
) -> ResultCode {
    result(run(|| {
        memory::require(writer, "writer")?;
        let id = handles::open(opened(files, path, |files, path| files.append(path, None))?);
        memory::store(writer, WriterHandle { id });
        Ok(())
    }))
}

/// Stores the size of the file in bytes, including all writes.
#[unsafe(no_mangle)]
pub extern "C" fn lh_writer_size(writer: WriterHandle, bytes: *mut u64) -> ResultCode {
    result(run(|| {
        memory::require(bytes, "bytes")?;
        let size = handles::get::<Opened<RemoteWriter>>(writer.id)?.file.size();
        memory::store(bytes, size);
        Ok(())
    }))
}

/// Writes bytes at an offset. In a file that is open for appending, the offset must be the end. A later call for this
/// writer may report the failure of a write.
#[unsafe(no_mangle)]
pub extern "C" fn lh_writer_write(
    writer: WriterHandle,
    offset: u64,
    bytes: *const c_void,
    len: usize,
) -> ResultCode {
    result(run(|| {
        let writer = handles::get::<Opened<RemoteWriter>>(writer.id)?;
        let bytes = memory::input(bytes, len, "bytes")?;
        writer.named(writer.file.write(bytes, offset))
    }))
}

/// Flushes all writes to the disk of the host, and gives a new file its name.
#[unsafe(no_mangle)]
pub extern "C" fn lh_writer_commit(writer: WriterHandle) -> ResultCode {
    result(run(|| {
        let writer = handles::get::<Opened<RemoteWriter>>(writer.id)?;
        writer.named(writer.file.commit(None).map(drop))
    }))
}

/// Closes a writer. Writes after the last commit are discarded.
#[unsafe(no_mangle)]
pub extern "C" fn lh_writer_close(writer: WriterHandle) -> ResultCode {
    result(run(|| {
        handles::close::<Opened<RemoteWriter>>(writer.id).map(drop)
    }))
}

impl<T> Opened<T> {
    fn named<R>(&self, done: Result<R, Failure>) -> Result<R, Error> {
        done.map_err(|failure| named(&self.host, failure, &self.path))
    }
}

/// Calls `work` with the item at `path`.
fn at<T>(
    files: FilesHandle,
    path: *const c_char,
    work: impl FnOnce(&RemoteFiles, &[u8]) -> Result<T, Failure>,
) -> Result<T, Error> {
    let files = handles::get::<Files>(files.id)?;
    let path = memory::bytes(path, "path")?;
    let done = work(&files.files, &path);
    done.map_err(|failure| named(&files.host, failure, &path))
}

fn opened<T>(
    files: FilesHandle,
    path: *const c_char,
    open: impl FnOnce(&RemoteFiles, &[u8]) -> Result<T, Failure>,
) -> Result<Opened<T>, Error> {
    Ok(Opened {
        file: at(files, path, open)?,
        host: Arc::clone(&handles::get::<Files>(files.id)?.host),
        path: memory::bytes(path, "path")?,
    })
}

/// Adds the name of the host to the text of a failure.
fn named(host: &Place, mut failure: Failure, path: &[u8]) -> Error {
    failure.text = host.name_host(&failure.text, &[path]);
    failure.into()
}

const fn described(info: &FileInfo, name: *const c_char) -> Item {
    Item {
        name,
        bytes: info.size,
        modified_s: info.seconds,
        modified_ns: info.nanos,
        mode: info.mode,
        user: info.user,
        group: info.group,
        kind: match info.kind {
            FileKind::File => LH_FILE,
            FileKind::Folder => LH_DIRECTORY,
            FileKind::Link(_) => LH_LINK,
            FileKind::Other => LH_OTHER,
        },
    }
}
