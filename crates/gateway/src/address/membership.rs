//! Which elements of a cluster take their part. Silence means death far later here than for the token: there it costs a turn to be
//! taken for dead, and here connections.

use std::time::Duration;

use lighthaul_base::Instant;

use crate::address::distribution::ElementSet;

/// What each other element said last of itself.
#[derive(Clone, Debug)]
pub struct Membership {
    last: Vec<Option<Said>>,
    since: Instant,
    seen: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    serves: bool,
    at: Instant,
}

impl Membership {
    /// Nobody of `members` was heard yet.
    pub fn new(now: Instant, members: u8) -> Self {
        Self {
            last: vec![None; members.into()],
            since: now,
            seen: now,
        }
    }

    /// Element `nth` was heard, and serves or does not.
    pub fn hear(&mut self, now: Instant, nth: u8, serves: bool) {
        self.look(now);
        if let Some(last) = self.last.get_mut(usize::from(nth)) {
            *last = Some(Said { serves, at: now });
        }
    }

    /// Which others serve; nothing as long as they have not had the time to be heard.
    pub fn serving(&mut self, now: Instant) -> Option<ElementSet> {
        self.look(now);
        if now < self.since + FIRST {
            return None;
        }
        let serves = |last: &Option<Said>| last.is_some_and(|said| said.serves && said.lives(now));
        let serving = (0..).zip(&self.last).filter(|(_, last)| serves(last));
        Some(serving.fold(ElementSet::default(), |all, (nth, _)| all.and(nth)))
    }

    /// Time passes; if it did so unseen, it says nothing of those who lived until then.
    fn look(&mut self, now: Instant) {
        if now > self.seen + LIFE / 2 {
            let seen = self.seen;
            let lived = self.last.iter_mut().flatten();
            lived
                .filter(|said| said.lives(seen))
                .for_each(|said| said.at = now);
        }
        self.seen = self.seen.max(now);
    }
}

impl Said {
    fn lives(&self, now: Instant) -> bool {
        now < self.at + LIFE
    }
}

/// How long others are listened for at first.
const FIRST: Duration = Duration::from_millis(500);
/// Who was not heard for so long is dead, as for VRRP with its defaults.
const LIFE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn who_is_silent_for_long_is_dead_but_nobody_dies_or_rises_by_our_own_sleep() {
        let mut membership = Membership::new(at(0), 4);
        let only = |these: &[u8]| {
            let these = these.iter();
            Some(these.fold(ElementSet::default(), |all, nth| all.and(*nth)))
        };
        membership.hear(at(10), 0, true);
        membership.hear(at(20), 3, false);
        assert_eq!(membership.serving(at(499)), None);
        assert_eq!(membership.serving(at(500)), only(&[0]));
        membership.hear(at(1000), 2, true);
        // an element that does not exist
        membership.hear(at(1000), 9, true);
        assert_eq!(membership.serving(at(2000)), only(&[0, 2]));
        assert_eq!(membership.serving(at(3009)), only(&[0, 2]));
        assert_eq!(membership.serving(at(3010)), only(&[2]));
        assert_eq!(
            membership.serving(at(9000)),
            only(&[2]),
            "time passed unseen"
        );
        assert_eq!(membership.serving(at(10_400)), only(&[2]));
        assert_eq!(membership.serving(at(11_800)), only(&[2]));
        assert_eq!(membership.serving(at(12_100)), only(&[]));
        membership.hear(at(12_200), 3, true);
        assert_eq!(membership.serving(at(12_200)), only(&[3]));
        membership.hear(at(12_300), 3, false);
        assert_eq!(membership.serving(at(12_300)), only(&[]), "it says goodbye");
    }
}
