//! Two gateways in random simulations.
//!
//! Checks: every session ends on both sides with all bytes in order; no side exceeds its channel's
//! rate or its memory; no session remains.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Rng, Trc};
use lighthaul_sim::{FlowEvent, LinkConfig, PathConfig, Simulation};
use lighthaul_slabs::{Config, Link, SessionId};
use lighthaul_workload::station::{Program, Station, StationEvent};

use super::checks::as_policed;
use super::checks::{STEP, TILL};
use super::worlds::{Scene, log_uniform};

/// Runs sessions between two gateways in a scene. Returns the datagrams sent, or the check that
/// failed.
pub(super) fn run_slabs(scene: &Scene) -> Result<u64, String> {
    let mut rng = Rng::new(scene.seed);
    let config = config(scene, &mut rng);
    config.check().map_err(|why| why.to_string())?;
    let rate = channel_rate(scene);
    let sessions = 1 + rng.below(6) as u8;
    let mut side = |first: u8| {
        let programs = (first..first + sessions).map(|number| program(scene, &mut rng, number));
        let link = Link::new(Instant::ZERO, config, Some(Trc::steady(rate)));
        Station::new(link, programs.collect(), MEMORY)
    };
    let path = path(scene);
    let mut world = Simulation::new(side(1), side(101), &path, scene.seed);
    let mut check = SessionCheck::default();
    let mut at = Instant::ZERO;
    while check.ended.len() < 2 * usize::from(sessions) || !is_done(&world) {
        at += STEP;
        if at > TILL {
            return Err(format!("the sessions had not ended at {at}"));
        }
        let offered = offered(&world);
        world.run(at, |_, heard| check.hear(heard));
        for (before, after) in offered.into_iter().zip(self::offered(&world)) {
            if after - before > as_policed(rate, STEP) {
                return Err(format!(
                    "{} bytes left within {STEP:?} at {at}",
                    after - before
                ));
            }
        }
        if let Some(wrong) = check.wrong.take() {
            return Err(format!("{wrong} at {at}"));
        }
        let packets = packets(&world);
        if packets > PACKETS_MAX {
            // A bad path with small packets: all checks passed so far, and the rest would take minutes.
            return Ok(packets);
        }
    }
    sum_up(&world, config)?;
    Ok(packets(&world))
}

/// Returns the datagrams that both sides have sent.
fn packets(world: &Simulation<Station, Station>) -> u64 {
    let links = [world.there(), world.back()];
    links
        .iter()
        .map(|link| link.counters().offered.packets)
        .sum()
}

fn config(scene: &Scene, rng: &mut Rng) -> Config {
    let packet_len = scene.packet_len.min(8000);
    Config {
        packet_len,
        overhead_len: scene.world.overhead_len,
        stream: 0,
        burst: None,
        settle: Duration::from_millis(2),
        ack_every: Duration::from_millis(1 + rng.below(50)),
        patience: Duration::from_hours(1),
        slab_pages: 1 + rng.below(200) as u32,
        age: Duration::from_micros(rng.below(20_000)),
        pages_max: 16 + rng.below(400) as u32,
        window: log_uniform(rng, 1 << 20, 64 << 20) as u32,
    }
}

/// Returns the rate of the channel, at most that of the line below.
fn channel_rate(scene: &Scene) -> Rate {
    scene
        .world
        .there
        .rate
        .map_or(scene.rate, |line| line.min(scene.rate))
}

/// Creates a program that sends a part of the scene's object.
fn program(scene: &Scene, rng: &mut Rng, number: u8) -> Program {
    let start = Instant::ZERO + Duration::from_micros(rng.below(2_000_000));
    let bytes = rng.below(1 + scene.object_len / 8);
    let rate = Rate::from_bps(log_uniform(rng, 1_000_000, 2_000_000_000));
    Program::new(number, start, bytes, rate.unwrap_or(Rate::UNLIMITED))
}

/// Returns the scene's line in both directions.
fn path(scene: &Scene) -> PathConfig {
    let back = LinkConfig {
        ..scene.world.there
    };
    PathConfig {
        back,
        ..scene.world
    }
}

fn is_done(world: &Simulation<Station, Station>) -> bool {
    world.left().is_done() && world.right().is_done()
}

fn offered(world: &Simulation<Station, Station>) -> [u64; 2] {
    [world.there(), world.back()].map(|link| link.counters().offered.bytes)
}

/// Sessions that have ended, and the first fault.
#[derive(Default)]
struct SessionCheck {
    ended: BTreeSet<SessionId>,
    wrong: Option<String>,
}

impl SessionCheck {
    fn hear(&mut self, heard: FlowEvent<StationEvent, StationEvent>) {
        let (FlowEvent::Left(told) | FlowEvent::Right(told)) = heard;
        let wrong = match told {
            StationEvent::Ended(session) if !self.ended.insert(session) => {
                format!("{session} ended twice")
            }
            StationEvent::Reached(session, _) if self.ended.contains(&session) => {
                format!("{session} delivered bytes after its end")
            }
            StationEvent::Failed(why) => why.to_string(),
            StationEvent::Wrong(session) => format!("session {session} delivered wrong bytes"),
            // A bad path may cause this for a while.
            StationEvent::Ended(_) | StationEvent::Reached(..) | StationEvent::DatagramsLost => {
                return;
            }
        };
        self.wrong.get_or_insert(wrong);
    }
}

/// Checks the state after the end of all sessions.
fn sum_up(world: &Simulation<Station, Station>, config: Config) -> Result<(), String> {
    let memory = u64::from(config.pages_max) * u64::from(config.page_len());
    for station in [world.left(), world.right()] {
        if station.link.sessions() > 0 {
            return Err(format!("{} sessions remain", station.link.sessions()));
        }
        if station.held_max() > memory {
            let held = station.held_max();
            return Err(format!("{held} bytes were held, with memory for {memory}"));
        }
    }
    Ok(())
}

/// Memory in bytes for the waiting data of one side's programs.
const MEMORY: u64 = 64 << 20;
/// Number of datagrams after which a simulation ends early.
const PACKETS_MAX: u64 = 1_000_000;
