//! The thread that has one end of a link with its sessions, whatever becomes of its connections.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_io::crypto::cipher::TAG_LEN;
use lighthaul_io::drive::{Counters, Lane, run};
use lighthaul_io::error::Error;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::train::CONNECTION_LEN;
use lighthaul_io::net::udp::header_len;
use lighthaul_proto::slabs::Link;
use lighthaul_proto::slabs::config::{Config, PAGES_MAX, PAGES_MIN, SLAB_PAGES_MAX};
use lighthaul_proto::slabs::wire::HEAD_LEN;
use tracing::{info, warn};

use crate::command::LinkConnection;
use crate::link_handle::LinkHandle;
use crate::multiplexer::{Interruption, Multiplexer};
use crate::page_pool::{PagePool, PageStore};
use crate::resolve::Resolver;
use crate::settings::Settings;
use crate::splice_proxy::SpliceProxy;

/// Starts a thread for an end that has no connection yet.
pub fn start(settings: Arc<Settings>) -> io::Result<LinkHandle> {
    let (handle, commands) = LinkHandle::new()?;
    let resolver = Resolver::start(Arc::clone(&settings.allowed), handle.commands.clone())?;
    let (status, clock) = (Arc::clone(&handle.status), handle.clock());
    thread::Builder::new().name("link".into()).spawn(move || {
        match Multiplexer::new(settings, Arc::clone(&status), (clock, commands), resolver) {
            Ok(multiplexer) => Worker {
                multiplexer,
                end: None,
            }
            .run(),
            Err(error) => warn!("a link could not begin: {error}"),
        }
        status.over();
    })?;
    Ok(handle)
}

/// Starts a thread that commands targets from here: no link, and no connection to another gateway.
pub fn start_direct(settings: Arc<Settings>) -> io::Result<LinkHandle> {
    let (handle, commands) = LinkHandle::new()?;
    let resolver = Resolver::start(Arc::clone(&settings.direct), handle.commands.clone())?;
    let status = Arc::clone(&handle.status);
    let streamer = SpliceProxy::new(
        settings,
        Arc::clone(&status),
        (handle.clock(), commands),
        resolver,
    )?;
    thread::Builder::new()
        .name("streamer".into())
        .spawn(move || {
            streamer.run();
            status.over();
        })?;
    Ok(handle)
}

/// The thread.
struct Worker {
    multiplexer: Multiplexer,
    end: Option<End>,
}

/// What outlives a connection.
struct End {
    link: Link,
    store: PageStore,
    /// What its channel carries, unless somebody says so from moment to moment.
    trc: Option<Trc>,
}

impl Worker {
    fn run(mut self) {
        let mut until = Instant::NEVER;
        loop {
            match self.multiplexer.wait_for_command(until) {
                None | Some(Interruption::GiveUp) => {
                    self.give_up();
                    until = Instant::NEVER;
                }
                Some(Interruption::Detach(answer)) => {
                    let heard = self.end.as_ref().map(|end| end.link.heard());
                    answer.send(heard).ok();
                }
                Some(Interruption::Attach(connection)) => {
                    self.multiplexer.status.refuse(false);
                    self.serve(*connection);
                    until = self.multiplexer.clock.now() + self.multiplexer.settings.patience;
                }
                Some(Interruption::End) => {
                    self.give_up();
                    return;
                }
            }
        }
    }

    /// Nobody will come back: all sessions end.
    fn give_up(&mut self) {
        self.multiplexer.fail_all();
        self.end = None;
        self.multiplexer.status.keep(false);
    }

    /// Runs the link over a connection until that ends.
    fn serve(&mut self, connection: LinkConnection) {
        let again = self.end.is_some() && connection.heard.is_some();
        if !again {
            self.give_up();
        }
        let ended = connection.ended.clone();
        let result = self.carry(connection, again);
        self.multiplexer.status.connected(false, false);
        match &result {
            Err(Error::PeerMisbehaved(_)) => self.give_up(),
            Err(error) => info!("the connection of a link ended: {error}"),
            Ok(()) => {}
        }
        if let Err(error) = result {
            ended.try_send(error).ok();
        }
    }

