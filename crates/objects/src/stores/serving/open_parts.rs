//! Parts of an object whose bytes come in any order, with the checksum of what has come.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_buckets::checksum;

/// Parts that have some of their bytes, by number.
#[derive(Debug)]
pub(crate) struct OpenParts<S> {
    size: u64,
    part_len: u64,
    open: BTreeMap<u64, OpenPart<S>>,
    /// Parts that a lane is about to begin.
    reserved: BTreeSet<u64>,
    /// True if no part can begin, since the object has failed.
    is_closed: bool,
}

/// Part that has some of its bytes.
#[derive(Debug)]
struct OpenPart<S> {
    /// Place of its bytes.
    slot: S,
    /// Number of its bytes that have come.
    came: u64,
    /// Checksums and lengths of runs of bytes, by offset in the object. Neighbors are joined.
    runs: BTreeMap<u64, (u64, u64)>,
}

/// Part that has all of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WholePart<S> {
    pub(crate) number: u64,
    pub(crate) slot: S,
    pub(crate) len: u64,
    pub(crate) crc: u64,
}

impl<S: Clone> OpenParts<S> {
    /// Creates the parts of an object of `size` bytes.
    pub(crate) const fn new(size: u64, part_len: u64) -> Self {
        Self {
            size,
            part_len,
            open: BTreeMap::new(),
            reserved: BTreeSet::new(),
            is_closed: false,
        }
    }

    /// Returns the number of the part that has the byte at `offset`, and the end of this part.
    pub(crate) fn at(&self, offset: u64) -> (u64, u64) {
        let number = offset / self.part_len;
        (number, ((number + 1) * self.part_len).min(self.size))
    }

    /// Returns the slot of a part that has some of its bytes.
    pub(crate) fn find(&self, number: u64) -> Option<S> {
        self.open.get(&number).map(|part| part.slot.clone())
    }

    /// Returns true if no part can begin.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Reserves a part that is about to begin. Returns false if it is reserved.
    pub(crate) fn reserve(&mut self, number: u64) -> bool {
        self.reserved.insert(number)
    }

    /// Ends the reservation of a part.
    pub(crate) fn release(&mut self, number: u64) {
        self.reserved.remove(&number);
    }

    /// Adds a part without bytes, unless it exists. Returns its slot, or none if no part can begin.
    pub(crate) fn begin(&mut self, number: u64, slot: S) -> Option<S> {
        if self.is_closed {
            return None;
        }
        let part = self.open.entry(number).or_insert_with(|| OpenPart {
            slot,
            came: 0,
            runs: BTreeMap::new(),
        });
        Some(part.slot.clone())
    }

    /// Adds `len` bytes at `offset`, all of one part, which are in its slot. Returns the part if it is complete.
    pub(crate) fn add(&mut self, offset: u64, len: u64, crc: u64) -> Option<WholePart<S>> {
        let (number, end) = self.at(offset);
        let from = number * self.part_len;
        let part = self.open.get_mut(&number)?;
        part.came += len;
        part.join(offset, len, crc);
        if part.came < end - from {
            return None;
        }
        let part = self.open.remove(&number)?;
        // bytes that came twice would leave gaps
        let (_, (crc, len)) = part.runs.first_key_value()?;
        Some(WholePart {
            number,
            slot: part.slot,
            len: *len,
            crc: *crc,
        })
        .filter(|whole| whole.len == end - from)
    }

    /// Forgets all parts that are not complete. No part can begin from now on.
    pub(crate) fn close(&mut self) {
        self.open.clear();
        self.is_closed = true;
    }
}

impl<S> OpenPart<S> {
    /// Adds a run, and joins it with its neighbors.
    fn join(&mut self, offset: u64, len: u64, crc: u64) {
        let (mut from, mut run) = (offset, (crc, len));
        if let Some((before, (crc, len))) = self.runs.range(..offset).next_back()
            && *before + *len == offset
        {
            run = (checksum::combined(*crc, run.0, run.1), *len + run.1);
            from = *before;
        }
        if let Some((crc, len)) = self.runs.remove(&(from + run.1)) {
            run = (checksum::combined(run.0, crc, len), run.1 + len);
        }
        self.runs.insert(from, run);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_in_any_order_make_each_part_once(
            (size, part_len) in (1_u64..200, 1_u64..60),
            cuts in prop::collection::vec(1_u64..40, 1..20),
            seed in any::<u64>(),
        ) {
            let bytes: Vec<u8> = (0..size).map(|at| (at * 7 % 251) as u8).collect();
            let mut parts = OpenParts::new(size, part_len);
            let (mut pieces, mut at) = (Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let (_, end) = parts.at(at);
                let len = (*cut).min(end - at);
                pieces.push((at, len));
                at += len;
                if at == size {
                    break;
                }
            }
            pieces.sort_by_key(|(at, _)| (at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut found = BTreeMap::new();
            for (at, len) in pieces {
                let (number, _) = parts.at(at);
                parts.begin(number, number + 100);
                let crc = checksum::of(&bytes[at as usize..(at + len) as usize]);
                if let Some(whole) = parts.add(at, len, crc) {
                    prop_assert!(found.insert(whole.number, whole).is_none());
                }
            }
            for number in 0..size.div_ceil(part_len) {
                let (from, till) = (number * part_len, ((number + 1) * part_len).min(size));
                let expected = WholePart {
                    number,
                    slot: number + 100,
                    len: till - from,
                    crc: checksum::of(&bytes[from as usize..till as usize]),
                };
                prop_assert_eq!(found.get(&number), Some(&expected));
            }
            prop_assert!(parts.open.is_empty());
        }
    }

    #[test]
    fn failed_object_begins_no_part() {
        let mut parts = OpenParts::new(20, 10);
        assert_eq!(parts.begin(0, 7), Some(7));
        parts.close();
        assert!(parts.is_closed());
        assert_eq!((parts.find(0), parts.begin(0, 8)), (None, None));
        assert_eq!(parts.add(0, 10, 1), None);
    }

    #[test]
    fn part_with_bytes_that_came_twice_is_not_complete() {
        let mut parts = OpenParts::new(10, 10);
        parts.begin(0, 0);
        assert_eq!(parts.add(0, 5, 1), None);
        assert_eq!(parts.add(0, 5, 1), None);
    }
}
