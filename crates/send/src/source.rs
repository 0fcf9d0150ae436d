//! Source of one lane: reads objects from files, and computes digests of their pieces.
//!
//! `FileSource` reads any range of an object, also again for retransmissions. Each byte enters the
//! digest of its piece at the first reading, in order. After the last byte, one report for each
//! piece goes to the receiver. A file that changed, ended early or cannot be read fails alone:
//! missing bytes are zeros, and its report is the reason.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::read_ahead::Source;
use lighthaul_copy::error::Fault;
use lighthaul_copy::report::Report;
use lighthaul_copy::work::Work;
use lighthaul_files::digest::{DigestKind, Digester};
use lighthaul_files::source_store::{SourceFile, Sources, unreadable};
use lighthaul_io::error::Error as World;
use lighthaul_session::error::{Code, Error};

use super::queue::PlannedObject;

/// Reader of the objects of one lane.
#[derive(Debug)]
pub(crate) struct FileSource {
    sources: Sources,
    work: Arc<Work>,
    kind: DigestKind,
    /// Maximum number of files that are open at a time.
    open_max: usize,
    /// Queue for the reports about each object, after the whole object was read.
    reports: Sender<(u64, Vec<Report>)>,
    object: Option<Reading>,
}

/// Object that is being read.
#[derive(Debug)]
struct Reading {
    plan: Arc<PlannedObject>,
    open_max: usize,
    /// Open files, by the numbers of their entries.
    open: BTreeMap<u64, SourceFile>,
    /// Unfinished digests, by piece.
    digester: BTreeMap<usize, Digester>,
    done: Vec<Option<Report>>,
    left: usize,
    failed: BTreeMap<u64, Error>,
    /// Offset up to which all bytes were read once, and are in the digests.
    passed: u64,
}

impl FileSource {
    /// Creates a source of files in `access`.
    pub(crate) fn new(
        (sources, work): (Sources, Arc<Work>),
        (kind, open_max): (DigestKind, usize),
        reports: Sender<(u64, Vec<Report>)>,
    ) -> Self {
        Self {
            sources,
            work,
            kind,
            open_max,
            reports,
            object: None,
        }
    }
}

impl Reading {
    fn new(plan: Arc<PlannedObject>, open_max: usize) -> Self {
        let pieces = plan.layout.pieces().len();
        Self {
            plan,
            open_max,
            open: BTreeMap::new(),
            digester: BTreeMap::new(),
            done: vec![None; pieces],
            left: pieces,
            failed: BTreeMap::new(),
            passed: 0,
        }
    }

    /// Reads a part of piece `index`. Bytes that cannot be read are zero, and the file has failed.
    fn piece(&mut self, sources: &Sources, index: usize, at: u64, buffer: &mut [u8]) {
        let piece = self.plan.layout.pieces()[index];
        if self.failed.contains_key(&piece.entry) && !self.open.contains_key(&piece.entry) {
            // it is not opened again for each packet
            buffer.fill(0);
            return;
        }
        let offset = piece.offset + at;
        // what was lost is read again, alone
        let is_again = self.done.get(index).is_none_or(Option::is_some);
        let till = (!is_again).then_some(piece.end());
        let done = match self
            .file(sources, index)
            .map(|file| file.read_in(buffer, offset, till))
        {
            Ok(Ok(done)) => done,
            Ok(Err(error)) | Err(error) => {
                self.fail_read(index, &error);
                0
            }
        };
        if done < buffer.len() {
            buffer[done..].fill(0);
            self.fail(index, "it was truncated while it was sent");
        }
    }

    /// Records that the file of piece `index` has changed since it was listed.
    fn fail(&mut self, index: usize, how: &'static str) {
        let place = self.plan.items[index].place.clone();
        self.note(index, Fault::Changed { place, how }.into());
    }

    /// Records that the file of piece `index` cannot be read.
    fn fail_read(&mut self, index: usize, error: &std::io::Error) {
        if error.kind() == std::io::ErrorKind::NotFound {
            return self.fail(index, "it was removed before it was read");
        }
        let error = unreadable(&self.plan.items[index].place, error);
        self.note(index, error);
    }

