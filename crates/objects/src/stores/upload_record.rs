//! Records of uploads in parts, so that a later run resumes them: the name of the upload, and the version of its file.
//!
//! A record is locked while its upload runs. Two copies of one file never use the same upload.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::PathBuf;

use lighthaul_buckets::checksum;
use lighthaul_remote::paths;
use rustix::fs::{FlockOperation, flock};

use crate::stores::source_file::SourceFile;

/// Record of one upload. It is removed by [`Self::remove`], and stays otherwise.
#[derive(Debug)]
pub(crate) struct UploadRecord {
    file: File,
    path: PathBuf,
    /// Name of the upload of an earlier run, and true if its file is still the same.
    pub(crate) earlier: Option<(String, bool)>,
}

impl UploadRecord {
    /// Opens the record of the upload of a file to `url`. Returns none if it cannot be kept, or if another copy has it.
    pub(crate) fn open(url: &str, source: &SourceFile, part_len: u64) -> Option<Self> {
        let folder = paths::uploads();
        fs::create_dir_all(&folder).ok()?;
        let path = folder.join(format!("{:016x}", checksum::of(url.as_bytes())));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let mut text = String::new();
        (&file).take(LEN_MAX).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(url);
        let is_same = lines.next() == Some(&version(source, part_len));
        // a record that was cut off has no end
        let id = lines
            .next()
            .filter(|_| is_ours && lines.next() == Some(END));
        file.rewind().ok()?;
        Some(Self {
            earlier: id.map(|id| (id.to_owned(), is_same)),
            file,
            path,
        })
    }

    /// Notes the name of an upload.
    pub(crate) fn note(&mut self, url: &str, (source, part_len): (&SourceFile, u64), id: &str) {
        let text = format!("{url}\n{}\n{id}\n{END}\n", version(source, part_len));
        // without a record, the upload is only not resumed
        let file = &mut self.file;
        let noted = file.rewind().and_then(|()| file.set_len(0));
        noted.and_then(|()| file.write_all(text.as_bytes())).ok();
    }

    /// Removes the record, since the upload has ended.
    pub(crate) fn remove(self) {
        fs::remove_file(&self.path).ok();
    }
}

fn version(source: &SourceFile, part_len: u64) -> String {
    let (device, inode, changed, nanos) = source.version;
    format!(
        "{device} {inode} {changed}.{nanos:09} {} {part_len}",
        source.size
    )
}

/// Last line of a complete record.
const END: &str = "end";
/// Maximum number of bytes of a record.
const LEN_MAX: u64 = 64 << 10;
