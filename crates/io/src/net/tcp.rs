//! TCP connections: calling a host by name, listening, and the choice of congestion control.
//!
//! [`connect`] tries the addresses of a name as RFC 8305 says, so a broken address family costs
//! little time. Near peers get CUBIC in place of BBR, whose pacing costs throughput there. The
//! choice falls after the handshake, once the round-trip time is known.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use lighthaul_base::Instant;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::error::Error;
use crate::host::clock::Clock;
use crate::host::interrupt;
use crate::host::wait::{Watch, wait};
use crate::net::sockopt;

/// Time limit for the answer of one address.
const PATIENCE: Duration = Duration::from_secs(10);
/// `TCPI_OPT_TIMESTAMPS`: segments carry timestamps, which shortens them.
const OPTION_TIMESTAMPS: u8 = 1;
/// Delay before the next address is tried (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// Limit of addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// Connections that may wait to be accepted. The kernel may lower it.
const BACKLOG: libc::c_int = 4096;
/// Round-trip time below which a peer counts as near, for example in the same building.
const NEAR: Duration = Duration::from_millis(1);
/// Index of `tcpi_total_retrans` in `tcp_info`, in words.
const SEGMENTS_RESENT: usize = 25;
/// Index of `tcpi_segs_out` in `tcp_info`, in words.
const SEGMENTS_SENT: usize = 34;
/// Index of `tcpi_min_rtt` in `tcp_info`, in words.
const MIN_RTT: usize = 37;
/// Names of congestion control algorithms.
const BBR: &[u8] = b"bbr";
const CUBIC: &[u8] = b"cubic";
/// Algorithm that every host allows. A socket with it was marked by [`begin_unpaced`].
const RENO: &[u8] = b"reno";
/// Time for a whole handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval at which a waiting thread checks if it shall stop.
pub(crate) const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Connects to the address of `host` that answers first on `port` (RFC 8305, "Happy Eyeballs"), unless the thread's task
/// is stopped.
///
/// The next address is tried after 250 ms, since one address family may be broken. An error names `lighthaul serve`.
pub fn connect(host: &str, port: u16) -> Result<TcpStream, Error> {
    connect_to(
        &["lighthaul serve", "lighthaul gateway --listen"],
        host,
        port,
    )
}

/// Connects like [`connect`]; an error asks if one of `commands` is running on the other host.
pub fn connect_to(commands: &[&str], host: &str, port: u16) -> Result<TcpStream, Error> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| Error::Network(format!("cannot resolve the name {host}: {error}")))?;
    match race(&in_turn(addresses.collect())) {
        Ok(tcp) => with_handshake_timeouts(tcp),
        Err(why) => {
            interrupt::check()?;
            let commands: Vec<String> = commands.iter().map(|name| format!("`{name}`")).collect();
            let commands = commands.join(" or ");
            Err(Error::Network(format!(
                "cannot reach {host}: {why}; is {commands} running there?"
            )))
        }
    }
}

/// Interleaves the address families, starting with that of the first address (RFC 8305, section 4).
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first = addresses.first().map(SocketAddr::is_ipv6);
    let (ours, others): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| Some(address.is_ipv6()) == first);
    let mut others = others.into_iter();
    let mut turns = Vec::new();
    for address in ours {
        turns.push(address);
        turns.extend(others.next());
    }
    turns.extend(others);
    turns.truncate(ADDRESSES_MAX);
    turns
}

