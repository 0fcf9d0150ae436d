//! Two ends of a control connection, with machines on them, for tests.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate, Rng};
use lighthaul_io::control::{Control, Stream};
use lighthaul_io::crypto::cipher::Cipher;
use lighthaul_io::crypto::identity::Identity;
use lighthaul_io::crypto::seal::Key;
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::drive::{Lane, Next, Owner, run};
use lighthaul_io::error::Error;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::udp::Udp;
use lighthaul_io::store::block::Block;
use lighthaul_io::store::memory::Memory;
use lighthaul_proto::rbudp::{
    Config, Framing, Receiver, ReceiverEvent, Sender, SenderEvent, wire::HEAD_LEN,
};
use lighthaul_proto::stripe;
use rustls::Connection;

/// Creates a TCP connection and completes its TLS handshake. Returns both ends.
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

/// Creates both ends of the machines' stream.
pub(crate) fn streams() -> [Stream; 2] {
    connect().map(|(tcp, tls)| Control::start(tcp, tls).unwrap().open(STREAM).unwrap())
}

/// Returns the configuration of a transfer of `object_len` bytes.
pub(crate) fn config(object_len: u64, packet_len: u32) -> Config {
    Config {
        framing: Framing {
            object_len,
            packet_len,
            overhead_len: 52,
        },
        rate: Rate::from_mbps(300),
        burst: None,
        stream: STREAM,
        settle: Duration::from_millis(5),
        repeat: Duration::ZERO,
        feedback: None,
    }
}

/// Creates one end of a lane. Without `udp`, the stream carries all messages.
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

/// Creates the sockets of both ends, connected to the addresses that `between` returns for theirs.
pub(crate) fn sockets(between: impl FnOnce([SocketAddr; 2]) -> [SocketAddr; 2]) -> [Udp; 2] {
    let ends = [(); 2].map(|()| Udp::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap());
    let own = [0, 1].map(|end: usize| ends[end].local_addr().unwrap());
    let [of_sender, of_receiver] = between(own);
    ends[0].connect(of_sender).unwrap();
    ends[1].connect(of_receiver).unwrap();
    ends
}

/// Creates an object of pseudorandom bytes.
pub(crate) fn object(len: usize) -> Memory {
    let mut block = Block::new(len);
    Rng::new(len as u64).fill(&mut block);
    Memory::new(block, false)
}

/// Counters of a transfer, from both ends.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) foreign: u64,
    pub(crate) forged: u64,
    pub(crate) duplicates: u64,
    pub(crate) resent: u64,
}

/// Transfers an object over `lanes` and asserts that it arrives unchanged.
pub(crate) fn assert_carried(config: Config, lanes: [Lane; 2]) -> Seen {
    let [mut sending, mut receiving] = lanes;
    let mut source = object(config.framing.object_len as usize);
    let mut target = Memory::new(Block::new(config.framing.object_len as usize), true);
    let mut sender = Sender::new(sending.clock.now(), config, 1);
    let mut receiver = Receiver::new(receiving.clock.now(), config, 1);
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| run(&mut sender, &mut sending, &mut source, &mut Patient));
        run(&mut receiver, &mut receiving, &mut target, &mut Patient).unwrap();
        sent.join().unwrap().unwrap();
    });
    let expected = object(config.framing.object_len as usize);
    assert!(
        target.ring() == expected.ring(),
        "the received object differs from the sent one"
    );
    let counters = &receiving.counters;
    Seen {
        sent: sending.counters.sent.load(Relaxed),
        received: counters.received.load(Relaxed),
        foreign: counters.foreign.load(Relaxed),
        forged: counters.forged.load(Relaxed),
        duplicates: receiver.arrivals().duplicates,
        resent: sender.resent(),
    }
}

/// Owner that waits for the end of the transfer, for at most a minute.
#[derive(Debug)]
pub(crate) struct Patient;

impl Patient {
    fn look(now: Instant) -> Result<Next, Error> {
        if now < Instant::ZERO + Duration::from_mins(1) {
            Ok(Next::Continue)
        } else {
            Err(Error::TimedOut(
                "the transfer did not end within a minute".to_owned(),
            ))
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

/// Runs `endpoint` until it fails, and returns the error.
pub(crate) fn fails<E: Endpoint>(mut endpoint: E, mut lane: Lane, config: Config) -> Error
where
    Patient: Owner<E>,
{
    let mut memory = Memory::new(Block::new(config.framing.object_len as usize), true);
    run(&mut endpoint, &mut lane, &mut memory, &mut Patient).unwrap_err()
}

/// Number of the machines' stream.
pub(crate) const STREAM: u16 = 1;
/// Connection number of authentic datagrams.
pub(crate) const CONNECTION: u64 = 0x6c68_0000_0000_0001;
