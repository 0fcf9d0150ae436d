//! Journal of a large file: ranges that an earlier run has written to its temporary file.
//!
//! The header identifies the file. Each record has a range, the kind of digest that was compared,
//! and whether the bytes were encrypted on the network.
//!
//! Records are hints, not proofs: a later run compares each range with the sender's bytes (see
//! `held`). A torn or invalid record is ignored, with all records after it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};

use lighthaul_base::Malformed;
use lighthaul_copy::budget::Slot;
use lighthaul_files::digest::DigestKind;
use lighthaul_files::object::{Span, within};
use lighthaul_fs::disk::InputFile;
use lighthaul_fs::version::Look;

/// First octets of a journal, with the version of its format.
const MAGIC: &[u8; 8] = b"LHJRNL02";
const HEADER_LEN: usize = 8 + 8 + 8 + 4 + 8 + 4;
const RECORD_LEN: usize = 8 + 8 + 1 + 1 + 4;
/// Maximum number of octets of a journal that are read.
const LEN_MAX: u64 = 64 << 20;
/// Maximum number of ranges of a file that a later run keeps. They fit in a message to the sender.
pub(crate) const RANGES_MAX: usize = 1 << 12;

/// Journal of one file, open in one process at a time.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    _slot: Slot,
}

/// File that a journal describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Version of the source file.
    pub look: Look,
    /// Number of the boot that the bytes do not survive, or zero if the bytes are on disk.
    pub boot: u64,
}

/// Range that an earlier run has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Range in the file.
    pub span: Span,
    /// Protection of the bytes on the network.
    pub protection: Protection,
}

/// Protection of bytes on the network, and the digest that both sides compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Kind of the digest.
    pub digest: DigestKind,
    /// True if packets were encrypted and authenticated.
    pub sealed: bool,
}

impl Protection {
    /// Returns true if an attacker on the path could have chosen the bytes. A CRC without
    /// encryption only detects accidents.
    const fn is_forgeable(self) -> bool {
        !self.sealed && !matches!(self.digest, DigestKind::Blake3)
            || matches!(self.digest, DigestKind::None)
    }
}

/// Returns the digest by which ranges of earlier runs are compared with the source. It is that of
/// this run, or BLAKE3 if an attacker could have chosen bytes with the right CRC.
pub(crate) fn digest_for(held: &[Record], ours: DigestKind) -> DigestKind {
    if held.iter().any(|record| record.protection.is_forgeable()) {
        DigestKind::Blake3
    } else {
        ours.or_default()
    }
}

impl Journal {
    /// Reads the records of `file` about `subject`. Returns none if the journal describes another
    /// file.
    pub(crate) fn read(file: &File, subject: Subject) -> io::Result<Vec<Record>> {
        let mut octets = Vec::new();
        file.take(LEN_MAX).read_to_end(&mut octets)?;
        Ok(decode(&octets, subject).unwrap_or_default())
    }

    /// Reads the records of a journal that is not open for writing, in its current state.
    pub(crate) fn look(file: &InputFile, subject: Subject) -> io::Result<Vec<Record>> {
        let len = file.version()?.look.size.min(LEN_MAX);
        let mut octets = vec![0; usize::try_from(len).unwrap_or_default()];
        let len = file.read_at(&mut octets, 0)?;
        Ok(decode(&octets[..len], subject).unwrap_or_default())
    }

    /// Starts a new journal in `file`, with the records in `held`.
    pub(crate) fn begin(
        (mut file, slot): (File, Slot),
        subject: Subject,
        held: &[Record],
    ) -> io::Result<Self> {
        let mut octets = header(subject).to_vec();
        for record in held {
            octets.extend_from_slice(&encode(*record));
        }
        io::Seek::rewind(&mut file)?;
        file.write_all(&octets)?;
        file.set_len(octets.len() as u64)?;
        Ok(Self { file, _slot: slot })
    }

    /// Adds a range that was written and compared.
    pub(crate) fn append(&mut self, record: Record) -> io::Result<()> {
        self.file.write_all(&encode(record))
    }
}

fn header(Subject { look, boot }: Subject) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&look.size.to_be_bytes());
    header[16..24].copy_from_slice(&look.seconds.to_be_bytes());
    header[24..28].copy_from_slice(&look.nanos.to_be_bytes());
    header[28..36].copy_from_slice(&boot.to_be_bytes());
    let sum = checksum(&header[..36]);
    header[36..].copy_from_slice(&sum);
    header
}

