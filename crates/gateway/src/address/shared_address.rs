//! Thread that announces the shared address of a cluster, and installs the rules for its packets.
//!
//! All elements have the address, and one of them answers ARP requests for it. The rules send each
//! connection to the element that is responsible for it. An element takes connections only after
//! its rules are installed, and the address is removed before they are.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_capture::kernel::error::{Error, Exclusive, Misuse, Task};
use lighthaul_capture::kernel::namespace_lock::NamespaceLock;
use lighthaul_capture::kernel::tools::{IP, NFT};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Waker, Watch, pause, wait};
use tracing::{info, warn};

use crate::address::arp::announcement;
use crate::address::arp_socket::{ArpSocket, addresses, v4};
use crate::address::distribution::ElementSet;
use crate::address::script::{AddressConfig, ClusterView, TABLES, clear, script};
use crate::address::sockets;

/// Address that all elements of a cluster share, released on drop. It belongs to the network namespace of the thread
/// that created it.
#[derive(Debug)]
pub struct SharedAddress {
    shared: Arc<SharedState>,
    thread: Option<JoinHandle<()>>,
    address: Ipv4Addr,
    _lock: NamespaceLock,
}

/// State that is shared with the thread.
#[derive(Debug)]
struct SharedState {
    view: Mutex<Option<ClusterView>>,
    is_ready: AtomicBool,
    stop: AtomicBool,
    waker: Waker,
}

impl SharedAddress {
    /// Takes `address` for element `me` of `members`, which are in the network of the address. Nothing changes before
    /// [`SharedAddress::set_view`], so that rules of a killed gateway continue to forward packets of other elements.
    pub fn take(address: Ipv4Addr, members: &[SocketAddr], me: u8) -> Result<Self, Error> {
        let members = members_v4(address, members)?;
        let socket = ArpSocket::open(
            members[usize::from(me)],
            &[&members[..], &[address]].concat(),
        )?;
        let config = AddressConfig {
            address,
            members,
            me,
            device: socket.device.clone(),
        };
        let lock = NamespaceLock::take(LOCK, Exclusive::Address)?;
        let alone = ClusterView {
            serving: ElementSet::default().and(me),
            is_closing: false,
        };
        NFT.run(
            Task::Distribute,
            &["-c", "-f", "-"],
            &script(&config, alone),
        )?;
        let shared = Arc::new(SharedState {
            view: Mutex::default(),
            is_ready: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            waker: Waker::new().map_err(Error::world(Task::Event))?,
        });
        let worker = Worker {
            config,
            socket,
            shared: Arc::clone(&shared),
            view: None,
            announce_at: Instant::NEVER,
            announcements: 0,
            look_at: Instant::NEVER,
        };
        let builder = thread::Builder::new().name("address".into());
        let thread = builder.spawn(move || worker.run());
        Ok(Self {
            shared,
            thread: Some(thread.map_err(Error::world(Task::Thread))?),
            address,
            _lock: lock,
        })
    }

    /// Sets the state of the cluster.
    pub fn set_view(&self, view: ClusterView) {
        let mut shared = self
            .shared
            .view
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *shared != Some(view) {
            *shared = Some(view);
            self.shared.waker.raise();
        }
    }

    /// Returns true if this element is ready to take connections.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready.load(Relaxed)
    }

    /// Waits until the kernel has delivered all data to programs. Connections must be reset while the address exists.
    /// Returns false after the time limit, or if `goes_on` returns false.
    pub fn wait_for_connections(&self, patience: Duration, goes_on: impl Fn() -> bool) -> bool {
        let clock = Clock::start();
        while sockets::has_any(self.address).unwrap_or(false) {
            if clock.now() >= Instant::ZERO + patience || !goes_on() {
                return false;
            }
            pause(CHECK_INTERVAL);
        }
        true
    }
}

impl Drop for SharedAddress {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        self.shared.waker.raise();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        self.wait_for_connections(RESETS, || true);
        // first the address: while it exists, only the responsible element may answer for it
        let task = Task::ReleaseAddress;
        let flush = ["addr", "flush", "dev", "lo", "label", LABEL];
        for outcome in [IP.run(task, &flush, ""), NFT.run(task, STDIN, &clear())] {
            if let Err(error) = outcome {
                warn!("{error}");
            }
        }
    }
}

/// Returns the IPv4 addresses of the elements, if the elements can share `address`.
fn members_v4(address: Ipv4Addr, members: &[SocketAddr]) -> Result<Vec<Ipv4Addr>, Error> {
    let mut found = Vec::new();
    for member in members {
        let misuse = match member.ip() {
            IpAddr::V4(own) if own == address => Misuse::ElementAddress(own),
            IpAddr::V4(own) if found.contains(&own) => Misuse::TwoElements(own),
            IpAddr::V4(own) => {
                found.push(own);
                continue;
            }
            own @ IpAddr::V6(_) => Misuse::NotIpv4(own),
        };
        return Err(misuse.into());
    }
    Ok(found)
}

/// Thread of the shared address.
struct Worker {
    config: AddressConfig,
    socket: ArpSocket,
    shared: Arc<SharedState>,
    /// State of the installed rules.
    view: Option<ClusterView>,
    announce_at: Instant,
    /// Number of remaining announcements.
    announcements: u32,
    /// Time of the next check of the rules.
    look_at: Instant,
}

