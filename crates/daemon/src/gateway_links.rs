//! Links between this gateway and other gateways: connecting, negotiation of parameters, and shutdown.
//!
//! [`GatewayLinks`] has all links, and an [`OutgoingLink`] connects one. A link outlives its
//! connections. When a new connection begins, both gateways detach the link and exchange a
//! `Greeting` with the number of messages that each has received. They agree on the smaller window
//! in bytes and the shorter datagram. A new link may also measure its rate in bits per second.
//! `carry` waits until the connection ends. The state of links is in `link_status` and
//! `link_metrics`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::{Rate, Size};
use lighthaul_gateway::command::LinkConnection;
use lighthaul_gateway::link_handle::LinkHandle;
use lighthaul_gateway::link_thread;
use lighthaul_gateway::settings::Settings;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::{self as own, Hello};
use lighthaul_session::path::{LISTEN_TIMEOUT, Path, explore};
use lighthaul_session::role::Role;
use lighthaul_session::session::{LANES, Session};
use tracing::{info, warn};

use crate::client_identity::ClientIdentity;
use crate::error::Fault;
use crate::link_message::{Greeting, Message};
use crate::link_status::LinkStatus;
use crate::link_table::{LinkHold, LinkTable};

/// All links of this gateway.
#[derive(Debug)]
pub struct GatewayLinks {
    settings: Arc<Settings>,
    /// Links that other gateways started.
    incoming: LinkTable,
    /// Links that this gateway started, with the addresses of their peers.
    outgoing: Mutex<Vec<(String, LinkHandle)>>,
    draining: AtomicBool,
}

/// Link that this gateway starts.
#[derive(Debug)]
pub struct OutgoingLink {
    settings: Arc<Settings>,
    /// Link that carries the sessions of programs.
    pub handle: LinkHandle,
    name: [u8; 16],
    plain: bool,
}

impl GatewayLinks {
    /// Creates the state of a gateway without links.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            incoming: LinkTable::new(&settings),
            settings,
            outgoing: Mutex::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// Settings of the gateway.
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Serves a link that another gateway started with `greeting`, until its connection ends. If the peer loses its
    /// right to the gateway, the sessions of the link end.
    pub(crate) fn serve(
        &self,
        (session, identity): (&Session, ClientIdentity),
        role: &Role,
        greeting: &Greeting,
        plain: bool,
    ) -> Result<(), Error> {
        let hold = self.incoming.hold(
            (session.peer, greeting.link),
            (identity, session.peer_address().ip()),
        )?;
        let result = self.agree_and_carry(session, role, (&hold, greeting), plain);
        if let Err(error) = &result
            && error.code() == Code::Permission
            && let Some(handle) = hold.handle()
        {
            warn!("ending the sessions of this link: {error}");
            handle.revoke();
        }
        result
    }

