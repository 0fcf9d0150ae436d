//! The rules and bounds of the books.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_calendar::Owner;

use super::policy::{Policy, Quota};
use crate::error::{Error, Result};

/// The rules and bounds of the books.
#[derive(Clone, Debug)]
pub struct Config {
    /// Those of the calendar; its shares are made of `shares`.
    pub calendar: lighthaul_calendar::Config,
    /// How many thousandths of every link are kept for whom.
    pub shares: BTreeMap<String, u16>,
    /// How long is held what nobody commits.
    pub hold: Duration,
    /// What identities without a policy of their own may book.
    pub policy: Policy,
    /// What others may book instead.
    pub policies: BTreeMap<String, Policy>,
    /// Windows in which booked bytes are counted follow each other at this distance, from 1970 on.
    pub window: Duration,
    /// How long the answer to a request is kept that may be asked again.
    pub answers_kept: Duration,
    /// Memory for such answers, in bytes. When it is full, the identity that has most of them loses its oldest.
    pub answers_bytes_max: u64,
    /// How long is remembered what is over.
    pub history: Duration,
    /// Memory for that, in bytes. When it is full, the owner that has most of it loses its oldest.
    pub history_bytes_max: u64,
    /// How many of the latest events can be read again.
    pub events_max: u64,
    /// How many bookings are packed again when somebody leaves something to others; none if zero.
    pub repack_max: usize,
    /// Where it is remembered how far the store has come, from one start to the next: a file of this instance alone.
    pub seen: Option<PathBuf>,
    /// Whether a store that went backwards is taken, once.
    pub accept_restored: bool,
    /// What begins sooner than this is not moved any more, so that who waits for it can hear of it.
    pub notice: Duration,
}

impl Default for Config {
    /// Holds of 120 s, answers kept for 24 h in 64 MiB, a history of 90 days in 256 MiB, and up to 1000 reservations an owner.
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
            events_max: 1_000_000,
            repack_max: 1000,
            seen: None,
            accept_restored: false,
            notice: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::Misuse(what));
        if let Err(why) = self.calendar().check() {
            return wrong(why.to_string());
        }
        for (what, time, least) in [
            ("a hold", self.hold, SECOND),
            ("a window of a quota", self.window, HOUR),
            ("the memory of answers", self.answers_kept, SECOND),
            ("the memory of what is over", self.history, SECOND),
            ("the notice before a move", self.notice, Duration::ZERO),
        ] {
            if !(least..=LONGEST).contains(&time) {
                return wrong(format!(
                    "{what} cannot last {time:?}: it lasts from {least:?} to ten years"
                ));
            }
        }
        if self.events_max == 0 {
            return wrong("at least one event is kept: say how many".to_owned());
        }
        Ok(())
    }

    /// What this owner may book.
    pub(crate) fn policy_of(&self, owner: &str) -> &Policy {
        self.policies.get(owner).unwrap_or(&self.policy)
    }

    /// How much this owner may have.
    pub(crate) fn quota_of(&self, owner: &str) -> Quota {
        self.policy_of(owner).quota
    }

    /// What the calendar calls an owner: all who have no share are one to it.
    pub(crate) fn number_of(&self, owner: &str) -> Owner {
        let nth = self.shares.keys().position(|name| name == owner);
        Owner(nth.map_or(0, |nth| nth as u32 + 1))
    }

    /// The calendar's rules.
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

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const LONGEST: Duration = Duration::from_hours(24 * 3660);
