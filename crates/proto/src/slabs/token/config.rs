//! What all elements of a cluster agree on.

use core::fmt;
use core::time::Duration;

/// One cluster; the same for all elements except where a field says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How many elements there are.
    pub members: u8,
    /// Which of them we are, from 0. Our own.
    pub me: u8,
    /// How long an element has the channel, at most, while others want it.
    pub slot: Duration,
    /// How long before the end of its slot it hands the token on.
    pub guard: Duration,
    /// How often an element says that it lives.
    pub beat: Duration,
    /// How old the beat may be that a token was handed on with; who was not heard for so long is taken for dead.
    pub fresh: Duration,
}

impl Config {
    /// A cluster of so many on one local network, as element `me` of it sees it.
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

    /// Tells whether a cluster can be made of this.
    pub fn check(&self) -> Result<(), Misuse> {
        if !(1..=MEMBERS_MAX).contains(&self.members) {
            return Err(Misuse::Members(self.members));
        }
        if self.me >= self.members {
            return Err(Misuse::Me(self.me));
        }
        if self.guard * 2 > self.slot {
            return Err(Misuse::Guard(self.guard));
        }
        if self.beat.is_zero() || self.fresh < self.beat * 4 || self.fresh > self.beat * BEATS_MAX {
            return Err(Misuse::Fresh(self.fresh));
        }
        Ok(())
    }

    /// For how long a token can be somebody's after it was last heard of: the time to take it, and a slot.
    pub fn life(&self) -> Duration {
        self.fresh + self.slot + self.guard
    }

    /// For how long nothing is heard of the token before a new one is proposed; longer than others need to agree to that.
    pub fn silence(&self) -> Duration {
        self.life() + self.beat * 3
    }
}

/// What cannot be made into a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// So many elements cannot be.
    Members(u8),
    /// There is no such element.
    Me(u8),
    /// A guard time of more than half a slot.
    Guard(Duration),
    /// Beats that are fresh for too few others, or too many.
    Fresh(Duration),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Members(count) => write!(
                f,
                "a cluster has 1 to {MEMBERS_MAX} elements, which {count} is not"
            ),
            Self::Me(me) => write!(f, "the cluster has no element {me}; they count from 0"),
            Self::Guard(guard) => write!(f, "a guard of {guard:?} is more than half a slot"),
            Self::Fresh(fresh) => write!(
                f,
                "a beat is fresh for 4 to {BEATS_MAX} beats, which {fresh:?} is not"
            ),
        }
    }
}

impl core::error::Error for Misuse {}

/// The most elements of a cluster.
pub const MEMBERS_MAX: u8 = 32;
/// For how many beats one may be fresh.
const BEATS_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let with = |change: fn(&mut Config)| {
            let mut config = Config::new(3, 0);
            change(&mut config);
            config.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|c| c.members = 33), Err(Misuse::Members(33)));
        assert_eq!(with(|c| c.me = 3), Err(Misuse::Me(3)));
        let six = Duration::from_millis(6);
        assert_eq!(
            with(|c| c.guard = Duration::from_millis(6)),
            Err(Misuse::Guard(six))
        );
        assert_eq!(
            with(|c| c.fresh = Duration::from_millis(6)),
            Err(Misuse::Fresh(six))
        );
    }
}
