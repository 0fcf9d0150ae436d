//! Parameters on which all elements of a cluster agree.

use core::fmt;
use core::time::Duration;

/// Parameters of a cluster. They are the same for all elements unless a field says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of elements.
    pub members: u8,
    /// Number of this element, from 0. Local to this element.
    pub me: u8,
    /// Maximum time for which an element has the channel while other elements want it.
    pub slot: Duration,
    /// Time before the end of its slot at which an element passes the token on.
    pub guard: Duration,
    /// Interval of heartbeats.
    pub beat: Duration,
    /// Maximum age of the beat that a token is passed with. An element without a beat for this time counts as dead.
    pub fresh: Duration,
}

impl Config {
    /// Returns the parameters of element `me` in a cluster of `members` on one local network.
    pub const fn new(members: u8, me: u8) -> Self {
        Self {
            members,
            me,
            slot: Duration::from_millis(10),
            guard: Duration::from_micros(100),
            beat: Duration::from_millis(5),
            fresh: Duration::from_millis(60),
        }
    }

    /// Fails if the parameters of the cluster are invalid.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(1..=MEMBERS_MAX).contains(&self.members) {
            return Err(ConfigError::Members(self.members));
        }
        if self.me >= self.members {
            return Err(ConfigError::Me(self.me));
        }
        if self.guard * 2 > self.slot {
            return Err(ConfigError::Guard(self.guard));
        }
        if self.beat.is_zero() || self.fresh < self.beat * 4 || self.fresh > self.beat * BEATS_MAX {
            return Err(ConfigError::Fresh(self.fresh));
        }
        Ok(())
    }

    /// Returns the time for which an element may hold a token after its last message: the time to take it, and a slot.
    pub fn life(&self) -> Duration {
        self.fresh + self.slot + self.guard
    }

    /// Returns the time without a report of the token after which a new one is proposed. It exceeds the time after
    /// which other elements agree.
    pub fn silence(&self) -> Duration {
        self.life() + self.beat * 3
    }
}

/// Reason why a [`Config`] is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The number of elements is out of range.
    Members(u8),
    /// The cluster has no element with the given number.
    Me(u8),
    /// The guard time exceeds half a slot.
    Guard(Duration),
    /// The maximum age of a beat is out of range.
    Fresh(Duration),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Members(count) => write!(
                f,
                "a cluster must have 1 to {MEMBERS_MAX} elements, not {count}"
            ),
            Self::Me(me) => write!(
                f,
                "the cluster has no element {me}: elements are numbered from 0"
            ),
            Self::Guard(guard) => write!(f, "a guard time of {guard:?} exceeds half a slot"),
            Self::Fresh(fresh) => write!(
                f,
                "the maximum age of a beat must be 4 to {BEATS_MAX} beat intervals, not {fresh:?}"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Maximum number of elements in a cluster.
pub const MEMBERS_MAX: u8 = 32;
/// Maximum age of a beat, in beat intervals.
const BEATS_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_config_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = Config::new(3, 0);
            change(&mut config);
            config.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|c| c.members = 33), Err(ConfigError::Members(33)));
        assert_eq!(with(|c| c.me = 3), Err(ConfigError::Me(3)));
        let six = Duration::from_millis(6);
        assert_eq!(
            with(|c| c.guard = Duration::from_millis(6)),
            Err(ConfigError::Guard(six))
        );
        assert_eq!(
            with(|c| c.fresh = Duration::from_millis(6)),
            Err(ConfigError::Fresh(six))
        );
    }
}
