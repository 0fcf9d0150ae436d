//! Records of uploads in parts, so that a later run resumes them: the name of the upload, and the version of its file.
//!
//! A record is locked while its upload runs. Two copies of one file never use the same upload.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::checksum;

/// Record of one upload. It is removed by [`Self::remove`], and stays otherwise.
#[derive(Debug)]
pub struct UploadRecord {
    file: File,
    path: PathBuf,
    url: String,
    version: String,
    /// Name of the upload of an earlier run, and true if its file is still the same.
    pub earlier: Option<(String, bool)>,
}

/// Reason why there is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRecord {
    /// Another copy has it.
    InUse,
    /// No record can be kept.
    Unusable,
}

impl UploadRecord {
    /// Opens the record of the upload of a file to `url`, in a directory that is created. `version` is a line about the file.
    pub fn open(folder: &Path, url: &str, version: &str) -> Result<Self, NoRecord> {
        fs::create_dir_all(folder).map_err(|_| NoRecord::Unusable)?;
        let path = folder.join(format!("{:016x}", checksum::of(url.as_bytes())));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(|_| NoRecord::Unusable)?;
        let text = locked(&mut file)?;
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(url);
        let is_same = lines.next() == Some(version);
        // a record that was cut off has no end
        let id = lines
            .next()
            .filter(|_| is_ours && lines.next() == Some(END));
        Ok(Self {
            earlier: id.map(|id| (id.to_owned(), is_same)),
            file,
            path,
            url: url.to_owned(),
            version: version.to_owned(),
        })
    }

    /// Opens the record at `path`, if it is complete and no copy has it. Returns it with the URL of the object and the name
    /// of the upload.
    pub fn claim(path: &Path) -> Option<(Self, String, String)> {
        let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let text = locked(&mut file).ok()?;
        let mut lines = text.lines().map(str::to_owned);
        let (url, version, id) = (lines.next()?, lines.next()?, lines.next()?);
        lines.next().filter(|last| last == END)?;
        let record = Self {
            file,
            path: path.to_owned(),
            url: url.clone(),
            version,
            earlier: None,
        };
        Some((record, url, id))
    }

    /// Notes the name of an upload.
    pub fn note(&mut self, id: &str) {
        let text = format!("{}\n{}\n{id}\n{END}\n", self.url, self.version);
        // without a record, the upload is only not resumed
        let file = &mut self.file;
        let noted = file.rewind().and_then(|()| file.set_len(0));
        noted.and_then(|()| file.write_all(text.as_bytes())).ok();
    }

    /// Removes the record, since the upload has ended.
    pub fn remove(self) {
        fs::remove_file(&self.path).ok();
    }
}

/// Locks a record, and reads it.
fn locked(file: &mut File) -> Result<String, NoRecord> {
    match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(NoRecord::InUse),
        Err(_) => return Err(NoRecord::Unusable),
    }
    let mut text = String::new();
    let read = (&*file).take(LEN_MAX).read_to_string(&mut text);
    read.and_then(|_| file.rewind())
        .map_err(|_| NoRecord::Unusable)?;
    Ok(text)
}

/// Last line of a complete record.
const END: &str = "end";
/// Maximum number of bytes of a record.
const LEN_MAX: u64 = 64 << 10;
