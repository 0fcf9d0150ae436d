//! Tests of the search for parts of the basis, and of the stretches that it reports.
//!
//! `Memory` holds source and basis, and lets the sums arrive a few at a time. Each search must
//! report parts that rebuild the source exactly, once for each wanted byte. The number of missing
//! bytes is compared with `reference`, a simple search that compares the blocks themselves.

use proptest::prelude::*;

use super::index::Index;
use super::scan::{Environment, Scan, blocks};
use super::stretch::{COPIES_MAX, Copied, STRETCH_MAX, Stretch, gaps};
use super::summer::{BLOCK_MAX, BLOCK_MIN, Sum, Summer, block_len, is_block_len, weak};
use crate::digest::Digest;
use crate::object::Span;

/// Source and basis in memory. Sums arrive a few at a time.
struct Memory<'a> {
    source: &'a [u8],
    sums: Vec<Sum>,
    /// Sums that arrive with each look.
    each: usize,
    /// Ranges, with their offsets in the basis.
    parts: Vec<(Span, Option<u64>)>,
    read: u64,
    is_idle: bool,
    /// Sums that had arrived, now and when the first range was missing.
    known: usize,
    known_first: Option<usize>,
}

impl<'a> Memory<'a> {
    const fn new(source: &'a [u8], sums: Vec<Sum>, (each, is_idle): (usize, bool)) -> Self {
        Self {
            source,
            sums,
            each,
            parts: Vec::new(),
            read: 0,
            is_idle,
            known: 0,
            known_first: None,
        }
    }
}

impl Environment for Memory<'_> {
    type Error = String;

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), String> {
        let from = offset as usize;
        let bytes = self.source.get(from..from + buffer.len());
        buffer.copy_from_slice(bytes.ok_or("past the end")?);
        self.read += buffer.len() as u64;
        Ok(())
    }

    fn wait_for(&mut self, index: &mut Index, count: usize) -> Result<(), String> {
        let known = index.known();
        let till = count.max(known + self.each).min(self.sums.len());
        if known < till {
            index.extend(&self.sums[known..till]).map_err(|_| "many")?;
        } else {
            index.finish();
        }
        self.known = index.known();
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.is_idle
    }

    fn matched(&mut self, at: u64, from: u64, bytes: &[u8]) -> Result<(), String> {
        let span = (at, at + bytes.len() as u64);
        assert!(bytes == &self.source[at as usize..span.1 as usize]);
        self.parts.push((span, Some(from)));
        Ok(())
    }

    fn missing(&mut self, span: Span) -> Result<(), String> {
        self.parts.push((span, None));
        self.known_first.get_or_insert(self.known);
        Ok(())
    }
}

/// Returns the parts of `spans` of the source, and the bytes that were read.
fn scan(
    basis: &[u8],
    source: &[u8],
    spans: &[Span],
    each: usize,
) -> (Vec<(Span, Option<u64>)>, u64) {
    let memory = scan_with(basis, source, spans, (each, false));
    (memory.parts, memory.read)
}

/// Runs a search. With `is_idle`, the sender has nothing else to send meanwhile.
fn scan_with<'a>(
    basis: &[u8],
    source: &'a [u8],
    spans: &[Span],
    (each, is_idle): (usize, bool),
) -> Memory<'a> {
    let summer = Summer::new([7; 32], BLOCK_MIN);
    let sums = basis.chunks_exact(BLOCK_MIN as usize);
    let sums = sums.map(|block| summer.sum(block)).collect();
    let mut memory = Memory::new(source, sums, (each, is_idle));
    let sizes = (source.len() as u64, basis.len() as u64);
    let search = Scan::new(&mut memory, &summer, sizes);
    search.run(spans).unwrap();
    memory
}

/// Checks that the parts rebuild the source, and returns the missing bytes.
fn rebuilt(basis: &[u8], source: &[u8], spans: &[Span], parts: &[(Span, Option<u64>)]) -> u64 {
    let mut seen = vec![0_u8; source.len()];
    let mut missing = 0;
    for ((from, till), there) in parts {
        assert!(from < till);
        let range = *from as usize..*till as usize;
        match there {
            None => missing += till - from,
            Some(there) => {
                let there = *there as usize;
                let bytes = &basis[there..there + range.len()];
                assert!(&source[range.clone()] == bytes, "{range:?}");
            }
        }
        seen[range].iter_mut().for_each(|seen| *seen += 1);
    }
    for (at, seen) in (0..).zip(seen) {
        let wanted = spans
            .iter()
            .any(|(from, till)| (*from..*till).contains(&at));
        assert_eq!(seen, u8::from(wanted), "byte {at}");
    }
    missing
}

