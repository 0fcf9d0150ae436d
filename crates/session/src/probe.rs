//! Measurements of a path and its hosts.
//!
//! They are the network alone, the network with the copy that every transfer needs (the papers'
//! `app_perf`), RBUDP from memory to memory with each of its receivers, and the other protocols.

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
use std::sync::atomic::Ordering::Relaxed;

use crate::door::Door;
use crate::error::{Code, Error};
use crate::fault::PeerFault;
use crate::join::join;
use crate::machine::{Learned, Moved, ReceiveMachine, SendMachine, Setup};
use crate::measure::{Ask, Measured, Message, What};
use crate::offer::{self, Offer};
use crate::path::{Path, explore};
use crate::protocol::Protocol;
use crate::session::Session;

/// Memory for objects, in bytes: as much as other tools use, which fits in caches.
const RING_BYTES: u32 = 1 << 20;
/// Rate for protocols that need one, if the user gives none. Hosts are slower.
const RATE_OTHERWISE: Rate = Rate::from_mbps(100_000);
/// Longest duration of a measurement.
const CIRCUIT: Duration = Duration::from_hours(1);

/// Runs the measurement `ask` on the sending side.
pub fn ask(session: &Session, ask: Ask, udp: bool) -> Result<Measured, Error> {
    let door = Door::Caller(udp);
    let path = explore(session, &door, true, lanes(ask.what))?;
    let cpu = cpu_time();
    let measured = if ask.what.is_raw() {
        raw(session, &path, ask)
    } else {
        protocol(session, (&door, path), ask)
    };
    let ours = cpu_time().saturating_sub(cpu).as_micros() as u64;
    measured.map(|measured| Measured {
        cpu_us: measured.cpu_us + ours,
        ..measured
    })
}

/// Runs the measurement `ask` on the receiving side.
pub fn answer(session: &Session, door: &Door<'_>, ask: Ask) -> Result<Measured, Error> {
    let path = explore(session, door, false, lanes(ask.what))?;
    let cpu = cpu_time();
    let mut measured = if ask.what.is_raw() {
        raw_answer(session, &path, ask)?
    } else {
        protocol_answer(session, (door, path), ask)?
    };
    measured.cpu_us = cpu_time().saturating_sub(cpu).as_micros() as u64;
    session.say(&Message::Measured(measured))?;
    session.control.flush(Duration::from_secs(2));
    Ok(measured)
}

fn raw(session: &Session, path: &Path, ask: Ask) -> Result<Measured, Error> {
    let udp = path.sockets.first().ok_or_else(|| {
        Error::new(
            Code::Network,
            "no UDP datagram arrived; open the port for UDP, too",
        )
    })?;
    let rate = ask
        .rate_bps
        .and_then(Rate::from_bps)
        .unwrap_or(Rate::UNLIMITED);
    let time = Duration::from_millis(ask.millis.into());
    let number = session.secrets.data_connection();
    let sent = flood(udp, number, path.datagram_len, time, rate).map_err(flooding)?;
    let measured = heard(session)?;
    let arrived = measured.bytes / path.datagram_len as u64;
    Ok(Measured {
        lost: sent.saturating_sub(arrived),
        ..measured
    })
}

