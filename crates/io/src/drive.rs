//! Runs a machine on real sockets: transmit, hear events, wait for the first of message and deadline.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lighthaul_base::{Body, Endpoint, Instant, Load, Message, Rate, Span, Transmit, Via};

use crate::clock::{Clock, sharpen_sleeps};
use crate::control::{Frame, Stream};
use crate::error::Error;
use crate::interrupt;
use crate::scatter::{Layout, Scatter};
use crate::seal::{Key, TAG_LEN};
use crate::store::Store;
use crate::train::{CONNECTION_LEN, Train, unique};
use crate::udp::{Received, TRAIN_DATAGRAMS_MAX, Udp};
use crate::wait::{Watch, wait};

/// How often an owner is asked what it thinks.
const TICK: Duration = Duration::from_millis(50);
/// Trains taken from the socket before everything else gets its turn.
const TRAINS_A_TURN: usize = 8;
/// The largest reception: more than the kernel coalesces.
const RECEPTION_MAX: usize = 1 << 16;

/// One socket, one stream and the keys between two machines.
#[derive(Debug)]
pub struct Lane {
    /// The socket, if datagrams pass at all.
    pub udp: Option<Udp>,
    /// Carries the machine's stream messages, and datagrams where UDP does not pass.
    pub stream: Stream,
    /// Marks every datagram of this lane.
    pub connection: u64,
    /// Seals what leaves; without it datagrams are plain.
    pub seal: Option<Key>,
    /// Opens what comes.
    pub open: Option<Key>,
    /// The length of the protocol's datagram heads.
    pub head_len: usize,
    /// The time.
    pub clock: Clock,
    /// Receive bodies straight into the place where the next are expected ("scatter"), this many
    /// bytes each, rather than copying them there.
    pub scatter: Option<u32>,
    /// What it has seen; others may look.
    pub counters: Arc<Counters>,
}

/// What a lane has seen.
#[derive(Debug, Default)]
pub struct Counters {
    /// Datagrams sent.
    pub sent: AtomicU64,
    /// Genuine datagrams received.
    pub received: AtomicU64,
    /// Datagrams of somebody else, or too short.
    pub foreign: AtomicU64,
    /// Datagrams that failed authentication.
    pub forged: AtomicU64,
    /// Receptions that the full receive buffer dropped (`SO_RXQ_OVFL`), at least one datagram each.
    pub buffer_drops: AtomicU64,
}

/// What an owner wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    Continue,
    /// Datagrams do not pass: carry them on the stream from now on.
    Divert,
    /// It is over.
    Finish,
}

/// Who made the machine and hears from it.
pub trait Owner<E: Endpoint> {
    /// Something happened.
    fn event(&mut self, endpoint: &mut E, event: E::Event, now: Instant) -> Result<Next, Error>;
    /// Time for a look, about every 50 ms.
    fn tick(&mut self, endpoint: &mut E, now: Instant) -> Result<Next, Error>;
}

/// Runs `endpoint` over `lane` until its owner says that it is over.
pub fn run<E: Endpoint, S: Store>(
    endpoint: &mut E,
    lane: &mut Lane,
    store: &mut S,
    owner: &mut impl Owner<E>,
) -> Result<(), Error> {
    sharpen_sleeps();
    let mut driver = Driver {
        endpoint,
        lane,
        store,
        train: Train::new(),
        reception: vec![0; RECEPTION_MAX],
        scatter: Scatter::new(),
        expected: 0,
        load: Load::default(),
        drops: 0,
    };
    driver.run(owner)
}

struct Driver<'a, E, S> {
    endpoint: &'a mut E,
    lane: &'a mut Lane,
    store: &'a mut S,
    train: Train,
    reception: Vec<u8>,
    scatter: Scatter,
    /// Where the object goes on behind what came last.
    expected: u64,
    load: Load,
    drops: u32,
}

