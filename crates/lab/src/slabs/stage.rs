//! Gateways and a channel in virtual time.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_proto::slabs::config::{PAGE_PACKETS, PAGES_MAX, PAGES_MIN, SLAB_PAGES_MAX};
use lighthaul_proto::slabs::station::{Program, Station, StationEvent};
use lighthaul_proto::slabs::{Config, Link, SessionId};
use lighthaul_sim::{FlowConfig, LinkConfig, RouteConfig};

use super::plan::SlabPlan;

/// What a gateway of a point is made of.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// What both sides agree on.
    pub config: Config,
    /// Bytes that what leaves may take.
    pub buffer: u64,
    /// What the channel carries.
    pub rate: Rate,
    delay: Duration,
    queue_bytes_max: u64,
}

/// Who says what when, and how old it was when it came.
#[derive(Debug, Default)]
pub struct Diary {
    /// By the last octet of a session's name.
    programs: BTreeMap<u8, Program>,
    reached: BTreeMap<u8, u64>,
    /// Of each piece that came: when, whose, up to where, and how old its first byte was.
    pub pieces: Vec<Piece>,
}

/// Bytes of a session that came together.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// When they came.
    pub at: Instant,
    /// Whose they are.
    pub number: u8,
    /// How many.
    pub len: u64,
    /// When their program would have said the first.
    pub since: Instant,
    /// And when the last.
    pub till: Instant,
}

impl Stage {
    /// Gateways of a plan with slabs and a buffer of so many bytes.
    pub fn new(plan: &SlabPlan, slab: u64, buffer: u64) -> Self {
        let page = u64::from(plan.packet_len) * PAGE_PACKETS;
        let pages = |bytes: u64| u32::try_from(bytes / page).unwrap_or(u32::MAX);
        let config = Config {
            packet_len: plan.packet_len,
            overhead_len: OVERHEAD_LEN,
            stream: 2,
            burst: None,
            settle: Duration::from_millis(2),
            ack_every: Duration::from_millis(10),
            patience: Duration::from_hours(1),
            slab_pages: pages(slab).clamp(1, SLAB_PAGES_MAX),
            age: Duration::from_millis(1),
            pages_max: pages(buffer).clamp(PAGES_MIN, PAGES_MAX),
            window: u32::try_from(buffer.max(page)).unwrap_or(u32::MAX),
        };
        Self {
            config,
            buffer,
            rate: plan.rate,
            delay: plan.rtt / 2,
            queue_bytes_max: plan.queue_bytes_max,
        }
    }

    /// A gateway near these programs, `bulk` of which say much, on a channel that carries `trc`.
    pub fn ingress(&self, programs: Vec<Program>, bulk: u64, trc: Trc) -> Station {
        // a station gives each program the same part of its memory
        let memory = self.buffer / bulk * programs.len() as u64;
        let link = Link::new(Instant::ZERO, self.config, Some(trc));
        Station::new(link, programs, memory).in_pages()
    }

    /// The one near their targets.
    pub fn egress(&self) -> Station {
        let trc = Some(Trc::steady(self.rate));
        let link = Link::new(Instant::ZERO, self.config, trc);
        Station::new(link, Vec::new(), self.buffer)
    }

    /// The channel.
    pub fn channel(&self) -> LinkConfig {
        LinkConfig {
            rate: Some(self.rate),
            queue_bytes_max: self.queue_bytes_max,
            ..LinkConfig::default()
        }
    }

    /// The way of a gateway to another over the one channel that there is.
    pub fn way(&self) -> FlowConfig {
        FlowConfig {
            there: RouteConfig {
                access: self.delay,
                links: vec![0],
            },
            stream_delay: self.delay,
            overhead_len: OVERHEAD_LEN,
            ..FlowConfig::default()
        }
    }

    /// The one-way delay.
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// What the channel carries of programs' bytes.
    pub fn payload_rate(&self) -> Rate {
        let packet = self.config.packet_len;
        self.rate.scaled(packet, self.config.wire_bytes(packet))
    }
}

