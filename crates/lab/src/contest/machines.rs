//! Flow of protocol machines on sockets of the lab's hosts.
//!
//! `sabul` runs a sender and a receiver, each on a thread. `lanes` connects two hosts by UDP
//! sockets and TLS streams, as a copy does. A `MeteredOwner` observes a machine for a `Meter`, and
//! ends it when the measurement ends. The bytes come from a small ring in memory, so neither disks
//! nor memory bandwidth limit the flow. Datagrams are not encrypted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use lighthaul_base::{Endpoint, Instant};
use lighthaul_io::control::{Control, Stream};
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::tls::{Side, handshake};
use lighthaul_io::drive::{Lane, Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::net::train::CONNECTION_LEN;
use lighthaul_io::net::udp::Udp;
use lighthaul_io::store::block::Block;
use lighthaul_io::store::memory::Memory;
use lighthaul_proto::sabul::wire::HEAD_LEN;
use lighthaul_proto::sabul::{self, Mode, Receiver, ReceiverEvent, Sender, SenderEvent};

use super::host_pair::{HostPair, SOURCE, TARGET};
use super::meter::Meter;
use super::shared_link::SharedLink;
use super::tcp::pair;
use crate::error::{Error, Result};

/// Runs a SABUL flow with the parameters that a copy would measure before its start.
pub(crate) fn sabul(hosts: &HostPair, link: &SharedLink, mode: Mode, meter: &Meter) -> Result<()> {
    let config = config(link, mode);
    let now = hosts.clock.now();
    let mut sender = Sender::new(now, config, SEED);
    let mut receiver = Receiver::new(now, config, SEED);
    let sending = MeteredOwner {
        meter,
        look: |_: &Sender, _: &Meter| {},
        judge: |event| match event {
            SenderEvent::Passed | SenderEvent::Barren => Ok(Next::Continue),
            SenderEvent::Complete => Ok(Next::Finish),
            SenderEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        },
    };
    let receiving = MeteredOwner {
        meter,
        look: |receiver: &Receiver, meter: &Meter| {
            meter.set(receiver.received() * u64::from(PACKET_LEN));
        },
        judge: |event| match event {
            ReceiverEvent::Complete => Ok(Next::Finish),
            ReceiverEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        },
    };
    let [mut near, mut far] = lanes(hosts, HEAD_LEN)?;
    thread::scope(|scope| {
        let sent = scope.spawn(|| drive(&mut sender, &mut near, sending));
        let received = drive(&mut receiver, &mut far, receiving);
        // After a failure of one side, the other must not wait.
        meter.end();
        let sent = sent.join();
        let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        received.and(sent)
    })
}

/// Returns the configuration that `lighthaul cp` uses after its probe. The flow starts at half of
/// the link's rate and may use all of it, or twice that in the second mode. Its flow window is twice the size that the
/// paper recommends.
fn config(link: &SharedLink, mode: Mode) -> sabul::Config {
    let product = link.rate.bytes_in((sabul::config::SYN + link.rtt) * 2);
    let window = product / u64::from(PACKET_LEN);
    sabul::Config {
        framing: sabul::Framing {
            object_len: u64::from(PACKET_LEN) << 30,
            packet_len: PACKET_LEN,
            overhead_len: OVERHEAD_LEN,
        },
        mode,
        memory: sabul::Memory::measured(link.rate, link.rtt),
        rate_max: match mode {
            Mode::Paper | Mode::Fixed => link.rate,
            Mode::Swift => link.rate.scaled(2, 1),
        },
        burst: None,
        stream: STREAM,
        window_max: window.clamp(WINDOW_MIN, WINDOW_MAX) as u32,
        ranges_max: 1 << 14,
    }
}

fn drive<E: Endpoint>(
    machine: &mut E,
    lane: &mut Lane,
    mut owner: MeteredOwner<'_, E>,
) -> Result<()> {
    run(machine, lane, &mut object(), &mut owner).map_err(Error::Flow)
}

/// Creates an object in memory that repeats a few packets, so that they stay in the CPU's caches.
pub(crate) fn object() -> Memory {
    let mut ring = Block::new(RING_PACKETS * PACKET_LEN as usize);
    ring.fill(0x5a);
    Memory::new(ring, true)
}

/// Creates the lanes of the machines of both hosts.
pub(crate) fn lanes(hosts: &HostPair, head_len: usize) -> Result<[Lane; 2]> {
    let ([near, far], [here, there]) = (sockets(hosts)?, streams(hosts)?);
    let lane = |udp, stream| Lane {
        udp: Some(udp),
        stream,
        more: Vec::new(),
        connection: CONNECTION,
        seal: None,
        open: None,
        head_len,
        clock: hosts.clock,
        scatter: None,
        share: None,
        competition: None,
        counters: Arc::default(),
    };
    Ok([lane(near, here), lane(far, there)])
}

/// Creates a socket in each host, connected to the other.
fn sockets(hosts: &HostPair) -> Result<[Udp; 2]> {
    let bind = |host: &str| {
        let address = SocketAddr::from((hosts.lab.address(host)?, 0));
        hosts.lab.within(host, || {
            let udp = Udp::bind(address)?;
            udp.local_addr().map(|own| (udp, own))
        })
    };
    let ((near, here), (far, there)) = (bind(SOURCE)?, bind(TARGET)?);
    near.connect(there)
        .and_then(|()| far.connect(here))
        .map_err(Error::world("connect the lab's UDP sockets"))?;
    Ok([near, far])
}

/// Creates both ends of a stream between the hosts.
fn streams(hosts: &HostPair) -> Result<[Stream; 2]> {
    let [near, far] = pair(hosts, None)?;
    let shake = |mut tcp, side| {
        let tls = handshake(&mut tcp, side, &Identity::generate())?;
        Control::start(tcp, tls)?.open(STREAM)
    };
    let (caller, called) = thread::scope(|scope| {
        let caller = scope.spawn(|| shake(near, Side::Client));
        let called = shake(far, Side::Server);
        let caller = caller.join();
        let caller = caller.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (caller, called)
    });
    Ok([caller?, called?])
}

/// Owner of a machine that measures it until the flow ends.
pub(crate) struct MeteredOwner<'a, E: Endpoint> {
    pub(crate) meter: &'a Meter,
    pub(crate) look: fn(&E, &Meter),
    pub(crate) judge: fn(E::Event) -> std::result::Result<Next, World>,
}

impl<E: Endpoint> Owner<E> for MeteredOwner<'_, E> {
    fn event(
        &mut self,
        _: &mut E,
        event: E::Event,
        _: Instant,
    ) -> std::result::Result<Next, World> {
        (self.judge)(event)
    }

    fn tick(&mut self, machine: &mut E, _: Instant) -> std::result::Result<Next, World> {
        (self.look)(machine, self.meter);
        let is_over = self.meter.is_over();
        Ok(if is_over {
            Next::Finish
        } else {
            Next::Continue
        })
    }
}

const SEED: u64 = 1;
pub(crate) const STREAM: u16 = 1;
/// Connection number of the flow's datagrams.
const CONNECTION: u64 = 1;
/// Bytes of the object in a packet.
pub(crate) const PACKET_LEN: u32 = 1440;
/// Bytes of the headers of a packet: IP, UDP and connection number.
pub(crate) const OVERHEAD_LEN: u32 = 28 + CONNECTION_LEN as u32;
const RING_PACKETS: usize = 512;
const WINDOW_MIN: u64 = 1 << 8;
const WINDOW_MAX: u64 = 1 << 20;
