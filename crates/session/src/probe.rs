//! Measurements of a path and its hosts.
//!
//! The network is measured alone, and with the copy that every transfer needs (the papers'
//! `app_perf`). RBUDP runs from memory to memory with each of its receivers, as do the other protocols.

use std::thread;
use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Endpoint, Instant, Rate, Trc};
use lighthaul_io::control::Control;
use lighthaul_io::drive::{Counters, Lane, Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::cpu_time;
use lighthaul_io::net::flood::{absorb, flood};
use lighthaul_io::store::block::Block;
use lighthaul_io::store::memory::Memory;
use lighthaul_proto::{rbudp, sabul, stripe, vbtp};
use std::sync::atomic::Ordering::Relaxed;

use crate::error::Error;
use crate::fault::{Fault, PeerFault};
use crate::join::join;
use crate::keepalive::Keepalive;
use crate::machine::{Learned, MachineEvent, ReceiveMachine, SendMachine, Setup};
use crate::measure::{MeasureMode, MeasureRequest, MeasureResult, Message};
use crate::offer::{self, Offer};
use crate::path::{Path, explore};
use crate::protocol::Protocol;
use crate::role::Role;
use crate::session::Session;

/// Memory for objects, in bytes: as much as other tools use, which fits in caches.
const RING_BYTES: u32 = 1 << 20;
/// Rate for protocols that need a rate, if the user gives none. Hosts are slower.
const RATE_DEFAULT: Rate = Rate::from_mbps(100_000);
/// Longest silence of the peer, and the longest time without progress.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Time until a flood of datagrams must have begun, and time for its last datagrams.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest duration of a measurement.
const CIRCUIT_TIME: Duration = Duration::from_hours(1);

/// Runs the measurement `ask` on the sending side.
pub fn ask(session: &Session, ask: MeasureRequest, udp: bool) -> Result<MeasureResult, Error> {
    let role = Role::Client(udp);
    let path = explore(&session.dialog(), &role, true, lanes(ask.mode))?;
    let cpu = cpu_time();
    let measured = with_keepalives(session, || {
        if ask.mode.is_raw() {
            raw(session, &path, ask)
        } else {
            protocol(session, (&role, path), ask)
        }
    });
    let ours = cpu_time().saturating_sub(cpu).as_micros() as u64;
    measured.map(|measured| MeasureResult {
        cpu_us: measured.cpu_us + ours,
        ..measured
    })
}

/// Runs the measurement `ask` on the receiving side.
pub fn answer(session: &Session, role: &Role, ask: MeasureRequest) -> Result<MeasureResult, Error> {
    let path = explore(&session.dialog(), role, false, lanes(ask.mode))?;
    let cpu = cpu_time();
    let mut measured = with_keepalives(session, || {
        if ask.mode.is_raw() {
            raw_answer(session, &path, ask)
        } else {
            protocol_answer(session, (role, path), ask)
        }
    })?;
    measured.cpu_us = cpu_time().saturating_sub(cpu).as_micros() as u64;
    session.say(&Message::Result(measured))?;
    session.control.flush(Duration::from_secs(2));
    Ok(measured)
}

/// Runs a measurement that ends when the peer is silent for too long.
fn with_keepalives<T>(session: &Session, measure: impl FnOnce() -> T) -> T {
    session.control.limit_silence(SILENCE_MAX);
    thread::scope(|scope| {
        // no work is owed: a measurement without progress has its own limit
        let _alive = Keepalive::start(scope, session, || 0);
        measure()
    })
}

fn raw(session: &Session, path: &Path, ask: MeasureRequest) -> Result<MeasureResult, Error> {
    let udp = path.sockets.first().ok_or(Fault::NoUdp)?;
    let rate = ask
        .rate_bps
        .and_then(Rate::from_bps)
        .unwrap_or(Rate::UNLIMITED);
    let time = Duration::from_millis(ask.millis.into());
    let number = session.secrets.data_connection();
    let sent = flood(udp, number, path.datagram_len, time, rate).map_err(flood_error)?;
    let measured = heard(session)?;
    let arrived = measured.bytes / path.datagram_len as u64;
    Ok(MeasureResult {
        lost: sent.saturating_sub(arrived),
        ..measured
    })
}

fn raw_answer(session: &Session, path: &Path, ask: MeasureRequest) -> Result<MeasureResult, Error> {
    let udp = path.sockets.first().ok_or(Fault::NoUdp)?;
    let number = session.secrets.data_connection();
    let now = session.clock.now();
    let (begins_by, ends_by) = (
        now + BEGIN_TIMEOUT,
        now + BEGIN_TIMEOUT + Duration::from_millis(ask.millis.into()),
    );
    let copy = ask.mode == MeasureMode::Copy;
    let goes_on = |now| now < ends_by && session.halt.check().is_ok();
    let absorbed = absorb(udp, number, copy, (session.clock, begins_by), goes_on);
    session.halt.check()?;
    let absorbed = absorbed.map_err(flood_error)?;
    Ok(MeasureResult {
        bps: Rate::of(absorbed.bytes, absorbed.time).as_bps(),
        bytes: absorbed.bytes,
        nanos: absorbed.time.as_nanos() as u64,
        lost: 0,
        buffer_drops: absorbed.buffer_drops.into(),
        rounds: 0,
        cpu_us: 0,
    })
}

fn protocol(
    session: &Session,
    (role, path): (&Role, Path),
    ask: MeasureRequest,
) -> Result<MeasureResult, Error> {
    let moves_by = moves_by(ask.mode);
    let asked = ask.rate_bps.and_then(Rate::from_bps);
    let rate = asked.unwrap_or_else(|| rate_default(moves_by));
    let offer = Offer {
        settle_us: 0, // as in the paper; `offer::setup` raises it to the minimum
        ..Offer::new(session, (moves_by, 0), &path, rate)
    };
    let plain = !ask.mode.is_sealed();
    session.say(&Message::Offer(offer))?;
    let joined = join(&session.dialog(), role, offer.joins, plain)?;
    let learned = offer::width(session, 0, &joined);
    let mut lane = single_lane(session, &offer, (path, &joined), plain)?;
    let trc = (moves_by == Protocol::Vbtp).then(|| circuit(session, rate));
    let trc = trc.transpose()?;
    let setup = Setup {
        trc,
        ..offer::setup(&offer, (1, object_len(&offer, ask)), &lane, plain)?
    };
    let mut store = Memory::new(ring(&setup), true);
    let Message::Ready = session.hear()? else {
        return Err(PeerFault::Unexpected("the ready message").into());
    };
    let started = session.clock.now();
    let mut sender = SendMachine::new(started, &setup, learned_by(moves_by, learned));
    carry(session, &mut sender, &mut lane, &mut store)?;
    let time = session.clock.now().since(started);
    let theirs = heard(session)?;
    Ok(MeasureResult {
        bps: Rate::of(setup.object_len, time).as_bps(),
        nanos: time.as_nanos() as u64,
        lost: sender.resent(),
        rounds: sender.round(),
        ..theirs
    })
}

fn protocol_answer(
    session: &Session,
    (role, path): (&Role, Path),
    ask: MeasureRequest,
) -> Result<MeasureResult, Error> {
    let Message::Offer(offer) = session.hear()? else {
        return Err(PeerFault::Unexpected("an offer").into());
    };
    let plain = !ask.mode.is_sealed();
    let joined = join(&session.dialog(), role, offer.joins, plain)?;
    let mut lane = single_lane(session, &offer, (path, &joined), plain)?;
    let setup = offer::setup(&offer, (1, object_len(&offer, ask)), &lane, plain)?;
    let scatter = matches!(ask.mode, MeasureMode::Scatter | MeasureMode::SealedScatter);
    lane.scatter = scatter.then_some(setup.packet_len);
    offer::predict_competition(&mut lane, offer.protocol);
    let mut store = Memory::new(ring(&setup), ask.mode != MeasureMode::Fake);
    session.say(&Message::Ready)?;
    let mut receiver = ReceiveMachine::new(session.clock.now(), &setup, Learned::default());
    carry(session, &mut receiver, &mut lane, &mut store)?;
    Ok(outcome(&receiver, setup.object_len, &lane.counters))
}

const fn moves_by(what: MeasureMode) -> Protocol {
    match what {
        MeasureMode::Plus => Protocol::RbudpPlus,
        MeasureMode::By(protocol) => protocol,
        MeasureMode::Network
        | MeasureMode::Copy
        | MeasureMode::Fake
        | MeasureMode::Place
        | MeasureMode::Scatter
        | MeasureMode::Sealed
        | MeasureMode::SealedScatter => Protocol::Rbudp,
    }
}

/// Returns the length of the only object: that of the request, limited to the maximum of its protocol.
fn object_len(offer: &Offer, ask: MeasureRequest) -> u64 {
    let packets_max = match offer.protocol {
        Protocol::Rbudp | Protocol::RbudpPlus => rbudp::PACKETS_MAX,
        Protocol::Vbtp => vbtp::PACKETS_MAX,
        Protocol::Sabul | Protocol::SabulSwift => sabul::PACKETS_MAX,
        Protocol::Tcp | Protocol::Ptcp => stripe::PACKETS_MAX,
    };
    let longest = packets_max.saturating_mul(offer.packet_len.into());
    ask.bytes.min(longest)
}

/// Returns the number of sockets for a measurement.
fn lanes(what: MeasureMode) -> usize {
    usize::from(moves_by(what).is_datagrams())
}

/// Returns the rate if the user gives none: as fast as possible, or [`RATE_DEFAULT`] for
/// protocols that need a rate.
const fn rate_default(protocol: Protocol) -> Rate {
    match protocol {
        Protocol::Vbtp | Protocol::Sabul | Protocol::SabulSwift => RATE_DEFAULT,
        Protocol::Rbudp | Protocol::RbudpPlus | Protocol::Tcp | Protocol::Ptcp => Rate::UNLIMITED,
    }
}

/// Returns the initial measurements of a machine: the number of streams, for protocols with
/// streams.
fn learned_by(protocol: Protocol, width: Learned) -> Learned {
    if protocol.is_datagrams() {
        Learned::default()
    } else {
        width
    }
}

/// Returns a vector with one rate for the longest measurement.
fn circuit(session: &Session, rate: Rate) -> Result<Trc, Error> {
    let from = session.clock.now();
    let till = from + CIRCUIT_TIME;
    let trc = Trc::new(vec![Step { from, till, rate }]);
    Ok(trc.map_err(Fault::MeasureRate)?)
}

fn outcome(receiver: &ReceiveMachine, bytes: u64, counters: &Counters) -> MeasureResult {
    MeasureResult {
        bps: 0,
        bytes,
        nanos: 0,
        lost: 0,
        buffer_drops: counters.buffer_drops.load(Relaxed),
        rounds: receiver.round(),
        cpu_us: 0,
    }
}

fn heard(session: &Session) -> Result<MeasureResult, Error> {
    let Message::Result(measured) = session.hear()? else {
        return Err(PeerFault::Unexpected("the measurement").into());
    };
    Ok(measured)
}

/// Returns memory for whole packets. It is written once, so that every page exists.
fn ring(setup: &Setup) -> Block {
    let packets = RING_BYTES / setup.packet_len;
    let mut block = Block::new((packets * setup.packet_len) as usize);
    block.fill(0x5a);
    block
}

fn flood_error(error: std::io::Error) -> Error {
    World::world("cannot send test datagrams", error).into()
}

/// Runs the machine of a measurement to its end.
fn carry(
    session: &Session,
    endpoint: &mut impl Measured,
    lane: &mut Lane,
    store: &mut Memory,
) -> Result<(), Error> {
    let now = session.clock.now();
    let mut owner = WaitForEnd {
        session,
        ends_by: now + CIRCUIT_TIME,
        moved: (now, 0),
    };
    let ran = run(endpoint, lane, store, &mut owner);
    session.halt.check()?;
    Ok(ran?)
}

/// Machine that counts the packets of its object.
trait Measured: Endpoint<Event = MachineEvent> {
    /// Returns the packets that have left or arrived.
    fn packets(&self) -> u64;
}

impl Measured for SendMachine {
    fn packets(&self) -> u64 {
        self.sent()
    }
}

impl Measured for ReceiveMachine {
    fn packets(&self) -> u64 {
        self.received()
    }
}

/// Owner that only waits for the end, as long as packets of the object arrive and the session is not halted.
struct WaitForEnd<'a> {
    session: &'a Session,
    /// End of the longest measurement.
    ends_by: Instant,
    /// Time of the last progress, and the packets of the object by then.
    moved: (Instant, u64),
}

