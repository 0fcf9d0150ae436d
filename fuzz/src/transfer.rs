//! Decoders of transfers: messages of two ends of a session, manifests, filters, lists, journals.

use std::fmt::Debug;

use lighthaul_copy::{message, relay};
use lighthaul_files::delta::index::Index;
use lighthaul_files::delta::scan::{Environment, Scan};
use lighthaul_files::delta::stretch::{Copied, STRETCH_MAX, Stretch, gaps};
use lighthaul_files::delta::summer::{Sum, Summer};
use lighthaul_files::filter::{Decision, FilesFrom, FilterOption, Rules, Separator};
use lighthaul_files::manifest::{pack, unpack};
use lighthaul_files::mode_changes::ModeChanges;
use lighthaul_files::request::FileReply;
use lighthaul_files::stage_log as stage;
use lighthaul_fs::version::Look;
use lighthaul_receive::journal::{Subject, decode};
use lighthaul_session::topic::{Topic, decode as decode_value, encode as encode_value};
use lighthaul_session::{checkup, measure};
use lighthaul_stream as stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes a message of every topic, and requests of clients. What decodes encodes to octets that
/// decode to the same value.
pub fn message(octets: &[u8]) {
    topic::<lighthaul_session::message::Message>(octets);
    topic::<message::Message>(octets);
    topic::<FileReply>(octets);
    topic::<stream::message::Message>(octets);
    topic::<relay::Message>(octets);
    topic::<checkup::message::Message>(octets);
    topic::<measure::Message>(octets);
    topic::<lighthaul_remote_files::message::Message>(octets);
    same::<message::Listing>(octets);
}

fn topic<M: Topic<Request: PartialEq + Debug> + PartialEq + Debug>(octets: &[u8]) {
    let frame = [&[M::NUMBER], octets].concat();
    if let Ok(message) = M::decode(&frame) {
        assert_eq!(M::decode(&message.encode()), Ok(message));
    }
    same::<M::Request>(octets);
}

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(octets: &[u8]) {
    if let Ok(value) = decode_value::<T>(octets) {
        assert_eq!(decode_value::<T>(&encode_value(&value)), Ok(value));
    }
}

/// Unpacks a part of a manifest. Its paths are safe, and it packs to octets that unpack to the same
/// entries.
pub fn manifest(octets: &[u8]) {
    if let Ok(entries) = unpack(octets) {
        for entry in &entries {
            assert!(!entry.path.starts_with(b"/"), "a path leaves the target");
        }
        if let Ok(packed) = pack(&entries) {
            assert_eq!(unpack(&packed), Ok(entries));
        }
    }
}

/// Decodes rules, and applies them to the octets after them. What decodes stays the same when it is
/// encoded again. Also parses a rule of a user, and applies it.
pub fn filter(octets: &[u8]) {
    if let Ok(text) = std::str::from_utf8(octets)
        && let Ok(changes) = ModeChanges::parse(text, 0o022)
    {
        assert_eq!(
            changes.apply(0o100_644, false) >> 12,
            0o10,
            "only permission bits change"
        );
    }
    let (rules, path) = match postcard::take_from_bytes::<Rules>(octets) {
        Ok(read) => read,
        Err(_) => (Rules::default(), octets),
    };
    let crossed = postcard::to_allocvec(&rules).expect("rules have octets");
    assert_eq!(postcard::from_bytes(&crossed), Ok(rules.clone()));
    for folder in [false, true] {
        let decision = rules.decide(path, folder);
        assert!(!rules.is_empty() || decision == Decision::Include);
    }
    let half = octets.len() / 2;
    if let Ok(rules) = Rules::parse(&[FilterOption::Exclude(octets[..half].to_vec())]) {
        rules.decide(&octets[half..], false);
    }
}

/// Reads a list of files. No listed path leaves the source.
pub fn files_from(octets: &[u8]) {
    for separator in [Separator::Line, Separator::Nul] {
        for path in FilesFrom::new(octets, separator).flatten() {
            let names = path.split(|octet| *octet == b'/');
            assert!(!path.contains(&0), "a path contains a NUL");
            for name in names {
                assert!(
                    !matches!(name, b"" | b"." | b".."),
                    "a path leaves the source"
                );
            }
        }
    }
}

/// Decodes the octets as sums of the blocks of a basis, and searches a source for them that is made
/// of the same octets. Every byte of the source is in one part, and parts are within the basis.
pub fn delta(octets: &[u8]) {
    const BLOCK: u32 = 1 << 10;
    let Some((first, octets)) = octets.split_first() else {
        return;
    };
    let whole = octets.len() / 8 * 8;
    let sums = Sum::decode(&octets[..whole]).expect("whole sums");
    assert!(Sum::decode(&octets[..whole.saturating_sub(1)]).is_err() || whole == 0);
    let source = octets.iter().copied().cycle();
    let source: Vec<u8> = source.take(octets.len() * 64).collect();
    let summer = Summer::new([1; 32], BLOCK);
    let known = source.chunks(BLOCK as usize).map(|block| summer.sum(block));
    // with an odd first octet, some are right
    let sums = match first % 2 {
        0 => sums,
        _ => known.step_by(2).chain(sums).collect(),
    };
    let basis = sums.len() as u64 * u64::from(BLOCK) - u64::from(first / 2).min(sums.len() as u64);
    let mut environment = Hostile {
        source: &source,
        sums,
        basis,
        spans: Vec::new(),
    };
    let sizes = (source.len() as u64, basis);
    let spans = [(0, sizes.0)];
    let scan = Scan::new(&mut environment, &summer, sizes);
    scan.run(&spans[..usize::from(sizes.0 > 0)])
        .expect("the source can be read");
    environment.spans.sort_unstable();
    let end = environment.spans.iter().fold(0, |at, span| {
        assert!(span.0 == at && span.1 > at, "parts overlap, or leave a gap");
        span.1
    });
    assert_eq!(end, sizes.0);
    stretch(octets);
}