/// Connects to the addresses in turn, 250 ms apart. Returns the first connection, or the error of the first address.
fn race(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let clock = Clock::start();
    let mut waiting = addresses.iter();
    let mut next_at = clock.now();
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut failures: Vec<(SocketAddr, io::Error)> = Vec::new();
    while !interrupt::is_requested() {
        let now = clock.now();
        if (now >= next_at || attempts.is_empty())
            && let Some(&address) = waiting.next()
        {
            next_at = now + HEAD_START;
            match Attempt::begin(address, now + PATIENCE) {
                Ok(attempt) => attempts.push(attempt),
                Err(error) => failures.push((address, error)),
            }
            continue;
        }
        if attempts.is_empty() {
            break;
        }
        let mut watches: Vec<Watch> = attempts.iter().map(Attempt::watch).collect();
        let mut until = now + STOP_CHECK_INTERVAL;
        if !waiting.as_slice().is_empty() {
            until = until.min(next_at);
        }
        wait(clock, &mut watches, until).map_err(|error| error.to_string())?;
        let now = clock.now();
        let mut left = Vec::new();
        for (attempt, watch) in attempts.into_iter().zip(watches) {
            let address = attempt.address;
            match attempt.outcome(watch, now) {
                Outcome::Connected(tcp) => return Ok(tcp),
                Outcome::Waits(attempt) => left.push(attempt),
                Outcome::Failed(error) => {
                    failures.push((address, error));
                    // the next address need not wait for its turn
                    next_at = now;
                }
            }
        }
        attempts = left;
    }
    failures.sort_by_key(|(address, _)| addresses.iter().position(|a| a == address));
    Err(failures.first().map_or_else(
        || "the name has no address".to_owned(),
        |(address, error)| format!("{address}: {error}"),
    ))
}

/// Connection that is being opened, without a thread of its own.
struct Attempt {
    address: SocketAddr,
    socket: Socket,
    until: Instant,
}

enum Outcome {
    Connected(TcpStream),
    Waits(Attempt),
    Failed(io::Error),
}

impl Attempt {
    fn begin(address: SocketAddr, until: Instant) -> io::Result<Self> {
        let socket = stream(Domain::for_address(address))?;
        begin_unpaced(&socket);
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(Self {
                address,
                socket,
                until,
            }),
        }
    }

    fn watch(&self) -> Watch {
        Watch {
            write: true,
            ..Watch::read(self.socket.as_raw_fd())
        }
    }

    /// Returns the state of the attempt at `now`, after a wait for `watch`.
    fn outcome(self, watch: Watch, now: Instant) -> Outcome {
        if !watch.writable && !watch.readable {
            return if now < self.until {
                Outcome::Waits(self)
            } else {
                Outcome::Failed(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "connection timed out",
                ))
            };
        }
        let connected = match self.socket.take_error() {
            Ok(None) => self.socket.set_nonblocking(false),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        match connected {
            Ok(()) => {
                pace_where_far(&self.socket);
                Outcome::Connected(self.socket.into())
            }
            Err(error) => Outcome::Failed(error),
        }
    }
}

/// Connects to `address` with the congestion control algorithm `congestion`, which the host must allow.
pub fn connect_by(congestion: &str, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = stream(Domain::for_address(address))?;
    socket
        .set_tcp_congestion(congestion.as_bytes())
        .map_err(|why| {
            io::Error::new(
                why.kind(),
                format!("this host does not allow TCP congestion control {congestion}: {why}"),
            )
        })?;
    socket.connect_timeout(&address.into(), PATIENCE)?;
    Ok(socket.into())
}

fn stream(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM, Some(Protocol::TCP))
}

/// Returns the shortest round-trip time that `tcp` has measured. Other samples include delays of a busy peer.
pub fn round_trip(tcp: &impl AsFd) -> Option<Duration> {
    let fd = tcp.as_fd().as_raw_fd();
    let info: [u32; MIN_RTT + 1] = sockopt::words(fd, libc::SOL_TCP, libc::TCP_INFO)?;
    let micros = Some(info[MIN_RTT]).filter(|micros| *micros < u32::MAX)?;
    Some(Duration::from_micros(micros.into()))
}

/// Returns the segments that `tcp` has sent, and the number of them that were retransmitted. Both wrap around.
pub fn segments(tcp: &impl AsFd) -> Option<(u32, u32)> {
    let fd = tcp.as_fd().as_raw_fd();
    let info: [u32; MIN_RTT + 1] = sockopt::words(fd, libc::SOL_TCP, libc::TCP_INFO)?;
    Some((info[SEGMENTS_SENT], info[SEGMENTS_RESENT]))
}

