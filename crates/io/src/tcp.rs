//! Reaching a host over TCP, and being reached.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::error::Error;
use crate::sockopt;

/// How long one address gets to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// `TCPI_OPT_TIMESTAMPS`: segments carry them, so that they take less.
const OPTION_TIMESTAMPS: u8 = 1;
/// How long an address is waited for before the next is tried (RFC 8305, 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// Callers that wait until they are taken; the system may grant fewer.
const BACKLOG: libc::c_int = 4096;
/// Who answers sooner is in the same building.
const NEAR: Duration = Duration::from_millis(1);
/// Which word of `tcp_info` is `tcpi_min_rtt`.
const MIN_RTT: usize = 37;
/// `TCP_CA_NAME_MAX`.
const CONGESTION_LEN: usize = 16;
/// How long a peer may stay silent during the handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(15);

/// A connection to the address of `host` that answers first on `port` (RFC 8305): the next address
/// gets its chance when one is slow, so that a path that is broken for one family costs a moment.
pub fn connect(host: &str, port: u16) -> Result<TcpStream, Error> {
    connect_to(
        &["lighthaul serve", "lighthaul gateway --listen"],
        host,
        port,
    )
}

/// The same where one of other commands is to be running, which are asked about if nobody answers.
pub fn connect_to(commands: &[&str], host: &str, port: u16) -> Result<TcpStream, Error> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| Error::Network(format!("the name {host} cannot be resolved: {error}")))?;
    match race(&in_turn(addresses.collect())) {
        Ok(tcp) => patient(tcp),
        Err(why) => {
            let commands: Vec<String> = commands.iter().map(|name| format!("`{name}`")).collect();
            let commands = commands.join(" or ");
            Err(Error::Network(format!(
                "{host} cannot be reached: {why}; is {commands} running there?"
            )))
        }
    }
}

/// The same addresses with the families taking turns, the first one's first (RFC 8305, 4).
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

/// Calls one address after the other without waiting long for any, and takes the first that answers;
/// if none does, it says what the first one was not reached for.
fn race(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let (answered, answers) = channel();
    let mut waiting = addresses.iter();
    let mut calling = 0;
    let mut failures = Vec::new();
    loop {
        let next = waiting.next();
        if let Some(&address) = next {
            let answered = answered.clone();
            calling += 1;
            // who comes too late hangs up by being dropped
            let call = move || {
                let tcp = TcpStream::connect_timeout(&address, PATIENCE);
                answered.send((address, tcp)).ok();
            };
            thread::Builder::new()
                .name("call".into())
                .spawn(call)
                .map_err(|error| error.to_string())?;
        }
        if calling == 0 {
            failures.sort_by_key(|(address, _)| addresses.iter().position(|a| a == address));
            let first = failures.first();
            return Err(first.map_or_else(
                || "it has no address".to_owned(),
                |(address, error)| format!("{address}: {error}"),
            ));
        }
        let patience = if next.is_some() { HEAD_START } else { PATIENCE };
        match answers.recv_timeout(patience) {
            Ok((_, Ok(tcp))) => return Ok(tcp),
            Ok((address, Err(error))) => {
                calling -= 1;
                failures.push((address, error));
            }
            Err(_) => {}
        }
    }
}

/// The round-trip time that TCP has seen so far.
pub fn round_trip(tcp: &TcpStream) -> Duration {
    info(tcp).map_or(Duration::ZERO, |info| {
        Duration::from_micros(info.tcpi_rtt.into())
    })
}

