//! Two ends of a control connection, and machines that run over it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate, Rng};
use lighthaul_io::block::Block;
use lighthaul_io::clock::Clock;
use lighthaul_io::control::{Control, Stream};
use lighthaul_io::drive::{Lane, Next, Owner, run};
use lighthaul_io::error::Error;
use lighthaul_io::identity::Identity;
use lighthaul_io::memory::Memory;
use lighthaul_io::seal::{Cipher, Key};
use lighthaul_io::tls::{self, Side};
use lighthaul_io::udp::Udp;
use lighthaul_proto::rbudp::{
    Config, Receiver, ReceiverEvent, Sender, SenderEvent, wire::HEAD_LEN,
};
use lighthaul_proto::stripe;
use rustls::Connection;

/// A connection whose handshake is done, both ends of it.
pub(crate) fn connect() -> [(TcpStream, Connection); 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let shake = |mut tcp: TcpStream, side| {
        let tls = tls::handshake(&mut tcp, side, &Identity::generate()).unwrap();
        (tcp, tls)
    };
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| shake(TcpStream::connect(address).unwrap(), Side::Client));
        let called = shake(listener.accept().unwrap().0, Side::Server);
        [caller.join().unwrap(), called]
    })
}

/// The machines' stream, both ends of it.
pub(crate) fn streams() -> [Stream; 2] {
    connect().map(|(tcp, tls)| Control::start(tcp, tls).unwrap().open(STREAM).unwrap())
}

/// A transfer of `object_len` bytes.
pub(crate) fn config(object_len: u64, packet_len: u32) -> Config {
    Config {
        object_len,
        packet_len,
        overhead_len: 52,
        rate: Rate::from_mbps(300),
        burst: None,
        stream: STREAM,
        settle: Duration::from_millis(5),
        repeat: Duration::ZERO,
        feedback: None,
    }
}

/// One end of a lane; without `udp` the stream carries all.
pub(crate) fn lane(stream: Stream, udp: Option<Udp>, sealed: bool) -> Lane {
    let key = || sealed.then(|| Key::new(Cipher::preferred(), &[7; 32]));
    Lane {
        udp,
        stream,
        more: Vec::new(),
        connection: CONNECTION,
        seal: key(),
        open: key(),
        head_len: HEAD_LEN,
        clock: Clock::start(),
        scatter: None,
        competition: None,
        share: None,
        counters: std::sync::Arc::default(),
    }
}

/// Sockets of both ends that talk to each other, or to what stands in between.
pub(crate) fn sockets(between: impl FnOnce([SocketAddr; 2]) -> [SocketAddr; 2]) -> [Udp; 2] {
    let ends = [(); 2].map(|()| Udp::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap());
    let own = [0, 1].map(|end: usize| ends[end].local_addr().unwrap());
    let [of_sender, of_receiver] = between(own);
    ends[0].connect(of_sender).unwrap();
    ends[1].connect(of_receiver).unwrap();
    ends
}

/// What an object looks like before it is sent.
pub(crate) fn object(len: usize) -> Memory {
    let mut block = Block::new(len);
    let mut rng = Rng::new(len as u64);
    for octets in block.chunks_mut(8) {
        octets.copy_from_slice(&rng.next_u64().to_be_bytes()[..octets.len()]);
    }
    Memory::new(block, false)
}

/// How a transfer went.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) foreign: u64,
    pub(crate) forged: u64,
    pub(crate) duplicates: u64,
    pub(crate) resent: u64,
}

/// Moves an object over `lanes` and insists that it arrives.
pub(crate) fn assert_carried(config: Config, lanes: [Lane; 2]) -> Seen {
    let [mut sending, mut receiving] = lanes;
    let mut source = object(config.object_len as usize);
    let mut target = Memory::new(Block::new(config.object_len as usize), true);
    let mut sender = Sender::new(sending.clock.now(), config, 1);
    let mut receiver = Receiver::new(receiving.clock.now(), config, 1);
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| run(&mut sender, &mut sending, &mut source, &mut Patient));
        run(&mut receiver, &mut receiving, &mut target, &mut Patient).unwrap();
        sent.join().unwrap().unwrap();
    });
    let expected = object(config.object_len as usize);
    assert!(
        target.ring() == expected.ring(),
        "what arrived is not what was sent"
    );
    let counters = &receiving.counters;
    Seen {
        sent: sending.counters.sent.load(Relaxed),
        received: counters.received.load(Relaxed),
        foreign: counters.foreign.load(Relaxed),
        forged: counters.forged.load(Relaxed),
        duplicates: receiver.duplicates(),
        resent: sender.resent(),
    }
}

/// An owner who waits for the end, a minute at most.
#[derive(Debug)]
pub(crate) struct Patient;

impl Patient {
    fn look(now: Instant) -> Result<Next, Error> {
        if now < Instant::ZERO + Duration::from_mins(1) {
            Ok(Next::Continue)
        } else {
            Err(Error::TimedOut("it never ended".to_owned()))
        }
    }
}

impl Owner<Sender> for Patient {
    fn event(&mut self, _: &mut Sender, event: SenderEvent, _: Instant) -> Result<Next, Error> {
        match event {
            SenderEvent::Complete => Ok(Next::Finish),
            SenderEvent::Failed(why) => Err(Error::PeerMisbehaved(why.to_string())),
            SenderEvent::Round { .. }
            | SenderEvent::Asked { .. }
            | SenderEvent::Paused(_)
            | SenderEvent::Barren { .. } => Ok(Next::Continue),
        }
    }

    fn tick(&mut self, _: &mut Sender, now: Instant) -> Result<Next, Error> {
        Self::look(now)
    }
}

impl Owner<Receiver> for Patient {
    fn event(&mut self, _: &mut Receiver, event: ReceiverEvent, _: Instant) -> Result<Next, Error> {
        match event {
            ReceiverEvent::Complete => Ok(Next::Finish),
            ReceiverEvent::Failed(why) => Err(Error::PeerMisbehaved(why.to_string())),
            ReceiverEvent::Tallied { .. } => Ok(Next::Continue),
        }
    }

    fn tick(&mut self, _: &mut Receiver, now: Instant) -> Result<Next, Error> {
        Self::look(now)
    }
}

impl Owner<stripe::Sender> for Patient {
    fn event(
        &mut self,
        _: &mut stripe::Sender,
        event: stripe::SenderEvent,
        _: Instant,
    ) -> Result<Next, Error> {
        match event {
            stripe::SenderEvent::Complete => Ok(Next::Finish),
            stripe::SenderEvent::Failed(why) => Err(Error::PeerMisbehaved(why.to_string())),
            stripe::SenderEvent::Round { .. } | stripe::SenderEvent::Asked { .. } => {
                Ok(Next::Continue)
            }
        }
    }

    fn tick(&mut self, _: &mut stripe::Sender, now: Instant) -> Result<Next, Error> {
        Self::look(now)
    }
}

/// Runs `endpoint` until it fails; answers why.
pub(crate) fn fails<E: Endpoint>(mut endpoint: E, mut lane: Lane, config: Config) -> Error
where
    Patient: Owner<E>,
{
    let mut memory = Memory::new(Block::new(config.object_len as usize), true);
    run(&mut endpoint, &mut lane, &mut memory, &mut Patient).unwrap_err()
}

/// The machines' stream.
pub(crate) const STREAM: u16 = 1;
/// What marks a genuine datagram.
pub(crate) const CONNECTION: u64 = 0x6c68_0000_0000_0001;
