//! Streams of objects. All objects of the tolerated delay are sent as one payload by RBUDP.
//!
//! [`plan`] chooses the size of a payload from the delay, the rate and the round-trip time. While
//! one payload crosses, the next is read. Nothing is dropped: every object arrives whole and in
//! order, or the stream fails.

use std::fs::File;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate};
use lighthaul_io::drive::{Lane, Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::store::block::Block;
use lighthaul_io::store::memory::Memory;
use lighthaul_proto::rbudp::plan::{Plan, StreamDemand};
use lighthaul_proto::rbudp::wire::HEAD_LEN;
use lighthaul_session::error::Error;
use lighthaul_session::machine::{Learned, MachineEvent, ReceiveMachine, SendMachine, Setup};
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::session::Session;

use crate::error::Fault;
use crate::message::{Message, OBJECTS_MAX, Objects, Payload, Report};
use crate::meter::Meter;
use crate::pump::{self, Frame, Intake, Outlet};
use crate::ready::{Ready, check, check_both, hear, out_of_turn};

/// Plans a stream on a path with the round-trip time `rtt`.
pub fn plan(how: &Objects, rtt: Duration) -> Result<Plan, Error> {
    let demand = StreamDemand {
        object_len: how.object_len,
        objects_per_second: how.micro_per_second as f64 / 1e6,
        delay: Duration::from_micros(how.delay_us),
        rtt: rtt * u32::from(how.blasts.max(1)),
    };
    let plan = demand
        .plan()
        .map_err(|why| Fault::Parameters(why.to_string()))?;
    if plan.payload_len > PAYLOAD_LEN_MAX || plan.objects as usize > OBJECTS_MAX {
        return Err(Fault::PayloadPlan {
            objects: plan.objects,
            bytes: plan.payload_len,
        }
        .into());
    }
    Ok(plan)
}

/// Sends objects until the input ends. Returns their number.
pub(crate) fn send(mut ready: Ready<'_>, how: &Objects, file: File) -> Result<u64, Error> {
    let session = ready.session;
    let plan = plan(how, session.rtt)?;
    let offer = on_wire(&ready, &plan)?;
    // the next payload is read while this one crosses
    let (len_max, ahead) = (how.object_len as usize, plan.payload_len as usize);
    let intake = Intake::start(file, ready.wanted.frames, len_max, ahead, session.clock)?;
    let delay = Duration::from_micros(how.delay_us);
    let mut offered = 0;
    for number in 0.. {
        let frames = gather(session, &intake, plan.objects as usize, delay)?;
        if frames.is_empty() {
            break;
        }
        offered += frames.len() as u64;
        let objects = frames
            .iter()
            .map(|(octets, at)| (octets.len() as u32, at.as_nanos()));
        let payload = Payload {
            number,
            objects: objects.collect(),
        };
        let setup = setup(&ready, &offer, &payload)?;
        let mut block = Block::new(setup.object_len.max(1) as usize);
        let mut at = 0;
        for (octets, _) in &frames {
            block[at..at + octets.len()].copy_from_slice(octets);
            at += octets.len();
        }
        drop(frames);
        let mut store = Memory::new(block, true);
        session.say(&Message::Payload(payload))?;
        offer::rekey(session, &mut ready.lane, number, ready.plain);
        let mut sender = SendMachine::new(session.clock.now(), &setup, Learned::default());
        carry(&mut sender, &mut ready.lane, &mut store, session)?;
    }
    session.say(&Message::End { offered })?;
    Ok(offered)
}

/// Receives objects until the stream ends.
pub(crate) fn receive(mut ready: Ready<'_>, how: &Objects, file: File) -> Result<Report, Error> {
    let session = ready.session;
    let outlet = Outlet::start(file, ready.wanted.frames, AHEAD, session.clock)?;
    let (mut report, mut meter) = (Report::default(), Meter::default());
    // the first object of a payload waits for the others, and is then sent with them
    let deadline = Duration::from_micros(how.delay_us) * 2;
    loop {
        let payload = match hear(session)? {
            Message::Payload(payload) => payload,
            Message::End { offered } => {
                report.messages = offered;
                report.lost = offered.saturating_sub(report.delivered);
                break;
            }
            Message::Begin { .. } | Message::Time { .. } | Message::Ready | Message::Report(_) => {
                return Err(out_of_turn());
            }
        };
        let setup = setup(&ready, &ready.offer, &payload)?;
        let mut store = Memory::new(Block::new(setup.object_len.max(1) as usize), true);
        offer::rekey(session, &mut ready.lane, payload.number, ready.plain);
        let mut receiver = ReceiveMachine::new(session.clock.now(), &setup, Learned::default());
        carry(&mut receiver, &mut ready.lane, &mut store, session)?;
        let here = session.clock.now();
        let now = i128::from(here.as_nanos()) - i128::from(ready.ahead_nanos);
        let mut rest = store.ring();
        for (len, read_at) in payload.objects {
            let (object, behind) = rest.split_at(len as usize);
            rest = behind;
            let age = u64::try_from(now - i128::from(read_at)).unwrap_or(0);
            let age = Duration::from_nanos(age);
            meter.note(age);
            report.late += u64::from(age > deadline);
            report.delivered += 1;
            report.bytes += u64::from(len);
            // the peer may announce its next payload now
            outlet.push(object.to_vec(), &mut || check(session))?;
        }
    }
    outlet.finish(&mut || check_both(session))?;
    meter.fill(&mut report);
    Ok(report)
}

/// Returns the objects of the next payload: `most`, or fewer if the delay has passed or the input
/// ends.
fn gather(
    session: &Session,
    intake: &Intake,
    most: usize,
    delay: Duration,
) -> Result<Vec<Frame>, Error> {
    let mut frames: Vec<Frame> = Vec::new();
    while frames.len() < most {
        let now = session.clock.now();
        let patience = match frames.first() {
            Some((_, first)) if now >= *first + delay => break,
            Some((_, first)) => (*first + delay).since(now).min(LOOK),
            None => LOOK,
        };
        match intake.wait(patience)? {
            Some(pump::Next::Frame(frame)) => frames.push(frame),
            Some(pump::Next::End) => break,
            None => {
                check_both(session)?;
            }
        }
    }
    Ok(frames)
}

/// Returns the offer with the rate of the plan. Fails if that exceeds the rate of the path.
fn on_wire(ready: &Ready<'_>, plan: &Plan) -> Result<Offer, Error> {
    let len = ready.offer.packet_len;
    let wire_len = len + offer::AROUND_LEN + HEAD_LEN as u32 + header_of(ready.session);
    let rate = plan.rate.scaled(wire_len, len);
    let most = Rate::from_bps(ready.offer.rate_bps).unwrap_or(rate);
    if ready.lane.udp.is_some() && rate > most {
        return Err(Fault::TooSlow { needed: rate, most }.into());
    }
    Ok(Offer {
        rate_bps: rate.as_bps(),
        ..ready.offer
    })
}

fn header_of(session: &Session) -> u32 {
    lighthaul_io::net::udp::header_len(session.peer_address())
}

/// Returns the parameters for a payload, whose length is bounded.
fn setup(ready: &Ready<'_>, offer: &Offer, payload: &Payload) -> Result<Setup, Error> {
    let len = payload.objects.iter().map(|(len, _)| u64::from(*len)).sum();
    if len > PAYLOAD_LEN_MAX || payload.objects.len() > OBJECTS_MAX {
        return Err(Fault::PeerPayload {
            bytes: len,
            objects: payload.objects.len(),
        }
        .into());
    }
    let mut setup = offer::setup(offer, (payload.number, len), &ready.lane, ready.plain)?;
    if ready.lane.udp.is_none() {
        setup.rate = Rate::UNLIMITED;
    }
    Ok(setup)
}

/// Runs the machine of one payload to its end.
fn carry<E: Endpoint<Event = MachineEvent>>(
    endpoint: &mut E,
    lane: &mut Lane,
    store: &mut Memory,
    session: &Session,
) -> Result<(), Error> {
    let mut owner = Carrier {
        session,
        barren: 0,
        failed: None,
    };
    let ran = run(endpoint, lane, store, &mut owner);
    match (ran, owner.failed) {
        (Err(_), Some(error)) => Err(error),
        (ran, _) => Ok(ran?),
    }
}

/// Owner that waits for the end of a payload.
struct Carrier<'a> {
    session: &'a Session,
    /// Blasts in a row without a new packet.
    barren: u32,
    failed: Option<Error>,
}

