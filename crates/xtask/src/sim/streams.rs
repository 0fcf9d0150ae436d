//! Objects striped over streams in random simulations. Streams have different rates and delays.
//! Some break, which one or both sides notice.
//!
//! Checks: every byte arrives once, no packet uses a stream known as broken, and every transfer
//! ends, on the first stream if no other remains.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::{Body, Endpoint, Instant, Message, Rate, Rng, Transmit, Via};
use lighthaul_proto::stripe::{
    Config, PacketLayout, Receiver, ReceiverEvent, Sender, SenderEvent, Width,
};
use lighthaul_sim::Ledger;

use super::checks::in_trains;
use super::worlds::{Scene, log_uniform};

/// Runs an object over streams in a scene. Returns the packets sent, or the check that failed.
pub(super) fn run_stripe(scene: &Scene) -> Result<u64, String> {
    let mut rng = Rng::new(scene.seed);
    let lines = (0..rng.below(9)).map(|_| SimulatedStream::new(scene, &mut rng));
    let lines: Vec<SimulatedStream> = lines.collect();
    let most = lines.len() as u16;
    let config = Config {
        layout: PacketLayout {
            object_len: scene.object_len,
            packet_len: scene.packet_len,
        },
        rate: scene.rate,
        stream: FIRST,
        streams: most,
    };
    config.check().map_err(|why| why.to_string())?;
    let width = match rng.below(2) {
        0 => Width::fixed(most),
        _ => Width::measured(most, scene.world.stream_delay * 2),
    };
    let mut streams = Streams {
        now: Instant::ZERO,
        config,
        lines,
        coming: BTreeMap::new(),
        next: 0,
        sender: Sender::new(Instant::ZERO, config, width),
        receiver: Receiver::new(Instant::ZERO, config),
        ledger: Ledger::default(),
        given: (Instant::ZERO, 0),
        complete: (false, false),
    };
    streams.run()
}

/// Stream to the receiver.
struct SimulatedStream {
    rate: Rate,
    delay: Duration,
    /// Time at which the stream breaks. True if the sender notices it, false if only the receiver does.
    breaks: Option<(Instant, bool)>,
    /// Time at which all accepted packets have been sent.
    free: Instant,
    is_broken: bool,
}

impl SimulatedStream {
    fn new(scene: &Scene, rng: &mut Rng) -> Self {
        let rate = log_uniform(rng, 1_000_000, 2_000_000_000);
        let at = Instant::from_nanos(log_uniform(rng, 1_000_000, 20_000_000_000));
        Self {
            rate: Rate::from_bps(rate).unwrap_or(Rate::UNLIMITED),
            delay: scene.world.stream_delay + Duration::from_micros(rng.below(20_000)),
            breaks: (rng.below(3) == 0).then_some((at, rng.below(2) == 0)),
            free: Instant::ZERO,
            is_broken: false,
        }
    }

    /// Returns the time from which the stream accepts more.
    fn room_at(&self) -> Instant {
        self.free - self.rate.time_for(WINDOW)
    }
}

/// Both machines, with the streams between them.
struct Streams {
    now: Instant,
    config: Config,
    lines: Vec<SimulatedStream>,
    /// Packets in flight, by arrival time.
    coming: BTreeMap<(Instant, u64), Transmit>,
    next: u64,
    sender: Sender,
    receiver: Receiver,
    ledger: Ledger,
    /// Start of the present interval, and the bytes that were passed to streams in it.
    given: (Instant, u64),
    complete: (bool, bool),
}

impl Streams {
    fn run(&mut self) -> Result<u64, String> {
        for _ in 0..TURNS_MAX {
            self.break_off();
            self.sender.handle_timeout(self.now);
            self.drain()?;
            if self.complete == (true, true) {
                return Ok(self.sender.sent());
            }
            self.now = self.next_at().max(self.now + TICK);
            self.deliver()?;
        }
        Err(format!("the transfer had not ended at {}", self.now))
    }

    /// Returns the time of the next event.
    fn next_at(&self) -> Instant {
        let arrival = self.coming.keys().next().map(|(at, _)| *at);
        let whole = self.lines.iter().filter(|line| !line.is_broken);
        let lines = whole.flat_map(|line| {
            let breaks = line.breaks.map(|(at, _)| at);
            [Some(line.room_at()), breaks]
        });
        let timeout = self.sender.poll_timeout().map(|deadline| deadline.at);
        let all = lines.chain([arrival, timeout]).flatten();
        let next = all.filter(|at| *at > self.now).min();
        next.unwrap_or(self.now + TICK * 100)
    }

