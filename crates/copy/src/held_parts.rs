//! Parts of objects that a store has from an earlier copy. A part is compared as a whole, after the sender's digests of all
//! its ranges have come.

use std::collections::BTreeMap;

use lighthaul_files::digest::Digest;
use lighthaul_files::object::Span;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;

use crate::message::UNANSWERED_MAX;
use crate::object_target::ObjectUpload;
use crate::report::Report;

/// Parts of which some ranges have come, by the numbers of their entries.
#[derive(Debug, Default)]
pub struct HeldParts(BTreeMap<u64, Vec<(Span, Digest)>>);

/// Result for ranges of an object.
#[derive(Debug)]
pub enum HeldPart {
    /// Further ranges of the part have to come.
    Open,
    /// All ranges of the part, and true if the store has their bytes.
    Whole(Vec<(Span, Digest)>, bool),
    /// Ranges of a file that the sender cannot read.
    Failed(Vec<Span>, PeerFault),
}

impl HeldParts {
    /// Adds a range of a part of entry `entry`. Fails if the sender has more unanswered ranges than it may have.
    pub fn add(
        &mut self,
        upload: &dyn ObjectUpload,
        (entry, part): (u64, Span),
        (span, report): (Span, &Report),
    ) -> Result<HeldPart, Error> {
        let ranges = self.0.entry(entry).or_default();
        match report {
            Report::Digest(digest) => ranges.push((span, *digest)),
            Report::Failed { code, why } => {
                let ranges = self.0.remove(&entry).unwrap_or_default();
                let spans = ranges.into_iter().map(|(span, _)| span).chain([span]);
                let fault = PeerFault::reported(*code, why.clone());
                return Ok(HeldPart::Failed(spans.collect(), fault));
            }
        }
        if span.1 < part.1 {
            let waiting: usize = self.0.values().map(Vec::len).sum();
            if waiting > UNANSWERED_MAX {
                return Err(PeerFault::Invalid("more digests than the limit").into());
            }
            return Ok(HeldPart::Open);
        }
        let ranges = self.0.remove(&entry).unwrap_or_default();
        let is_kept = upload.keep(part, &ranges);
        Ok(HeldPart::Whole(ranges, is_kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_target::Published;

    /// Upload of which the store has all parts but the one at 100.
    #[derive(Debug)]
    struct Stored;

    impl ObjectUpload for Stored {
        fn held(&self) -> Vec<Span> {
            vec![(0, 100), (100, 150)]
        }

        fn keep(&self, part: Span, source: &[(Span, Digest)]) -> bool {
            assert_eq!(source.last().map(|(span, _)| span.1), Some(part.1));
            part.0 == 0
        }

        fn write(&self, _: u64, _: &[u8]) -> Result<(), Error> {
            Ok(())
        }

        fn publish(&self) {}

        fn finish(&self) -> Result<Published, Error> {
            Ok(Published::Verified)
        }
    }

    #[test]
    fn part_is_compared_after_its_last_range() {
        let mut parts = HeldParts::default();
        let report = Report::Digest(Digest::None);
        let mut add = |part: Span, span: Span| parts.add(&Stored, (7, part), (span, &report));
        assert!(matches!(add((0, 100), (0, 60)), Ok(HeldPart::Open)));
        let whole = add((0, 100), (60, 100)).unwrap();
        let HeldPart::Whole(ranges, true) = whole else {
            panic!("{whole:?}");
        };
        assert_eq!(ranges.len(), 2);
        let whole = add((100, 150), (100, 150)).unwrap();
        assert!(matches!(whole, HeldPart::Whole(ranges, false) if ranges.len() == 1));
    }

    #[test]
    fn ranges_that_no_answer_can_follow_are_limited() {
        let mut parts = HeldParts::default();
        let report = Report::Digest(Digest::None);
        let mut add = |entry, at| parts.add(&Stored, (entry, (0, 100)), ((at, at + 1), &report));
        for at in 0..UNANSWERED_MAX as u64 {
            assert!(matches!(add(at % 3, at), Ok(HeldPart::Open)));
        }
        assert!(add(9, 0).is_err());
    }

    #[test]
    fn ranges_of_a_file_that_cannot_be_read_are_answered_together() {
        let mut parts = HeldParts::default();
        let report = Report::Digest(Digest::None);
        let open = parts.add(&Stored, (7, (0, 100)), ((0, 60), &report));
        assert!(matches!(open, Ok(HeldPart::Open)));
        let report = Report::Failed {
            code: 3,
            why: "it is gone".into(),
        };
        let failed = parts.add(&Stored, (7, (0, 100)), ((60, 100), &report));
        assert!(matches!(failed, Ok(HeldPart::Failed(spans, _)) if spans == [(0, 60), (60, 100)]));
    }
}