    fn note(&mut self, index: usize, error: Error) {
        let entry = self.plan.layout.pieces()[index].entry;
        self.failed.entry(entry).or_insert(error);
    }

    fn file(&mut self, sources: &Sources, index: usize) -> std::io::Result<&SourceFile> {
        let entry = self.plan.layout.pieces()[index].entry;
        if !self.open.contains_key(&entry) {
            if self.open.len() >= self.open_max {
                self.open.pop_first();
            }
            let item = Arc::clone(&self.plan.items[index]);
            let file = sources.file(&item.place)?;
            if !item.is_unchanged(&file)? {
                self.fail(index, "it changed after it was listed");
            }
            self.open.insert(entry, file);
        }
        self.open
            .get(&entry)
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Adds a part of piece `index` to its digest. Creates the report after the last part.
    fn digest(&mut self, kind: DigestKind, index: usize, at: u64, bytes: &[u8]) {
        let piece = self.plan.layout.pieces()[index];
        let digester = self
            .digester
            .entry(index)
            .or_insert_with(|| Digester::new(kind, piece.len));
        digester.update(at, bytes);
        if !digester.is_whole() {
            return;
        }
        let digest = digester.finish();
        self.digester.remove(&index);
        let item = Arc::clone(&self.plan.items[index]);
        let file = self.open.get(&piece.entry);
        if file.is_some_and(|file| matches!(item.is_unchanged(file), Ok(false))) {
            self.fail(index, "it changed while it was sent");
        }
        if piece.end() == item.size {
            self.open.remove(&piece.entry);
        }
        self.left -= 1;
        self.done[index] = Some(match (self.failed.get(&piece.entry), digest) {
            (Some(error), _) => Report::Failed {
                code: error.code() as u8,
                why: error.text(),
            },
            (None, Some(digest)) => Report::Digest(digest),
            (None, None) => Report::Failed {
                code: Code::Io as u8,
                why: "bytes were read out of order".into(),
            },
        });
    }
}

impl Source for FileSource {
    type Object = Arc<PlannedObject>;