    fn break_off(&mut self) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            let Some((_, is_seen)) = line.breaks.filter(|(at, _)| *at <= self.now) else {
                continue;
            };
            if line.is_broken {
                continue;
            }
            line.is_broken = true;
            let stream = FIRST + 1 + index as u16;
            // Packets in flight are lost.
            self.coming
                .retain(|_, transmit| transmit.via != Via::Stream(stream));
            if is_seen {
                self.sender.handle_broken(self.now, stream);
            }
            self.receiver.handle_broken(self.now, stream);
        }
    }

    fn drain(&mut self) -> Result<(), String> {
        loop {
            self.sender.handle_room(self.now, FIRST);
            for (index, line) in self.lines.iter().enumerate() {
                if !line.is_broken && line.room_at() <= self.now {
                    self.sender.handle_room(self.now, FIRST + 1 + index as u16);
                }
            }
            let Some(transmit) = self.sender.poll_transmit(self.now) else {
                break;
            };
            self.give(transmit)?;
        }
        while let Some(transmit) = self.receiver.poll_transmit(self.now) {
            self.send(self.now + BACK, transmit);
        }
        while let Some(event) = self.receiver.poll_event() {
            self.complete.1 |= event == ReceiverEvent::Complete;
        }
        while let Some(event) = self.sender.poll_event() {
            self.complete.0 |= event == SenderEvent::Complete;
            if let SenderEvent::Failed(why) = event {
                return Err(format!("the sender rejected a message: {why}"));
            }
        }
        let whole = self.ledger.is_whole(self.config.layout.object_len);
        if (self.complete.0 || self.complete.1) && !whole {
            return Err("the machines reported completion, but some bytes are missing".into());
        }
        Ok(())
    }

    /// Passes a packet to its stream.
    fn give(&mut self, transmit: Transmit) -> Result<(), String> {
        let Via::Stream(stream) = transmit.via else {
            return Err("a datagram was sent".into());
        };
        let Body::Object(span) = transmit.body else {
            return Err("the sender sent a message without a packet".into());
        };
        self.count(span.len)?;
        if stream == FIRST {
            if self.lines.iter().any(|line| !line.is_broken) {
                return Err("the first stream carried a packet while others were intact".into());
            }
            self.send(self.now + BACK, transmit);
            return Ok(());
        }
        let line = &mut self.lines[usize::from(stream - FIRST - 1)];
        if line.is_broken {
            let knew = line.breaks.is_some_and(|(_, is_seen)| is_seen);
            return if knew {
                Err("a packet was sent on a stream known as broken".into())
            } else {
                Ok(())
            };
        }
        line.free = line.free.max(self.now) + line.rate.time_for(span.len.into());
        let at = line.free + line.delay;
        self.send(at, transmit);
        Ok(())
    }

    /// Counts the bytes that were passed to streams, and checks the rate.
    fn count(&mut self, len: u32) -> Result<(), String> {
        if self.now.since(self.given.0) > SPELL {
            self.given = (self.now, 0);
        }
        self.given.1 += u64::from(self.config.wire_bytes(len));
        if self.given.1 > in_trains(self.config.rate, SPELL) {
            return Err(format!("{} bytes left within {SPELL:?}", self.given.1));
        }
        Ok(())
    }

    fn send(&mut self, at: Instant, transmit: Transmit) {
        self.coming.insert((at, self.next), transmit);
        self.next += 1;
    }

    fn deliver(&mut self) -> Result<(), String> {
        while let Some(entry) = self.coming.first_entry()
            && entry.key().0 <= self.now
        {
            let transmit = entry.remove();
            let (via, head) = (transmit.via, transmit.head.as_slice());
            let Body::Object(span) = transmit.body else {
                let message = Message { via, head, len: 0 };
                self.sender.handle_message(self.now, message);
                continue;
            };
            let len = span.len;
            let message = Message { via, head, len };
            if let Some(place) = self.receiver.handle_message(self.now, message) {
                let placed = self.ledger.place(span, place);
                placed.map_err(|why| why.to_string())?;
            }
        }
        let ignored = self.sender.ignored() + self.receiver.ignored();
        if ignored > 0 {
            return Err(format!("{ignored} messages were invalid"));
        }
        Ok(())
    }
}

/// Number of the stream for the receiver's messages.
const FIRST: u16 = 2;
/// Delay of the first stream, in either direction.
const BACK: Duration = Duration::from_millis(1);
/// Bytes that a stream buffers.
const WINDOW: u64 = 64 << 10;
/// Smallest step of time.
const TICK: Duration = Duration::from_micros(10);
/// Interval over which the rate is checked.
const SPELL: Duration = Duration::from_millis(10);
/// Limit of steps, more than any transfer needs.
const TURNS_MAX: u64 = 4_000_000;
