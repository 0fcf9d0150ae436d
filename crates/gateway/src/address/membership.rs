//! Serving elements of a cluster. Here an element counts as dead after a much longer silence than for the token: a
//! false alarm costs connections here, and only one turn there.

use std::time::Duration;

use lighthaul_base::Instant;

use crate::address::distribution::ElementSet;

/// Last report of each other element.
#[derive(Clone, Debug)]
pub struct Membership {
    last: Vec<Option<Report>>,
    since: Instant,
    seen: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Report {
    serves: bool,
    at: Instant,
}

impl Membership {
    /// Creates a list of `members` without reports.
    pub fn new(now: Instant, members: u8) -> Self {
        Self {
            last: vec![None; members.into()],
            since: now,
            seen: now,
        }
    }

    /// Handles a report of element `nth`, which says if the element serves.
    pub fn hear(&mut self, now: Instant, nth: u8, serves: bool) {
        self.look(now);
        if let Some(last) = self.last.get_mut(usize::from(nth)) {
            *last = Some(Report { serves, at: now });
        }
    }

    /// Returns the other elements that serve, or none until they have had time to report.
    pub fn serving(&mut self, now: Instant) -> Option<ElementSet> {
        self.look(now);
        if now < self.since + FIRST {
            return None;
        }
        let serves = |last: &Option<Report>| {
            last.is_some_and(|report| report.serves && report.is_alive(now))
        };
        let serving = (0..).zip(&self.last).filter(|(_, last)| serves(last));
        Some(serving.fold(ElementSet::default(), |all, (nth, _)| all.and(nth)))
    }

    /// Advances the time. After a gap without calls, elements that were alive before it stay alive.
    fn look(&mut self, now: Instant) {
        if now > self.seen + ALIVE_TIMEOUT / 2 {
            let seen = self.seen;
            let alive = self.last.iter_mut().flatten();
            alive
                .filter(|report| report.is_alive(seen))
                .for_each(|report| report.at = now);
        }
        self.seen = self.seen.max(now);
    }
}

impl Report {
    fn is_alive(&self, now: Instant) -> bool {
        now < self.at + ALIVE_TIMEOUT
    }
}

/// Time at the start for reports of others.
const FIRST: Duration = Duration::from_millis(500);
/// Silence after which an element counts as dead, like the default of VRRP.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn silent_elements_are_failed_except_after_a_pause_of_this_element() {
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
            "a gap without calls"
        );
        assert_eq!(membership.serving(at(10_400)), only(&[2]));
        assert_eq!(membership.serving(at(11_800)), only(&[2]));
        assert_eq!(membership.serving(at(12_100)), only(&[]));
        membership.hear(at(12_200), 3, true);
        assert_eq!(membership.serving(at(12_200)), only(&[3]));
        membership.hear(at(12_300), 3, false);
        assert_eq!(
            membership.serving(at(12_300)),
            only(&[]),
            "the element has left"
        );
    }
}
