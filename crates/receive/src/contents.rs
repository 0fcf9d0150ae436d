//! Contents of small files that come with the list; see [`lighthaul_copy::contents`].
//!
//! The files of one page are handled like an object that has arrived with all reports of the sender.

use std::collections::BTreeMap;
use std::ops::RangeFrom;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;

use lighthaul_copy::contents::{Content, ContentsLimit};
use lighthaul_copy::message::WantedFiles;
use lighthaul_copy::report::Report;
use lighthaul_files::object::{Layout, Piece};
use lighthaul_io::store::blocks::Sink;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;
use lighthaul_session::protocol::Protocol;

use super::job::{Incoming, Job, OBJECTS_MAX};
use super::sink::FileSink;
use super::temp_files::TempFiles;
use super::transfer::Transfer;

/// Contents of the next page.
pub(super) struct Contents {
    files: BTreeMap<u64, Content>,
    limit: ContentsLimit,
    /// Numbers of the objects of the next pages; they follow the numbers of announced objects.
    numbers: RangeFrom<u64>,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            limit: ContentsLimit::default(),
            numbers: OBJECTS_MAX..,
        }
    }
}

/// Writer of contents.
pub(super) struct ContentsWriter {
    sink: FileSink,
    jobs: Sender<Job>,
}

impl Contents {
    /// Adds contents of files from number `next` on.
    pub(super) fn receive(&mut self, contents: Vec<Content>, next: u64) -> Result<(), Error> {
        let invalid = |what| Err(PeerFault::Invalid(what).into());
        for content in contents {
            let number = content.number;
            if !self.limit.take(content.bytes.len() as u64) {
                return invalid("more contents of files than the limit");
            }
            if number < next {
                return invalid("contents of a file that is listed already");
            }
            if self.files.insert(number, content).is_some() {
                return invalid("contents of a file twice");
            }
        }
        Ok(())
    }

    /// Takes the contents of wanted files, and forgets other contents.
    fn take(&mut self, wanted: &mut WantedFiles) -> Vec<Content> {
        let mut files = std::mem::take(&mut self.files);
        let mut taken = Vec::new();
        wanted.files.retain(|file| {
            let content = files.remove(&file.number);
            // a file without a list of ranges is wanted as a whole
            let content = content.filter(|_| file.send.is_none() && file.basis.is_none());
            let is_there = content.is_some();
            taken.extend(content);
            !is_there
        });
        taken
    }
}

impl ContentsWriter {
    pub(super) fn new(
        transfer: &Transfer<'_>,
        files: &TempFiles,
        jobs: Sender<Job>,
    ) -> Result<Self, Error> {
        let (_, open_max) = transfer.settings.budget.of_lane(1);
        Ok(Self {
            sink: FileSink::new(transfer, files, open_max, jobs.clone())?,
            jobs,
        })
    }

    /// Writes the contents of wanted files, which are then no longer requested.
    pub(super) fn write(
        &mut self,
        transfer: &Transfer<'_>,
        contents: &mut Contents,
        wanted: &mut WantedFiles,
    ) -> Result<(), Error> {
        let taken = contents.take(wanted);
        if taken.is_empty() {
            return Ok(());
        }
        let invalid = |what| Error::from(PeerFault::Invalid(what));
        let piece = |content: &Content| Piece {
            entry: content.number,
            offset: 0,
            len: content.bytes.len() as u64,
        };
        let pieces = taken.iter().map(piece).collect();
        let layout = Layout::new(pieces).map_err(|_| invalid("an invalid object"))?;
        let files = transfer.table.announce(layout.pieces())?;
        // the range has no end
        let number = contents.numbers.next().unwrap_or(OBJECTS_MAX);
        let len: u64 = taken.iter().map(|content| content.bytes.len() as u64).sum();
        wanted.taken = len;
        let object = Arc::new(Incoming {
            protocol: Protocol::Tcp,
            number,
            layout,
            files,
        });
        self.sink.begin(Arc::clone(&object))?;
        let mut offset = 0;
        for content in &taken {
            self.sink.write(offset, &content.bytes)?;
            offset += content.bytes.len() as u64;
        }
        self.sink.end()?;
        transfer.monitor.contents.fetch_add(len, Relaxed);
        let reports = taken.iter().map(|content| Report::Digest(content.digest));
        // a publisher that has stopped has reported the reason
        self.jobs.send(Job::Reports(number, reports.collect())).ok();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lighthaul_copy::message::WantedFile;
    use lighthaul_files::digest::{Digest, DigestKind};

    use super::*;

    fn content(number: u64) -> Content {
        Content {
            number,
            bytes: vec![7],
            digest: Digest::Blake3([7; 32]),
        }
    }

    #[test]
    fn contents_in_the_list_are_used_only_for_whole_files() {
        let mut contents = Contents::default();
        let sent = [0, 1, 2, 3, 5].map(content);
        contents.receive(sent.into(), 0).unwrap();
        let file = |(number, send, basis)| WantedFile {
            number,
            send,
            held: Vec::new(),
            digest: DigestKind::Blake3,
            basis,
        };
        let ranges = || Some(vec![(0, 1)]);
        let files = [
            (0, None, None),
            (1, ranges(), None),
            (2, None, Some(9)),
            // no content was sent of this file, and the file before it is not wanted
            (4, None, None),
            (5, None, None),
        ];
        let mut wanted = WantedFiles {
            entries: 6,
            taken: 0,
            files: files.map(file).into(),
        };
        let numbers = |taken: Vec<Content>| taken.iter().map(|one| one.number).collect::<Vec<_>>();
        assert_eq!(numbers(contents.take(&mut wanted)), [0, 5]);
        let left = wanted.files.iter().map(|file| file.number);
        assert_eq!(left.collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(numbers(contents.take(&mut wanted)), [0; 0]);
    }
}
