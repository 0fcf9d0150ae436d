//! Bitmap of received packets (section 4 of the RBUDP paper).
//!
//! On the wire a tally begins with an octet that names its coding. The encoder chooses the shorter coding:
//!
//! - 0: bitmap. Packet `n` is bit `n % 8` of octet `n / 8`, and bits after the last packet are zero.
//! - 1: runs of missing packets. Each run is a varint of packets present since the previous run, and a varint of
//!   packets missing. Packets after the last run are present. A full tally is this one octet.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use lighthaul_base::codec::put_range;
use lighthaul_base::{Malformed, Reader};

/// Set of received packets among a fixed total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    words: Vec<u64>,
    total: u64,
    count: u64,
}

impl Tally {
    /// Returns a tally of `total` packets, none of them received. The caller must bound `total`: a packet takes one
    /// bit.
    pub fn new(total: u64) -> Self {
        Self {
            words: vec![0; words_for(total)],
            total,
            count: 0,
        }
    }

    /// Records that packet `number` was received. Returns true for a new one. Panics unless `number` is below the
    /// total.
    #[inline]
    pub fn mark(&mut self, number: u64) -> bool {
        assert!(number < self.total, "the packet number exceeds the total");
        let word = &mut self.words[(number / 64) as usize];
        let bit = 1 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(new);
        new
    }

    /// True if packet `number` was received.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        number < self.total && self.words[(number / 64) as usize] & (1 << (number % 64)) != 0
    }

    /// Returns the total number of packets.
    #[inline]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of received packets.
    #[inline]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of missing packets.
    #[inline]
    pub const fn missing(&self) -> u64 {
        self.total - self.count
    }

    /// True if all packets were received.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.count == self.total
    }

    /// Returns the first missing packet at or after `from`.
    #[inline]
    pub fn next_missing(&self, from: u64) -> Option<u64> {
        if from >= self.total {
            return None;
        }
        let mut index = (from / 64) as usize;
        let mut missing = !self.words[index] & (u64::MAX << (from % 64));
        while missing == 0 {
            index += 1;
            missing = !*self.words.get(index)?;
        }
        let number = index as u64 * 64 + u64::from(missing.trailing_zeros());
        (number < self.total).then_some(number)
    }

    /// Returns the first run of missing packets at or after `from`, clipped to `len_max` packets.
    #[inline]
    pub fn missing_run(&self, from: u64, len_max: u64) -> Option<Range<u64>> {
        let start = self.next_missing(from)?;
        let limit = start.saturating_add(len_max).min(self.total);
        let mut end = start;
        // step by words, since runs can be long
        while end < limit {
            let present = self.words[(end / 64) as usize] >> (end % 64);
            let step = u64::from(present.trailing_zeros()).min(64 - end % 64);
            end += step;
            if end % 64 != 0 || step == 0 {
                break;
            }
        }
        Some(start..end.min(limit))
    }

    /// True if this tally contains every packet of `earlier` and has the same total.
    pub fn includes(&self, earlier: &Self) -> bool {
        self.total == earlier.total
            && self
                .words
                .iter()
                .zip(&earlier.words)
                .all(|(new, old)| old & !new == 0)
    }

    /// Appends the shorter of the two wire codings.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.encode_runs(out, start) {
            return;
        }
        out.truncate(start);
        out.push(BITMAP);
        let octets = self.total.div_ceil(8) as usize;
        out.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        out.truncate(start + 1 + octets);
    }

    /// Decodes a tally of exactly `total` packets. It allocates one bit per packet, regardless of the input.
    pub fn decode(octets: &[u8], total: u64) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        match reader.u8()? {
            BITMAP => Self::decode_bitmap(reader.rest(), total),
            RUNS => Self::decode_runs(reader, total),
            _ => Err(Malformed),
        }
    }

    /// Appends the coding as runs. Returns false, with `out` in an undefined state, if it is longer than the bitmap.
    fn encode_runs(&self, out: &mut Vec<u8>, start: usize) -> bool {
        let octets_max = start as u64 + 1 + self.total.div_ceil(8);
        out.push(RUNS);
        let mut done = 0;
        while let Some(run) = self.missing_run(done, u64::MAX) {
            done = put_range(out, done, &run);
            if out.len() as u64 > octets_max {
                return false;
            }
        }
        true
    }

    fn decode_bitmap(octets: &[u8], total: u64) -> Result<Self, Malformed> {
        if octets.len() as u64 != total.div_ceil(8) {
            return Err(Malformed);
        }
        let mut tally = Self::new(total);
        for (word, chunk) in tally.words.iter_mut().zip(octets.chunks(8)) {
            let mut le = [0; 8];
            le[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(le);
            tally.count += u64::from(word.count_ones());
        }
        let stray = tally
            .words
            .last()
            .map_or(0, |word| word & !last_word(total));
        if stray == 0 {
            Ok(tally)
        } else {
            Err(Malformed)
        }
    }

    fn decode_runs(mut reader: Reader<'_>, total: u64) -> Result<Self, Malformed> {
        let mut tally = Self::full(total);
        let mut done = 0_u64;
        while !reader.is_empty() {
            let run = reader.range(done)?;
            done = run.end;
            if done > total {
                return Err(Malformed);
            }
            tally.unmark(run);
        }
        Ok(tally)
    }

    fn full(total: u64) -> Self {
        let mut words = vec![u64::MAX; words_for(total)];
        if let Some(word) = words.last_mut() {
            *word = last_word(total);
        }
        Self {
            words,
            total,
            count: total,
        }
    }

    /// Removes a run of received packets.
    fn unmark(&mut self, run: Range<u64>) {
        self.count -= run.end - run.start;
        let mut at = run.start;
        while at < run.end {
            let len = (64 - at % 64).min(run.end - at);
            let bits = u64::MAX >> (64 - len);
            self.words[(at / 64) as usize] &= !(bits << (at % 64));
            at += len;
        }
    }
}

