//! Virtual time: messages, timers, disks, crashes and partitions.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Instant, Rng};
use lighthaul_stargate::{
    CorrelationId, Domain, DomainId, Message, Outcome, Output, Protection, Record, Refusal,
    Request, Signaling, Stage,
};

use crate::devices::Devices;
use crate::node::Node;
use crate::plan::{CHANNEL, Plan};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) worlds: u64,
    pub(crate) domains: u64,
    pub(crate) messages: u64,
    pub(crate) lost: u64,
    pub(crate) crashes: u64,
    pub(crate) requests: u64,
    pub(crate) committed: u64,
    pub(crate) refused: u64,
    pub(crate) undecided: u64,
    pub(crate) released: u64,
    pub(crate) failed: u64,
    pub(crate) lost_legs: u64,
    pub(crate) tree: u64,
    pub(crate) protected: u64,
    pub(crate) leavers: u64,
    pub(crate) hops: u64,
}

impl Counts {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            worlds: self.worlds + other.worlds,
            domains: self.domains + other.domains,
            messages: self.messages + other.messages,
            lost: self.lost + other.lost,
            crashes: self.crashes + other.crashes,
            requests: self.requests + other.requests,
            committed: self.committed + other.committed,
            refused: self.refused + other.refused,
            undecided: self.undecided + other.undecided,
            released: self.released + other.released,
            failed: self.failed + other.failed,
            lost_legs: self.lost_legs + other.lost_legs,
            tree: self.tree + other.tree,
            protected: self.protected + other.protected,
            leavers: self.leavers + other.leavers,
            hops: self.hops + other.hops,
        }
    }
}

pub(crate) enum Event {
    Deliver(DomainId, DomainId, Message),
    Wake(DomainId, u64),
    Persisted(DomainId, u64, u64),
    Crash(DomainId),
    Restart(DomainId),
    Request(Request, DomainId),
    Release(CorrelationId, DomainId),
    /// Failure of a device, with a number that selects it.
    Fail(DomainId, u64),
}

impl Event {
    fn domain(&self) -> DomainId {
        match self {
            Self::Deliver(_, me, _)
            | Self::Wake(me, _)
            | Self::Persisted(me, _, _)
            | Self::Crash(me)
            | Self::Restart(me)
            | Self::Request(_, me)
            | Self::Release(_, me)
            | Self::Fail(me, _) => *me,
        }
    }
}

/// A request and its outcomes so far.
pub(crate) struct Asked {
    pub(crate) from: DomainId,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) was_interrupted: bool,
    pub(crate) is_protected: bool,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) nodes: BTreeMap<DomainId, Node>,
    pub(crate) asked: BTreeMap<CorrelationId, Asked>,
    pub(crate) counts: Counts,
    pub(crate) now: Instant,
    rng: Rng,
    pub(crate) events: BTreeMap<(Instant, u64), Event>,
    next: u64,
    loss_ppb: u64,
    copy_ppb: u64,
    crash_ppb: u64,
    pub(crate) partitions: Vec<(DomainId, DomainId, Instant, Instant)>,
    is_encoded: bool,
}

