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
