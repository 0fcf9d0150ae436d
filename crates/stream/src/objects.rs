//! Streams of objects: as many as come in the delay that is tolerated cross as one payload by RBUDP.

use std::fs::File;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate};
use lighthaul_io::drive::{Lane, Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::store::block::Block;
use lighthaul_io::store::memory::Memory;
use lighthaul_proto::rbudp::plan::{Plan, StreamDemand};
use lighthaul_proto::rbudp::wire::HEAD_LEN;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::machine::{Learned, Moved, ReceiveMachine, SendMachine, Setup};
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::session::Session;

use crate::message::{Message, OBJECTS_MAX, Objects, Payload, Report};
use crate::meter::Meter;
use crate::pump::{self, Frame, Intake, Outlet};
use crate::ready::{Ready, check, check_both, hear, out_of_turn};

/// Plans a stream over a path.
pub fn plan(how: &Objects, rtt: Duration) -> Result<Plan, Error> {
    let demand = StreamDemand {
        object_len: how.object_len,
        objects_per_second: how.micro_per_second as f64 / 1e6,
        delay: Duration::from_micros(how.delay_us),
        rtt: rtt * u32::from(how.blasts.max(1)),
    };
    let bad = |text: String| Error::new(Code::Usage, text);
    let plan = demand.plan().map_err(|why| bad(why.to_string()))?;
    if plan.payload_len > PAYLOAD_LEN_MAX || plan.objects as usize > OBJECTS_MAX {
        let text = format!(
            "{} objects in {} bytes are more than a payload holds: allow less delay",
            plan.objects, plan.payload_len
        );
        return Err(bad(text));
    }
    Ok(plan)
}

/// Sends objects until there are no more; answers how many there were.
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

/// Takes objects in until there are no more; answers what came of them.
pub(crate) fn receive(mut ready: Ready<'_>, how: &Objects, file: File) -> Result<Report, Error> {
    let session = ready.session;
    let outlet = Outlet::start(file, ready.wanted.frames, AHEAD, session.clock)?;
    let (mut report, mut meter) = (Report::default(), Meter::default());
    // the first of a payload has waited for the others, and then crosses with them
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
            // the peer may announce its next payload meanwhile
            outlet.push(object.to_vec(), &mut || check(session))?;
        }
    }
    outlet.finish(&mut || check_both(session))?;
    meter.fill(&mut report);
    Ok(report)
}

/// The objects of the next payload: so many, or fewer if the delay has passed or there are no more.
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

/// The offer with the plan's rate, which the path must carry.
fn on_wire(ready: &Ready<'_>, plan: &Plan) -> Result<Offer, Error> {
    let len = ready.offer.packet_len;
    let wire_len = len + offer::AROUND_LEN + HEAD_LEN as u32 + header_of(ready.session);
    let rate = plan.rate.scaled(wire_len, len);
    let most = Rate::from_bps(ready.offer.rate_bps).unwrap_or(rate);
    if ready.lane.udp.is_some() && rate > most {
        let text = format!(
            "these objects need {rate} on the wire to be there in time, and {most} is what there is: allow more delay, or send less"
        );
        return Err(Error::new(Code::Refused, text));
    }
    Ok(Offer {
        rate_bps: rate.as_bps(),
        ..ready.offer
    })
}

fn header_of(session: &Session) -> u32 {
    lighthaul_io::net::udp::header_len(session.peer_address())
}

/// The parameters for a payload, whose length is bounded.
fn setup(ready: &Ready<'_>, offer: &Offer, payload: &Payload) -> Result<Setup, Error> {
    let len = payload.objects.iter().map(|(len, _)| u64::from(*len)).sum();
    if len > PAYLOAD_LEN_MAX || payload.objects.len() > OBJECTS_MAX {
        return Err(Error::new(
            Code::Protocol,
            format!("the peer announced a payload of {len} bytes"),
        ));
    }
    let mut setup = offer::setup(offer, (payload.number, len), &ready.lane, ready.plain)?;
    if ready.lane.udp.is_none() {
        setup.rate = Rate::UNLIMITED;
    }
    Ok(setup)
}

/// Runs one machine of a payload to its end.
fn carry<E: Endpoint<Event = Moved>>(
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

/// Waits for the end of a payload.
struct Carrier<'a> {
    session: &'a Session,
    /// Blasts in a row that brought nothing.
    barren: u32,
    failed: Option<Error>,
}

impl Carrier<'_> {
    /// The peer has nothing to say meanwhile, but that it fails.
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

impl<E: Endpoint<Event = Moved>> Owner<E> for Carrier<'_> {
    fn event(&mut self, _: &mut E, event: Moved, _: Instant) -> Result<Next, World> {
        match event {
            Moved::Round(..) | Moved::Asked(_) | Moved::Waits | Moved::Quiet(_) => {
                Ok(Next::Continue)
            }
            Moved::Barren => {
                self.barren += 1;
                let passes = self.barren < BARREN_MAX;
                Ok(if passes { Next::Continue } else { Next::Divert })
            }
            Moved::Complete => Ok(Next::Finish),
            Moved::Failed(why) => Err(World::PeerMisbehaved(why)),
        }
    }

    fn tick(&mut self, _: &mut E, _: Instant) -> Result<Next, World> {
        self.look()
    }
}

/// Both sides keep that much of a payload.
const PAYLOAD_LEN_MAX: u64 = 256 << 20;
/// Bytes of objects that wait for the process that reads the pipe; a larger object waits alone.
const AHEAD: usize = 16 << 20;
/// So many blasts in a row bring nothing only where datagrams do not pass any more.
const BARREN_MAX: u32 = 8;
/// How often who waits looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);
