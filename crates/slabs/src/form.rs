//! Formation of slabs (section IV): the next slab takes a share of each session's waiting pages.
//!
//! A [`SlabFormer`] knows which sessions have pages, and returns a [`Plan`] when a slab is due:
//!
//! - at once if a session with little data waits (urgent), or
//! - when the previous slab is about to end, and the pages fill a slab or have waited for `age`
//!
//! Shares are in proportion to the waiting pages, at least one page each, in round-robin order. So
//! no session starves. A plan never exceeds the credit of the peer ([`Slot::room`]). It moves no
//! bytes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use lighthaul_base::Instant;

use super::Config;
use super::flow::{Flow, Run};
use super::wire::{RECORDS_MAX, SessionId};

/// Slab that was formed. It can be sent once the CRCs of its runs are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Runs of pages, in the order of the slab's pages.
    pub runs: Vec<(SessionId, Run)>,
    /// True if the slab goes ahead of slabs that are not urgent.
    pub urgent: bool,
}

impl Plan {
    /// Returns the number of pages.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|(_, run)| run.lens.len() as u64).sum()
    }
}

/// Sessions with data to send, and their number of pages.
#[derive(Debug, Default)]
pub struct SlabFormer {
    ready: BTreeMap<SessionId, u64>,
    /// Total number of pages of all sessions.
    pages: u64,
    /// Sessions with little data, which are sent first.
    urgent: BTreeSet<SessionId>,
    /// First session of the previous slab.
    last: Option<SessionId>,
}

/// State of the channel when a slab is to be formed.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Current time.
    pub now: Instant,
    /// Number of pages that the peer has granted credit for.
    pub room: u64,
    /// True if the previous slab is about to end.
    pub is_hungry: bool,
}

impl SlabFormer {
    /// Updates the entry of a session.
    pub fn update(&mut self, session: SessionId, flow: Option<&Flow>) {
        let ready = flow.filter(|flow| flow.is_ready());
        let before = match ready {
            Some(flow) => self.ready.insert(session, flow.pages()),
            None => self.ready.remove(&session),
        };
        self.pages += ready.map_or(0, Flow::pages);
        self.pages -= before.unwrap_or(0);
        if ready.is_some_and(Flow::is_urgent) {
            self.urgent.insert(session);
        } else {
            self.urgent.remove(&session);
        }
    }

    /// Returns the number of pages that can be sent.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the number of sessions with data to send.
    pub fn sessions(&self) -> usize {
        self.ready.len()
    }

    /// True if no session has data to send.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// True if a slab can be formed now.
    pub fn is_due(&self, flows: &BTreeMap<SessionId, Flow>, config: &Config, slot: Slot) -> bool {
        let waited = || self.ripe_at(flows, config) <= slot.now;
        slot.room > 0 && (!self.urgent.is_empty() || slot.is_hungry && waited())
    }

    /// Returns the time at which the waiting data makes a slab, if the channel is idle.
    pub fn ripe_at(&self, flows: &BTreeMap<SessionId, Flow>, config: &Config) -> Instant {
        let (mut pages, mut first) = (0, Instant::NEVER);
        for flow in self.ready.keys().filter_map(|session| flows.get(session)) {
            pages += flow.pages();
            if pages >= u64::from(config.slab_pages) {
                return Instant::ZERO;
            }
            // the end of a session does not wait
            first = first.min(flow.since().unwrap_or(Instant::ZERO));
        }
        if first == Instant::NEVER {
            first
        } else {
            first + config.age
        }
    }

    /// Forms a slab if [`SlabFormer::is_due`].
    pub fn form(
        &mut self,
        flows: &mut BTreeMap<SessionId, Flow>,
        config: &Config,
        slot: Slot,
    ) -> Option<Plan> {
        if !self.is_due(flows, config, slot) {
            return None;
        }
        let urgent = !self.urgent.is_empty();
        let sessions = if urgent {
            self.in_turn(self.urgent.iter().copied())
        } else {
            self.in_turn(self.ready.keys().copied())
        };
        let runs = take_shares(&sessions, flows, config, slot.room);
        self.last = runs.first().map(|(session, _)| *session);
        for (session, _) in &runs {
            self.update(*session, flows.get(session));
        }
        Some(Plan { runs, urgent })
    }

    /// Returns the sessions in round-robin order, starting after the first session of the previous slab.
    fn in_turn(&self, among: impl Iterator<Item = SessionId>) -> Vec<SessionId> {
        let behind = |session: &SessionId| self.last.is_none_or(|last| *session > last);
        let (mut first, then): (Vec<_>, Vec<_>) = among.partition(behind);
        first.extend(then);
        first
    }
}

/// Takes from each session a share in proportion to its waiting pages, at least one page, up to the size of a slab.
fn take_shares(
    sessions: &[SessionId],
    flows: &mut BTreeMap<SessionId, Flow>,
    config: &Config,
    room: u64,
) -> Vec<(SessionId, Run)> {
    let most = room.min(config.slab_pages.into());
    let fills = sessions.iter().filter_map(|session| flows.get(session));
    let all: u64 = fills.map(Flow::pages).sum();
    let (mut left, mut runs) = (most, Vec::new());
    for session in sessions {
        let Some(flow) = flows.get_mut(session) else {
            continue;
        };
        let fill = flow.pages();
        let share = if all <= most {
            fill
        } else {
            (fill * most / all).max(1).min(fill)
        };
        // each page may need a record of its own
        let records = RECORDS_MAX - runs.len();
        let share = share.min(left).min(records as u64);
        if records == 0 || share == 0 && fill > 0 {
            continue;
        }
        left -= share;
        let taken = flow.take(share, config.page_len());
        runs.extend(taken.into_iter().map(|run| (*session, run)));
    }
    runs
}