/// Source, and sums that a peer has made up.
struct Hostile<'a> {
    source: &'a [u8],
    sums: Vec<Sum>,
    basis: u64,
    spans: Vec<(u64, u64)>,
}

impl Environment for Hostile<'_> {
    type Error = ();

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), ()> {
        let from = offset as usize;
        buffer.copy_from_slice(self.source.get(from..from + buffer.len()).ok_or(())?);
        Ok(())
    }

    fn wait_for(&mut self, index: &mut Index, _: usize) -> Result<(), ()> {
        let known = index.known();
        let till = self.sums.len().min(known + 3);
        if index.extend(&self.sums[known..till]).is_err() || till == self.sums.len() {
            index.finish();
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.spans.len() % 2 == 1
    }

    fn matched(&mut self, at: u64, from: u64, bytes: &[u8]) -> Result<(), ()> {
        let len = bytes.len() as u64;
        assert!(from + len <= self.basis, "a part is past the basis");
        self.spans.push((at, at + len));
        Ok(())
    }

    fn missing(&mut self, span: (u64, u64)) -> Result<(), ()> {
        self.spans.push(span);
        Ok(())
    }
}

/// Takes the octets as a stretch of a peer. Gaps and copies of a valid one cover it once. Also
/// builds a stretch by them, which is valid.
fn stretch(octets: &[u8]) {
    if let Ok((span, copies)) = decode_value::<((u64, u64), Vec<Copied>)>(octets)
        && let Some(gaps) = gaps(span, &copies, 1)
    {
        assert_covered(span, &copies, &gaps);
    }
    let (mut built, mut at) = (Stretch::default(), 0);
    for pair in octets.as_chunks::<2>().0 {
        let len = u64::from(pair[0]) + 1;
        let gap = (at, at + len * (STRETCH_MAX >> 12));
        at = match pair[1] % 2 {
            0 if built.fits_gap(gap) => {
                built.skip(gap);
                gap.1
            }
            1 if built.fits_copy(at, len) => {
                built.copy(at, pair[1].into(), &octets[..1].repeat(len as usize));
                at + len
            }
            _ => break,
        };
    }
    let (span, copies, _) = built.finish();
    let gaps = gaps(span, &copies, 1).expect("a sender builds valid stretches");
    assert_covered(span, &copies, &gaps);
}

fn assert_covered(span: (u64, u64), copies: &[Copied], gaps: &[(u64, u64)]) {
    let copies = copies.iter().map(|copied| copied.span());
    let mut parts: Vec<_> = copies.chain(gaps.iter().copied()).collect();
    parts.sort_unstable();
    let end = parts.iter().fold(span.0, |at, part| {
        assert!(part.0 == at && part.1 > at, "parts overlap, or leave a gap");
        part.1
    });
    assert_eq!(end, span.1);
}

/// Decodes the octets as a journal. Then decodes them as records of a journal with right checksums,
/// except where an octet says otherwise. All decoded ranges are within the file.
pub fn journal(octets: &[u8]) {
    let subject = Subject {
        look: Look {
            size: 1 << 20,
            seconds: 1,
            nanos: 2,
        },
        boot: 3,
    };
    let mut journal = b"LHJRNL02".to_vec();
    journal.extend((1_u64 << 20).to_be_bytes());
    journal.extend(1_i64.to_be_bytes());
    journal.extend(2_u32.to_be_bytes());
    journal.extend(3_u64.to_be_bytes());
    sum(&mut journal, 0);
    for record in octets.chunks_exact(19) {
        let from = journal.len();
        journal.extend(&record[1..]);
        sum(&mut journal, from);
        if record[0] == 0xff {
            journal.pop();
        }
    }
    assert!(decode(&journal, subject).is_ok(), "the header is right");
    for journal in [octets, &journal] {
        let proved = decode(journal, subject).unwrap_or_default();
        assert!(proved.len() <= journal.len() / 22);
        for record in proved {
            let (from, till) = record.span;
            assert!(from < till && till <= subject.look.size, "{from}..{till}");
        }
    }
}

/// Decodes the octets as a stage log. Then decodes them as records of a stage log with right checksums, except where an
/// octet says otherwise. All decoded ranges are within their files.
pub fn stage_log(octets: &[u8]) {
    let mut log = b"LHSTAGE2".to_vec();
    log.extend([7; 16]);
    log.push(1);
    sum(&mut log, 0);
    for record in octets.chunks_exact(111) {
        let from = log.len();
        let path = usize::from(record[1] % 4);
        log.extend((path as u32).to_be_bytes());
        log.extend(&record[2..2 + path]);
        log.extend(&record[4..]);
        sum(&mut log, from);
        if record[0] == 0xff {
            log.pop();
        }
    }
    assert!(stage::decode(&log).is_ok(), "the header is right");
    for log in [octets, &log] {
        let ranges = stage::decode(log).map_or_else(|_| Vec::new(), |(_, ranges)| ranges);
        assert!(ranges.len() <= log.len() / 111);
        for range in ranges {
            let (from, till) = range.span;
            assert!(from < till && till <= range.look.size, "{from}..{till}");
        }
    }
}

/// Appends the checksum of the octets from `from` on.
fn sum(journal: &mut Vec<u8>, from: usize) {
    let sum = blake3::hash(&journal[from..]);
    journal.extend(&sum.as_bytes()[..4]);
}