/// Start of every world, so that clocks may be behind.
pub(crate) const BEGIN: Instant = Instant::from_nanos(1_000_000_000_000);
/// End of all faults.
pub(crate) const HEALED: Duration = Duration::from_secs(40);
/// Time after the last fault by which all domains agree: the rest of a decision, one comparison and one retry.
pub(crate) const LONGEST: Duration = Duration::from_secs(2 + 3 + 2 + 8 + 2 * 10 + 6 + 3);

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::new(&mut rng);
        let mut world = Self::empty(plan, rng);
        world.add_faults();
        world.add_requests();
        world
    }

    /// Returns a world without faults and requests.
    pub(crate) fn empty(plan: Plan, mut rng: Rng) -> Self {
        let nodes = plan.domains().map(|me| {
            let seed = rng.next_u64();
            let domain = Domain::new(plan.config(me), plan.topology(), plan.resources(me), seed);
            let node = Node {
                me,
                domain: Some(domain),
                store: BTreeMap::new(),
                writing: std::collections::VecDeque::new(),
                devices: Devices::new(me.0.is_multiple_of(2)),
                offset: 0,
                epoch: 0,
                has_left: false,
                planned: Instant::NEVER,
            };
            (me, node)
        });
        let nodes: BTreeMap<_, _> = nodes.collect();
        let counts = Counts {
            worlds: 1,
            domains: nodes.len() as u64,
            ..Counts::default()
        };
        Self {
            nodes,
            plan,
            asked: BTreeMap::new(),
            counts,
            now: BEGIN,
            rng,
            events: BTreeMap::new(),
            next: 0,
            loss_ppb: 0,
            copy_ppb: 0,
            crash_ppb: 0,
            partitions: Vec::new(),
            is_encoded: false,
        }
    }

    fn any_domain(&mut self) -> DomainId {
        DomainId(self.rng.below(self.nodes.len() as u64) as u32)
    }

    fn moment(&mut self) -> Instant {
        BEGIN + Duration::from_nanos(self.rng.below(HEALED.as_nanos() as u64))
    }

    fn add_faults(&mut self) {
        self.is_encoded = self.rng.below(4) == 0;
        if self.rng.below(3) > 0 {
            self.loss_ppb = self.rng.below(250_000_000);
        }
        self.copy_ppb = self.rng.below(200_000_000);
        self.crash_ppb = self.rng.below(2) * self.rng.below(30_000_000);
        for node in self.nodes.values_mut() {
            node.offset = self.rng.below(600_000_000).cast_signed() - 300_000_000;
        }
        for _ in 0..self.rng.below(4) {
            let at = self.moment();
            let domain = self.any_domain();
            self.at(at, Event::Crash(domain));
        }
        for _ in 0..self.rng.below(4) {
            let (one, two) = (self.any_domain(), self.any_domain());
            let (from, long) = (self.moment(), Duration::from_millis(self.rng.below(30_000)));
            let till = (from + long).min(BEGIN + HEALED);
            self.partitions.push((one, two, from, till));
        }
        if self.rng.below(12) == 0 && self.nodes.len() > 2 {
            let domain = self.any_domain();
            let at = self.moment();
            self.at(at, Event::Crash(domain));
            self.nodes.get_mut(&domain).unwrap().has_left = true;
            self.counts.leavers += 1;
        }
    }

    fn add_requests(&mut self) {
        let count = 2 + self.rng.below(6);
        for _ in 0..count {
            let from = self.any_domain();
            let at = BEGIN + Duration::from_nanos(self.rng.below(30_000_000_000));
            let local = self.nodes[&from].now(at);
            let request = self.plan.request(&mut self.rng, from, local);
            if self.rng.below(5) == 0 {
                let later = at + Duration::from_nanos(self.rng.below(30_000_000_000));
                self.at(later, Event::Release(request.id, from));
            }
            self.at(at, Event::Request(request, from));
        }
        for _ in 0..self.rng.below(3) {
            let domain = self.any_domain();
            let at = self.moment();
            let nth = self.rng.next_u64();
            self.at(at, Event::Fail(domain, nth));
        }
    }

    pub(crate) fn at(&mut self, at: Instant, event: Event) {
        self.next += 1;
        self.events.insert((at, self.next), event);
    }

    /// Runs the world to its end, with checks after the longest timeout and at the end.
    pub(crate) fn run(mut self) -> Result<Counts, String> {
        self.run_until(BEGIN + HEALED + LONGEST)?;
        self.check_agreement()?;
        self.run_until(BEGIN + Duration::from_secs(2000))?;
        self.check_empty()?;
        Ok(self.counts)
    }

    pub(crate) fn run_until(&mut self, end: Instant) -> Result<(), String> {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.step(event)?;
        }
        self.now = end;
        Ok(())
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        let now = self.now;
        let me = event.domain();
        let epoch = self.nodes[&me].epoch;
        let local = self.nodes[&me].now(now);
        let node = self.nodes.get_mut(&me).unwrap();
        match event {
            Event::Restart(_) => self.restart(me),
            Event::Crash(_) => self.crash(me),
            Event::Wake(_, planned) => {
                if planned != node.planned.as_nanos() {
                    return Ok(());
                }
                node.planned = Instant::NEVER;
                node.devices
                    .run(local, &self.plan.ports[&me], CHANNEL.as_bps())
                    .map_err(|why| format!("{me:?}: {why}"))?;
                if let Some(domain) = &mut node.domain {
                    domain.handle_timeout(local);
                }
            }
            Event::Persisted(_, of, sequence) => {
                if of != epoch {
                    return Ok(());
                }
                while node
                    .writing
                    .front()
                    .is_some_and(|(nth, _)| *nth <= sequence)
                {
                    let (_, record) = node.writing.pop_front().unwrap();
                    record.apply(&mut node.store);
                }
                if let Some(domain) = &mut node.domain {
                    domain.handle_persisted(sequence);
                }
            }
            Event::Deliver(from, _, message) => {
                if let Some(domain) = &mut node.domain {
                    domain.handle_message(local, from, message);
                }
            }
            Event::Request(request, _) => {
                if let Some(domain) = &mut node.domain {
                    self.counts.requests += 1;
                    self.counts.tree += u64::from(request.signaling == Signaling::Tree);
                    let asked = Asked {
                        from: me,
                        outcomes: Vec::new(),
                        was_interrupted: false,
                        is_protected: request.protection == Protection::Disjoint,
                    };
                    self.asked.insert(request.id, asked);
                    domain.request(local, request);
                }
            }
            Event::Release(id, _) => {
                if let Some(domain) = &mut node.domain {
                    domain.release(local, id);
                }
            }
            Event::Fail(_, nth) => self.fail(me, local, nth),
        }
        self.drain(me)
    }

    /// Fails a device of a reservation that was decided, so that the check at the decision stays exact. Protected
    /// paths come first.
    fn fail(&mut self, me: DomainId, local: Instant, nth: u64) {
        let asked = |id| -> Option<&Asked> { self.asked.get(&id) };
        let decided = |id| {
            let outcomes = asked(id).map_or(&[][..], |asked| &asked.outcomes);
            outcomes.last().is_some_and(is_carried)
        };
        let is_plain = |id| asked(id).is_none_or(|asked| !asked.is_protected);
        let node = self.nodes.get_mut(&me).unwrap();
        let Some(domain) = &mut node.domain else {
            return;
        };
        let all = domain.reservations();
        let all = all.filter(|one| one.stage() == Stage::Committed && decided(one.key().id));
        let all = all.flat_map(|one| one.stored().kept().map(|(nth, _)| (one.key(), nth)));
        let (plain, protected): (Vec<_>, Vec<_>) = all.partition(|(key, _)| is_plain(key.id));
        let first = if protected.is_empty() {
            plain
        } else {
            protected
        };
        if let Some(nth) = nth.checked_rem(first.len() as u64) {
            domain.fail(local, first[nth as usize]);
        }
    }

    /// Carries out the outputs of a domain. It may crash between any two of them.
    pub(crate) fn drain(&mut self, me: DomainId) -> Result<(), String> {
        let mut has_changed = false;
        let is_faulty = self.now < BEGIN + HEALED;
        loop {
            let node = self.nodes.get_mut(&me).unwrap();
            let Some(output) = node.domain.as_mut().and_then(Domain::poll_output) else {
                break;
            };
            if is_faulty && self.rng.chance_ppb(self.crash_ppb) {
                self.crash(me);
                return Ok(());
            }
            match output {
                Output::Persist { sequence, record } => {
                    has_changed = true;
                    node.writing.push_back((sequence, record));
                    let epoch = node.epoch;
                    let delay = Duration::from_micros(100 + self.rng.below(20_000));
                    self.at(self.now + delay, Event::Persisted(me, epoch, sequence));
                }
                Output::Send { to, message } => self.send(me, to, message),
                Output::Program {
                    key,
                    nth,
                    segment,
                    vector,
                } => node.devices.program((key, nth), segment, vector),
                Output::KeepOnly { circuits } => node.devices.keep_only(&circuits),
                Output::Unprogram { key, nth } => {
                    node.devices.unprogram((key, nth));
                    let local = node.now(self.now);
                    node.devices
                        .run(local, &self.plan.ports[&me], CHANNEL.as_bps())
                        .map_err(|why| format!("{me:?}: {why}"))?;
                }
                Output::Outcome { id, outcome } => self.take_outcome(me, id, outcome)?,
                Output::RangeDone { .. } => {}
            }
        }
        let node = &self.nodes[&me];
        if has_changed {
            node.check_capacity(&self.plan.ports[&me], CHANNEL.as_bps())?;
            node.check_totals(&self.plan)?;
        }
        self.plan_wake(me);
        Ok(())
    }

    fn plan_wake(&mut self, me: DomainId) {
        let node = self.nodes.get_mut(&me).unwrap();
        let local = node.now(self.now);
        let timers = node.domain.as_ref().and_then(Domain::poll_timeout);
        let devices = node.devices.poll_timeout(local);
        let Some(wake) = timers.into_iter().chain(devices).min() else {
            return;
        };
        let at = node.real(wake).max(self.now);
        if at != node.planned && at < Instant::from_nanos(1 << 62) {
            node.planned = at;
            // timers are late, as those of processes are
            let late = Duration::from_micros(self.rng.below(2000));
            self.at(at + late, Event::Wake(me, at.as_nanos()));
        }
    }

    fn send(&mut self, from: DomainId, to: DomainId, message: Message) {
        self.counts.messages += 1;
        let is_faulty = self.now < BEGIN + HEALED;
        let now = self.now;
        let is_cut = self.partitions.iter().any(|(one, two, begin, end)| {
            let ends = [(from, to), (to, from)];
            ends.contains(&(*one, *two)) && *begin <= now && now < *end
        });
        if is_cut || (is_faulty && self.rng.chance_ppb(self.loss_ppb)) {
            self.counts.lost += 1;
            return;
        }
        let message = if self.is_encoded {
            Message::decode(&message.encode()).expect("own messages decode")
        } else {
            message
        };
        let copies = 1 + u32::from(is_faulty && self.rng.chance_ppb(self.copy_ppb));
        for _ in 0..copies {
            let mut delay = Duration::from_millis(2 + self.rng.below(80));
            if is_faulty && self.rng.below(20) == 0 {
                delay += Duration::from_millis(self.rng.below(15_000));
                let heal = (BEGIN + HEALED).since(self.now) + Duration::from_secs(1);
                delay = delay.min(heal);
            }
            self.at(self.now + delay, Event::Deliver(from, to, message.clone()));
        }
    }

    pub(crate) fn crash(&mut self, me: DomainId) {
        let node = self.nodes.get_mut(&me).unwrap();
        if node.domain.take().is_none() {
            return;
        }
        self.counts.crashes += 1;
        node.epoch += 1;
        node.devices.crash();
        // the disk has written some of the records in order
        let written = self.rng.below(node.writing.len() as u64 + 1) as usize;
        for (_, record) in node.writing.drain(..).take(written) {
            record.apply(&mut node.store);
        }
        for asked in self.asked.values_mut() {
            asked.was_interrupted |= asked.from == me;
        }
        if !node.has_left {
            let down = Duration::from_millis(self.rng.below(20_000));
            let at = (self.now + down).min(BEGIN + HEALED).max(self.now);
            self.at(at, Event::Restart(me));
        }
        self.plan_wake(me);
    }

    pub(crate) fn restart(&mut self, me: DomainId) {
        let seed = self.rng.next_u64();
        let node = self.nodes.get_mut(&me).unwrap();
        if node.domain.is_some() || node.has_left {
            return;
        }
        let local = node.now(self.now);
        let records: Vec<Record> = node.store.values().cloned().map(Record::Put).collect();
        let parts = (
            self.plan.config(me),
            self.plan.topology(),
            self.plan.resources(me),
        );
        let records = records
            .iter()
            .map(|record| Record::decode(&record.encode()).expect("own records decode"));
        node.domain = Some(Domain::restore(parts, seed, records, local));
    }

    fn take_outcome(
        &mut self,
        me: DomainId,
        id: CorrelationId,
        outcome: Outcome,
    ) -> Result<(), String> {
        if let Outcome::Committed { legs, .. } = &outcome
            && self.asked[&id].outcomes.is_empty()
        {
            self.check_decision(me, id)?;
            self.counts.committed += 1;
            self.counts.hops += legs.iter().map(Vec::len).sum::<usize>() as u64;
            self.counts.protected += u64::from(self.asked[&id].is_protected);
        }
        match &outcome {
            Outcome::Refused(refusal) => {
                self.counts.refused += 1;
                self.counts.undecided += u64::from(*refusal == Refusal::Undecided);
            }
            Outcome::LegLost { .. } => self.counts.lost_legs += 1,
            Outcome::Failed(_) => self.counts.failed += 1,
            Outcome::Released => self.counts.released += 1,
            Outcome::Committed { .. } | Outcome::Offered(_) | Outcome::Ended => {}
        }
        let asked = self.asked.get_mut(&id).ok_or("an outcome of no request")?;
        if asked.outcomes.last() != Some(&outcome) {
            asked.outcomes.push(outcome);
        }
        Ok(())
    }
}

/// Returns true after an outcome with which a path carries data.
pub(crate) const fn is_carried(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Committed { .. } | Outcome::LegLost { .. })
}