/// Has `tcp` send by the congestion control of this name, which the host must allow.
pub fn set_congestion(tcp: &impl AsRawFd, name: &str) -> io::Result<()> {
    let (fd, len) = (tcp.as_raw_fd(), name.len() as libc::socklen_t);
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    // SAFETY: name has len readable octets.
    let status = unsafe { libc::setsockopt(fd, level, option, name.as_ptr().cast(), len) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has `tcp` not pace what it sends to a peer that is near. BBR, where that is the host's default, takes a timer for each
/// packet, which costs half of what a fast network carries; what it is for, filling a long path that loses, is not there.
pub fn hurry_where_near(tcp: &impl AsRawFd) {
    let is_near = least_round_trip(tcp).is_some_and(|rtt| rtt < NEAR);
    if is_near && congestion(tcp).is_some_and(|name| name.starts_with(b"bbr")) {
        // a host may not allow it
        set_congestion(tcp, "cubic").ok();
    }
}

/// The shortest round-trip time that `tcp` has seen of late: others count how long a busy peer took.
fn least_round_trip(tcp: &impl AsRawFd) -> Option<Duration> {
    let info: [u32; MIN_RTT + 1] = sockopt::words(tcp.as_raw_fd(), libc::SOL_TCP, libc::TCP_INFO)?;
    Some(Duration::from_micros(info[MIN_RTT].into()))
}

/// The name of the congestion control that `tcp` sends by.
fn congestion(tcp: &impl AsRawFd) -> Option<[u8; CONGESTION_LEN]> {
    let mut name = [0; CONGESTION_LEN];
    let mut len = name.len() as libc::socklen_t;
    let (fd, level, option) = (tcp.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    // SAFETY: name has len writable octets.
    let status =
        unsafe { libc::getsockopt(fd, level, option, name.as_mut_ptr().cast(), &raw mut len) };
    (status == 0).then_some(name)
}

/// The longest packet that the device takes which `tcp` goes out by, whatever the path behind it does.
pub fn device_mtu(tcp: &TcpStream) -> Option<u32> {
    // what TCP says it takes is what the device takes, without heads (RFC 9293, section 3.7.1)
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
    // SAFETY: the kernel filled it, and all zeroes would be valid too.
    Some(unsafe { info.assume_init() })
}

/// A listener on `address`, with room for many that call at once.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // SAFETY: the descriptor is open; to listen again only changes how many may wait.
    let status = unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(listener)
}

/// Whether an address could not be used because this host does not know its family.
pub fn is_no_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

/// Sets the limits that a connection has during the handshake.
pub fn patient(tcp: TcpStream) -> Result<TcpStream, Error> {
    let set = |tcp: &TcpStream| {
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(HANDSHAKE_PATIENCE))?;
        tcp.set_write_timeout(Some(HANDSHAKE_PATIENCE))
    };
    set(&tcp).map_err(|error| Error::world("setting up the connection", error))?;
    Ok(tcp)
}

#[cfg(test)]
mod tests {
    use lighthaul_base::Instant;

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn who_is_near_is_not_paced_and_nobody_else_is_changed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let is = |name: &[u8]| congestion(&tcp).unwrap().starts_with(name);
        assert!(least_round_trip(&tcp).unwrap() < Duration::from_secs(1));
        set_congestion(&tcp, "reno").unwrap();
        hurry_where_near(&tcp);
        assert!(is(b"reno"));
        if let Err(why) = set_congestion(&tcp, "bbr") {
            println!("not tried with BBR: {why}");
            return;
        }
        hurry_where_near(&tcp);
        let is_now_cubic = is(b"cubic");
        let is_near = least_round_trip(&tcp).unwrap() < NEAR;
        let may = set_congestion(&tcp, "cubic").is_ok();
        assert!(!is_near || is_now_cubic || !may, "still paced");
    }

    #[test]
    fn families_take_turns() {
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

    /// A listener that answers nobody, since as many wait as may, and those that wait.
    fn mute() -> (TcpListener, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: the descriptor is open; to listen again changes how many may wait.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(tcp) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            waiting.push(tcp);
        }
        (listener, waiting)
    }

    #[test]
    fn an_address_that_is_mute_costs_a_moment_and_one_that_refuses_nothing() {
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
    fn where_nobody_answers_the_first_address_is_named() {
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