fn words_for(total: u64) -> usize {
    usize::try_from(total.div_ceil(64)).expect("the total exceeds the address space")
}

/// Returns the bits of the last word that stand for packets.
const fn last_word(total: u64) -> u64 {
    match total % 64 {
        0 => u64::MAX,
        bits => u64::MAX >> (64 - bits),
    }
}

/// Coding as a bitmap.
const BITMAP: u8 = 0;
/// Coding as runs of missing packets.
const RUNS: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn tally_of(total: u64, numbers: &BTreeSet<u64>) -> Tally {
        let mut tally = Tally::new(total);
        for number in numbers {
            tally.mark(*number);
        }
        tally
    }

    #[test]
    fn full_tally_is_one_octet_and_empty_tally_three() {
        let mut out = Vec::new();
        Tally::full(1000).encode(&mut out);
        assert_eq!(out, [RUNS]);
        out.clear();
        Tally::new(100).encode(&mut out);
        assert_eq!(out, [RUNS, 0, 100]);
        out.clear();
        Tally::new(0).encode(&mut out);
        assert_eq!(Tally::decode(&out, 0), Ok(Tally::new(0)));
        assert!(Tally::new(0).is_full());
    }

    #[test]
    fn malformed_tally_is_refused() {
        for octets in [
            &[][..],
            &[2],
            &[BITMAP],
            &[BITMAP, 0],
            &[BITMAP, 0, 0, 0],
            &[BITMAP, 0, 0x10],
            &[RUNS, 0],
            &[RUNS, 0, 13],
            &[RUNS, 12, 1],
            &[RUNS, 3, 0],
            &[RUNS, 0, 2, 0, 2],
            &[
                RUNS, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1,
            ],
        ] {
            assert_eq!(Tally::decode(octets, 12), Err(Malformed), "{octets:?}");
        }
        assert!(Tally::decode(&[BITMAP, 0xff, 0x0f], 12).is_ok_and(|tally| tally.is_full()));
    }

    proptest! {
        #[test]
        fn tally_matches_a_set(
            total in 1_u64..400,
            numbers in prop::collection::vec(0_u64..400, 0..500),
            dense: bool,
            from in 0_u64..420,
            len_max in 1_u64..300,
        ) {
            let mut set = BTreeSet::new();
            let mut tally = Tally::new(total);
            if dense {
                // nearly full, so that missing runs are short
                let holes: BTreeSet<u64> = numbers.iter().take(9).copied().collect();
                set = (0..total).filter(|n| !holes.contains(n)).collect();
                tally = tally_of(total, &set);
            }
            for number in numbers.into_iter().filter(|n| *n < total) {
                prop_assert_eq!(tally.mark(number), set.insert(number));
            }
            prop_assert_eq!(tally.count(), set.len() as u64);
            let missing = (from..total).find(|n| !set.contains(n));
            prop_assert_eq!(tally.next_missing(from), missing);
            let run = missing.map(|start| {
                let end = (start..total.min(start + len_max)).find(|n| set.contains(n));
                start..end.unwrap_or_else(|| total.min(start + len_max))
            });
            prop_assert_eq!(tally.missing_run(from, len_max), run);
            prop_assert_eq!(tally.has(from), set.contains(&from));

            let mut out = Vec::new();
            tally.encode(&mut out);
            prop_assert!(out.len() as u64 <= 1 + total.div_ceil(8));
            prop_assert_eq!(Tally::decode(&out, total), Ok(tally));
        }

        #[test]
        fn arbitrary_octets_decode_without_panic(octets: Vec<u8>, total in 0_u64..2_000) {
            if let Ok(tally) = Tally::decode(&octets, total) {
                prop_assert_eq!(tally.total(), total);
                prop_assert_eq!((0..total).filter(|n| tally.has(*n)).count() as u64, tally.count());
            }
        }
    }
}