fn encode(record: Record) -> [u8; RECORD_LEN] {
    let Record {
        span: (from, till),
        protection,
    } = record;
    let mut octets = [0; RECORD_LEN];
    octets[..8].copy_from_slice(&from.to_be_bytes());
    octets[8..16].copy_from_slice(&till.to_be_bytes());
    octets[16] = match protection.digest {
        DigestKind::Crc128 => 0,
        DigestKind::Blake3 => 1,
        DigestKind::None => 2,
    };
    octets[17] = u8::from(protection.sealed);
    let sum = checksum(&octets[..18]);
    octets[18..].copy_from_slice(&sum);
    octets
}

fn checksum(octets: &[u8]) -> [u8; 4] {
    let mut sum = [0; 4];
    sum.copy_from_slice(&blake3::hash(octets).as_bytes()[..4]);
    sum
}

/// Decodes the records of a journal about `subject`, in the order in which they were written.
pub fn decode(octets: &[u8], subject: Subject) -> Result<Vec<Record>, Malformed> {
    let (found, records) = octets.split_first_chunk::<HEADER_LEN>().ok_or(Malformed)?;
    if *found != header(subject) {
        return Err(Malformed);
    }
    let records = records.as_chunks::<RECORD_LEN>().0.iter();
    let held = records.map_while(|found| {
        decode_record(found).filter(|record| record.span.1 <= subject.look.size)
    });
    Ok(held.collect())
}

fn decode_record(octets: &[u8; RECORD_LEN]) -> Option<Record> {
    let (from, rest) = octets.split_first_chunk()?;
    let (till, _) = rest.split_first_chunk()?;
    let record = Record {
        span: (u64::from_be_bytes(*from), u64::from_be_bytes(*till)),
        protection: Protection {
            digest: match octets[16] {
                0 => DigestKind::Crc128,
                1 => DigestKind::Blake3,
                _ => DigestKind::None,
            },
            sealed: octets[17] == 1,
        },
    };
    (encode(record) == *octets && record.span.0 < record.span.1).then_some(record)
}

/// Returns the `records` within the first `size` bytes of the file, in as few records as possible.
pub(crate) fn within_file(records: Vec<Record>, size: u64) -> Vec<Record> {
    let mut spans: BTreeMap<(u8, bool), (Protection, Vec<Span>)> = BTreeMap::new();
    for Record { span, protection } in records {
        if span.1 <= size {
            let key = (protection.digest as u8, protection.sealed);
            spans
                .entry(key)
                .or_insert((protection, Vec::new()))
                .1
                .push(span);
        }
    }
    let merged = spans.into_values().flat_map(|(protection, spans)| {
        let spans = merged(spans).into_iter();
        spans.map(move |span| Record { span, protection })
    });
    merged.collect()
}

/// Returns the same bytes in as few ranges as possible, in order.
pub(crate) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (from, till) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(till),
            _ => merged.push((from, till)),
        }
    }
    merged
}

/// Returns the longest of `spans`, at most [`RANGES_MAX`], in order. The bytes of the others are
/// sent again.
pub(crate) fn longest(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|(from, till)| Reverse(till - from));
    spans.truncate(RANGES_MAX);
    spans.sort_unstable();
    spans
}

/// Returns the parts of `records`, merged by [`within_file`], that are within `spans`.
pub(crate) fn clipped(records: &[Record], spans: &[Span]) -> Vec<Record> {
    let groups = records.chunk_by(|one, other| one.protection == other.protection);
    let clipped = groups.flat_map(|group| {
        let own: Vec<Span> = group.iter().map(|record| record.span).collect();
        let record = |span| Record { span, ..group[0] };
        within(&own, spans).into_iter().map(record)
    });
    clipped.collect()
}