    fn carry(&mut self, connection: LinkConnection, again: bool) -> Result<(), Error> {
        let now = self.multiplexer.clock.now();
        if self.end.is_none() {
            self.begin(&connection, now)?;
        }
        let Some(end) = &mut self.end else {
            return Ok(());
        };
        let misbehaved =
            |why: lighthaul_proto::slabs::PeerMisbehaved| Error::PeerMisbehaved(why.to_string());
        end.link
            .resume(now, connection.heard.unwrap_or(0))
            .map_err(misbehaved)?;
        self.multiplexer.status.connected(true, again);
        let fits =
            datagram_len(end.link.config().packet_len) <= usize::from(connection.datagram_len);
        let mut lane = lane(connection, self.multiplexer.clock);
        // a path that has become narrower carries pages on the stream, which has a rate of its own
        lane.udp = lane.udp.filter(|_| fits);
        let booked = || self.multiplexer.trc.clone().or_else(|| end.trc.clone());
        self.multiplexer.has_datagrams = lane.udp.is_some();
        let trc = lane.udp.as_ref().and_then(|_| booked());
        end.link.follow(now, trc);
        run(
            &mut end.link,
            &mut lane,
            &mut end.store,
            &mut self.multiplexer,
        )
    }

    /// Begins a link that nothing was said on.
    fn begin(&mut self, connection: &LinkConnection, now: Instant) -> Result<(), Error> {
        let settings = &self.multiplexer.settings;
        let config = config(settings, connection);
        config
            .check()
            .map_err(|why| Error::PeerMisbehaved(why.to_string()))?;
        let steady = || settings.rate.or(connection.rate).map(Trc::steady);
        let trc = self.multiplexer.trc.clone().or_else(steady);
        let pool = PagePool::new(
            config.packet_len,
            config.page_len(),
            config.pages_max as usize,
        );
        self.multiplexer.pool = Rc::new(RefCell::new(pool));
        self.multiplexer.status.keep(true);
        self.end = Some(End {
            link: Link::new(now, config, trc.clone()),
            trc,
            store: PageStore::new(&self.multiplexer.pool),
        });
        Ok(())
    }
}

/// What a link is made of that begins with this connection.
fn config(settings: &Settings, connection: &LinkConnection) -> Config {
    let around = CONNECTION_LEN + HEAD_LEN + TAG_LEN;
    let datagram_len = match usize::from(connection.datagram_len) {
        0 => DATAGRAM_LEN,
        len => len,
    };
    let packet_len = (datagram_len.saturating_sub(around) / ALIGN * ALIGN).max(ALIGN) as u32;
    let page_len = u64::from(packet_len) * lighthaul_proto::slabs::config::PAGE_PACKETS;
    let pages = |bytes: u64| u32::try_from(bytes / page_len).unwrap_or(u32::MAX);
    Config {
        packet_len,
        overhead_len: header_len(connection.stream.peer()) + (CONNECTION_LEN + TAG_LEN) as u32,
        stream: connection.stream.number(),
        burst: settings
            .rate
            .or(connection.rate)
            .filter(|_| !settings.booked)
            .map(|rate| burst(rate, packet_len)),
        settle: SETTLE,
        ack_every: ACK,
        patience: SILENCE,
        slab_pages: pages(settings.slab.0).clamp(1, SLAB_PAGES_MAX),
        age: settings.age,
        pages_max: pages(settings.memory.0 / 2).clamp(PAGES_MIN, PAGES_MAX),
        window: connection.window.max(page_len as u32),
    }
}

/// What leaves at once on a channel that nobody polices, so that a host that is busy for a moment loses nothing of it.
fn burst(rate: Rate, packet_len: u32) -> u32 {
    let bytes = rate.bytes_in(BURST).min(BURST_BYTES_MAX);
    (bytes as u32).max(4 * packet_len)
}

/// Octets of a datagram with a packet of `packet_len`.
const fn datagram_len(packet_len: u32) -> usize {
    CONNECTION_LEN + HEAD_LEN + TAG_LEN + packet_len as usize
}

/// What the machine talks over.
fn lane(connection: LinkConnection, clock: Clock) -> Lane {
    let (seal, open) = connection.keys.unzip();
    Lane {
        udp: connection.udp,
        stream: connection.stream,
        more: Vec::new(),
        connection: connection.connection,
        seal,
        open,
        head_len: HEAD_LEN,
        clock,
        scatter: None,
        share: None,
        competition: None,
        counters: Arc::<Counters>::default(),
    }
}

/// The longest burst: queues take it.
const BURST: Duration = Duration::from_millis(4);
const BURST_BYTES_MAX: u64 = 4 << 20;
/// How long a datagram may be overtaken.
const SETTLE: Duration = Duration::from_millis(2);
/// How often it is said what came.
const ACK: Duration = Duration::from_millis(10);
/// How long the other gateway may be silent.
const SILENCE: Duration = Duration::from_secs(5);
/// Where no datagram passes, pages cross on the stream in pieces of this size.
const DATAGRAM_LEN: usize = 8192;
/// Packets have a multiple of this.
const ALIGN: usize = 32;
