//! Reservations that have asked for changes of circuits which are not made yet.
//!
//! A change that a device refuses fails at once. A device that does not answer may answer soon: the change is repeated,
//! and fails after half a minute if it also failed alone. An increase without capacity waits for a limited time, too. A
//! path from before the start does not fail while its device cannot be read, since it may carry data.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_stargate::{Key, RateChange, Segment};

use super::change_fault::ChangeFault;
use super::contract::DeviceFault;
use super::link_book::STUCK_WAIT;
use super::wanted::Wanted;

/// Reservations with the changes that they wait for.
#[derive(Debug, Default)]
pub(super) struct AskedChanges(BTreeMap<(Key, u8), Asked>);

/// Reservation that asked for a change of a circuit.
#[derive(Clone, Copy, Debug)]
struct Asked {
    segment: Segment,
    /// Start of the wait for more capacity; none if the reservation needs no more, or after a fault was reported.
    since: Option<Instant>,
    /// First attempt without an answer of the device since the last answer.
    unanswered: Option<Instant>,
    /// True if the reservation was there at the start.
    is_old: bool,
}

impl AskedChanges {
    /// Adds the reservations that ask for these changes. `wanted` has the rates before.
    pub(super) fn add(
        &mut self,
        now: Instant,
        changes: &[RateChange],
        wanted: &BTreeMap<(Key, u8), Wanted>,
    ) {
        for change in changes {
            let earlier = self.0.remove(&change.circuit);
            let Some(rate) = change.rate else {
                continue;
            };
            let is_increase = wanted.get(&change.circuit).is_none_or(|before| {
                let before = (before.segment, before.route, before.rate);
                before.0 != change.segment || before.1 != change.route || before.2 < rate
            });
            let since = earlier.and_then(|one| one.since);
            let one = Asked {
                segment: change.segment,
                since: since.or_else(|| is_increase.then_some(now)),
                unanswered: earlier.and_then(|one| one.unanswered),
                is_old: earlier.is_some_and(|one| one.is_old),
            };
            self.0.insert(change.circuit, one);
        }
    }

    /// Notes that all reservations were there at the start.
    pub(super) fn note_start(&mut self) {
        self.0.values_mut().for_each(|one| one.is_old = true);
    }

    /// Returns the reservations whose changes have failed, each once.
    pub(super) fn take_failed(
        &mut self,
        now: Instant,
        faults: &BTreeMap<Segment, ChangeFault>,
    ) -> Vec<DeviceFault> {
        let failed = self.0.extract_if(.., |_, one| {
            let Some(fault) = faults.get(&one.segment) else {
                one.unanswered = None;
                return false;
            };
            let since = *one.unanswered.get_or_insert(now);
            !fault.may_pass || fault.is_stubborn() && now.since(since) >= UNANSWERED_MAX
        });
        let fault = |(circuit, one): (_, Asked)| DeviceFault {
            circuit,
            why: faults
                .get(&one.segment)
                .map_or_else(String::new, |fault| fault.why.clone()),
        };
        failed.map(fault).collect()
    }

    /// Forgets the reservations whose changes were made.
    pub(super) fn keep_open(&mut self, is_open: impl Fn(Segment) -> bool) {
        self.0.retain(|_, one| is_open(one.segment));
    }

    /// Returns the reservations whose increases wait for too long, each once. `about` returns the longest guard time that
    /// delays a circuit, and true if its device could not be read since the start; none if the circuit does not wait.
    pub(super) fn take_overdue(
        &mut self,
        now: Instant,
        about: impl Fn(Segment) -> Option<(Duration, bool)>,
    ) -> Vec<((Key, u8), Segment)> {
        let mut overdue = Vec::new();
        for (circuit, one) in &mut self.0 {
            let waited = one.since.map_or(Duration::ZERO, |since| now.since(since));
            let Some((guard, is_unread)) = about(one.segment) else {
                continue;
            };
            if one.is_old && is_unread {
                one.since = Some(now);
            } else if waited >= STUCK_WAIT + guard {
                one.since = None;
                overdue.push((*circuit, one.segment));
            }
        }
        overdue
    }

    /// Returns true if a change of the reservation waits.
    pub(super) fn contains(&self, circuit: &(Key, u8)) -> bool {
        self.0.contains_key(circuit)
    }
}

/// Time for which a device may leave changes unanswered before their paths fail.
const UNANSWERED_MAX: Duration = Duration::from_secs(30);
