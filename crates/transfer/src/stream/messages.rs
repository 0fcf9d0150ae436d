//! Streams of messages, each in a datagram, with repair symbols behind them.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::drive::{Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::net::udp::header_len;
use lighthaul_proto::fec::wire::HEAD_LEN;
use lighthaul_proto::fec::{
    Config, DeliveredMessage, Late, Receiver, ReceiverEvent, Sender, SenderEvent,
};

use super::coded::{Coded, Ring};
use super::meter::Meter;
use super::pump::{self, Intake, Outlet};
use super::run::{Ready, check_both};
use super::word::{Messages, Report};
use crate::error::{Code, Error};
use crate::mover;
use crate::session::Session;

/// Sends messages until there are no more; answers how many there were.
pub(super) fn send(mut ready: Ready<'_>, how: &Messages, file: File) -> Result<u64, Error> {
    let session = ready.session;
    let config = config(&ready, how)?;
    let len_max = config.message_len as usize;
    let intake = Intake::start(file, ready.wanted.frames, len_max, AHEAD, session.clock)?;
    mover::rekey(session, &mut ready.lane, 0, ready.plain);
    ready.lane.head_len = HEAD_LEN;
    let ring = Rc::new(RefCell::new(Ring::new(config)));
    let mut store = Coded::new(Rc::clone(&ring));
    let mut sender = Sender::new(session.clock.now(), config, 0);
    let mut owner = Feeder {
        session,
        intake,
        ring,
        waiting: None,
        full: false,
        ended: false,
        failed: None,
    };
    let ran = run(&mut sender, &mut ready.lane, &mut store, &mut owner);
    settle(ran, owner.failed)?;
    Ok(sender.offered())
}

/// Takes messages in until there are no more; answers what came of them.
pub(super) fn receive(mut ready: Ready<'_>, how: &Messages, file: File) -> Result<Report, Error> {
    let session = ready.session;
    let config = config(&ready, how)?;
    mover::rekey(session, &mut ready.lane, 0, ready.plain);
    ready.lane.head_len = HEAD_LEN;
    let ring = Rc::new(RefCell::new(Ring::new(config)));
    let mut store = Coded::new(Rc::clone(&ring));
    let mut receiver = Receiver::new(session.clock.now(), config, 0);
    let mut owner = Taker {
        session,
        outlet: Outlet::start(file, ready.wanted.frames, UNREAD_MAX, session.clock)?,
        drop: how.drop,
        ring,
        meter: Meter::default(),
        report: Report::default(),
        failed: None,
    };
    let ran = run(&mut receiver, &mut ready.lane, &mut store, &mut owner);
    settle(ran, owner.failed)?;
    owner.outlet.finish(&mut || check_both(session))?;
    let counts = receiver.counts();
    let end = receiver.end().unwrap_or_default();
    let mut report = Report {
        messages: end.offered,
        late: counts.late + (end.offered - end.sent),
        lost: end.sent.saturating_sub(counts.received),
        repaired: counts.repaired,
        ..owner.report
    };
    owner.meter.fill(&mut report);
    Ok(report)
}

/// Why a run failed, if it did.
fn settle(ran: Result<(), World>, failed: Option<Error>) -> Result<(), Error> {
    match (ran, failed) {
        (Err(_), Some(error)) => Err(error),
        (ran, _) => Ok(ran?),
    }
}

/// The protocol's parameters, the same on both sides.
fn config(ready: &Ready<'_>, how: &Messages) -> Result<Config, Error> {
    let bad = |text: String| Error::new(Code::Usage, text);
    let code = how
        .code
        .parse()
        .map_err(|e| bad(format!("{}: {e}", how.code)))?;
    let seal = if ready.plain { 0 } else { mover::TAG_LEN };
    let mut config = Config {
        message_len: ready.message_len,
        code,
        blocks: 2,
        linger: Duration::from_micros(how.linger_us.into()),
        deadline: how.deadline_us.map(Duration::from_micros),
        late: if how.drop { Late::Drop } else { Late::Deliver },
        overhead_len: header_len(ready.session.peer_address()) + mover::CONNECTION_LEN + seal,
        rate: Rate::from_bps(ready.offer.rate_bps)
            .ok_or_else(|| bad("a rate of zero sends nothing".into()))?,
        stream: ready.lane.stream.number(),
        settle: SETTLE + ready.session.rtt,
        ahead_nanos: ready.ahead_nanos,
    };
    if ready.lane.udp.is_none() {
        config.rate = Rate::UNLIMITED;
    }
    let wrong = |e| bad(format!("the stream cannot be: {e}"));
    config.check().map_err(wrong)?;
    let each = config.ring_len() / 2;
    config.blocks = (RING_BYTES / each).clamp(2, BLOCKS_MAX) as u16;
    config.check().map_err(wrong)?;
    Ok(config)
}