fn whole(source: &[u8]) -> Vec<Span> {
    let len = source.len() as u64;
    if len > 0 { vec![(0, len)] } else { Vec::new() }
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut hash = blake3::Hasher::new();
    hash.update(&seed.to_be_bytes());
    let mut bytes = vec![0; len];
    hash.finalize_xof().fill(&mut bytes);
    bytes
}

/// Change of a file.
#[derive(Clone, Debug)]
enum Edit {
    Insert(usize, usize),
    Delete(usize, usize),
    Replace(usize, usize),
    Move(usize, usize, usize),
    Repeat(usize, usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let (at, len) = (0_usize..200_000, 1_usize..9000);
    prop_oneof![
        (at.clone(), len.clone()).prop_map(|(at, len)| Edit::Insert(at, len)),
        (at.clone(), len.clone()).prop_map(|(at, len)| Edit::Delete(at, len)),
        (at.clone(), len.clone()).prop_map(|(at, len)| Edit::Replace(at, len)),
        (at.clone(), len.clone(), at.clone()).prop_map(|(at, len, to)| Edit::Move(at, len, to)),
        (at.clone(), len, at).prop_map(|(at, len, to)| Edit::Repeat(at, len, to)),
    ]
}

fn edited(mut bytes: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for (seed, edit) in (1000..).zip(edits) {
        let (Edit::Insert(at, len)
        | Edit::Delete(at, len)
        | Edit::Replace(at, len)
        | Edit::Move(at, len, _)
        | Edit::Repeat(at, len, _)) = *edit;
        let at = at.min(bytes.len());
        let end = (at + len).min(bytes.len());
        let piece = bytes[at..end].to_vec();
        match *edit {
            Edit::Insert(_, len) => drop(bytes.splice(at..at, random(seed, len))),
            Edit::Delete(..) => drop(bytes.drain(at..end)),
            Edit::Replace(..) => drop(bytes.splice(at..end, random(seed, end - at))),
            Edit::Move(_, _, to) => {
                bytes.drain(at..end);
                let to = to.min(bytes.len());
                bytes.splice(to..to, piece);
            }
            Edit::Repeat(_, _, to) => {
                let to = to.min(bytes.len());
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}

/// Returns the number of bytes of `source` that are in no block of `basis`. Compares the bytes of
/// blocks at each position.
fn reference(basis: &[u8], source: &[u8]) -> u64 {
    let block = BLOCK_MIN as usize;
    let blocks: std::collections::BTreeSet<&[u8]> = basis.chunks_exact(block).collect();
    let (mut at, mut missing) = (0, 0);
    while at + block <= source.len() {
        if blocks.contains(&source[at..at + block]) {
            at += block;
        } else {
            (at, missing) = (at + 1, missing + 1);
        }
    }
    missing + (source.len() - at) as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn parts_rebuild_any_changed_file(
        seed: u64,
        len in 0_usize..200_000,
        edits in proptest::collection::vec(edit(), 0..8),
        each in 1_usize..80,
    ) {
        let basis = random(seed, len);
        let source = edited(basis.clone(), &edits);
        let spans = whole(&source);
        let (parts, _) = scan(&basis, &source, &spans, each);
        let missing = rebuilt(&basis, &source, &spans, &parts);
        // a replaced block may have a block inside that is elsewhere in the basis
        // and short gaps are not searched
        let most = reference(&basis, &source) + (16 << 10) * (edits.len() as u64 + 1);
        prop_assert!(missing <= most, "{missing} of {} are missing, {most} at most", source.len());
    }

    #[test]
    fn parts_cover_only_the_ranges_that_are_wanted(
        seed: u64,
        edits in proptest::collection::vec(edit(), 0..4),
        cuts in proptest::collection::vec(0_u64..60_000, 0..8),
    ) {
        let basis = random(seed, 60_000);
        let source = edited(basis.clone(), &edits);
        let mut cuts: Vec<u64> = cuts.iter().map(|cut| *cut.min(&(source.len() as u64))).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let spans: Vec<Span> = cuts.chunks_exact(2).map(|cut| (cut[0], cut[1])).collect();
        let (parts, _) = scan(&basis, &source, &spans, 8);
        rebuilt(&basis, &source, &spans, &parts);
    }

    #[test]
    fn any_two_files_are_rebuilt(
        basis in proptest::collection::vec(0_u8..2, 0..4000),
        source in proptest::collection::vec(0_u8..2, 0..4000),
    ) {
        let spans = whole(&source);
        let (parts, _) = scan(&basis, &source, &spans, 1);
        rebuilt(&basis, &source, &spans, &parts);
    }

    #[test]
    fn rolled_sum_equals_the_direct_sum(bytes in proptest::collection::vec(any::<u8>(), 1025..3000), key: [u8; 32]) {
        let (summer, block) = (Summer::new(key, BLOCK_MIN), BLOCK_MIN as usize);
        let mut sum = summer.rolling(&bytes[..block]);
        for at in 0..bytes.len() - block {
            sum = summer.roll(sum, bytes[at], bytes[at + block]);
            prop_assert_eq!(sum, summer.rolling(&bytes[at + 1..=at + block]));
            prop_assert_eq!(summer.sum(&bytes[at + 1..=at + block]).weak, weak(sum));
        }
    }

    #[test]
    fn sums_round_trip(sums in proptest::collection::vec(any::<(u32, u32)>(), 0..9)) {
        let sums: Vec<Sum> = sums.into_iter().map(|(weak, strong)| Sum { weak, strong }).collect();
        let octets: Vec<u8> = sums.iter().flat_map(|sum| sum.encode()).collect();
        prop_assert_eq!(Sum::decode(&octets), Ok(sums));
        prop_assert!(octets.is_empty() || Sum::decode(&octets[1..]).is_err());
    }
}

#[test]
fn changes_are_sent_immediately_while_the_sender_is_idle() {
    let (basis, other) = (random(1, 24 << 20), random(2, 24 << 20));
    let blocks = basis.len() / BLOCK_MIN as usize;
    for (source, is_idle, most) in [
        (other.clone(), false, other.len()),
        (other.clone(), true, other.len()),
        // shifted forward, so that the sums that have arrived are enough
        ([&other[..9], &basis].concat(), true, 16 << 10),
        // only a part is new
        (
            [&other[..9 << 20], &basis[9 << 20..]].concat(),
            true,
            9 << 20,
        ),
    ] {
        let spans = whole(&source);
        let memory = scan_with(&basis, &source, &spans, (1, is_idle));
        let missing = rebuilt(&basis, &source, &spans, &memory.parts);
        assert!(missing <= most as u64, "{missing}");
        let known = memory.known_first.unwrap();
        let expected = if is_idle { blocks / 4 } else { blocks };
        assert!(known <= expected && (is_idle || known == blocks), "{known}");
    }
}

/// A part that was moved backward by more than the known sums is found when all are known.
#[test]
fn part_that_moved_far_is_found_when_all_sums_are_known() {
    let (old, moved) = (random(1, 70 << 20), random(2, 12 << 20));
    let basis = [old.as_slice(), &moved].concat();
    let source = [moved.as_slice(), &old].concat();
    let (parts, read) = scan(&basis, &source, &whole(&source), 1024);
    let missing = rebuilt(&basis, &source, &whole(&source), &parts);
    assert_eq!(missing, 0);
    assert!(read < 3 * source.len() as u64, "{read}");
}

#[test]
fn equal_file_is_read_once() {
    let basis = random(3, (20 << 20) + 77);
    let (parts, read) = scan(&basis, &basis, &whole(&basis), 1);
    let missing = rebuilt(&basis, &basis, &whole(&basis), &parts);
    assert_eq!(missing, 77, "the short last block is sent");
    assert!(read <= basis.len() as u64, "{read}");
}

#[test]
fn file_of_zeros_matches_at_its_own_offsets() {
    let basis = vec![0; 3 << 20];
    let mut source = basis.clone();
    source.extend_from_slice(&[0; 5000]);
    let (parts, _) = scan(&basis, &source, &whole(&source), 1);
    assert_eq!(rebuilt(&basis, &source, &whole(&source), &parts), 5000);
    assert!(
        parts
            .iter()
            .all(|(span, from)| from.is_none_or(|from| from == span.0))
    );
}

/// Sums of a hostile peer: the weak ones are right, the strong ones are not.
#[test]
fn colliding_sums_take_bounded_time() {
    let source = vec![9; 6 << 20];
    let summer = Summer::new([7; 32], BLOCK_MAX);
    let right = summer.sum(&source[..BLOCK_MAX as usize]);
    let wrong = |strong| Sum { strong, ..right };
    let sizes = (source.len() as u64, 64 * u64::from(BLOCK_MAX));
    for is_idle in [false, true] {
        let sums = (0..64).map(wrong).collect();
        let mut memory = Memory::new(&source, sums, (64, is_idle));
        // without a bound, this hashes five million blocks of one MiB
        let search = Scan::new(&mut memory, &summer, sizes);
        search.run(&whole(&source)).unwrap();
        assert!(memory.parts.iter().all(|(_, from)| from.is_none()));
    }
}

#[test]
fn stretch_has_bounded_copies_and_bytes() {
    let mut stretch = Stretch::default();
    assert!(stretch.is_empty() && stretch.fits_gap((5, 1 << 40)));
    let (mut at, mut copies) = (100, 0);
    while stretch.fits_copy(at, 1) {
        stretch.copy(at, 3 * at, b"x");
        assert!(stretch.fits_gap((at + 1, at + 2)) && !stretch.fits_gap((at + 2, at + 3)));
        stretch.skip((at + 1, at + 2));
        at += 2;
        copies += 1;
    }
    assert_eq!(copies, COPIES_MAX);
    assert!(!stretch.fits_gap((at, 100 + STRETCH_MAX + 1)));
    let (span, copies, digest) = stretch.finish();
    assert_eq!(span, (100, at));
    let hash = blake3::hash(&[b'x'; COPIES_MAX]);
    assert_eq!(digest, Digest::Blake3(*hash.as_bytes()));
    let spans: Vec<Span> = (0..COPIES_MAX as u64)
        .map(|nth| (101 + 2 * nth, 102 + 2 * nth))
        .collect();
    assert_eq!(gaps(span, &copies, 1), Some(spans));
}

#[test]
fn adjacent_copies_are_joined() {
    let mut stretch = Stretch::default();
    stretch.copy(10, 0, b"ab");
    stretch.copy(12, 2, b"cd");
    stretch.copy(14, 9, b"e");
    let copied = |offset, len, from| Copied { offset, len, from };
    assert_eq!(stretch.finish().1, [copied(10, 4, 0), copied(14, 1, 9)]);
}

#[test]
fn invalid_copied_blocks_are_rejected() {
    let copied = |offset, len, from| Copied { offset, len, from };
    for (span, copies) in [
        ((9, 5), vec![]),
        ((0, 9), vec![copied(0, 0, 0)]),
        ((0, 9), vec![copied(5, 5, 0)]),
        ((5, 9), vec![copied(4, 2, 0)]),
        ((0, 9), vec![copied(4, 2, 0), copied(5, 1, 0)]),
        ((0, 9), vec![copied(0, 2, u64::MAX - 1)]),
        ((0, u64::MAX), vec![copied(u64::MAX, 2, 0)]),
        ((0, STRETCH_MAX + 1), vec![copied(0, 1, 0)]),
        (
            (0, 9000),
            (0..=COPIES_MAX as u64)
                .map(|nth| copied(2 * nth, 1, 0))
                .collect(),
        ),
    ] {
        assert_eq!(
            gaps(span, &copies, 1),
            None,
            "{span:?} {:?}",
            copies.first()
        );
    }
    for part in [copied(0, 4, 2), copied(0, 6, 0)] {
        assert_eq!(gaps((0, 9), &[part], 4), None, "a block is the least");
    }
    assert_eq!(gaps((0, 9), &[copied(1, 8, 4)], 4), Some(vec![(0, 1)]));
    assert_eq!(gaps((0, u64::MAX), &[], 1), Some(vec![(0, u64::MAX)]));
}

#[test]
fn blocks_have_a_power_of_two_and_a_bounded_number() {
    for (len, expected) in [
        (0, 1 << 10),
        (300 << 10, 1 << 10),
        (16 << 20, 4 << 10),
        (8 << 30, 8 << 10),
        (32 << 30, 16 << 10),
        (1 << 62, BLOCK_MAX),
    ] {
        let block = block_len(len, 2 << 20);
        assert_eq!(block, expected, "{len}");
        assert!(is_block_len(block));
    }
    for block in [0, 1, 512, 3 << 10, 2 << 20, u32::MAX] {
        assert!(!is_block_len(block));
    }
    assert_eq!(blocks(8193, 1024), 8);
}
