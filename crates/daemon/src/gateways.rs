//! Links between this gateway and others: who calls whom, and what both agree on before pages flow.
//! What is to be seen of them: `seen`, `links`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lighthaul_base::{Rate, Size};
use lighthaul_gateway::call::Joint;
use lighthaul_gateway::line::Line;
use lighthaul_gateway::link_thread;
use lighthaul_gateway::settings::Settings;
use lighthaul_io::crypto::identity::{Fingerprint, random_octets};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::{self as own, Hello};
use lighthaul_session::path::{Path, explore};
use lighthaul_session::role::Role;
use lighthaul_session::session::{LANES, Session};
use tracing::{info, warn};

use crate::link_message::{Greeting, Message};
use crate::link_table::{Hold, LinkTable};
use crate::seen::Seen;

/// All links of this gateway.
#[derive(Debug)]
pub struct Gateways {
    settings: Arc<Settings>,
    /// Those that others have begun.
    called: LinkTable,
    /// Those that this gateway has begun, and to whom.
    began: Mutex<Vec<(String, Line)>>,
    draining: AtomicBool,
}

/// A link to another gateway, as its caller knows it.
#[derive(Debug)]
pub struct Outgoing {
    settings: Arc<Settings>,
    /// Carries the sessions of programs.
    pub line: Line,
    name: [u8; 16],
    plain: bool,
}

impl Gateways {
    /// No link yet.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            called: LinkTable::new(&settings),
            settings,
            began: Mutex::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// How they work.
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Carries a link of which this is its caller's `greeting`, until its connection ends. A caller that may not stay loses the
    /// link's sessions, too.
    pub(crate) fn answer(
        &self,
        (session, identity): (&Session, Fingerprint),
        door: &Role<'_>,
        greeting: &Greeting,
        plain: bool,
    ) -> Result<(), Error> {
        let hold = self.called.hold(
            (session.peer, greeting.link),
            (identity, session.peer_address().ip()),
        )?;
        let result = self.agree_and_carry(session, door, (&hold, greeting), plain);
        if let Err(error) = &result
            && error.code == Code::Permission
            && let Some(line) = hold.line()
        {
            warn!("the sessions of this link end: {error}");
            line.end();
        }
        result
    }

    fn agree_and_carry(
        &self,
        session: &Session,
        door: &Role<'_>,
        (hold, greeting): (&Hold<'_>, &Greeting),
        plain: bool,
    ) -> Result<(), Error> {
        let known = hold.line();
        if known.is_none() && self.draining.load(Ordering::Relaxed) {
            return Err(Error::new(Code::Network, "the gateway there is stopping"));
        }
        let heard = known
            .and_then(|line| line.pause())
            .filter(|_| greeting.heard.is_some());
        let mut path = explore(session, door, false, 1)?;
        let Message::Greeting(theirs) = path.listen(session)?;
        let rate = if heard.is_none() && self.settings.measures() {
            path.measure(session)?
        } else {
            None
        };
        let window = theirs.window.min(WINDOW);
        // both sides cut pages in the same way, whatever either of them got
        let datagram_len = theirs.datagram_len.min(path.both_ways_len as u16);
        let ours = Greeting {
            heard,
            window,
            datagram_len,
            ..theirs
        };
        session.say(&Message::Greeting(ours))?;
        let heard = theirs.heard.filter(|_| heard.is_some());
        let agreed = Agreed {
            rate,
            window,
            datagram_len,
            heard,
            plain,
        };
        // a caller that has only greeted costs no thread
        let line = hold.begin(&self.settings).map_err(|e| starting(&e))?;
        carry(session, &line, path, &agreed)
    }

    /// Counts a link that this gateway has begun among its own; to be called before it has sessions.
    pub fn include(&self, peer: &str, line: Line) {
        line.share_sessions(self.called.own());
        self.began().push((peer.to_owned(), line));
    }

    /// What is to be seen of every link.
    pub fn links(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (peer, line) in self.began().iter() {
            seen.push(Seen::of(peer.clone(), true, line));
        }
        for (peer, line) in self.called.all() {
            seen.push(Seen::of(peer.to_string(), false, &line));
        }
        seen
    }

    /// Takes no session and no link any more; links end with their last session.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        for line in self.all() {
            line.drain();
        }
    }

    /// Whether all links have ended.
    pub fn is_over(&self) -> bool {
        self.all().iter().all(Line::is_over)
    }

    fn all(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = self.began().iter().map(|(_, line)| line.clone()).collect();
        lines.extend(self.called.all().into_iter().map(|(_, line)| line));
        lines
    }

    fn began(&self) -> std::sync::MutexGuard<'_, Vec<(String, Line)>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing {
    /// A link that has no connection yet.
    pub fn new(settings: Arc<Settings>, plain: bool) -> io::Result<Self> {
        let own = Settings {
            memory: Size(settings.memory.0 / 2),
            ..Settings::clone(&settings)
        };
        Ok(Self {
            line: link_thread::start(Arc::new(own))?,
            settings,
            name: random_octets(),
            plain,
        })
    }

    /// Carries the link over a connection to the other gateway, until that ends; calls `begun` once it carries.
    pub fn run(&self, session: &Session, begun: impl FnOnce()) -> Result<(), Error> {
        let heard = self.line.pause();
        let mut greeting = Greeting {
            link: self.name,
            heard,
            window: WINDOW,
            datagram_len: 0,
        };
        session.say(&own::Message::Hello(Hello {
            plain: self.plain,
            ..Hello::about::<Message>(&greeting)
        }))?;
        let own::Message::Welcome { .. } = session.hear()? else {
            return Err(unclear());
        };
        let mut path = explore(session, &Role::Client(true), true, 1)?;
        let rate = if heard.is_none() && self.settings.measures() {
            path.measure(session)?
        } else {
            None
        };
        greeting.datagram_len = path.both_ways_len as u16;
        session.say(&Message::Greeting(greeting))?;
        let Message::Greeting(theirs) = path.listen(session)?;
        let agreed = Agreed {
            rate,
            window: theirs.window.min(WINDOW),
            datagram_len: theirs.datagram_len.min(greeting.datagram_len),
            heard: theirs.heard.filter(|_| heard.is_some()),
            plain: self.plain,
        };
        begun();
        carry(session, &self.line, path, &agreed)
    }
}

