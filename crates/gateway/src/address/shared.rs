//! The thread that says who has the address, and has the kernel spread what comes for it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::clock::Clock;
use lighthaul_io::wait::{Sign, Watch, wait};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, bind};
use socket2::{Domain, Protocol, Socket, Type};
use tracing::{info, warn};

use crate::address::arp::{FRAME_LEN, Mac, Request, announcement};
use crate::address::script::{Cast, clear, script};
use crate::address::spread::Elements;
use crate::kernel::claim::Claim;
use crate::kernel::error::Error;
use crate::kernel::tools::{IP, NFT};

/// An address that all elements of a cluster have, as long as this lives, in the network namespace of the thread that made it.
#[derive(Debug)]
pub struct Shared {
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
    _claim: Claim,
}

/// What the thread is told.
#[derive(Debug)]
struct Told {
    living: Mutex<Option<Elements>>,
    stop: AtomicBool,
    sign: Sign,
}

impl Shared {
    /// Takes `address` as element `me` of `members`, by whose network it comes. Nothing is answered before [`Shared::tell`].
    pub fn take(address: Ipv4Addr, members: &[SocketAddr], me: u8) -> Result<Self, Error> {
        let members = members_v4(address, members)?;
        let own = members[usize::from(me)];
        let port = Port::open(own)?;
        let cast = Cast {
            address,
            members,
            me,
            device: port.device.clone(),
        };
        let claim = Claim::make(CLAIM, "has the address of a cluster")?;
        let sign = Sign::new().map_err(Error::world("wait"))?;
        let told = Arc::new(Told {
            living: Mutex::default(),
            stop: AtomicBool::new(false),
            sign,
        });
        let mut shared = Self {
            told: Arc::clone(&told),
            thread: None,
            _claim: claim,
        };
        spread(&cast, Elements::default().and(me))?;
        let (what, address) = ("take the address of a cluster", format!("{address}/32"));
        // one that a killed gateway has left may be another
        IP.run(what, FLUSH, "")?;
        IP.run(
            what,
            &["addr", "add", &address, "dev", "lo", "label", LABEL],
            "",
        )?;
        let worker = Worker {
            cast,
            port,
            told,
            living: None,
            announce_at: Instant::NEVER,
            announcements: 0,
        };
        let builder = thread::Builder::new().name("address".into());
        let thread = builder.spawn(move || worker.run());
        shared.thread = Some(thread.map_err(Error::world("start a thread"))?);
        Ok(shared)
    }