    fn begin(&mut self, plan: Arc<PlannedObject>) {
        self.object = Some(Reading::new(plan, self.open_max));
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), World> {
        let Some(object) = &mut self.object else {
            return Err(World::Store("no object is being sent".into()));
        };
        let _step = self.work.begin();
        let known = object.passed.saturating_sub(offset) as usize;
        let follows = offset <= object.passed;
        if follows {
            object.passed = object.passed.max(offset + buffer.len() as u64);
        }
        let plan = Arc::clone(&object.plan);
        let mut filled = 0;
        for part in plan.layout.parts(offset, buffer.len()) {
            buffer[filled..part.range.start].fill(0);
            filled = part.range.end;
            object.piece(
                &self.sources,
                part.index,
                part.at,
                &mut buffer[part.range.clone()],
            );
            let new = part.range.start.max(known);
            if follows && new < part.range.end {
                let at = part.at + (new - part.range.start) as u64;
                object.digest(self.kind, part.index, at, &buffer[new..part.range.end]);
            }
        }
        buffer[filled..].fill(0);
        if object.left == 0 && !object.done.is_empty() {
            let reports = std::mem::take(&mut object.done)
                .into_iter()
                .flatten()
                .collect();
            // a lane that has stopped has ended the copy already
            self.reports.send((plan.number, reports)).ok();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{Receiver, channel};

    use lighthaul_files::digest::Digest;
    use lighthaul_files::object::{LARGE, Layout, Piece, Span};
    use lighthaul_fs::file_access::FileAccess;

    use super::super::item::Item;
    use super::*;

    /// Directory of files that are listed.
    struct Listed(PathBuf);

    impl Listed {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("source-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        /// Creates and lists a file.
        fn list(&self, name: &str, bytes: &[u8]) -> Arc<Item> {
            fs::write(self.0.join(name), bytes).unwrap();
            Arc::new(self.look(name))
        }

        fn look(&self, name: &str) -> Item {
            let place = self.0.join(name);
            let file = FileAccess::anywhere().file(&place).unwrap();
            let version = file.version().unwrap();
            Item {
                place,
                size: version.look.size,
                version: version.mark(),
            }
        }
    }

    impl Drop for Listed {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    type Reports = Receiver<(u64, Vec<Report>)>;

    /// Returns a source that sends these ranges as object 7, and its reports.
    fn begin(open_max: usize, ranges: &[(&Arc<Item>, Span)]) -> (FileSource, Reports) {
        let (reports, sent) = channel();
        let surroundings = (Arc::new(FileAccess::anywhere()).into(), Arc::default());
        let mut source = FileSource::new(surroundings, (DigestKind::Crc128, open_max), reports);
        let mut entries: Vec<&Path> = ranges
            .iter()
            .map(|(item, _)| item.place.as_path())
            .collect();
        entries.dedup();
        let piece = |(item, (from, till)): &(&Arc<Item>, Span)| Piece {
            entry: entries
                .iter()
                .position(|place| *place == item.place)
                .unwrap() as u64,
            offset: *from,
            len: till - from,
        };
        source.begin(Arc::new(PlannedObject {
            number: 7,
            layout: Layout::new(ranges.iter().map(piece).collect()).unwrap(),
            items: ranges.iter().map(|(item, _)| Arc::clone(item)).collect(),
        }));
        (source, sent)
    }

    fn read(source: &mut FileSource, offset: u64, len: usize) -> Vec<u8> {
        let mut buffer = vec![0xff; len];
        source.read(offset, &mut buffer).unwrap();
        buffer
    }

    fn digest(bytes: &[u8]) -> Report {
        let mut digester = Digester::new(DigestKind::Crc128, bytes.len() as u64);
        digester.update(0, bytes);
        let digest: Digest = digester.finish().unwrap();
        Report::Digest(digest)
    }

    /// Returns the reports about the only object.
    fn reported(reports: &Reports) -> Vec<Report> {
        let (number, reported) = reports.try_recv().unwrap();
        assert_eq!(number, 7);
        assert!(reports.try_recv().is_err(), "an object is reported once");
        reported
    }

    /// Returns the reasons of failures; none for a digest.
    fn reasons(reports: &Reports) -> Vec<Option<String>> {
        let reasons = reported(reports).into_iter().map(|report| match report {
            Report::Failed { why, .. } => Some(why),
            Report::Digest(_) => None,
        });
        reasons.collect()
    }

    /// Packets that are lost are read again, and count once.
    #[test]
    fn bytes_that_are_read_again_are_hashed_once() {
        let listed = Listed::new("again");
        let (a, b) = (listed.list("a", b"01234"), listed.list("b", b"56789"));
        let (mut source, reports) = begin(9, &[(&a, (0, 5)), (&b, (1, 4))]);
        for (offset, bytes) in [
            (0, "012"),
            (0, "01"),
            // read before its turn
            (6, "78"),
            (2, "2346"),
            (1, "12346"),
        ] {
            let found = read(&mut source, offset, bytes.len());
            assert_eq!(found, bytes.as_bytes(), "{offset}");
            assert!(reports.try_recv().is_err());
        }
        assert_eq!(read(&mut source, 4, 4), b"4678");
        assert_eq!(reported(&reports), [digest(b"01234"), digest(b"678")]);
        assert_eq!(read(&mut source, 0, 8), b"01234678");
        assert!(source.object.as_ref().unwrap().digester.is_empty());
        assert!(reports.try_recv().is_err());
    }

    #[test]
    fn padding_of_large_files_is_zero() {
        let listed = Listed::new("padding");
        let large = vec![b'x'; LARGE as usize];
        let (a, b) = (listed.list("a", b"01"), listed.list("b", &large));
        let ranges = [(&a, (0, 2)), (&b, (0, LARGE)), (&a, (0, 1))];
        let (mut source, reports) = begin(9, &ranges);
        let mut expected = b"01".to_vec();
        expected.resize(4096, 0);
        expected.extend_from_slice(&large);
        expected.push(b'0');
        assert!(read(&mut source, 0, expected.len()) == expected);
        assert_eq!(reported(&reports).len(), 3);
        // beyond the object
        assert_eq!(read(&mut source, 4095 + LARGE, 4), [b'x', b'0', 0, 0]);
    }

    /// Bytes that are sent of a file, its change, and the reason of its failure.
    type Change<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);

    /// A file that changes fails alone, and its missing bytes are zero.
    #[test]
    fn file_that_changes_does_not_affect_other_files() {
        let append = |path: &Path| {
            let open = File::options().append(true).open(path).unwrap();
            open.write_at(b"more", 0).unwrap();
        };
        let truncate = |path: &Path| {
            let open = File::options().write(true).open(path).unwrap();
            open.set_len(3).unwrap();
        };
        let remove = |path: &Path| fs::remove_file(path).unwrap();
        let before: [Change<'_>; 3] = [
            ("01234", &append, "it changed after it was listed"),
            ("012\0\0", &truncate, "it changed after it was listed"),
            ("\0\0\0\0\0", &remove, "it was removed before it was read"),
        ];
        for (bytes, change, why) in before {
            let listed = Listed::new("changed");
            let (a, b) = (listed.list("a", b"01234"), listed.list("b", b"56789"));
            let (mut source, reports) = begin(9, &[(&a, (0, 5)), (&b, (0, 5))]);
            change(&a.place);
            let found = read(&mut source, 0, 10);
            assert_eq!(found, format!("{bytes}56789").as_bytes(), "{why}");
            let reasons = reasons(&reports);
            assert!(reasons[0].as_ref().unwrap().contains(why), "{reasons:?}");
            assert_eq!(reasons[1], None);
        }
        let during: [Change<'_>; 2] = [
            ("34", &append, "it changed while it was sent"),
            ("\0\0", &truncate, "it was truncated while it was sent"),
        ];
        for (bytes, change, why) in during {
            let listed = Listed::new("changing");
            let a = listed.list("a", b"01234");
            let (mut source, reports) = begin(9, &[(&a, (0, 5))]);
            read(&mut source, 0, 3);
            change(&a.place);
            assert_eq!(read(&mut source, 3, 2), bytes.as_bytes(), "{why}");
            let reasons = reasons(&reports);
            assert!(reasons[0].as_ref().unwrap().contains(why), "{reasons:?}");
        }
    }

    /// A directory opens like a file, and cannot be read.
    #[test]
    fn error_of_a_read_is_reported() {
        let listed = Listed::new("unreadable");
        let a = Arc::new(Item {
            size: 5,
            ..listed.look("")
        });
        let (mut source, reports) = begin(9, &[(&a, (0, 5))]);
        assert_eq!(read(&mut source, 0, 5), [0; 5]);
        let why = reasons(&reports).remove(0).unwrap();
        assert!(why.contains("cannot read"), "{why}");
    }

    /// Files are closed after their last byte, or when too many are open.
    #[test]
    fn number_of_open_files_is_bounded() {
        let listed = Listed::new("open");
        let files = ["a", "b", "c"].map(|name| listed.list(name, b"0123"));
        let open = |source: &FileSource| -> Vec<u64> {
            let object = source.object.as_ref().unwrap();
            object.open.keys().copied().collect()
        };
        let ranges: Vec<_> = files.iter().map(|file| (file, (0, 2))).collect();
        let (mut source, reports) = begin(2, &ranges);
        for (offset, expected) in [(0, vec![0]), (2, vec![0, 1]), (4, vec![1, 2])] {
            read(&mut source, offset, 2);
            assert_eq!(open(&source), expected);
        }
        assert_eq!(reasons(&reports), [None, None, None]);
        let ranges: Vec<_> = files.iter().map(|file| (file, (2, 4))).collect();
        let (mut source, reports) = begin(2, &ranges);
        read(&mut source, 0, 6);
        assert_eq!(open(&source), [0; 0]);
        assert_eq!(reasons(&reports), [None, None, None]);
    }

    #[test]
    fn no_file_is_read_without_an_object() {
        let (mut source, _reports) = {
            let listed = Listed::new("none");
            begin(1, &[(&listed.list("a", b"0"), (0, 1))])
        };
        source.object = None;
        assert!(source.read(0, &mut [0]).is_err());
    }
}
