//! Knowledge of an element about the other elements of its cluster.

use alloc::vec::Vec;

use lighthaul_base::Instant;

use super::Config;

/// State of all elements by their numbers. The entry of this element is unused.
#[derive(Clone, Debug)]
pub struct Peers {
    config: Config,
    peers: Vec<Peer>,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    /// Number of the latest beat.
    count: u64,
    /// Time of the latest beat; `None` before the first.
    heard_at: Option<Instant>,
    wants: bool,
    serves: bool,
}

impl Peers {
    /// Returns the state before any beat.
    pub fn new(config: Config) -> Self {
        let peer = Peer {
            count: 0,
            heard_at: None,
            wants: false,
            serves: false,
        };
        let peers = core::iter::repeat_n(peer, config.members.into()).collect();
        Self { config, peers }
    }

    /// Returns the numbers of all other elements.
    pub fn others(&self) -> impl Iterator<Item = u8> + use<> {
        let me = self.config.me;
        (0..self.config.members).filter(move |nth| *nth != me)
    }

    /// Handles a beat. Returns true if it is newer than all earlier beats of this element.
    pub fn handle_beat(
        &mut self,
        now: Instant,
        from: u8,
        count: u64,
        (wants, serves): (bool, bool),
    ) -> bool {
        let forgotten = !self.is_living(now, from);
        let Some(peer) = self.peers.get_mut(usize::from(from)) else {
            return false;
        };
        // after a restart with an earlier clock, an element is believed once its old beats have expired
        if count <= peer.count && !forgotten {
            return false;
        }
        *peer = Peer {
            count,
            heard_at: Some(now),
            wants,
            serves,
        };
        true
    }

    /// True if the element has sent a beat recently.
    pub fn is_living(&self, now: Instant, nth: u8) -> bool {
        self.heard_within(now, nth, 1)
    }

    /// Returns the serving state of an element, or `None` if it has not sent a beat recently.
    pub fn serves(&self, now: Instant, nth: u8) -> Option<bool> {
        let peer = self.peers.get(usize::from(nth));
        peer.filter(|_| self.is_living(now, nth))
            .map(|peer| peer.serves)
    }

    /// True if an element with a lower number is alive.
    pub fn is_lower_living(&self, now: Instant) -> bool {
        (0..self.config.me).any(|nth| self.is_living(now, nth))
    }

    /// Returns the next element in order that wants the channel and can take the token, and the number of its latest
    /// beat.
    pub fn next_that_wants(&self, now: Instant) -> Option<(u8, u64)> {
        let (me, members) = (self.config.me, self.config.members);
        let mut behind = (1..members).map(|by| (me + by) % members);
        // half of the age is left for the beat to arrive, and half for the token
        let nth = behind.find(|nth| self.wants(*nth) && self.heard_within(now, *nth, 2))?;
        Some((nth, self.peers[usize::from(nth)].count))
    }

    /// Forgets which elements are alive, after a time without calls.
    pub fn forget(&mut self) {
        for peer in &mut self.peers {
            peer.heard_at = None;
        }
    }

    fn wants(&self, nth: u8) -> bool {
        self.peers[usize::from(nth)].wants
    }

    /// True if the element has sent a beat within [`Config::fresh`] / `part`.
    fn heard_within(&self, now: Instant, nth: u8, part: u32) -> bool {
        let peer = self.peers.get(usize::from(nth));
        let heard_at = peer.and_then(|peer| peer.heard_at);
        heard_at.is_some_and(|at| now < at + self.config.fresh / part)
    }
}