    /// Hears who lives.
    pub fn tell(&self, living: Elements) {
        let mut told = self
            .told
            .living
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *told != Some(living) {
            *told = Some(living);
            self.told.sign.raise();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.told.stop.store(true, Relaxed);
        self.told.sign.raise();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        // first the address: as long as it is here, nobody may be answered but by who has it
        let what = "give the address of a cluster back";
        for outcome in [IP.run(what, FLUSH, ""), NFT.run(what, STDIN, &clear())] {
            if let Err(error) = outcome {
                warn!("{error}");
            }
        }
    }
}

/// The elements' own addresses, if they can share another one.
fn members_v4(address: Ipv4Addr, members: &[SocketAddr]) -> Result<Vec<Ipv4Addr>, Error> {
    let wrong = |at: IpAddr, why: &str| Err(Error::Misuse(format!("{at} {why}")));
    let mut found = Vec::new();
    for member in members {
        match member.ip() {
            IpAddr::V4(own) if own == address => {
                return wrong(own.into(), "is an element's own, and cannot be that of all");
            }
            IpAddr::V4(own) if found.contains(&own) => {
                return wrong(
                    own.into(),
                    "is two elements' own: each has a host to itself",
                );
            }
            IpAddr::V4(own) => found.push(own),
            IpAddr::V6(own) => {
                return wrong(
                    own.into(),
                    "is of IPv6: elements share an address of IPv4 alone",
                );
            }
        }
    }
    Ok(found)
}

/// Where frames about addresses come and go.
#[derive(Debug)]
struct Port {
    socket: Socket,
    device: String,
    mac: Mac,
}

impl Port {
    /// At the interface that has the address `own`.
    fn open(own: Ipv4Addr) -> Result<Self, Error> {
        let what = "look for the interface of an address";
        let found: Vec<_> = getifaddrs()
            .map_err(|errno| Error::world(what)(errno.into()))?
            .collect();
        let has = |at: &nix::ifaddrs::InterfaceAddress| {
            let v4 = at.address.as_ref().and_then(|at| at.as_sockaddr_in());
            v4.is_some_and(|v4| v4.ip() == own)
        };
        let Some(device) = found.iter().find(|at| has(at)).map(|at| &at.interface_name) else {
            let why = format!("{own} is no address of this host: `ip addr` lists them");
            return Err(Error::Misuse(why));
        };
        let links = found.iter().filter(|at| at.interface_name == *device);
        let mut links = links.filter_map(|at| at.address.as_ref()?.as_link_addr().copied());
        let link: Option<(LinkAddr, Mac)> = links.find_map(|link| Some((link, link.addr()?)));
        let Some((link, mac)) = link.filter(|(_, mac)| *mac != Mac::default()) else {
            let why = format!(
                "{own} is at {device}, which is no network that others are in: give the elements' own addresses there"
            );
            return Err(Error::Misuse(why));
        };
        let open = || -> io::Result<_> {
            let protocol = Protocol::from(i32::from(ETHERTYPE.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
            bind(socket.as_raw_fd(), &link)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Self {
            socket: open().map_err(Error::world("answer for the address of a cluster"))?,
            device: device.clone(),
            mac,
        })
    }

    /// The next frame that is a request; nothing if there is none now.
    fn request(&mut self) -> io::Result<Option<Request>> {
        let mut frame = [0; FRAME_LEN];
        for _ in 0..HEARD_MAX {
            match self.socket.read(&mut frame) {
                Ok(len) => {
                    if let Some(request) = Request::decode(&frame[..len]) {
                        return Ok(Some(request));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// The thread.
struct Worker {
    cast: Cast,
    port: Port,
    told: Arc<Told>,
    /// Who lives, as the kernel was told.
    living: Option<Elements>,
    announce_at: Instant,
    /// How many announcements are still to be made.
    announcements: u32,
}

impl Worker {
    fn run(mut self) {
        let clock = Clock::start();
        while !self.told.stop.load(Relaxed) {
            self.told.sign.lower();
            let outcome = self.turn(clock.now());
            if let Err(error) = &outcome {
                warn!("the address {} of the cluster: {error}", self.cast.address);
            }
            let until = match outcome {
                Ok(()) => self.announce_at,
                Err(_) => clock.now() + BREATH,
            };
            let frames = Watch::read(self.port.socket.as_raw_fd());
            let sign = Watch::read(self.told.sign.as_raw_fd());
            let mut watches = [sign, frames];
            // what failed would fail again at once
            let watched = if until == self.announce_at { 2 } else { 1 };
            if wait(clock, &mut watches[..watched], until).is_err() {
                thread::park_timeout(BREATH);
            }
        }
    }

    fn turn(&mut self, now: Instant) -> Result<(), Error> {
        let told = self.told.living.lock();
        let told = *told.unwrap_or_else(PoisonError::into_inner);
        if let Some(living) = told.filter(|_| told != self.living) {
            spread(&self.cast, living)?;
            self.living = told;
            (self.announce_at, self.announcements) = (now, ANNOUNCEMENTS);
            self.say(living);
        }
        let failed = |e| Error::world("answer for it")(e);
        if now >= self.announce_at {
            self.announce(now).map_err(failed)?;
        }
        for _ in 0..HEARD_MAX {
            let Some(request) = self.port.request().map_err(failed)? else {
                break;
            };
            // who asks in the name of the address announces it
            let is_asked = request.wanted == self.cast.address && request.address != request.wanted;
            if is_asked && self.answers() {
                let answer = request.answer(self.port.mac);
                self.port.socket.write_all(&answer).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        let first = self.living.and_then(Elements::first);
        first == Some(self.cast.me)
    }

    /// Says a few times that the address is here; somebody else may have had it until now.
    fn announce(&mut self, now: Instant) -> io::Result<()> {
        if !self.answers() || self.announcements == 0 {
            self.announce_at = Instant::NEVER;
            return Ok(());
        }
        self.announcements -= 1;
        self.announce_at = now + ANNOUNCE_EVERY;
        let frame = announcement(self.port.mac, self.cast.address);
        self.port.socket.write_all(&frame)
    }

    fn say(&self, living: Elements) {
        let (address, all) = (self.cast.address, self.cast.members.len());
        let first = living.first().map_or(0, |nth| nth + 1);
        let who = if self.answers() {
            "this element".to_owned()
        } else {
            format!("element {first}")
        };
        info!(
            "{who} answers for {address}, whose connections go to {} of {all} elements",
            living.count()
        );
    }
}

/// Has the kernel spread connections over `living`.
fn spread(cast: &Cast, living: Elements) -> Result<(), Error> {
    NFT.run(
        "spread connections over a cluster",
        STDIN,
        &script(cast, living),
    )
}

const STDIN: &[&str] = &["-f", "-"];
/// What our address is known by, whichever it is.
const LABEL: &str = "lo:lighthaul";
const FLUSH: &[&str] = &["addr", "flush", "dev", "lo", "label", LABEL];
const CLAIM: &str = "lighthaul-address";
/// ARP, as frames call it.
const ETHERTYPE: u16 = 0x0806;
/// Frames that are heard before anything else is done.
const HEARD_MAX: usize = 64;
/// How often it is said that the address is here, since frames are lost and hosts are busy.
const ANNOUNCEMENTS: u32 = 3;
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);
/// How long to wait after a failure.
const BREATH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_shared_are_refused() {
        let shared = Ipv4Addr::new(10, 0, 0, 100);
        let refused = |members: &[&str]| {
            let members: Vec<SocketAddr> = members.iter().map(|at| at.parse().unwrap()).collect();
            members_v4(shared, &members).map_err(|why| why.to_string())
        };
        let (first, second) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let good = refused(&["10.0.0.1:1", "10.0.0.2:1"]);
        assert_eq!(good, Ok(vec![first, second]));
        let why = |members| refused(members).unwrap_err();
        assert!(why(&["10.0.0.1:1", "10.0.0.100:1"]).contains("cannot be that of all"));
        assert!(why(&["10.0.0.1:1", "10.0.0.1:2"]).contains("two elements' own"));
        assert!(why(&["10.0.0.1:1", "[fe80::1]:2"]).contains("IPv4 alone"));
        let why = Port::open(Ipv4Addr::LOCALHOST).unwrap_err().to_string();
        assert!(why.contains("is at lo, which is no network"), "{why}");
        let why = Port::open(Ipv4Addr::new(192, 0, 2, 1))
            .unwrap_err()
            .to_string();
        assert!(why.contains("no address of this host"), "{why}");
    }
}
