//! Objects that arrived, matched with the digests that the sender reports.

use std::collections::BTreeMap;

use lighthaul_copy::report::Report;

use super::job::Arrived;

/// Objects and reports by number. Either may arrive first.
#[derive(Debug, Default)]
pub(super) struct ObjectDigests {
    arrived: BTreeMap<u64, Arrived>,
    reports: BTreeMap<u64, Vec<Report>>,
    matched: Vec<(Arrived, Vec<Report>)>,
}

impl ObjectDigests {
    /// Adds an object that has arrived.
    pub(super) fn add_object(&mut self, number: u64, arrived: Arrived) {
        self.arrived.insert(number, arrived);
        self.match_object(number);
    }

    /// Adds reports of the sender about an object.
    pub(super) fn add_reports(&mut self, number: u64, reports: Vec<Report>) {
        self.reports.entry(number).or_default().extend(reports);
        self.match_object(number);
    }

    /// Takes the objects with all reports.
    pub(super) fn take_matched(&mut self) -> Vec<(Arrived, Vec<Report>)> {
        std::mem::take(&mut self.matched)
    }

    /// Returns true if an arrived object lacks reports.
    pub(super) fn has_unmatched(&self) -> bool {
        !self.arrived.is_empty()
    }

    fn match_object(&mut self, number: u64) {
        let arrived = self.arrived.get(&number);
        let reports = self.reports.get(&number).map(Vec::len);
        if arrived.is_none_or(|arrived| reports < Some(arrived.digests.len())) {
            return;
        }
        let reports = self.reports.remove(&number);
        self.matched
            .extend(self.arrived.remove(&number).zip(reports));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lighthaul_files::digest::Digest;
    use lighthaul_files::object::{Layout, Piece};

    use super::*;
    use crate::job::Incoming;

    /// Returns an object of so many pieces.
    fn object(number: u64, pieces: usize) -> Arrived {
        let piece = Piece {
            entry: 0,
            offset: 0,
            len: 1,
        };
        let object = Incoming {
            protocol: lighthaul_session::protocol::Protocol::Rbudp,
            number,
            layout: Layout::new(vec![piece; pieces]).unwrap(),
            files: Vec::new(),
        };
        Arrived {
            object: Arc::new(object),
            digests: vec![None; pieces],
        }
    }

    fn reports(count: usize) -> Vec<Report> {
        vec![Report::Digest(Digest::Blake3([7; 32])); count]
    }

    #[test]
    fn object_waits_for_the_reports_about_all_of_its_pieces() {
        let mut digests = ObjectDigests::default();
        assert!(!digests.has_unmatched());
        // the reports arrive after one object, before another, and on both sides of the third
        digests.add_object(1, object(1, 2));
        digests.add_reports(2, reports(1));
        digests.add_reports(3, reports(1));
        digests.add_object(3, object(3, 3));
        assert!(digests.take_matched().is_empty());
        digests.add_object(2, object(2, 1));
        digests.add_reports(3, reports(2));
        assert!(digests.has_unmatched());
        let numbers = |digests: &mut ObjectDigests| -> Vec<(u64, usize)> {
            let matched = digests.take_matched().into_iter();
            matched
                .map(|(arrived, reports)| (arrived.object.number, reports.len()))
                .collect()
        };
        assert_eq!(numbers(&mut digests), [(2, 1), (3, 3)]);
        assert_eq!(numbers(&mut digests), []);
        assert!(digests.has_unmatched(), "the first object has no reports");
        // the publisher rejects an object with too many
        digests.add_reports(1, reports(5));
        assert_eq!(numbers(&mut digests), [(1, 5)]);
        assert!(!digests.has_unmatched());
    }
}
