//! Inspections of devices after the start.
//!
//! A device may lose a circuit or change it without a call of its driver: by a restart, or by another client. Each device
//! is inspected from time to time. A circuit that differs is set again with the next call. One that differs in all
//! inspections of two minutes is a fault of the device: a device that restarts needs some time.
//!
//! A device that cannot be read keeps its paths: light may pass although the management network is down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_stargate::Segment;
use tracing::{info, warn};

use super::change_fault::ChangeFault;

/// Times of the inspections, and the circuits that differed in the last one.
#[derive(Debug, Default)]
pub(super) struct Inspections {
    /// Time of the next inspection; none before the start.
    due: Option<Instant>,
    /// Circuits that differ, with the number of inspections in a row, and the time of the first one.
    differing: BTreeMap<Segment, (u32, Instant)>,
    /// Circuits that are set again with the next call.
    unrepaired: BTreeSet<Segment>,
    /// Interfaces that could not be read, with the reasons.
    unread: BTreeMap<String, String>,
    /// Time that the last reading has taken, and its end.
    took: Duration,
    read_at: Instant,
}

/// Circuits of interfaces as an inspection found them.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// Requested circuits of the interfaces that were read.
    pub(super) circuits: BTreeMap<Segment, Reading>,
    /// Interfaces with the reason for which they could not be read, if any.
    pub(super) interfaces: BTreeMap<String, Option<String>>,
}

/// Requested circuit as an inspection found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Rate that the driver has set.
    pub(super) set: Option<Rate>,
    /// Rate at the device.
    pub(super) found: Option<Rate>,
}

impl Inspections {
    /// Forgets all circuits, and waits for one interval.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self {
            due: Some(now + INTERVAL),
            ..Self::default()
        };
    }

    /// Lets the next inspection begin at once.
    pub(super) const fn hasten(&mut self) {
        self.due = Some(Instant::ZERO);
    }

    /// Returns true if an inspection is due. It follows a change that it could delay, for a limited time.
    pub(super) fn is_due(&self, now: Instant, next_change: Option<Instant>) -> bool {
        let is_due =
            |due| due <= now && (self.fits(now, next_change) || due + self.patience() <= now);
        self.due.is_some_and(is_due)
    }

    /// Returns true if a device may be read beside its inspections, as these.
    pub(super) fn has_time(&self, now: Instant, next_change: Option<Instant>) -> bool {
        self.fits(now, next_change) || self.read_at + self.patience() <= now
    }

    /// Returns true if a reading ends before the next change, if it takes as long as the last one.
    fn fits(&self, now: Instant, next_change: Option<Instant>) -> bool {
        next_change.is_none_or(|next| now + self.took + INSPECT_TIME <= next)
    }

    /// Returns the longest time for which readings wait for changes. A slow device waits longer, and delays few changes.
    fn patience(&self) -> Duration {
        (self.took * PATIENCE).clamp(INTERVAL, PATIENCE_MAX)
    }

    /// Notes the time of a reading.
    pub(super) fn note_time(&mut self, began: Instant, ended: Instant) {
        (self.took, self.read_at) = (ended.since(began), ended);
    }

    /// Returns the circuits to set again. The next call returns none of them.
    pub(super) fn take_unrepaired(&mut self) -> BTreeSet<Segment> {
        std::mem::take(&mut self.unrepaired)
    }

    /// Returns true if a circuit waits to be set again.
    pub(super) fn has_unrepaired(&self) -> bool {
        !self.unrepaired.is_empty()
    }

    /// Returns true if an interface could not be read by the last inspection.
    pub(super) fn is_unread(&self, interface: &str) -> bool {
        self.unread.contains_key(interface)
    }

    /// Returns true if the circuit differed in the last inspection.
    pub(super) fn differs(&self, segment: Segment) -> bool {
        self.differing.contains_key(&segment)
    }

    /// Notes an inspection. Circuits in `failed` are tried again anyway, and those in `waiting` cannot be set yet. Returns
    /// the circuits that could not be repaired.
    pub(super) fn note(
        &mut self,
        now: Instant,
        readings: &Readings,
        failed: &BTreeMap<Segment, ChangeFault>,
        waiting: &BTreeMap<Segment, Instant>,
    ) -> BTreeSet<Segment> {
        self.note_interfaces(readings);
        for (segment, reading) in &readings.circuits {
            let has_failed = failed.contains_key(segment);
            let is_wrong = if self.differs(*segment) {
                has_failed || reading.found.is_none() || reading.found != reading.set
            } else {
                !has_failed && reading.found != reading.set
            };
            let (ingress, egress) = (segment.ingress.0, segment.egress.0);
            if !is_wrong {
                if self.differing.remove(segment).is_some() {
                    info!(ingress, egress, "a circuit is in force again");
                }
                continue;
            }
            self.unrepaired.insert(*segment);
            let (count, since) = self.differing.entry(*segment).or_insert((0, now));
            *count = count.saturating_add(1);
            if waiting.contains_key(segment) {
                *since = now;
            }
            if *count == 1 {
                let bps = |rate: Option<Rate>| rate.map_or(0, Rate::as_bps);
                let (found_bps, set_bps) = (bps(reading.found), bps(reading.set));
                warn!(
                    ingress,
                    egress,
                    found_bps,
                    set_bps,
                    "a device has lost or changed a circuit; the circuit is set again"
                );
            }
        }
        let has_trouble = !self.differing.is_empty() || !self.unread.is_empty();
        self.due = Some(now + if has_trouble { RETRY } else { INTERVAL });
        let lasting = self
            .differing
            .iter()
            .filter(|(_, (count, since))| *count >= INSPECTIONS && now.since(*since) >= LOST_MAX);
        lasting.map(|(segment, _)| *segment).collect()
    }

    /// Forgets the circuits that are not requested any more.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&Segment) -> bool) {
        self.differing.retain(|segment, _| is_wanted(segment));
    }

    /// Notes which interfaces could be read. A repeated fault is logged once.
    fn note_interfaces(&mut self, readings: &Readings) {
        for (interface, why) in &readings.interfaces {
            let before = self.unread.remove(interface);
            let Some(why) = why else {
                if before.is_some() {
                    info!(interface, "a device can be read again");
                }
                continue;
            };
            if before.as_ref() != Some(why) {
                warn!(
                    interface,
                    why,
                    "a device cannot be read; its paths stay, and it is not known if they carry data"
                );
            }
            self.unread.insert(interface.clone(), why.clone());
        }
    }
}

/// Time between two inspections, as that of a scheduler.
const INTERVAL: Duration = Duration::from_secs(30);
/// Time until a circuit that differed, or a device that could not be read, is looked at again.
const RETRY: Duration = Duration::from_secs(10);
/// Time that an inspection may take before the next change in addition to that of the last one, as that of a scheduler.
const INSPECT_TIME: Duration = Duration::from_millis(250);
/// Multiple of the time of a reading for which the next one waits for changes.
const PATIENCE: u32 = 20;
/// Longest time for which a reading waits for changes.
const PATIENCE_MAX: Duration = Duration::from_mins(5);
/// Number of inspections in a row, and their time, after which a circuit that differs is a fault.
const INSPECTIONS: u32 = 3;
const LOST_MAX: Duration = Duration::from_mins(2);