/// Returns the ranges of a file of `size` bytes that are not in `held`.
pub(crate) fn missing(held: &[Span], size: u64) -> Vec<Span> {
    let mut missing = Vec::new();
    let mut at = 0;
    for (from, till) in held {
        if at < *from {
            missing.push((at, *from));
        }
        at = *till;
    }
    if at < size {
        missing.push((at, size));
    }
    missing
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use lighthaul_copy::budget::Budget;
    use lighthaul_copy::thread_group::ThreadGroup;

    use super::*;

    const SUBJECT: Subject = Subject {
        look: Look {
            size: 1000,
            seconds: 5,
            nanos: 7,
        },
        boot: 3,
    };

    fn written(span: Span) -> Record {
        Record {
            span,
            protection: Protection {
                digest: DigestKind::Blake3,
                sealed: true,
            },
        }
    }

    fn octets(spans: &[Span]) -> Vec<u8> {
        let mut octets = header(SUBJECT).to_vec();
        for span in spans {
            octets.extend_from_slice(&encode(written(*span)));
        }
        octets
    }

    fn slot() -> Slot {
        let slots = Budget::default().journals();
        slots.take(&ThreadGroup::default()).unwrap()
    }

    #[test]
    fn encoded_records_are_read_back() {
        for digest in [DigestKind::Crc128, DigestKind::Blake3, DigestKind::None] {
            for sealed in [false, true] {
                let protection = Protection { digest, sealed };
                let record = Record {
                    protection,
                    ..written((3, u64::MAX))
                };
                assert_eq!(decode_record(&encode(record)), Some(record));
            }
        }
        assert_eq!(decode_record(&encode(written((5, 5)))), None);
    }

    #[test]
    fn records_with_equal_protection_are_merged_within_the_file() {
        let plain = |span| Record {
            protection: Protection {
                digest: DigestKind::Crc128,
                sealed: false,
            },
            span,
        };
        let noted = vec![
            written((5, 10)),
            plain((0, 7)),
            written((10, 12)),
            written((12, 21)),
            plain((7, 9)),
            written((15, 20)),
        ];
        let held = [plain((0, 9)), written((5, 12)), written((15, 20))];
        assert_eq!(within_file(noted, 20), held);
    }

    #[test]
    fn clipped_records_keep_their_protection() {
        let forgeable = Protection {
            digest: DigestKind::Crc128,
            sealed: false,
        };
        let plain = |span| Record {
            protection: forgeable,
            span,
        };
        let records = [
            plain((0, 9)),
            plain((20, 30)),
            written((5, 12)),
            written((15, 21)),
        ];
        let found = clipped(&records, &[(3, 7), (8, 9), (18, 25)]);
        let expected = [
            plain((3, 7)),
            plain((8, 9)),
            plain((20, 25)),
            written((5, 7)),
            written((8, 9)),
            written((18, 21)),
        ];
        assert_eq!(found, expected);
        assert_eq!(clipped(&records, &[]), []);
    }

    #[test]
    fn ranges_that_could_be_forged_are_compared_by_blake3() {
        let held = |digest, sealed| {
            let protection = Protection { digest, sealed };
            let forged = Record {
                protection,
                ..written((0, 9))
            };
            [written((9, 10)), forged]
        };
        for (digest, sealed, ours, compared) in [
            (
                DigestKind::Crc128,
                true,
                DigestKind::Crc128,
                DigestKind::Crc128,
            ),
            (
                DigestKind::Crc128,
                true,
                DigestKind::Blake3,
                DigestKind::Blake3,
            ),
            (
                DigestKind::Crc128,
                true,
                DigestKind::None,
                DigestKind::Crc128,
            ),
            (
                DigestKind::Crc128,
                false,
                DigestKind::Crc128,
                DigestKind::Blake3,
            ),
            (
                DigestKind::Blake3,
                false,
                DigestKind::Crc128,
                DigestKind::Crc128,
            ),
            (
                DigestKind::None,
                true,
                DigestKind::Crc128,
                DigestKind::Blake3,
            ),
            (
                DigestKind::None,
                false,
                DigestKind::None,
                DigestKind::Blake3,
            ),
        ] {
            let found = digest_for(&held(digest, sealed), ours);
            assert_eq!(found, compared, "{digest:?} {sealed} {ours:?}");
        }
    }

    #[test]
    fn journal_is_read_up_to_a_torn_record() {
        let spans = [(0, 100), (300, 400), (100, 200)];
        let whole = octets(&spans);
        let noted: Vec<Record> = spans.into_iter().map(written).collect();
        assert_eq!(decode(&whole, SUBJECT), Ok(noted.clone()));
        for cut in 1..RECORD_LEN {
            let torn = decode(&whole[..whole.len() - cut], SUBJECT);
            assert_eq!(torn, Ok(noted[..2].to_vec()));
        }
        let mut spoilt = whole.clone();
        spoilt[HEADER_LEN + RECORD_LEN] ^= 1;
        assert_eq!(decode(&spoilt, SUBJECT), Ok(noted[..1].to_vec()));
        assert_eq!(decode(&octets(&[(0, 1001)]), SUBJECT), Ok(vec![]));
        let look = Look {
            nanos: 8,
            ..SUBJECT.look
        };
        for other in [Subject { look, ..SUBJECT }, Subject { boot: 0, ..SUBJECT }] {
            assert!(decode(&whole, other).is_err());
        }
    }

    #[test]
    fn altered_octet_ends_the_records() {
        let whole = octets(&[(1, 2), (3, 4)]);
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut altered = whole.clone();
                altered[at] ^= 1 << bit;
                let records = decode(&altered, SUBJECT);
                let before = at.checked_sub(HEADER_LEN).map(|at| at / RECORD_LEN);
                let before = before.map(|count| [(1, 2), (3, 4)][..count].to_vec());
                let before = before.map(|spans| spans.into_iter().map(written).collect());
                assert_eq!(records.ok(), before, "bit {bit} of octet {at}");
            }
        }
    }

    #[test]
    fn journal_of_another_version_is_ignored() {
        let mut older = octets(&[(1, 2)]);
        older[7] = b'1';
        let sum = checksum(&older[..36]);
        older[36..HEADER_LEN].copy_from_slice(&sum);
        assert!(decode(&older, SUBJECT).is_err());
    }

    #[test]
    fn journal_file_returns_written_and_appended_records() {
        let path = std::env::temp_dir().join(format!("journal-{}", std::process::id()));
        let open = || {
            let mut options = File::options();
            options.create(true).truncate(false).read(true).write(true);
            options.open(&path).unwrap()
        };
        // a longer journal of an earlier run is replaced as a whole
        let held = [(0, 100), (300, 400), (600, 700)].map(written);
        Journal::begin((open(), slot()), SUBJECT, &held).unwrap();
        assert_eq!(Journal::read(&open(), SUBJECT).unwrap(), held);
        let mut journal = Journal::begin((open(), slot()), SUBJECT, &held[..1]).unwrap();
        journal.append(held[2]).unwrap();
        assert_eq!(Journal::read(&open(), SUBJECT).unwrap(), [held[0], held[2]]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_the_longest_ranges_are_kept_in_order() {
        let count = RANGES_MAX as u64 + 2;
        // each shorter than the one before, and not adjacent to it
        let spans: Vec<Span> = (0..count)
            .map(|nth| (nth << 20, (nth << 20) + count - nth))
            .collect();
        assert_eq!(longest(spans.clone()), spans[..RANGES_MAX]);
        let few = vec![(5, 6), (8, 80)];
        assert_eq!(longest(few.clone()), few);
    }

    #[test]
    fn adjacent_ranges_have_no_bytes_in_common() {
        assert_eq!(within(&[(0, 5)], &[(5, 9)]), []);
        assert_eq!(within(&[(5, 9)], &[(0, 5), (9, 12)]), []);
    }

    proptest! {
        #[test]
        fn held_and_missing_ranges_cover_the_file_once(spans in prop::collection::vec((0_u64..1000, 1_u64..300), 0..20)) {
            let spans: Vec<Span> = spans.iter().map(|(from, len)| (*from, (from + len).min(1000))).collect();
            let held = merged(spans.clone());
            let missing = missing(&held, 1000);
            prop_assert!(missing.iter().all(|(from, till)| from < till));
            for byte in 0..1000 {
                let within = |spans: &[Span]| spans.iter().filter(|(f, t)| (*f..*t).contains(&byte)).count();
                prop_assert_eq!(within(&held), usize::from(within(&spans) > 0));
                prop_assert_eq!(within(&held) + within(&missing), 1);
            }
        }

        #[test]
        fn intersection_is_in_both_lists(
            spans in prop::collection::vec((0_u64..1000, 1_u64..300), 0..20),
            others in prop::collection::vec((0_u64..1000, 1_u64..300), 0..20),
        ) {
            let in_order = |spans: Vec<Span>| merged(spans.iter().map(|(from, len)| (*from, from + len)).collect());
            let (left, right) = (in_order(spans), in_order(others));
            let both = within(&left, &right);
            for byte in 0..1300 {
                let has = |spans: &[Span]| spans.iter().filter(|(f, t)| (*f..*t).contains(&byte)).count();
                prop_assert_eq!(has(&both), has(&left) * has(&right));
            }
            prop_assert!(both.is_sorted());
            prop_assert!(both.iter().all(|(from, till)| from < till));
        }
    }
}