fn raw_answer(session: &Session, path: &Path, ask: Ask) -> Result<Measured, Error> {
    let udp = path.sockets.first().ok_or_else(|| {
        Error::new(
            Code::Network,
            "no UDP datagram arrived; open the port for UDP, too",
        )
    })?;
    let number = session.secrets.data_connection();
    let deadline = session.clock.now() + Duration::from_secs(5);
    let copy = ask.what == What::Copy;
    let absorbed = absorb(udp, number, copy, session.clock, deadline).map_err(flooding)?;
    Ok(Measured {
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
    (door, path): (&Door<'_>, Path),
    ask: Ask,
) -> Result<Measured, Error> {
    let moves_by = moves_by(ask.what);
    let asked = ask.rate_bps.and_then(Rate::from_bps);
    let rate = asked.unwrap_or_else(|| rate_otherwise(moves_by));
    let offer = Offer {
        settle_us: 0, // as in the paper; `offer::setup` raises it to the minimum
        ..Offer::new(session, (moves_by, 0), &path, rate)
    };
    let plain = !ask.what.is_sealed();
    session.say(&Message::Offer(offer))?;
    let joined = join(session, door, offer.joins, plain)?;
    let learned = offer::width(session, 0, &joined);
    let mut lane = the_lane(session, &offer, (path, &joined), plain)?;
    let trc = (moves_by == Protocol::Vbtp).then(|| circuit(session, rate));
    let trc = trc.transpose()?;
    let setup = Setup {
        trc,
        ..offer::setup(&offer, (1, ask.bytes), &lane, plain)?
    };
    let mut store = Memory::new(ring(&setup), true);
    let Message::Ready = session.hear()? else {
        return Err(PeerFault::Unexpected("the ready message").into());
    };
    let started = session.clock.now();
    let mut sender = SendMachine::new(started, &setup, learned_by(moves_by, learned));
    run(&mut sender, &mut lane, &mut store, &mut Bare)?;
    let time = session.clock.now().since(started);
    let theirs = heard(session)?;
    Ok(Measured {
        bps: Rate::of(ask.bytes, time).as_bps(),
        nanos: time.as_nanos() as u64,
        lost: sender.resent(),
        rounds: sender.round(),
        ..theirs
    })
}

fn protocol_answer(
    session: &Session,
    (door, path): (&Door<'_>, Path),
    ask: Ask,
) -> Result<Measured, Error> {
    let Message::Offer(offer) = session.hear()? else {
        return Err(PeerFault::Unexpected("an offer").into());
    };
    let plain = !ask.what.is_sealed();
    let joined = join(session, door, offer.joins, plain)?;
    let mut lane = the_lane(session, &offer, (path, &joined), plain)?;
    let setup = offer::setup(&offer, (1, ask.bytes), &lane, plain)?;
    let scatter = matches!(ask.what, What::Scatter | What::SealedScatter);
    lane.scatter = scatter.then_some(setup.packet_len);
    offer::foresee(&mut lane, offer.protocol);
    let mut store = Memory::new(ring(&setup), ask.what != What::Fake);
    session.say(&Message::Ready)?;
    let mut receiver = ReceiveMachine::new(session.clock.now(), &setup, Learned::default());
    run(&mut receiver, &mut lane, &mut store, &mut Bare)?;
    Ok(outcome(&receiver, setup.object_len, &lane.counters))
}

const fn moves_by(what: What) -> Protocol {
    match what {
        What::Plus => Protocol::RbudpPlus,
        What::By(protocol) => protocol,
        What::Network
        | What::Copy
        | What::Fake
        | What::Place
        | What::Scatter
        | What::Sealed
        | What::SealedScatter => Protocol::Rbudp,
    }
}

/// Returns the number of sockets for a measurement.
fn lanes(what: What) -> usize {
    usize::from(moves_by(what).is_datagrams())
}

/// Returns the rate if the user gives none: as fast as possible, or [`RATE_OTHERWISE`] for
/// protocols that need a rate.
const fn rate_otherwise(protocol: Protocol) -> Rate {
    match protocol {
        Protocol::Vbtp | Protocol::Sabul | Protocol::SabulSwift => RATE_OTHERWISE,
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
    let till = from + CIRCUIT;
    let trc = Trc::new(vec![Step { from, till, rate }]);
    trc.map_err(|why| Error::new(Code::Usage, why.to_string()))
}

fn outcome(receiver: &ReceiveMachine, bytes: u64, counters: &Counters) -> Measured {
    Measured {
        bps: 0,
        bytes,
        nanos: 0,
        lost: 0,
        buffer_drops: counters.buffer_drops.load(Relaxed),
        rounds: receiver.round(),
        cpu_us: 0,
    }
}

fn heard(session: &Session) -> Result<Measured, Error> {
    let Message::Measured(measured) = session.hear()? else {
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

fn flooding(error: std::io::Error) -> Error {
    World::world("cannot send test datagrams", error).into()
}

/// Owner that only waits for the end.
struct Bare;

impl<E: Endpoint<Event = Moved>> Owner<E> for Bare {
    fn event(&mut self, _: &mut E, event: Moved, _: Instant) -> Result<Next, World> {
        match event {
            Moved::Round(..) | Moved::Asked(_) | Moved::Waits | Moved::Quiet(_) => {
                Ok(Next::Continue)
            }
            Moved::Barren => Ok(Next::Divert),
            Moved::Complete => Ok(Next::Finish),
            Moved::Failed(why) => Err(World::PeerMisbehaved(why)),
        }
    }

    fn tick(&mut self, _: &mut E, _: Instant) -> Result<Next, World> {
        Ok(Next::Continue)
    }
}

/// Returns the only lane of a measurement.
fn the_lane(
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
