//! Which elements of a cluster live. Death takes far longer here than for the token: there it costs a turn to be taken for
//! dead, and here connections.

use std::time::Duration;

use lighthaul_base::Instant;

use crate::address::spread::Elements;

/// When each element was last heard.
#[derive(Clone, Debug)]
pub struct Roll {
    me: u8,
    heard_at: Vec<Option<Instant>>,
    since: Instant,
    seen: Instant,
}

impl Roll {
    /// Nobody of `members` was heard yet.
    pub fn new(now: Instant, members: u8, me: u8) -> Self {
        Self {
            me,
            heard_at: vec![None; members.into()],
            since: now,
            seen: now,
        }
    }

    /// Element `nth` was heard.
    pub fn hear(&mut self, now: Instant, nth: u8) {
        self.look(now);
        if let Some(heard_at) = self.heard_at.get_mut(usize::from(nth)) {
            *heard_at = Some(now);
        }
    }

    /// Who lives, ourselves among them; nothing as long as others have not had the time to be heard.
    pub fn living(&mut self, now: Instant) -> Option<Elements> {
        self.look(now);
        if now < self.since + FIRST {
            return None;
        }
        let lives = |at: &Option<Instant>| at.is_some_and(|at| now < at + LIFE);
        let living = (0..).zip(&self.heard_at).filter(|(_, at)| lives(at));
        let me = Elements::default().and(self.me);
        Some(living.fold(me, |living, (nth, _)| living.and(nth)))
    }

    /// Time passes; if it did so unseen, it says nothing of others.
    fn look(&mut self, now: Instant) {
        if now > self.seen + LIFE / 2 {
            let heard = self.heard_at.iter_mut().flatten();
            heard.for_each(|at| *at = now);
        }
        self.seen = self.seen.max(now);
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
    fn who_is_silent_for_long_is_dead_but_nobody_dies_of_our_own_sleep() {
        let mut roll = Roll::new(at(0), 3, 1);
        let only = |these: &[u8]| {
            let these = these.iter();
            Some(these.fold(Elements::default(), |all, nth| all.and(*nth)))
        };
        roll.hear(at(10), 0);
        assert_eq!(roll.living(at(499)), None);
        assert_eq!(roll.living(at(500)), only(&[0, 1]));
        roll.hear(at(1000), 2);
        // an element that does not exist
        roll.hear(at(1000), 9);
        assert_eq!(roll.living(at(2000)), only(&[0, 1, 2]));
        assert_eq!(roll.living(at(3009)), only(&[0, 1, 2]));
        assert_eq!(roll.living(at(3010)), only(&[1, 2]));
        assert_eq!(
            roll.living(at(9000)),
            only(&[0, 1, 2]),
            "time passed unseen"
        );
        assert_eq!(roll.living(at(10_400)), only(&[0, 1, 2]));
        assert_eq!(roll.living(at(11_800)), only(&[0, 1, 2]));
        assert_eq!(roll.living(at(12_100)), only(&[1]));
    }
}
