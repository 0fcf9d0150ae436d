//! Limits and rules of the books.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_calendar::Owner;

use super::policy::{Policy, Quota};
use super::principal::Principal;
use crate::error::{Result, SetupError};
use lighthaul_booking_client::role::Role;

/// Limits and rules of the books.
#[derive(Clone, Debug)]
// fields: one for each limit that an operator can set
pub struct Config {
    /// Configuration of the calendar, without shares.
    pub calendar: lighthaul_calendar::Config,
    /// Thousandths of each link that are kept for an owner, by name.
    pub shares: BTreeMap<String, u16>,
    /// Time before an uncommitted reservation expires.
    pub hold: Duration,
    /// Policy of identities that are not listed.
    pub policy: Policy,
    /// Policies of listed identities.
    pub policies: BTreeMap<String, Policy>,
    /// Length of the windows in which booked bytes are counted, starting in 1970.
    pub window: Duration,
    /// Time for which answers to idempotency keys are kept.
    pub answers_kept: Duration,
    /// Memory for answers that are kept, in bytes. When it is full, the oldest answer of the identity with the most is
    /// deleted.
    pub answers_bytes_max: u64,
    /// Time for which ended reservations are kept.
    pub history: Duration,
    /// Memory for ended reservations in bytes. When it is full, the oldest one of the owner with
    /// the most is deleted.
    pub history_bytes_max: u64,
    /// Number of events that are kept. Above it, the oldest event of the owner with the most is deleted.
    pub events_max: u64,
    /// Space for events in the store, in bytes. When it is full, the oldest event of the owner with the most is deleted.
    pub events_bytes_max: u64,
    /// Number of bookings that are packed again when capacity is freed; zero disables it.
    pub repack_max: usize,
    /// File in which this instance stores the position of the store between runs.
    pub position_file: Option<PathBuf>,
    /// Accepts a store that is older than before, once.
    pub accept_restored: bool,
    /// Minimum time before the start of a reservation that is moved, so that its owner can react.
    pub notice: Duration,
}

impl Default for Config {
    /// Holds of 120 s, answers for 24 h in 64 MiB, a history of 90 days in 256 MiB, 100,000 events in 64 MiB.
    ///
    /// Each owner may have 1000 reservations.
    fn default() -> Self {
        Self {
            calendar: lighthaul_calendar::Config {
                steps_max: 512,
                ..lighthaul_calendar::Config::default()
            },
            shares: BTreeMap::new(),
            hold: Duration::from_mins(2),
            policy: Policy::default(),
            policies: BTreeMap::new(),
            window: DAY,
            answers_kept: DAY,
            answers_bytes_max: 64 << 20,
            history: 90 * DAY,
            history_bytes_max: 256 << 20,
            events_max: 100_000,
            events_bytes_max: 64 << 20,
            repack_max: 1000,
            position_file: None,
            accept_restored: false,
            notice: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// Checks that each value is within its range.
    pub fn check(&self) -> Result<()> {
        self.calendar().check().map_err(SetupError::Calendar)?;
        for (what, time, least) in [
            ("hold", self.hold, SECOND),
            ("quota window", self.window, HOUR),
            ("time to keep answers", self.answers_kept, SECOND),
            ("time to keep ended reservations", self.history, SECOND),
            ("notice before a move", self.notice, Duration::ZERO),
        ] {
            if !(least..=LONGEST).contains(&time) {
                return Err(SetupError::Time { what, time, least }.into());
            }
        }
        if self.events_max == 0 {
            return Err(SetupError::Events.into());
        }
        Ok(())
    }

    /// Returns the policy of an owner.
    pub(crate) fn policy_of(&self, owner: &str) -> &Policy {
        self.policies.get(owner).unwrap_or(&self.policy)
    }

    /// Returns the quota of an owner.
    pub(crate) fn quota_of(&self, owner: &str) -> Quota {
        self.policy_of(owner).quota
    }

    /// Returns the time in each hour for which an identity may hold a whole link without a commit, if it is limited.
    ///
    /// Operators have no limit. Requesters of NSI act for many users and cannot commit with a request, so that they have
    /// a limit only if the operator sets one. The default for users is ten minutes, or five holds if these last longer.
    pub(crate) fn uncommitted_max(&self, principal: &Principal) -> Option<Duration> {
        if principal.role >= Role::Operator {
            return None;
        }
        let usual = UNCOMMITTED.max(self.hold.saturating_mul(5));
        let usual = (!principal.is_requester).then_some(usual);
        self.quota_of(&principal.name).uncommitted.or(usual)
    }

    /// Returns the number of an owner in the calendar. All owners without a share have the same
    /// number.
    pub(crate) fn number_of(&self, owner: &str) -> Owner {
        let nth = self.shares.keys().position(|name| name == owner);
        Owner(nth.map_or(0, |nth| nth as u32 + 1))
    }

    /// Returns the configuration of the calendar with its shares.
    pub(crate) fn calendar(&self) -> lighthaul_calendar::Config {
        let shares = self
            .shares
            .iter()
            .map(|(name, share)| (self.number_of(name), *share));
        lighthaul_calendar::Config {
            shares: shares.collect(),
            ..self.calendar.clone()
        }
    }
}

/// Time in each hour for which a user may hold a whole link without a commit, if the operator sets none.
const UNCOMMITTED: Duration = Duration::from_mins(10);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const LONGEST: Duration = Duration::from_hours(24 * 3660);
