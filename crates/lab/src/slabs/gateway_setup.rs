//! Gateways and their channel in virtual time: the common parts of all simulations of slabs.
//!
//! [`GatewaySetup`] makes both gateways of a point from its plan, and [`ArrivalLog`] records what
//! arrives and how old it is. The age of a byte counts from the time at which its program wanted to
//! send it. So it includes the wait for the buffer.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_sim::{FlowConfig, LinkConfig, RouteConfig};
use lighthaul_slabs::config::{PAGE_PACKETS, PAGES_MAX, PAGES_MIN, SLAB_PAGES_MAX};
use lighthaul_slabs::{Config, Link, SessionId};
use lighthaul_workload::station::{Program, Station, StationEvent};

use super::plan::SlabPlan;

/// Configuration of the gateways of a point.
#[derive(Clone, Copy, Debug)]
pub struct GatewaySetup {
    /// Configuration of both sides of the link.
    pub config: Config,
    /// Size of the ingress gateway's buffer, in bytes.
    pub buffer: u64,
    /// Rate of the channel.
    pub rate: Rate,
    delay: Duration,
    queue_bytes_max: u64,
}

/// Record of the bytes that arrive, with their ages.
#[derive(Debug, Default)]
pub struct ArrivalLog {
    /// Programs, keyed by the last octet of their sessions' names.
    programs: BTreeMap<u8, Program>,
    reached: BTreeMap<u8, u64>,
    /// Arrivals that arrived, in order.
    pub arrivals: Vec<Arrival>,
}

/// Bytes of a session that arrived together.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Arrival time.
    pub at: Instant,
    /// Number of the program.
    pub number: u8,
    /// Number of bytes.
    pub len: u64,
    /// Time at which the program would have sent the first byte.
    pub since: Instant,
    /// Time at which the program would have sent the last byte.
    pub till: Instant,
}

impl GatewaySetup {
    /// Creates the configuration of a plan with the given sizes of slabs and buffer, in bytes.
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

    /// Creates the gateway near the programs, on a channel that follows `trc`. The buffer is
    /// divided among `bulk` programs.
    pub fn ingress(&self, programs: Vec<Program>, bulk: u64, trc: Trc) -> Station {
        // A station gives each program an equal part of its memory.
        let memory = self.buffer / bulk * programs.len() as u64;
        let link = Link::new(Instant::ZERO, self.config, Some(trc));
        Station::new(link, programs, memory).in_pages()
    }

    /// Creates the gateway near the targets.
    pub fn egress(&self) -> Station {
        let trc = Some(Trc::steady(self.rate));
        let link = Link::new(Instant::ZERO, self.config, trc);
        Station::new(link, Vec::new(), self.buffer)
    }

    /// Returns the configuration of the channel.
    pub fn channel(&self) -> LinkConfig {
        LinkConfig {
            rate: Some(self.rate),
            queue_bytes_max: self.queue_bytes_max,
            ..LinkConfig::default()
        }
    }

    /// Returns the configuration of a flow between two gateways over the channel.
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

    /// Returns the one-way delay.
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns the rate at which the channel carries the programs' bytes.
    pub fn payload_rate(&self) -> Rate {
        let packet = self.config.packet_len;
        self.rate.scaled(packet, self.config.wire_bytes(packet))
    }
}

impl ArrivalLog {
    /// Creates an empty record for `programs`.
    pub fn new(programs: &[Program]) -> Self {
        Self {
            programs: programs
                .iter()
                .map(|program| (program.number, *program))
                .collect(),
            ..Self::default()
        }
    }

    /// Records an event of the egress gateway. Panics on an error, which cannot occur on this
    /// channel.
    pub fn hear(&mut self, at: Instant, told: &StationEvent) {
        match told {
            StationEvent::Reached(session, bytes) => self.note(at, *session, *bytes),
            StationEvent::Ended(session) => {
                let program = self.programs.get(&session.0[15]);
                let bytes = program.map_or(0, |program| program.bytes);
                self.note(at, *session, bytes);
            }
            // A channel that only has a full queue causes no errors.
            StationEvent::DatagramsLost => panic!("datagrams do pass"),
            StationEvent::Failed(why) => panic!("{why}"),
            StationEvent::Wrong(session) => panic!("session {session} delivered wrong bytes"),
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
        self.arrivals.push(Arrival {
            at,
            number,
            len: bytes - before,
            since: said(before),
            till: said(bytes),
        });
    }

    /// Joins arrivals that are less than `apart` after the previous arrival. The record must have one program.
    pub fn joined_arrivals(&self, apart: Duration) -> Vec<Arrival> {
        let mut merged: Vec<Arrival> = Vec::new();
        for arrival in &self.arrivals {
            match merged.last_mut() {
                Some(last) if arrival.at.since(last.at) < apart => {
                    (last.at, last.till) = (arrival.at, arrival.till);
                    last.len += arrival.len;
                }
                _ => merged.push(*arrival),
            }
        }
        merged
    }

    /// Returns the bytes of programs with numbers up to `last` that arrived from `from` to `till`.
    pub fn bytes(&self, last: u8, from: Instant, till: Instant) -> u64 {
        let within =
            |arrival: &&Arrival| arrival.at >= from && arrival.at < till && arrival.number <= last;
        self.arrivals
            .iter()
            .filter(within)
            .map(|arrival| arrival.len)
            .sum()
    }

    /// Returns the throughput from the first arrival after `from` to the last arrival.
    pub fn throughput(&self, from: Instant) -> Option<Rate> {
        let mut arrivals = self.arrivals.iter().filter(|arrival| arrival.at >= from);
        let (first, last) = (arrivals.next()?, self.arrivals.last()?);
        let time = last.at.since(first.at);
        (!time.is_zero()).then(|| Rate::of(arrivals.map(|arrival| arrival.len).sum(), time))
    }

    /// Returns the mean age of the programs' last bytes at arrival, in milliseconds. Returns `None`
    /// unless all bytes arrived.
    pub fn last_ms(&self) -> Option<f64> {
        let mut all = Duration::ZERO;
        for program in self.programs.values() {
            let ours = |arrival: &&Arrival| arrival.number == program.number;
            let last = self.arrivals.iter().rev().find(ours)?;
            if self.reached.get(&program.number) != Some(&program.bytes) {
                return None;
            }
            all += last.at.since(last.till);
        }
        Some(all.as_secs_f64() * 1e3 / self.programs.len() as f64)
    }

    /// Returns a percentile of the ages, in milliseconds, of arrivals since `from` at the programs with the given
    /// numbers.
    pub fn age_ms(
        &self,
        numbers: RangeInclusive<u8>,
        from: Instant,
        of_a_hundred: usize,
    ) -> Option<f64> {
        let ours = |arrival: &&Arrival| arrival.at >= from && numbers.contains(&arrival.number);
        let ours = self.arrivals.iter().filter(ours);
        let mut ages: Vec<Duration> = ours
            .map(|arrival| arrival.at.since(arrival.since))
            .collect();
        ages.sort();
        let nth = ages.len().saturating_sub(1) * of_a_hundred / 100;
        ages.get(nth).map(|age| age.as_secs_f64() * 1e3)
    }
}

/// Length of IP, UDP, the connection number and the authentication tag, in bytes.
const OVERHEAD_LEN: u32 = 52;