    fn agree_and_carry(
        &self,
        session: &Session,
        role: &Role,
        (hold, greeting): (&LinkHold<'_>, &Greeting),
        plain: bool,
    ) -> Result<(), Error> {
        let known = hold.handle();
        if known.is_none() && self.draining.load(Ordering::Relaxed) {
            return Err(Fault::Stopping("gateway").into());
        }
        if !hold.is_latest() {
            return Err(Fault::LinkReplaced.into());
        }
        let received = known
            .and_then(|handle| handle.detach())
            .filter(|_| greeting.received.is_some());
        let mut path = explore(&session.dialog(), role, false, 1)?;
        let Message::Greeting(theirs) = path.listen(&session.dialog(), Some(LISTEN_TIMEOUT))?;
        let rate = if received.is_none() && self.settings.measures() {
            path.measure(&session.dialog())?
        } else {
            None
        };
        let window = theirs.window.min(WINDOW);
        // both gateways use the same length, whichever is shorter
        let datagram_len = theirs.datagram_len.min(path.both_ways_len as u16);
        let ours = Greeting {
            received,
            window,
            datagram_len,
            ..theirs
        };
        session.say(&Message::Greeting(ours))?;
        let received = theirs.received.filter(|_| received.is_some());
        let agreed = Agreed {
            rate,
            window,
            datagram_len,
            received,
            plain,
        };
        // a peer that has only sent a greeting costs no thread
        let handle = hold.begin(&self.settings)?;
        carry(session, &handle, path, &agreed)
    }

    /// Adds a link that this gateway started. Must be called before the link has sessions.
    pub fn add_outgoing(&self, peer: &str, handle: LinkHandle) {
        handle.share_sessions(self.incoming.own_quota());
        self.outgoing().push((peer.to_owned(), handle));
    }

    /// Returns the state of every link.
    pub fn links(&self) -> Vec<LinkStatus> {
        let mut seen = Vec::new();
        for (peer, handle) in self.outgoing().iter() {
            seen.push(LinkStatus::of(peer.clone(), true, handle));
        }
        for (peer, handle) in self.incoming.all() {
            seen.push(LinkStatus::of(peer.to_string(), false, &handle));
        }
        seen
    }

    /// Stops accepting sessions and links. Each link ends with its last session.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        for handle in self.all() {
            handle.drain();
        }
    }

    /// Returns true once all links have ended.
    pub fn is_over(&self) -> bool {
        self.all().iter().all(LinkHandle::is_over)
    }

    fn all(&self) -> Vec<LinkHandle> {
        let mut lines: Vec<LinkHandle> = self
            .outgoing()
            .iter()
            .map(|(_, handle)| handle.clone())
            .collect();
        lines.extend(self.incoming.all().into_iter().map(|(_, handle)| handle));
        lines
    }

    fn outgoing(&self) -> std::sync::MutexGuard<'_, Vec<(String, LinkHandle)>> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutgoingLink {
    /// Creates a link without a connection.
    pub fn new(settings: Arc<Settings>, plain: bool) -> io::Result<Self> {
        let own = Settings {
            memory: Size(settings.memory.0 / 2),
            ..Settings::clone(&settings)
        };
        Ok(Self {
            handle: link_thread::start(Arc::new(own))?,
            settings,
            name: random_octets(),
            plain,
        })
    }

    /// Carries the link over a connection to the other gateway until that ends. Calls `begun` once the link works.
    pub fn run(&self, session: &Session, begun: impl FnOnce()) -> Result<(), Error> {
        let received = self.handle.detach();
        let mut greeting = Greeting {
            link: self.name,
            received,
            window: WINDOW,
            datagram_len: 0,
        };
        session.say(&own::Message::Hello(Hello {
            plain: self.plain,
            ..Hello::about::<Message>(&greeting)
        }))?;
        let own::Message::Welcome = session.hear()? else {
            return Err(Fault::Unexpected("an agreement").into());
        };
        let mut path = explore(&session.dialog(), &Role::Client(true), true, 1)?;
        let rate = if received.is_none() && self.settings.measures() {
            path.measure(&session.dialog())?
        } else {
            None
        };
        greeting.datagram_len = path.both_ways_len as u16;
        session.say(&Message::Greeting(greeting))?;
        let Message::Greeting(theirs) = path.listen(&session.dialog(), Some(LISTEN_TIMEOUT))?;
        let agreed = Agreed {
            rate,
            window: theirs.window.min(WINDOW),
            datagram_len: theirs.datagram_len.min(greeting.datagram_len),
            received: theirs.received.filter(|_| received.is_some()),
            plain: self.plain,
        };
        begun();
        carry(session, &self.handle, path, &agreed)
    }
}

/// Parameters of a link that both gateways agreed on.
struct Agreed {
    rate: Option<Rate>,
    window: u32,
    /// Length of the longest datagram that passes in both directions; zero if no datagram passes.
    datagram_len: u16,
    received: Option<u64>,
    plain: bool,
}

/// Hands a connection to a link, and waits until the connection ends.
fn carry(session: &Session, handle: &LinkHandle, path: Path, agreed: &Agreed) -> Result<(), Error> {
    let keys = session.secrets.object(0);
    let stream = session.control.open(LANES)?;
    let (ended, why) = sync_channel(1);
    let datagram_len = agreed.datagram_len;
    let udp = path.sockets.into_iter().next();
    let udp = udp.filter(|_| datagram_len > 0);
    if let Some(udp) = &udp {
        udp.set_buffers(BUFFERS);
    }
    let connection = LinkConnection {
        control: session.control.clone(),
        stream,
        udp,
        connection: keys.connection,
        keys: (!agreed.plain).then_some((keys.seal, keys.open)),
        rate: agreed.rate.map(|rate| rate.scaled(MARGIN.0, MARGIN.1)),
        datagram_len,
        window: agreed.window,
        received: agreed.received,
        ended,
    };
    let how = match (&connection.udp, agreed.plain) {
        (None, _) => "over TCP because datagrams do not arrive",
        (Some(_), true) => "plain",
        (Some(_), false) => "encrypted",
    };
    if !handle.attach(connection) {
        return Err(Fault::LinkEnded.into());
    }
    info!("the link carries sessions, {how}");
    loop {
        match why.recv_timeout(CHECK_INTERVAL) {
            Ok(error) => return Err(error.into()),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => session.halt.check()?,
        }
    }
}

/// Bytes that a session may send before it needs more window.
const WINDOW: u32 = 1 << 16;
/// Size of the socket buffers, in each direction.
const BUFFERS: usize = 16 << 20;
/// Part of the measured rate that is used, since slabs do not react to congestion.
const MARGIN: (u32, u32) = (19, 20);
/// Interval at which a session is checked for a halt.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
