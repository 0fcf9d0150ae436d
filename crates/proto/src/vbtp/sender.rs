//! The side that follows the vector.

use core::ops::Range;
use core::time::Duration;

use lighthaul_base::{
    Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Trc, Via,
};

use super::wire::{self, Control, Packet, Report, Sent, TURNS_MAX};
use super::{Config, PeerMisbehaved};
use crate::parts::{Events, LossList, Profile, Turns};

/// Sends an object over a circuit as its vector has it, again what is said to be missing, and the tail on the stream.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    profile: Profile,
    state: State,
    packets: u64,
    /// No packet from this one on was sent yet.
    next: u64,
    /// All below came.
    below: u64,
    /// What is to be sent again, and whether more than the list has room for is.
    lost: LossList,
    overflowed: bool,
    turns: Turns,
    /// Turns of a last few resends that leave for the second time, and the first that was not looked at for that.
    copies: Range<u64>,
    copied: u64,
    /// How many questions left, what about the last of them was, and how many were answered.
    asked: u32,
    about: Option<Sent>,
    answered: u32,
    held: bool,
    datagrams: u64,
    pieces: u64,
    ignored: u64,
    events: Events<SenderEvent, EVENTS_MAX>,
}

/// What the owner of a [`Sender`] gets to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// There is nothing to send at present; the receiver was asked what is missing.
    Asked,
    /// The circuit is not used any more: somebody else may have it.
    Released {
        /// How long before its end.
        unused: Duration,
    },
    /// The receiver has everything.
    Complete,
    /// The receiver said what cannot be; nothing more is sent.
    Failed(PeerMisbehaved),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Circuit,
    /// The circuit is released: all goes on the stream.
    Tail,
    Over,
}

/// What leaves next.
#[derive(Clone, Copy, Debug)]
enum Next {
    New,
    Again(u64),
    Copy { turn: u64, number: u64 },
}

impl Sender {
    /// A sender that begins wherever `now` is in the vector, whose moments are those of the same clock; the config must
    /// pass [`Config::check`].
    pub fn new(now: Instant, config: Config, trc: Trc, _seed: u64) -> Self {
        assert_eq!(
            config.check(),
            Ok(()),
            "a config is checked before it is used"
        );
        let datagram_bytes = config.wire_bytes(config.packet_len);
        let mut sender = Self {
            config,
            profile: Profile::new(now, trc, config.burst, config.share, datagram_bytes),
            state: State::Circuit,
            packets: config.packets(),
            next: 0,
            below: 0,
            lost: LossList::new(config.losses_max as usize),
            overflowed: false,
            turns: Turns::new(config.window as usize),
            copies: 0..0,
            copied: 0,
            asked: 0,
            about: None,
            answered: 0,
            held: false,
            datagrams: 0,
            pieces: 0,
            ignored: 0,
            events: Events::default(),
        };
        sender.look(now);
        sender
    }

    /// Datagrams sent on the circuit.
    pub const fn sent(&self) -> u64 {
        self.datagrams
    }

    /// Packets sent more than once, counted each time but the first.
    pub const fn resent(&self) -> u64 {
        self.datagrams + self.pieces - self.next
    }

    /// Packets sent on the stream.
    pub const fn tail(&self) -> u64 {
        self.pieces
    }

    /// Questions asked.
    pub const fn questions(&self) -> u32 {
        self.asked
    }

    /// Packets not yet known to have come: those ahead of all that did, whether they came or not.
    pub const fn missing(&self) -> u64 {
        self.packets - self.below
    }

    /// Packets of the object.
    pub const fn total(&self) -> u64 {
        self.packets
    }

    /// What the circuit carried when it was last looked at; nothing in a gap, and behind the vector.
    pub const fn rate(&self) -> Option<Rate> {
        self.profile.rate()
    }

    /// Whether the circuit is in use.
    pub fn is_on_circuit(&self) -> bool {
        self.state == State::Circuit
    }