impl WaitForEnd<'_> {
    /// Fails if the measurement exceeds its time, or makes no progress. `packets` are those of the object so far.
    fn check(&mut self, now: Instant, packets: u64) -> Result<Next, World> {
        if self.session.halt.check().is_err() {
            return Ok(Next::Finish);
        }
        if packets != self.moved.1 {
            self.moved = (now, packets);
        }
        if now >= self.ends_by || now.since(self.moved.0) > SILENCE_MAX {
            let text = "the measurement did not proceed, or exceeded its longest duration";
            return Err(World::TimedOut(text.into()));
        }
        Ok(Next::Continue)
    }
}

impl<E: Measured> Owner<E> for WaitForEnd<'_> {
    fn event(&mut self, _: &mut E, event: MachineEvent, _: Instant) -> Result<Next, World> {
        event.next()
    }

    fn tick(&mut self, machine: &mut E, now: Instant) -> Result<Next, World> {
        self.check(now, machine.packets())
    }
}

/// Returns the only lane of a measurement.
fn single_lane(
    session: &Session,
    offer: &Offer,
    (path, joined): (Path, &[Control]),
    plain: bool,
) -> Result<Lane, Error> {
    offer::check(offer, &path)?;
    let mut lane = offer::lanes_over(session, offer, path, joined)?.swap_remove(0);
    offer::rekey(session, &mut lane, 0, plain);
    Ok(lane)
}