/// Offers what comes out of a pipe.
struct Feeder<'a> {
    session: &'a Session,
    intake: Intake,
    ring: Rc<RefCell<Ring>>,
    /// A message that the ring had no room for.
    waiting: Option<Vec<u8>>,
    full: bool,
    ended: bool,
    failed: Option<Error>,
}

impl Feeder<'_> {
    fn feed(&mut self, sender: &mut Sender, now: Instant) -> Result<(), Error> {
        self.intake.look();
        while !self.full && !self.ended {
            let message = match self.waiting.take() {
                Some(message) => message,
                None => match self.intake.next()? {
                    None => return Ok(()),
                    Some(pump::Next::Frame((message, _))) => message,
                    Some(pump::Next::End) => {
                        self.ended = true;
                        sender.end();
                        return Ok(());
                    }
                },
            };
            if let Some(span) = sender.offer(now, message.len() as u32) {
                self.ring.borrow_mut().write(span, &message);
            } else {
                self.full = true;
                self.waiting = Some(message);
            }
        }
        Ok(())
    }

    fn keep(&mut self, result: Result<(), Error>) -> Result<Next, World> {
        match result {
            Ok(()) => Ok(Next::Continue),
            Err(error) => {
                self.failed = Some(error);
                Err(World::Interrupted)
            }
        }
    }
}

impl Owner<Sender> for Feeder<'_> {
    fn event(
        &mut self,
        sender: &mut Sender,
        event: SenderEvent,
        now: Instant,
    ) -> Result<Next, World> {
        match event {
            SenderEvent::Room => {
                self.full = false;
                let fed = self.feed(sender, now);
                self.keep(fed)
            }
            SenderEvent::Complete => Ok(Next::Finish),
        }
    }

    fn tick(&mut self, sender: &mut Sender, now: Instant) -> Result<Next, World> {
        let fed = self
            .session
            .heard()
            .map(drop)
            .and_then(|()| self.feed(sender, now));
        self.keep(fed)
    }

    fn sign(&self) -> Option<RawFd> {
        // while the ring is full, what else there is to offer is of no use
        (!self.full && !self.ended).then(|| self.intake.sign())
    }
}

/// Puts messages into a pipe as they come.
struct Taker<'a> {
    session: &'a Session,
    outlet: Outlet,
    /// What nobody takes is dropped, rather than holding up what comes behind it.
    drop: bool,
    ring: Rc<RefCell<Ring>>,
    meter: Meter,
    report: Report,
    failed: Option<Error>,
}

impl Taker<'_> {
    fn deliver(&mut self, arrived: DeliveredMessage, now: Instant) -> Result<(), Error> {
        let message = self.ring.borrow().message(arrived.span).to_vec();
        self.meter.note(now.since(arrived.since));
        let len = message.len() as u64;
        if !self.drop {
            self.outlet
                .push(message, &mut || check_both(self.session))?;
        } else if !self.outlet.offer(message)? {
            self.report.unread += 1;
            return Ok(());
        }
        self.report.delivered += 1;
        self.report.bytes += len;
        Ok(())
    }
}

impl Owner<Receiver> for Taker<'_> {
    fn event(
        &mut self,
        _: &mut Receiver,
        event: ReceiverEvent,
        now: Instant,
    ) -> Result<Next, World> {
        match event {
            ReceiverEvent::Repair(job) => self.ring.borrow_mut().repair(&job),
            ReceiverEvent::Message(arrived) => {
                if let Err(error) = self.deliver(arrived, now) {
                    self.failed = Some(error);
                    return Err(World::Interrupted);
                }
            }
            ReceiverEvent::Complete => return Ok(Next::Finish),
        }
        Ok(Next::Continue)
    }

    fn tick(&mut self, _: &mut Receiver, _: Instant) -> Result<Next, World> {
        match self.session.heard() {
            Ok(_) => Ok(Next::Continue),
            Err(error) => {
                self.failed = Some(error);
                Err(World::Interrupted)
            }
        }
    }
}

/// Bytes of messages that are read ahead of the machine.
const AHEAD: usize = 4 << 20;
/// Bytes of messages that wait for the process that reads the pipe.
const UNREAD_MAX: usize = 16 << 20;
/// What a ring has, if two blocks are no more.
const RING_BYTES: u64 = 8 << 20;
const BLOCKS_MAX: u64 = 4096;
/// How long datagrams may come behind the end, which takes another way.
const SETTLE: Duration = Duration::from_millis(200);