    /// Whether the receiver has asked for a pause.
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// Messages that made no sense.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Leaves the circuit if it is over, or if the last packets would wait long for it.
    fn look(&mut self, now: Instant) {
        if self.state != State::Circuit {
            return;
        }
        let is_waiting = self.next == self.packets && !self.lost.is_empty();
        if now >= self.profile.end()
            || (is_waiting && self.profile.is_idle(now, self.config.rtt * 2))
        {
            self.release(now);
        }
    }

    fn release(&mut self, now: Instant) {
        self.state = State::Tail;
        self.copies = 0..0;
        let unused = self.profile.end().since(now);
        self.events.tell(SenderEvent::Released { unused });
    }

    /// What should leave next, if anything.
    fn next(&self) -> Option<Next> {
        if self.held {
            return None;
        }
        if !self.lost.is_empty() && self.turns.has_room() {
            return self.lost.first().map(Next::Again);
        }
        if self.next < self.packets && self.next - self.below < u64::from(self.config.window) {
            return Some(Next::New);
        }
        let copy = |turn| {
            let number = self.turns.number(turn)?;
            Some(Next::Copy { turn, number })
        };
        let mut copies = self.copies.clone().filter_map(copy);
        copies.next().filter(|_| self.turns.has_room())
    }

    /// The next datagram, if it may leave now.
    fn datagram(&mut self, now: Instant, next: Next) -> Option<Transmit> {
        if self.turns.count() + 1 >= TURNS_MAX {
            // no two resends may have the same turn
            self.release(now);
            return Some(self.piece(next));
        }
        let number = match next {
            Next::New => self.next,
            Next::Again(number) | Next::Copy { number, .. } => number,
        };
        let span = self.config.cut().span(number);
        if !self.profile.may_send(now, self.config.wire_bytes(span.len)) {
            return None;
        }
        let (again, turn) = match next {
            Next::New => {
                self.next += 1;
                (false, self.turns.count())
            }
            Next::Again(_) => {
                self.lost.remove(number);
                (true, self.turns.push(number))
            }
            Next::Copy { turn, .. } => {
                self.copies.start = turn + 1;
                let turn = self.turns.push(number);
                self.copied = turn + 1;
                (true, turn)
            }
        };
        self.datagrams += 1;
        let packet = Packet {
            again,
            turn,
            number,
        };
        Some(Transmit {
            via: Via::Datagram,
            head: Head::new(&packet.encode()),
            body: Body::Object(span),
        })
    }

    /// The next packet of the tail.
    fn piece(&mut self, next: Next) -> Transmit {
        let number = match next {
            Next::New => {
                self.next += 1;
                self.next - 1
            }
            Next::Again(number) | Next::Copy { number, .. } => {
                self.lost.remove(number);
                // it counts as a turn, so that an answer to an earlier question does not bring it again
                self.turns.push(number);
                number
            }
        };
        self.pieces += 1;
        wire::piece(self.config.stream, number, self.config.cut().span(number))
    }

    /// Lets the last resends leave twice, if they are few and all else has left; answers whether there are such.
    fn repeat(&mut self) -> bool {
        let turns = self.copied..self.turns.count();
        if self.state != State::Circuit || self.next < self.packets || turns.is_empty() {
            return false;
        }
        self.copied = turns.end;
        let bytes =
            u64::from(self.config.wire_bytes(self.config.packet_len)) * (turns.end - turns.start);
        let time = self.profile.time_for(bytes);
        if time.is_some_and(|time| time < self.config.repeat) {
            self.copies = turns;
        }
        !self.copies.is_empty()
    }

    /// Asks what is missing, unless it has just been asked; nothing else can be sent.
    fn ask(&mut self, now: Instant) -> Option<Transmit> {
        let sent = self.sent_in_all();
        let news = self.overflowed || self.about != Some(sent);
        if self.held || self.asked != self.answered || !news {
            return None;
        }
        self.overflowed = false;
        self.asked = self.asked.wrapping_add(1);
        self.about = Some(sent);
        self.events.tell(SenderEvent::Asked);
        let all = self.next == self.packets;
        let answer = now + self.config.rtt;
        if self.state == State::Circuit && all && self.profile.is_idle(answer, self.config.rtt) {
            self.release(now);
        }
        Some(wire::question(self.config.stream, sent))
    }

