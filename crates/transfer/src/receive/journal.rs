//! What of a large file is on disk and proved, for a later run to go on with.
//!
//! A header says which file it is about; each record behind it a range and the digest that both sides
//! agreed on. A record that is torn or does not make sense, and all behind it, counts for nothing.

use std::fs::File;
use std::io::{self, Read, Write};

use lighthaul_base::Malformed;
use lighthaul_io::disk::Look;

use crate::digest::Digest;
use crate::message::Span;

/// The first octets of every journal, with the version of what follows.
const MAGIC: &[u8; 8] = b"LHJRNL01";
const HEADER_LEN: usize = 8 + 8 + 8 + 4 + 8 + 4;
const RECORD_LEN: usize = 8 + 8 + 33 + 4;
/// The longest journal that is read.
const LEN_MAX: u64 = 64 << 20;

/// The journal of one file, held by one process at a time.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
}

/// Which file a journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// How its source looked.
    pub look: Look,
    /// Which start of the host its bytes do not outlive, zero if they are on disk.
    pub boot: u64,
}

/// A range that is there, and its digest.
pub type Proved = (Span, Digest);

impl Journal {
    /// Reads what `file` proves of `subject`; nothing if it is about another.
    pub(crate) fn read(file: &File, subject: Subject) -> io::Result<Vec<Proved>> {
        let mut octets = Vec::new();
        file.take(LEN_MAX).read_to_end(&mut octets)?;
        Ok(decode(&octets, subject).unwrap_or_default())
    }

    /// Begins `file` anew, with what is held already.
    pub(crate) fn begin(mut file: File, subject: Subject, held: &[Proved]) -> io::Result<Self> {
        let mut octets = header(subject).to_vec();
        for proved in held {
            octets.extend_from_slice(&record(*proved));
        }
        io::Seek::rewind(&mut file)?;
        file.write_all(&octets)?;
        file.set_len(octets.len() as u64)?;
        Ok(Self { file })
    }

    /// Notes what is there, and proved.
    pub(crate) fn append(&mut self, proved: Proved) -> io::Result<()> {
        self.file.write_all(&record(proved))
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

fn record(((from, till), digest): Proved) -> [u8; RECORD_LEN] {
    let mut record = [0; RECORD_LEN];
    record[..8].copy_from_slice(&from.to_be_bytes());
    record[8..16].copy_from_slice(&till.to_be_bytes());
    record[16..49].copy_from_slice(&digest.octets());
    let sum = checksum(&record[..49]);
    record[49..].copy_from_slice(&sum);
    record
}

fn checksum(octets: &[u8]) -> [u8; 4] {
    let mut sum = [0; 4];
    sum.copy_from_slice(&blake3::hash(octets).as_bytes()[..4]);
    sum
}

/// What a journal of `octets` proves of `subject`, in the order in which it came.
pub fn decode(octets: &[u8], subject: Subject) -> Result<Vec<Proved>, Malformed> {
    let (found, records) = octets.split_first_chunk::<HEADER_LEN>().ok_or(Malformed)?;
    if *found != header(subject) {
        return Err(Malformed);
    }
    let mut held = Vec::new();
    for found in records.chunks_exact(RECORD_LEN) {
        let number = |octets: &[u8]| octets.iter().fold(0, |n, octet| n << 8 | u64::from(*octet));
        let span = (number(&found[..8]), number(&found[8..16]));
        let Some(digest) = found[16..49].first_chunk().and_then(Digest::from_octets) else {
            break;
        };
        let proved = (span, digest);
        if record(proved) != *found || span.0 >= span.1 || span.1 > subject.look.size {
            break;
        }
        held.push(proved);
    }
    Ok(held)
}

/// The same bytes in as few spans as possible, in order.
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

/// What of a file of `size` bytes is not in `held`.
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

/// The bytes that are in both `left` and `right`, each in order.
pub(crate) fn within(left: &[Span], right: &[Span]) -> Vec<Span> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut both = Vec::new();
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let span = (one.0.max(other.0), one.1.min(other.1));
        if one.1 < other.1 {
            left.next();
        } else {
            right.next();
        }
        if span.0 < span.1 {
            both.push(span);
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUBJECT: Subject = Subject {
        look: Look {
            size: 1000,
            seconds: 5,
            nanos: 7,
        },
        boot: 3,
    };

    fn proved(span: Span) -> Proved {
        (span, Digest::Crc128(span.0, !span.1))
    }

    fn octets(spans: &[Span]) -> Vec<u8> {
        let mut octets = header(SUBJECT).to_vec();
        for span in spans {
            octets.extend_from_slice(&record(proved(*span)));
        }
        octets
    }

    #[test]
    fn a_journal_proves_what_was_noted_up_to_a_tear() {
        let spans = [(0, 100), (300, 400), (100, 200)];
        let whole = octets(&spans);
        let noted: Vec<Proved> = spans.into_iter().map(proved).collect();
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

    proptest! {
        #[test]
        fn held_and_missing_are_the_whole(spans in prop::collection::vec((0_u64..1000, 1_u64..300), 0..20)) {
            let spans: Vec<Span> = spans.iter().map(|(from, len)| (*from, (from + len).min(1000))).collect();
            let held = merged(spans.clone());
            let missing = missing(&held, 1000);
            for byte in 0..1000 {
                let within = |spans: &[Span]| spans.iter().filter(|(f, t)| (*f..*t).contains(&byte)).count();
                prop_assert_eq!(within(&held), usize::from(within(&spans) > 0));
                prop_assert_eq!(within(&held) + within(&missing), 1);
            }
        }

        #[test]
        fn what_is_within_is_in_both(
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
        }
    }
}
