//! Proof that every byte of an object was placed exactly once, at its own offset.

use alloc::collections::BTreeMap;
use core::fmt;
use core::ops::Range;

use lighthaul_base::Span;

/// Byte ranges of an object that have been placed. Adjacent ranges are merged.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// End of each placed range by its start. No two ranges touch.
    placed: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ledger {
    /// Records that the bytes of `carried` were placed at `target`. Fails if the two differ, or if a part was placed
    /// before.
    pub fn place(&mut self, carried: Span, target: Span) -> Result<(), Misplaced> {
        if carried != target {
            return Err(Misplaced::Elsewhere { carried, target });
        }
        let (mut start, mut end) = (target.offset, target.end());
        let before = self.placed.range(..=start).next_back();
        if let Some((&from, &till)) = before {
            if till > start {
                return Err(Misplaced::Twice(target));
            }
            if till == start {
                start = from;
            }
        }
        let after = self.placed.range(target.offset..).next();
        if let Some((&from, &till)) = after {
            if from < end {
                return Err(Misplaced::Twice(target));
            }
            if from == end {
                self.placed.remove(&from);
                end = till;
            }
        }
        self.placed.insert(start, end);
        self.bytes += u64::from(target.len);
        Ok(())
    }

    /// Returns the number of placed bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if all bytes of `range` have been placed.
    pub fn has(&self, range: Range<u64>) -> bool {
        let before = self.placed.range(..=range.start).next_back();
        range.is_empty() || before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// True if exactly the bytes `0..len` have been placed.
    pub fn is_whole(&self, len: u64) -> bool {
        match self.placed.first_key_value() {
            None => len == 0,
            Some((&start, &end)) => self.placed.len() == 1 && start == 0 && end == len,
        }
    }
}

/// Fault in the placement of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misplaced {
    /// The bytes belong to another span.
    Elsewhere {
        /// Span that the bytes were read from.
        carried: Span,
        /// Span that the bytes were placed at.
        target: Span,
    },
    /// A part of the span was placed before.
    Twice(Span),
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elsewhere { carried, target } => {
                write!(f, "the bytes of {carried:?} were placed at {target:?}")
            }
            Self::Twice(span) => write!(f, "{span:?} was placed twice"),
        }
    }
}

impl core::error::Error for Misplaced {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_in_any_order_form_a_whole_object() {
        let mut ledger = Ledger::default();
        assert!(ledger.is_whole(0));
        for offset in [30, 0, 20, 10] {
            let span = Span::new(offset, 10);
            assert_eq!(ledger.place(span, span), Ok(()));
        }
        assert!(ledger.is_whole(40));
        assert!(!ledger.is_whole(41));
        assert!(ledger.has(5..40) && ledger.has(50..50));
        assert!(!ledger.has(0..41) && !ledger.has(40..41));
        assert_eq!(ledger.bytes(), 40);
    }

    #[test]
    fn duplicate_and_misplaced_spans_are_refused() {
        let mut ledger = Ledger::default();
        let span = Span::new(10, 10);
        assert_eq!(ledger.place(span, span), Ok(()));
        for offset in [1, 10, 15, 19] {
            let span = Span::new(offset, 10);
            assert_eq!(ledger.place(span, span), Err(Misplaced::Twice(span)));
        }
        let target = Span::new(20, 10);
        let elsewhere = Misplaced::Elsewhere {
            carried: span,
            target,
        };
        assert_eq!(ledger.place(span, target), Err(elsewhere));
    }
}