impl Worker {
    fn run(mut self) {
        let clock = Clock::start();
        while !self.shared.stop.load(Relaxed) {
            self.shared.waker.lower();
            let waker = Watch::read(self.shared.waker.as_raw_fd());
            let waited = match self.turn(clock.now()) {
                Ok(()) => {
                    let until = self.announce_at.min(self.look_at);
                    wait(clock, &mut [waker, self.socket.watch()], until)
                }
                Err(error) => {
                    warn!(
                        "the address {} of the cluster: {error}",
                        self.config.address
                    );
                    self.view = None;
                    // avoid a busy loop
                    wait(clock, &mut [waker], clock.now() + ERROR_PAUSE)
                }
            };
            self.shared.waker.drain();
            if waited.is_err() {
                pause(ERROR_PAUSE);
            }
        }
    }

    fn turn(&mut self, now: Instant) -> Result<(), Error> {
        let shared = self.shared.view.lock();
        let shared = *shared.unwrap_or_else(PoisonError::into_inner);
        let Some(view) = shared else {
            return Ok(());
        };
        if self.view != shared || now >= self.look_at && !is_known() {
            self.apply(view)?;
            self.view = shared;
            (self.announce_at, self.announcements) = (now, ANNOUNCEMENTS);
        }
        if now >= self.look_at || self.look_at == Instant::NEVER {
            self.look_at = now + LOOK_EVERY;
        }
        let failed = Error::world(Task::AnswerArp);
        if now >= self.announce_at {
            self.announce(now).map_err(&failed)?;
        }
        self.answer().map_err(&failed)
    }

    /// Installs the rules and the address. Other elements rely on this element only after that.
    fn apply(&mut self, view: ClusterView) -> Result<(), Error> {
        // interfaces and their own addresses may change
        self.socket = ArpSocket::open(self.config.members[usize::from(self.config.me)], &[])?;
        self.config.device.clone_from(&self.socket.device);
        NFT.run(Task::Distribute, STDIN, &script(&self.config, view))?;
        put_address(self.config.address)?;
        self.shared.is_ready.store(true, Relaxed);
        if self.view.map(|view| view.serving) != Some(view.serving) {
            self.say(view.serving);
        }
        Ok(())
    }

    /// Returns true if this element answers ARP requests for the address.
    fn answers(&self) -> bool {
        let first = self.view.and_then(|view| view.serving.first());
        first == Some(self.config.me)
    }

    /// Answers requests.
    fn answer(&mut self) -> io::Result<()> {
        for request in self.socket.requests(REQUESTS_MAX)? {
            // a request for the sender's own address is an announcement
            let announces = request.address == request.wanted;
            if request.wanted == self.config.address && !announces && self.answers() {
                self.socket.say(&request.answer(self.socket.mac))?;
            }
        }
        Ok(())
    }

    /// Announces the address a few times, since another element may have had it until now.
    fn announce(&mut self, now: Instant) -> io::Result<()> {
        if !self.answers() || self.announcements == 0 {
            self.announce_at = Instant::NEVER;
            return Ok(());
        }
        self.announcements -= 1;
        self.announce_at = now + ANNOUNCE_EVERY;
        self.socket
            .say(&announcement(self.socket.mac, self.config.address))
    }

    fn say(&self, serving: ElementSet) {
        let (address, all) = (self.config.address, self.config.members.len());
        let element = match serving.first() {
            Some(nth) if nth == self.config.me => "this element".to_owned(),
            Some(nth) => format!("element {}", nth + 1),
            None => "no element".to_owned(),
        };
        let count = serving.count();
        info!("{element} answers for {address}, whose connections go to {count} of {all} elements");
    }
}

/// Adds the address to this host, and removes other addresses that a killed gateway left.
fn put_address(address: Ipv4Addr) -> Result<(), Error> {
    let task = Task::TakeAddress;
    let is_ours = |at: &nix::ifaddrs::InterfaceAddress| at.interface_name == LABEL;
    let there = addresses()?;
    let there: Vec<Ipv4Addr> = there
        .iter()
        .filter(|at| is_ours(at))
        .filter_map(|at| v4(at.address.as_ref()))
        .collect();
    for old in there.iter().filter(|at| **at != address) {
        IP.run(
            task,
            &["addr", "del", &format!("{old}/32"), "dev", "lo"],
            "",
        )?;
    }
    if there.contains(&address) {
        return Ok(());
    }
    let own = format!("{address}/32");
    IP.run(
        task,
        &["addr", "add", &own, "dev", "lo", "label", LABEL],
        "",
    )
}

/// Returns true if the kernel has the rules: a program that reloads the packet filter may remove them.
fn is_known() -> bool {
    let look =
        |[family, name]: [&str; 2]| NFT.run(Task::CheckRules, &["list", "table", family, name], "");
    look(TABLES[0]).is_ok()
}

const STDIN: &[&str] = &["-f", "-"];
const LOCK: &str = "lighthaul-address";
/// Label of the shared address.
const LABEL: &str = "lo:lighthaul";
/// Maximum number of frames that are read in one turn.
const REQUESTS_MAX: usize = 64;
/// Number of announcements; several, since frames are lost and hosts are busy.
const ANNOUNCEMENTS: u32 = 3;
/// Interval of announcements.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);
/// Interval of checks of the rules.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Interval of checks for connections that are to end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time for the reset of a connection.
const RESETS: Duration = Duration::from_secs(1);
/// Pause after an error.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

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
        assert!(why(&["10.0.0.1:1", "10.0.0.100:1"]).contains("cannot be shared"));
        assert!(why(&["10.0.0.1:1", "10.0.0.1:2"]).contains("address of two elements"));
        assert!(why(&["10.0.0.1:1", "[fe80::1]:2"]).contains("IPv4 address only"));
    }
}