/// Starts a connection or listener without pacing if BBR is the host's default.
///
/// A connection that has paced once keeps pacing. [`pace_where_far`] decides when the peer's distance is known.
pub fn begin_unpaced(tcp: &impl AsFd) {
    if is_sent_by(tcp, BBR) {
        SockRef::from(tcp).set_tcp_congestion(RENO).ok();
    }
}

/// Selects the congestion control of a connected socket: the default, but CUBIC instead of BBR if the peer is near.
///
/// BBR sets a timer for each packet, which costs throughput. Its advantage exists only on long paths with loss.
pub fn pace_where_far(tcp: &impl AsFd) {
    let is_near = round_trip(tcp).is_some_and(|rtt| rtt < NEAR);
    if is_near && is_sent_by(tcp, BBR) {
        SockRef::from(tcp).set_tcp_congestion(CUBIC).ok();
    } else if is_sent_by(tcp, RENO) {
        settle(tcp, is_near).ok();
    }
}

/// Sets the algorithm of a socket marked by [`begin_unpaced`]. Fails if the host does not allow CUBIC.
fn settle(tcp: &impl AsFd, is_near: bool) -> io::Result<()> {
    let default = stream(Domain::IPV4)?.tcp_congestion()?;
    if default.starts_with(BBR) {
        let control = if is_near { CUBIC } else { &default };
        SockRef::from(tcp).set_tcp_congestion(control)?;
    }
    Ok(())
}

fn is_sent_by(tcp: &impl AsFd, congestion: &[u8]) -> bool {
    let name = SockRef::from(tcp).tcp_congestion();
    name.is_ok_and(|name| name.starts_with(congestion))
}

/// Returns the MTU in bytes of the network device that `tcp` uses. The path behind it may have less.
pub fn device_mtu(tcp: &TcpStream) -> Option<u32> {
    // The advertised MSS is the device's MTU without headers (RFC 9293, section 3.7.1).
    let heads = if tcp.peer_addr().ok()?.is_ipv4() {
        40
    } else {
        60
    };
    let info = info(tcp)?;
    let timestamps = if info.tcpi_options & OPTION_TIMESTAMPS == 0 {
        0
    } else {
        12
    };
    Some(info.tcpi_advmss + heads + timestamps)
}

fn info(tcp: &TcpStream) -> Option<libc::tcp_info> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: info is valid for writes of len octets.
    let status = unsafe {
        let fd = tcp.as_raw_fd();
        libc::getsockopt(
            fd,
            libc::SOL_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if status != 0 {
        return None;
    }
    // SAFETY: zeroes are valid, and so is the kernel's answer.
    Some(unsafe { info.assume_init() })
}

/// Listens on `address` with a long queue. Call [`pace_where_far`] on accepted connections.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // SAFETY: the descriptor is open; a second listen only changes the backlog.
    let status = unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    begin_unpaced(&listener);
    Ok(listener)
}

/// Makes `tcp` readable only when `count` octets have arrived (`SO_RCVLOWAT`), or the peer has ended.
pub fn await_octets(tcp: &impl AsFd, count: usize) -> io::Result<()> {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let fd = tcp.as_fd().as_raw_fd();
    sockopt::set(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, count)
}

/// Reports whether `error` means that this host lacks the address family.
pub fn is_no_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