/// What two gateways have agreed on.
struct Agreed {
    rate: Option<Rate>,
    window: u32,
    /// The longest datagram that passes both ways; zero if none does.
    datagram_len: u16,
    heard: Option<u64>,
    plain: bool,
}

/// Gives a connection to a line, and waits until it ends.
fn carry(session: &Session, line: &Line, path: Path, agreed: &Agreed) -> Result<(), Error> {
    let keys = session.secrets.object(0);
    let stream = session.control.open(LANES)?;
    let (ended, why) = sync_channel(1);
    let datagram_len = agreed.datagram_len;
    let udp = path.sockets.into_iter().next();
    let udp = udp.filter(|_| datagram_len > 0);
    if let Some(udp) = &udp {
        udp.set_buffers(BUFFERS);
    }
    let joint = Joint {
        control: session.control.clone(),
        stream,
        udp,
        connection: keys.connection,
        keys: (!agreed.plain).then_some((keys.seal, keys.open)),
        rate: agreed.rate.map(|rate| rate.scaled(MARGIN.0, MARGIN.1)),
        datagram_len,
        window: agreed.window,
        heard: agreed.heard,
        ended,
    };
    let how = match (&joint.udp, agreed.plain) {
        (None, _) => "over TCP, since no datagram passes",
        (Some(_), true) => "plain",
        (Some(_), false) => "encrypted",
    };
    if !line.join(joint) {
        return Err(Error::new(Code::Network, "the link is gone"));
    }
    info!("the link carries sessions, {how}");
    loop {
        match why.recv_timeout(LOOK) {
            Ok(error) => return Err(error.into()),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => session.halt.check()?,
        }
    }
}

fn unclear() -> Error {
    Error::new(
        Code::Protocol,
        "the other gateway sent a message that makes no sense; do both sides run the same version?",
    )
}

fn starting(error: &io::Error) -> Error {
    Error::new(Code::Network, format!("a link could not begin: {error}"))
}

/// Bytes that a session may send before it is told more.
const WINDOW: u32 = 1 << 16;
/// Socket buffers, each way.
const BUFFERS: usize = 16 << 20;
/// The part of a measured rate that is used: nobody yields on a channel.
const MARGIN: (u32, u32) = (19, 20);
/// How often it is looked whether the session may go on.
const LOOK: Duration = Duration::from_millis(200);