impl<E: Endpoint, S: Store> Driver<'_, E, S> {
    fn run(&mut self, owner: &mut impl Owner<E>) -> Result<(), Error> {
        let clock = self.lane.clock;
        let mut tick = clock.now();
        let mut readable = true;
        loop {
            self.store.foresee(self.endpoint)?;
            let mut busy = self.take_frames()?;
            if readable {
                readable = self.take_trains()?;
                busy |= readable;
            }
            let now = clock.now();
            if self
                .endpoint
                .poll_timeout()
                .is_some_and(|deadline| deadline.at <= now)
            {
                self.endpoint.handle_timeout(now);
            }
            self.tell_load(now);
            busy |= self.transmit(now)?;
            while let Some(event) = self.endpoint.poll_event() {
                let next = owner.event(self.endpoint, event, now)?;
                if self.obey(next, now) {
                    self.transmit(now)?;
                    return Ok(());
                }
            }
            if tick <= now {
                interrupt::check()?;
                tick = now + TICK;
                let next = owner.tick(self.endpoint, now)?;
                if self.obey(next, now) {
                    return Ok(());
                }
            }
            if !busy {
                readable = self.wait(tick)?;
            }
        }
    }

    /// Does what the owner wants; answers whether it is over.
    fn obey(&mut self, next: Next, now: Instant) -> bool {
        if next == Next::Divert {
            self.lane.udp = None;
            self.endpoint.handle_rate(now, Rate::UNLIMITED);
        }
        next == Next::Finish
    }

    fn wait(&mut self, tick: Instant) -> Result<bool, Error> {
        let deadline = self
            .endpoint
            .poll_timeout()
            .map_or(tick, |deadline| deadline.at.min(tick));
        let stream = Watch::read(self.lane.stream.as_raw_fd());
        let mut watches = [stream, stream];
        let mut count = 1;
        if let Some(udp) = &self.lane.udp {
            watches[1].fd = udp.as_raw_fd();
            count = 2;
        }
        wait(self.lane.clock, &mut watches[..count], deadline)
            .map_err(|error| Error::world("waiting for datagrams", error))?;
        if watches[0].readable {
            self.lane.stream.woken();
        }
        Ok(count == 2 && watches[1].readable)
    }

    fn tell_load(&mut self, now: Instant) {
        let load = self.store.load();
        if load != self.load {
            self.load = load;
            self.endpoint.handle_load(now, load);
        }
    }

    /// Hands over what came on the stream; answers whether anything did.
    fn take_frames(&mut self) -> Result<bool, Error> {
        let mut any = false;
        let number = self.lane.stream.number();
        for _ in 0..64 {
            let Some(frame) = self.lane.stream.try_receive()? else {
                break;
            };
            any = true;
            let via = if frame.datagram {
                Via::Datagram
            } else {
                Via::Stream(number)
            };
            let (head, body) = frame.octets.split_at(frame.head_len);
            self.take(via, head, body)?;
        }
        Ok(any)
    }

    /// Hands one message over and puts its body in place.
    fn take(&mut self, via: Via, head: &[u8], body: &[u8]) -> Result<(), Error> {
        let now = self.lane.clock.now();
        let message = Message {
            via,
            head,
            len: body.len() as u32,
        };
        if let Some(span) = self.endpoint.handle_message(now, message) {
            if let Some(slot) = self.store.slot(span)? {
                slot.copy_from_slice(body);
            }
            self.store.placed(span)?;
        }
        Ok(())
    }

    /// Takes trains from the socket; answers whether there may be more.
    fn take_trains(&mut self) -> Result<bool, Error> {
        for _ in 0..TRAINS_A_TURN {
            let Some(udp) = &self.lane.udp else {
                return Ok(false);
            };
            if let Some(body_len) = self.lane.scatter {
                if !self.take_scattered(body_len)? {
                    return Ok(false);
                }
                continue;
            }
            let received = udp
                .receive_into(&mut self.reception, &mut self.drops)
                .map_err(|error| Error::world("receiving datagrams", error))?;
            let Some(received) = received else {
                return Ok(false);
            };
            self.take_train(received)?;
        }
        Ok(true)
    }

    /// Receives a train where it is expected; answers whether there was one.
    fn take_scattered(&mut self, body_len: u32) -> Result<bool, Error> {
        let layout = Layout {
            prefix_len: CONNECTION_LEN + self.lane.head_len,
            body_len: body_len as usize,
            tag_len: if self.lane.open.is_some() { TAG_LEN } else { 0 },
        };
        let span = self
            .endpoint
            .upcoming(self.expected, body_len * TRAIN_DATAGRAMS_MAX as u32)
            .unwrap_or_default();
        let Some(udp) = &self.lane.udp else {
            return Ok(false);
        };
        let landing = self.store.landing(span).unwrap_or_default();
        let received = self
            .scatter
            .receive(udp, layout, landing, &mut self.drops)
            .map_err(|error| Error::world("receiving datagrams", error))?;
        let Some(received) = received else {
            return Ok(false);
        };
        let kept = self.keep_landed(span, layout, received)?;
        let rest = self.collect(span, layout, received, kept);
        self.take_train(rest)?;
        Ok(true)
    }

    /// Brings the datagrams from `first` on back into one piece.
    fn collect(&mut self, at: Span, layout: Layout, received: Received, first: usize) -> Received {
        let skip = (first * received.segment_len).min(received.len);
        if skip < received.len {
            let landing = self.store.landing(at).unwrap_or_default();
            self.scatter
                .collect(layout, landing, received.len, &mut self.reception);
            self.reception.copy_within(skip..received.len, 0);
        }
        Received {
            len: received.len - skip,
            ..received
        }
    }

    /// Hands over the datagrams that landed where they belong, up to the first that did not, which
    /// is moved; answers how many.
    fn keep_landed(
        &mut self,
        expected: Span,
        layout: Layout,
        received: Received,
    ) -> Result<usize, Error> {
        let now = self.lane.clock.now();
        let each = layout.prefix_len + layout.body_len + layout.tag_len;
        let whole = if received.segment_len == each {
            received.len / each
        } else {
            0
        };
        let whole = whole.min(expected.len as usize / layout.body_len);
        for index in 0..whole {
            let Some(span) = self.open_landed(index, layout, expected, now) else {
                continue;
            };
            let start = index * layout.body_len;
            if span.offset != expected.offset + start as u64 {
                let landing = self.store.landing(expected).unwrap_or_default();
                let body = landing[start..start + layout.body_len].to_vec();
                let rest = self.collect(expected, layout, received, index + 1);
                if let Some(slot) = self.store.slot(span)? {
                    slot.copy_from_slice(&body);
                }
                self.store.placed(span)?;
                self.expected = span.end();
                self.take_train(rest)?;
                return Ok(usize::MAX / received.segment_len);
            }
            self.expected = span.end();
            self.store.placed(span)?;
        }
        Ok(whole)
    }

    /// Opens datagram `index` where it landed and hands it over; answers where it belongs.
    fn open_landed(
        &mut self,
        index: usize,
        layout: Layout,
        expected: Span,
        now: Instant,
    ) -> Option<Span> {
        let landing = self.store.landing(expected)?;
        let start = index * layout.body_len;
        let body = &mut landing[start..start + layout.body_len];
        let (prefix, tag) = self.scatter.around(index, layout);
        let (connection, head) = prefix.split_at(CONNECTION_LEN);
        let counters = &self.lane.counters;
        if connection != self.lane.connection.to_be_bytes() {
            counters.foreign.fetch_add(1, Relaxed);
            return None;
        }
        if let Some(key) = &self.lane.open
            && !key.open_apart(unique(head), prefix, body, tag)
        {
            counters.forged.fetch_add(1, Relaxed);
            return None;
        }
        counters.received.fetch_add(1, Relaxed);
        let message = Message {
            via: Via::Datagram,
            head,
            len: layout.body_len as u32,
        };
        self.endpoint.handle_message(now, message)
    }

    fn take_train(&mut self, received: Received) -> Result<(), Error> {
        let now = self.lane.clock.now();
        let prefix_len = CONNECTION_LEN + self.lane.head_len;
        let tag_len = if self.lane.open.is_some() { TAG_LEN } else { 0 };
        let connection = self.lane.connection.to_be_bytes();
        let (mut genuine, mut foreign, mut forged) = (0, 0, 0);
        for datagram in self.reception[..received.len].chunks_mut(received.segment_len) {
            if datagram.len() < prefix_len + tag_len || datagram[..CONNECTION_LEN] != connection {
                foreign += 1;
                continue;
            }
            let (prefix, body) = datagram.split_at_mut(prefix_len);
            let head = &prefix[CONNECTION_LEN..];
            let body = match &self.lane.open {
                Some(key) => key.open(unique(head), prefix, body),
                None => Some(body),
            };
            let Some(body) = body else {
                forged += 1;
                continue;
            };
            genuine += 1;
            let message = Message {
                via: Via::Datagram,
                head,
                len: body.len() as u32,
            };
            if let Some(span) = self.endpoint.handle_message(now, message) {
                if let Some(slot) = self.store.slot(span)? {
                    slot.copy_from_slice(body);
                }
                self.store.placed(span)?;
            }
        }
        let counters = &self.lane.counters;
        counters.received.fetch_add(genuine, Relaxed);
        counters.foreign.fetch_add(foreign, Relaxed);
        counters.forged.fetch_add(forged, Relaxed);
        counters.buffer_drops.store(self.drops.into(), Relaxed);
        Ok(())
    }

    /// Sends what the machine wants sent; answers whether there was anything.
    fn transmit(&mut self, now: Instant) -> Result<bool, Error> {
        let mut any = false;
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            any = true;
            match transmit.via {
                Via::Datagram if self.lane.udp.is_some() => self.join_train(&transmit)?,
                Via::Datagram | Via::Stream(_) => {
                    self.flush()?;
                    self.send_frame(transmit)?;
                }
            }
        }
        self.flush()?;
        Ok(any)
    }

    fn join_train(&mut self, transmit: &Transmit) -> Result<(), Error> {
        let head_len = transmit.head.as_slice().len();
        let body_len = match &transmit.body {
            Body::None => 0,
            Body::Object(span) => span.len as usize,
            Body::Words(words) => words.len(),
        };
        let sealed = self.lane.seal.is_some();
        if !self.train.admits(head_len, body_len, sealed) {
            self.flush()?;
        }
        let body = match &transmit.body {
            Body::Object(span) => self.store.gather(*span)?,
            Body::None | Body::Words(_) => &mut [],
        };
        self.train.push(
            self.lane.connection,
            &transmit.head,
            body,
            self.lane.seal.as_ref(),
        );
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if let Some(udp) = &self.lane.udp {
            let sent = self
                .train
                .flush(udp)
                .map_err(|error: io::Error| Error::world("sending datagrams", error))?;
            self.lane.counters.sent.fetch_add(sent as u64, Relaxed);
        }
        self.store.sent();
        Ok(())
    }

    fn send_frame(&mut self, transmit: Transmit) -> Result<(), Error> {
        let mut octets = transmit.head.as_slice().to_vec();
        let head_len = octets.len();
        let datagram = transmit.via == Via::Datagram;
        let whole = match transmit.body {
            Body::None => true,
            Body::Words(words) => {
                octets.extend_from_slice(&words);
                true
            }
            Body::Object(span) => {
                octets.extend_from_slice(self.store.gather(span)?);
                self.store.sent();
                false
            }
        };
        let head_len = if whole { octets.len() } else { head_len };
        self.lane.stream.send(&Frame {
            datagram,
            head_len,
            octets,
        })
    }
}
