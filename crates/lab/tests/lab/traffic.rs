//! Traffic for tests: senders of trains, counting receivers, and round-trip measurements.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::host::clock::{Clock, lower_timer_slack};
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_io::net::tun::raise_priority;
use lighthaul_io::net::udp::Udp;
use lighthaul_lab::emulate::Lab;

/// Sender of numbered datagrams in trains.
#[derive(Debug)]
pub(crate) struct Blaster {
    socket: UdpSocket,
    body_bytes: usize,
    /// Number of datagrams sent.
    pub(crate) sent: u64,
}

impl Blaster {
    /// Creates a sender in `host` of IP packets with `packet_bytes`.
    pub(crate) fn new(lab: &Lab, host: &str, to: SocketAddr, packet_bytes: usize) -> Self {
        let socket = lab
            .within(host, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .unwrap();
        socket.connect(to).unwrap();
        let body_bytes = packet_bytes - HEADS;
        segment(&socket, body_bytes as u16);
        Self {
            socket,
            body_bytes,
            sent: 0,
        }
    }

    /// Sends one train of `count` datagrams.
    pub(crate) fn train(&mut self, count: u64) {
        let mut bytes = vec![0; self.body_bytes * count as usize];
        for body in bytes.chunks_mut(self.body_bytes) {
            body[..8].copy_from_slice(&self.sent.to_be_bytes());
            self.sent += 1;
        }
        self.socket.send(&bytes).unwrap();
    }

    /// Sends trains of `count` datagrams at `rate` for `time`.
    pub(crate) fn blast(&mut self, clock: Clock, rate: Rate, time: Duration, count: u64) {
        lower_timer_slack();
        raise_priority();
        let step = rate.time_for(count * (self.body_bytes + HEADS) as u64);
        let mut next = clock.now();
        let end = next + time;
        while next < end {
            wait(clock, &mut [], next).unwrap();
            self.train(count);
            next += step;
        }
    }
}

/// Receiver that counts numbered datagrams.
#[derive(Debug)]
pub(crate) struct Counter {
    socket: Udp,
    clock: Clock,
    buffer: Vec<u8>,
    /// Numbers received, in order of arrival.
    pub(crate) numbers: Vec<u64>,
    /// Time of the first reception, and its bytes.
    pub(crate) first: Option<(Instant, u64)>,
    /// Time of the last reception.
    pub(crate) last: Instant,
    /// Bytes of received IP packets.
    pub(crate) bytes: u64,
    /// Datagrams dropped because this receiver was too slow.
    pub(crate) drops: u32,
}

impl Counter {
    /// Creates a receiver in `host`.
    pub(crate) fn new(lab: &Lab, host: &str, clock: Clock) -> Self {
        let address = SocketAddr::from((lab.address(host).unwrap(), PORT));
        let socket = lab.within(host, || Udp::bind(address)).unwrap();
        let (buffer, numbers, last) = (vec![0; 65_536], Vec::new(), Instant::ZERO);
        Self {
            socket,
            clock,
            buffer,
            numbers,
            first: None,
            last,
            bytes: 0,
            drops: 0,
        }
    }

    /// Returns the receiver's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Receives until `is_done`, or until no datagram has arrived for two seconds.
    pub(crate) fn receive_until(&mut self, mut is_done: impl FnMut(&Self) -> bool) {
        raise_priority();
        loop {
            while let Some(got) = self
                .socket
                .receive_into(&mut self.buffer, &mut self.drops)
                .unwrap()
            {
                self.last = self.clock.now();
                let before = self.bytes;
                for body in self.buffer[..got.len].chunks(got.segment_len) {
                    self.numbers
                        .push(u64::from_be_bytes(body[..8].try_into().unwrap()));
                    self.bytes += (body.len() + HEADS) as u64;
                }
                self.first.get_or_insert((self.last, self.bytes - before));
            }
            if is_done(self) {
                return;
            }
            let mut watches = [Watch::read(self.socket.as_raw_fd())];
            let till = self.clock.now() + Duration::from_millis(100);
            wait(self.clock, &mut watches, till).unwrap();
            let idle = self
                .clock
                .now()
                .since(self.last.max(Instant::from_nanos(1)));
            if !watches[0].readable && self.first.is_some() && idle > Duration::from_secs(2) {
                return;
            }
        }
    }

    /// Returns the rate at which packets arrived after the first reception.
    pub(crate) fn rate(&self) -> Rate {
        let (first, bytes) = self.first.unwrap();
        Rate::of(self.bytes - bytes, self.last.since(first))
    }
}

/// Measures the median round-trip time of `count` datagrams, sent every 5 ms from one host to
/// another.
pub(crate) fn ping(lab: &Lab, source: &str, target: &str, count: usize) -> Duration {
    let clock = Clock::start();
    let address = SocketAddr::from((lab.address(target).unwrap(), PORT + 1));
    let echo = lab.within(target, || UdpSocket::bind(address)).unwrap();
    let pinger = lab
        .within(source, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))
        .unwrap();
    for socket in [&echo, &pinger] {
        socket
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            raise_priority();
            let mut bytes = [0; 64];
            for _ in 0..count {
                let (len, from) = echo.recv_from(&mut bytes).unwrap();
                echo.send_to(&bytes[..len], from).unwrap();
            }
        });
        scope.spawn(|| {
            raise_priority();
            let mut next = clock.now();
            for _ in 0..count {
                let now = clock.now().as_nanos().to_be_bytes();
                pinger.send_to(&now, address).unwrap();
                next += Duration::from_millis(5);
                wait(clock, &mut [], next).unwrap();
            }
        });
        raise_priority();
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..count {
            let mut bytes = [0; 8];
            pinger.recv(&mut bytes).unwrap();
            times.push(
                clock
                    .now()
                    .since(Instant::from_nanos(u64::from_be_bytes(bytes))),
            );
        }
        times.sort();
        times[count / 2]
    })
}

/// Makes the kernel cut every send of this socket into datagrams of `bytes`.
#[expect(
    unsafe_code,
    reason = "std does not support UDP_SEGMENT, and io supports it for sealed trains only"
)]
fn segment(socket: &UdpSocket, bytes: u16) {
    let value = libc::c_int::from(bytes);
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open and value is readable for len bytes.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const value).cast(),
            len,
        )
    };
    assert_eq!(status, 0, "{}", io::Error::last_os_error());
}

/// Length of the IP and UDP headers, in bytes.
const HEADS: usize = 28;
const PORT: u16 = 7000;