impl Diary {
    /// Nothing came yet of what these will say.
    pub fn new(programs: &[Program]) -> Self {
        Self {
            programs: programs
                .iter()
                .map(|program| (program.number, *program))
                .collect(),
            ..Self::default()
        }
    }

    /// Hears what an egress tells.
    pub fn hear(&mut self, at: Instant, told: &StationEvent) {
        match told {
            StationEvent::Reached(session, bytes) => self.note(at, *session, *bytes),
            StationEvent::Ended(session) => {
                let program = self.programs.get(&session.0[15]);
                let bytes = program.map_or(0, |program| program.bytes);
                self.note(at, *session, bytes);
            }
            // machines that cannot fail do not, on a channel that is only full
            StationEvent::Dark => panic!("datagrams do pass"),
            StationEvent::Failed(why) => panic!("{why}"),
            StationEvent::Wrong(session) => panic!("what came of {session} is not what was said"),
        }
    }

    fn note(&mut self, at: Instant, session: SessionId, bytes: u64) {
        let number = session.0[15];
        let before = self.reached.insert(number, bytes).unwrap_or(0);
        let Some(program) = self.programs.get(&number) else {
            return;
        };
        let said = |byte: u64| program.start + program.rate.time_for(byte);
        if bytes == before {
            return;
        }
        self.pieces.push(Piece {
            at,
            number,
            len: bytes - before,
            since: said(before),
            till: said(bytes),
        });
    }

    /// What came of one program, those pieces taken together that were not so far apart.
    pub fn pieces_apart(&self, apart: Duration) -> Vec<Piece> {
        let mut merged: Vec<Piece> = Vec::new();
        for piece in &self.pieces {
            match merged.last_mut() {
                Some(last) if piece.at.since(last.at) < apart => {
                    (last.at, last.till) = (piece.at, piece.till);
                    last.len += piece.len;
                }
                _ => merged.push(*piece),
            }
        }
        merged
    }

    /// Bytes of programs with numbers up to `last` that came between two moments.
    pub fn bytes(&self, last: u8, from: Instant, till: Instant) -> u64 {
        let within = |piece: &&Piece| piece.at >= from && piece.at < till && piece.number <= last;
        self.pieces
            .iter()
            .filter(within)
            .map(|piece| piece.len)
            .sum()
    }

    /// What came from the first arrival behind some moment to the last one.
    pub fn throughput(&self, from: Instant) -> Option<Rate> {
        let mut pieces = self.pieces.iter().filter(|piece| piece.at >= from);
        let (first, last) = (pieces.next()?, self.pieces.last()?);
        let time = last.at.since(first.at);
        (!time.is_zero()).then(|| Rate::of(pieces.map(|piece| piece.len).sum(), time))
    }

    /// How old the last byte of each program was when it came, in milliseconds and in the mean; nothing unless all came.
    pub fn last_ms(&self) -> Option<f64> {
        let mut all = Duration::ZERO;
        for program in self.programs.values() {
            let ours = |piece: &&Piece| piece.number == program.number;
            let last = self.pieces.iter().rev().find(ours)?;
            if self.reached.get(&program.number) != Some(&program.bytes) {
                return None;
            }
            all += last.at.since(last.till);
        }
        Some(all.as_secs_f64() * 1e3 / self.programs.len() as f64)
    }

    /// How old what came from some moment on was, in milliseconds, that so many of a hundred pieces did not exceed; of programs with
    /// these numbers.
    pub fn age_ms(
        &self,
        numbers: RangeInclusive<u8>,
        from: Instant,
        of_a_hundred: usize,
    ) -> Option<f64> {
        let ours = |piece: &&Piece| piece.at >= from && numbers.contains(&piece.number);
        let ours = self.pieces.iter().filter(ours);
        let mut ages: Vec<Duration> = ours.map(|piece| piece.at.since(piece.since)).collect();
        ages.sort();
        let nth = ages.len().saturating_sub(1) * of_a_hundred / 100;
        ages.get(nth).map(|age| age.as_secs_f64() * 1e3)
    }
}

/// IP, UDP, the connection's number and the seal.
const OVERHEAD_LEN: u32 = 52;