/// Sets `TCP_NODELAY` and the timeouts of the handshake.
pub fn with_handshake_timeouts(tcp: TcpStream) -> Result<TcpStream, Error> {
    let set = |tcp: &TcpStream| {
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
        tcp.set_write_timeout(Some(HANDSHAKE_TIMEOUT))
    };
    set(&tcp).map_err(|error| Error::world("cannot set up the connection", error))?;
    Ok(tcp)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::host::cancellation::Cancellation;

    #[test]
    fn near_peers_are_not_paced_and_other_algorithms_are_kept() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let near = race(&[listener.local_addr().unwrap()]).unwrap();
        let taken = listener.accept().unwrap().0;
        for tcp in [&near, &taken] {
            pace_where_far(tcp);
            let is_near = round_trip(tcp).unwrap() < NEAR;
            assert!(!is_near || !is_sent_by(tcp, BBR), "paced");

            // A connection that began with BBR.
            if SockRef::from(tcp).set_tcp_congestion(BBR).is_ok() {
                pace_where_far(tcp);
                let was_paced = is_sent_by(tcp, BBR);
                let is_near = round_trip(tcp).unwrap() < NEAR;
                let may = SockRef::from(tcp).set_tcp_congestion(CUBIC).is_ok();
                assert!(!is_near || !may || !was_paced, "still paced");
            } else {
                println!("not tried with BBR: this host has none");
            }

            // An algorithm chosen by a route.
            if SockRef::from(tcp).set_tcp_congestion(CUBIC).is_ok() {
                pace_where_far(tcp);
                assert!(is_sent_by(tcp, CUBIC));
            }
        }
    }

    #[test]
    fn far_peers_get_the_hosts_default_algorithm() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let fresh = stream(Domain::IPV4).unwrap();
        let default = fresh.tcp_congestion().unwrap();
        begin_unpaced(&fresh);
        assert!(!is_sent_by(&fresh, BBR));
        fresh
            .connect(&listener.local_addr().unwrap().into())
            .unwrap();
        settle(&fresh, false).unwrap();
        assert_eq!(fresh.tcp_congestion().unwrap(), default);
    }

    #[test]
    fn address_families_are_interleaved() {
        let all = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let turns: Vec<SocketAddr> = all(&[
            "[::1]:1",
            "10.0.0.1:1",
            "[::2]:1",
            "10.0.0.2:1",
            "10.0.0.3:1",
        ]);
        assert_eq!(
            in_turn(all(&[
                "[::1]:1",
                "[::2]:1",
                "10.0.0.1:1",
                "10.0.0.2:1",
                "10.0.0.3:1"
            ])),
            turns
        );
        assert_eq!(in_turn(Vec::new()), []);
        assert_eq!(
            in_turn((1..99).map(|port| ([10, 0, 0, 1], port).into()).collect()).len(),
            ADDRESSES_MAX
        );
    }

    /// Creates a listener that answers no call, because its queue is full, and the connections in its queue.
    fn mute() -> (TcpListener, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: the descriptor is open; a second listen only changes the backlog.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(tcp) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            waiting.push(tcp);
        }
        (listener, waiting)
    }

    #[test]
    fn silent_address_costs_the_head_start_and_refusing_address_no_time() {
        let (mute, _waiting) = mute();
        let alive = TcpListener::bind("127.0.0.1:0").unwrap();
        let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
        let [mute, alive, gone] = [&mute, &alive, &refusing].map(|l| l.local_addr().unwrap());
        drop(refusing);
        let time = |addresses: &[SocketAddr]| {
            let clock = Clock::start();
            let tcp = race(addresses).unwrap();
            (tcp.peer_addr().unwrap(), clock.now().since(Instant::ZERO))
        };
        let (peer, took) = time(&[mute, alive]);
        assert_eq!(peer, alive);
        assert!(took >= HEAD_START && took < PATIENCE / 2, "{took:?}");
        let (peer, took) = time(&[gone, alive]);
        assert_eq!(peer, alive);
        assert!(took < HEAD_START, "{took:?}");
    }

    #[test]
    fn cancelled_task_stops_connecting() {
        let (mute, _waiting) = mute();
        let address = mute.local_addr().unwrap();
        let task = Cancellation::default();
        let clock = Clock::start();
        thread::scope(|scope| {
            let calling = task.clone();
            let calling = scope.spawn(move || calling.cover(|| race(&[address])));
            task.cancel();
            calling.join().unwrap().unwrap_err();
        });
        assert!(clock.now() < Instant::ZERO + PATIENCE);
    }

    #[test]
    fn error_names_the_first_address_if_all_fail() {
        let gone: Vec<_> = [0, 0]
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .iter()
            .map(|listener| listener.local_addr().unwrap())
            .collect();
        let why = race(&gone).unwrap_err();
        assert!(why.starts_with(&gone[0].to_string()), "{why}");
        assert!(race(&[]).unwrap_err().contains("no address"));
    }
}