    fn sent_in_all(&self) -> Sent {
        Sent {
            packets: self.next,
            turns: self.turns.count(),
        }
    }

    fn handle_control(&mut self, now: Instant, head: &[u8]) {
        match Control::decode(head) {
            Ok(Control::Report(_) | Control::Hold { .. }) if self.state == State::Over => {}
            Ok(Control::Report(report)) => match self.check(&report) {
                Ok(()) => self.handle_report(now, &report),
                Err(why) => self.end(now, SenderEvent::Failed(why)),
            },
            Ok(Control::Hold { on }) => self.held = on,
            Ok(Control::Question(_) | Control::Piece { .. }) | Err(_) => self.ignored += 1,
        }
    }

    /// Whether a report is one that an honest receiver could have made.
    fn check(&self, report: &Report<'_>) -> Result<(), PeerMisbehaved> {
        let sent = self.sent_in_all();
        let packets = report.below.max(report.packets.end());
        let turns = report.turns.max(report.lost_turns.end());
        if packets > sent.packets {
            Err(PeerMisbehaved::UnsentPacket(packets))
        } else if turns > sent.turns {
            Err(PeerMisbehaved::UnsentTurn(turns))
        } else if report.below < self.below {
            Err(PeerMisbehaved::Shrank(report.below))
        } else if report.answered != self.answered && report.answered != self.asked {
            Err(PeerMisbehaved::Unasked(report.answered))
        } else {
            Ok(())
        }
    }

    fn handle_report(&mut self, now: Instant, report: &Report<'_>) {
        self.below = report.below;
        for range in report.packets.iter() {
            self.overflowed |= self.lost.insert(range).is_none();
        }
        if report.answered == self.answered {
            for range in report.lost_turns.iter() {
                for number in self.turns.lose(range) {
                    self.overflowed |= self.lost.insert(number..number + 1).is_none();
                }
            }
        } else if let Some(about) = self.about {
            self.answered = report.answered;
            // what left after the question is not in the answer
            for number in self.turns.since(about.turns) {
                self.lost.remove(number);
            }
            self.turns.forget_below(about.turns);
        }
        self.turns.forget_below(report.turns);
        self.lost.remove_below(self.below);
        if self.below == self.packets {
            self.end(now, SenderEvent::Complete);
        }
    }

    fn end(&mut self, now: Instant, how: SenderEvent) {
        if self.state == State::Circuit {
            self.release(now);
        }
        self.state = State::Over;
        self.events.tell(how);
    }
}

impl Endpoint for Sender {
    type Event = SenderEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        if message.via == Via::Stream(self.config.stream) && message.len == 0 {
            self.handle_control(now, message.head);
        } else {
            self.ignored += 1;
        }
        self.look(now);
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.look(now);
    }

    /// Rates are the vector's, so that only one means something here: no limit is what a world says that
    /// carries datagrams on the stream, as there is no circuit.
    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        if rate == Rate::UNLIMITED && self.state == State::Circuit {
            self.release(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let next = match self.next() {
            None if self.state != State::Over && self.repeat() => self.next(),
            next => next,
        };
        match (self.state, next) {
            (State::Over, _) => None,
            (State::Circuit, Some(next)) => self.datagram(now, next),
            (State::Tail, Some(next)) => Some(self.piece(next)),
            (State::Circuit | State::Tail, None) => self.ask(now),
        }
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.poll()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.state != State::Circuit {
            return None;
        }
        let end = self.profile.end();
        Some(match self.next() {
            Some(_) => Deadline {
                at: self.profile.due().min(end),
                why: "pace",
            },
            None => Deadline {
                at: end,
                why: "release",
            },
        })
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        let start = offset.max(self.next * u64::from(self.config.packet_len));
        let len = self
            .config
            .object_len
            .checked_sub(start)?
            .min(u64::from(len));
        (len > 0 && self.state != State::Over).then(|| Span::new(start, len as u32))
    }
}

/// No call tells more: a question and the release that comes with it, behind those of the call before, and the end.
const EVENTS_MAX: usize = 6;
