//! Thread of one end of a link, which outlives the connections of the link.
//!
//! [`start`] begins without a connection; connections arrive as commands, and the link continues
//! over each in turn. Only a violation of the protocol, or too long a time without a connection,
//! ends its sessions. [`start_direct`] does the same for targets that need no link.

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
use lighthaul_slabs::Link;
use lighthaul_slabs::config::{Config, PAGES_MAX, PAGES_MIN, SLAB_PAGES_MAX};
use lighthaul_slabs::wire::HEAD_LEN;
use tracing::{info, warn};

use crate::command::LinkConnection;
use crate::link_handle::LinkHandle;
use crate::multiplexer::{Interruption, Multiplexer};
use crate::page_pool::{PagePool, PageStore};
use crate::resolve::Resolver;
use crate::settings::Settings;
use crate::splice_proxy::SpliceProxy;

/// Starts the thread of a link without a connection.
pub fn start(settings: Arc<Settings>) -> io::Result<LinkHandle> {
    let (handle, commands) = LinkHandle::new()?;
    let (allowed, answers) = (Arc::clone(&settings.allowed), handle.commands.clone());
    let resolver = Resolver::new(allowed, answers, handle.clock());
    let (status, clock) = (Arc::clone(&handle.status), handle.clock());
    thread::Builder::new().name("link".into()).spawn(move || {
        match Multiplexer::new(settings, Arc::clone(&status), (clock, commands), resolver) {
            Ok(multiplexer) => Worker {
                multiplexer,
                end: None,
            }
            .run(),
            Err(error) => warn!("cannot start a link: {error}"),
        }
        status.over();
    })?;
    Ok(handle)
}

/// Starts a thread that connects to targets directly, without a link and another gateway.
pub fn start_direct(settings: Arc<Settings>) -> io::Result<LinkHandle> {
    let (handle, commands) = LinkHandle::new()?;
    let (allowed, answers) = (Arc::clone(&settings.direct), handle.commands.clone());
    let resolver = Resolver::new(allowed, answers, handle.clock());
    let status = Arc::clone(&handle.status);
    let proxy = SpliceProxy::new(
        settings,
        Arc::clone(&status),
        (handle.clock(), commands),
        resolver,
    )?;
    thread::Builder::new()
        .name("direct".into())
        .spawn(move || {
            proxy.run();
            status.over();
        })?;
    Ok(handle)
}

/// Thread of a link.
struct Worker {
    multiplexer: Multiplexer,
    end: Option<End>,
}

/// State that outlives a connection.
struct End {
    link: Link,
    store: PageStore,
    /// Rate vector of the channel, unless one is followed.
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
                    let received = self.end.as_ref().map(|end| end.link.heard());
                    answer.send(received).ok();
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

    /// Ends all sessions and the link.
    fn give_up(&mut self) {
        self.multiplexer.fail_all();
        self.end = None;
        self.multiplexer.status.keep(false);
    }

    /// Runs the link over a connection until the connection ends.
    fn serve(&mut self, connection: LinkConnection) {
        let again = self.end.is_some() && connection.received.is_some();
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
            |why: lighthaul_slabs::PeerMisbehaved| Error::PeerMisbehaved(why.to_string());
        end.link
            .resume(now, connection.received.unwrap_or(0))
            .map_err(misbehaved)?;
        self.multiplexer.status.connected(true, again);
        let fits =
            datagram_len(end.link.config().packet_len) <= usize::from(connection.datagram_len);
        let mut lane = lane(connection, self.multiplexer.clock);
        // if the path has become narrower, pages cross the stream, which has a rate of its own
        lane.udp = lane.udp.filter(|_| fits);
        let booked = || {
            self.multiplexer
                .channel
                .trc
                .clone()
                .or_else(|| end.trc.clone())
        };
        self.multiplexer.channel.has_datagrams = lane.udp.is_some();
        let trc = lane.udp.as_ref().and_then(|_| booked());
        end.link.follow(now, trc);
        run(
            &mut end.link,
            &mut lane,
            &mut end.store,
            &mut self.multiplexer,
        )
    }

    /// Creates the link for its first connection.
    fn begin(&mut self, connection: &LinkConnection, now: Instant) -> Result<(), Error> {
        let settings = &self.multiplexer.settings;
        let config = config(settings, connection);
        config
            .check()
            .map_err(|why| Error::PeerMisbehaved(why.to_string()))?;
        let steady = || settings.rate.or(connection.rate).map(Trc::steady);
        let trc = self.multiplexer.channel.trc.clone().or_else(steady);
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

/// Returns the configuration of a link that begins with `connection`.
fn config(settings: &Settings, connection: &LinkConnection) -> Config {
    let around = CONNECTION_LEN + HEAD_LEN + TAG_LEN;
    let datagram_len = match usize::from(connection.datagram_len) {
        0 => DATAGRAM_LEN,
        len => len,
    };
    let packet_len = (datagram_len.saturating_sub(around) / ALIGN * ALIGN).max(ALIGN) as u32;
    let page_len = u64::from(packet_len) * lighthaul_slabs::config::PAGE_PACKETS;
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

/// Returns the burst on a channel without a policer, so that a busy host does not lose throughput.
fn burst(rate: Rate, packet_len: u32) -> u32 {
    let bytes = rate.bytes_in(BURST).min(BURST_BYTES_MAX);
    (bytes as u32).max(4 * packet_len)
}

/// Returns the length of a datagram with a packet of `packet_len`, in octets.
const fn datagram_len(packet_len: u32) -> usize {
    CONNECTION_LEN + HEAD_LEN + TAG_LEN + packet_len as usize
}

/// Returns the lane of the machine.
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

/// Maximum duration of a burst, which queues can hold.
const BURST: Duration = Duration::from_millis(4);
/// Maximum number of bytes of a burst.
const BURST_BYTES_MAX: u64 = 4 << 20;
/// Time in which other datagrams may overtake a datagram.
const SETTLE: Duration = Duration::from_millis(2);
/// Interval of acknowledgments.
const ACK: Duration = Duration::from_millis(10);
/// Time for which the other gateway may be silent.
const SILENCE: Duration = Duration::from_secs(5);
/// Length of the pieces in which pages are sent on the stream.
const DATAGRAM_LEN: usize = 8192;
/// Alignment of packet lengths.
const ALIGN: usize = 32;
