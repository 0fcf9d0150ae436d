//! Streams of messages. Each message is one datagram, followed by repair symbols.
//!
//! `send` and `receive` join a pipe with the machines of `lighthaul_proto::fec`. A message that
//! was lost beyond repair is counted, and the stream continues without it. The sender stops reading
//! its pipe while the ring of blocks is full.

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
use lighthaul_session::error::Error;
use lighthaul_session::offer;
use lighthaul_session::session::Session;

use crate::coded::{Coded, Ring};
use crate::error::Fault;
use crate::message::{Message, Messages, Report};
use crate::meter::Meter;
use crate::pump::{self, Intake, Outlet};
use crate::ready::{Ready, check_both};

/// Sends messages until the input ends. Returns their number.
pub(crate) fn send(mut ready: Ready<'_>, how: &Messages, file: File) -> Result<u64, Error> {
    let session = ready.session;
    let config = config(&ready, how)?;
    let len_max = config.message_len as usize;
    let intake = Intake::start(file, ready.wanted.frames, len_max, AHEAD, session.clock)?;
    offer::rekey(session, &mut ready.lane, 0, ready.plain);
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

/// Receives messages until the stream ends.
pub(crate) fn receive(mut ready: Ready<'_>, how: &Messages, file: File) -> Result<Report, Error> {
    let session = ready.session;
    let config = config(&ready, how)?;
    offer::rekey(session, &mut ready.lane, 0, ready.plain);
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

/// Returns the error of the owner, if any, or otherwise the error of the run.
fn settle(ran: Result<(), World>, failed: Option<Error>) -> Result<(), Error> {
    match (ran, failed) {
        (Err(_), Some(error)) => Err(error),
        (ran, _) => Ok(ran?),
    }
}

/// Returns the protocol's parameters, the same on both sides.
fn config(ready: &Ready<'_>, how: &Messages) -> Result<Config, Error> {
    let code = how.code.parse().map_err(|why| Fault::FecCode {
        code: how.code.clone(),
        why: format!("{why}"),
    })?;
    let seal = if ready.plain { 0 } else { offer::TAG_LEN };
    let mut config = Config {
        message_len: ready.message_len,
        code,
        blocks: 2,
        linger: Duration::from_micros(how.linger_us.into()),
        deadline: how.deadline_us.map(Duration::from_micros),
        late: if how.drop { Late::Drop } else { Late::Deliver },
        overhead_len: header_len(ready.session.peer_address()) + offer::CONNECTION_LEN + seal,
        rate: Rate::from_bps(ready.offer.rate_bps).ok_or(Fault::ZeroRate)?,
        stream: ready.lane.stream.number(),
        settle: SETTLE + ready.session.rtt,
        ahead_nanos: ready.ahead_nanos,
    };
    if ready.lane.udp.is_none() {
        config.rate = Rate::UNLIMITED;
    }
    let wrong = |why| Fault::Parameters(format!("{why}"));
    config.check().map_err(wrong)?;
    let each = config.ring_len() / 2;
    config.blocks = (RING_BYTES / each).clamp(2, BLOCKS_MAX) as u16;
    config.check().map_err(wrong)?;
    Ok(config)
}

/// Owner that offers messages from a pipe to the sender.
struct Feeder<'a> {
    session: &'a Session,
    intake: Intake,
    ring: Rc<RefCell<Ring>>,
    /// Message that did not fit in the ring.
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
            .heard::<Message>()
            .map(drop)
            .and_then(|()| self.feed(sender, now));
        self.keep(fed)
    }

    fn waker(&self) -> Option<RawFd> {
        // while the ring is full, new input cannot be sent
        (!self.full && !self.ended).then(|| self.intake.waker())
    }
}

/// Owner that writes received messages to a pipe.
struct Taker<'a> {
    session: &'a Session,
    outlet: Outlet,
    /// True if messages that the pipe does not accept are dropped, so that they do not delay later messages.
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
        match self.session.heard::<Message>() {
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
/// Bytes of messages that wait for the reader of the pipe.
const UNREAD_MAX: usize = 16 << 20;
/// Size of a ring in bytes, unless two blocks are larger.
const RING_BYTES: u64 = 8 << 20;
/// Maximum number of blocks of a ring.
const BLOCKS_MAX: u64 = 4096;
/// Longest wait for datagrams after the end of the stream, which is sent over TCP.
const SETTLE: Duration = Duration::from_millis(200);