impl Carrier<'_> {
    /// Fails if either side has ended the stream. The peer sends nothing else meanwhile.
    fn look(&mut self) -> Result<Next, World> {
        check_both(self.session).map_or_else(
            |error| {
                self.failed = Some(error);
                Err(World::Interrupted)
            },
            |()| Ok(Next::Continue),
        )
    }
}

impl<E: Endpoint<Event = MachineEvent>> Owner<E> for Carrier<'_> {
    fn event(&mut self, _: &mut E, event: MachineEvent, _: Instant) -> Result<Next, World> {
        if event == MachineEvent::Barren {
            self.barren += 1;
            if self.barren < BARREN_MAX {
                return Ok(Next::Continue);
            }
        }
        event.next()
    }

    fn tick(&mut self, _: &mut E, _: Instant) -> Result<Next, World> {
        self.look()
    }
}

/// Maximum number of bytes of a payload, which both sides keep in memory.
const PAYLOAD_LEN_MAX: u64 = 256 << 20;
/// Bytes of objects that wait for the reader of the pipe. A larger object waits alone.
const AHEAD: usize = 16 << 20;
/// Blasts in a row without a new packet after which datagrams are taken as blocked.
const BARREN_MAX: u32 = 8;
/// Interval at which a waiting side checks for the end of the stream.
const LOOK: Duration = Duration::from_millis(100);
