//! What an element knows of the others.

use alloc::vec::Vec;

use lighthaul_base::Instant;

use super::Config;

/// All elements, by their numbers; what it says of ourselves means nothing.
#[derive(Clone, Debug)]
pub struct Peers {
    config: Config,
    peers: Vec<Peer>,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    /// The last beat that was heard.
    count: u64,
    /// When; never before the start.
    heard_at: Option<Instant>,
    wants: bool,
    serves: bool,
}

impl Peers {
    /// Nobody was heard yet.
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

    /// Everybody but us.
    pub fn others(&self) -> impl Iterator<Item = u8> + use<> {
        let me = self.config.me;
        (0..self.config.members).filter(move |nth| *nth != me)
    }

    /// Hears a beat of one that wants the channel, and serves, or does not; answers whether it is the newest of this element.
    pub fn hear(
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
        // one that was started anew with a clock that is behind is believed when the other is forgotten
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

    /// Whether an element was heard of late.
    pub fn is_living(&self, now: Instant, nth: u8) -> bool {
        self.heard_within(now, nth, 1)
    }

    /// Whether it serves, if it was heard of late.
    pub fn serves(&self, now: Instant, nth: u8) -> Option<bool> {
        let peer = self.peers.get(usize::from(nth));
        peer.filter(|_| self.is_living(now, nth))
            .map(|peer| peer.serves)
    }

    /// Whether somebody with a lower number than ours lives.
    pub fn is_lower_living(&self, now: Instant) -> bool {
        (0..self.config.me).any(|nth| self.is_living(now, nth))
    }

    /// Who is the next behind us that wants the channel and could take the token, and the beat to hand it on with.
    pub fn next_that_wants(&self, now: Instant) -> Option<(u8, u64)> {
        let (me, members) = (self.config.me, self.config.members);
        let mut behind = (1..members).map(|by| (me + by) % members);
        // the token needs time to get there, and the beat has needed some
        let nth = behind.find(|nth| self.wants(*nth) && self.heard_within(now, *nth, 2))?;
        Some((nth, self.peers[usize::from(nth)].count))
    }

    /// Nobody is known to live: so much time has passed unseen.
    pub fn forget(&mut self) {
        for peer in &mut self.peers {
            peer.heard_at = None;
        }
    }

    fn wants(&self, nth: u8) -> bool {
        self.peers[usize::from(nth)].wants
    }

    /// Whether it was heard within that part of the time for which a beat is fresh.
    fn heard_within(&self, now: Instant, nth: u8, part: u32) -> bool {
        let peer = self.peers.get(usize::from(nth));
        let heard_at = peer.and_then(|peer| peer.heard_at);
        heard_at.is_some_and(|at| now < at + self.config.fresh / part)
    }
}
