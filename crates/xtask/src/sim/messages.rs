//! Message streams with repair symbols in random simulations.
//!
//! Checks: no message arrives twice, too early or after the end; late ones are dropped or marked;
//! every stream ends.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::{Instant, Rng};
use lighthaul_proto::fec::receiver::DeliveredMessage;
use lighthaul_proto::fec::{Code, Config, Late, Receiver, ReceiverEvent, SenderEvent};
use lighthaul_sim::{FlowEvent, Simulation};
use lighthaul_workload::feed::Feed;

use super::checks::in_trains;
use super::checks::{STEP, TILL};
use super::worlds::{Scene, log_uniform};

/// Runs a message stream in a scene. Returns the datagrams sent, or the check that failed.
pub(super) fn run_fec(scene: &Scene) -> Result<u64, String> {
    let mut rng = Rng::new(scene.seed);
    let config = config(scene, &mut rng);
    config.check().map_err(|why| why.to_string())?;
    let every = Duration::from_micros(log_uniform(&mut rng, 1, 20_000));
    let messages = 1 + rng.below(5000);
    let feed = Feed::new(config, every, messages, 1..=config.message_len);
    let receiver = Receiver::new(Instant::ZERO, config, scene.seed);
    let mut world = Simulation::new(feed, receiver, &scene.world, scene.seed);
    let mut check = EventCheck::new(config, scene.world.there.delay);
    let mut at = Instant::ZERO;
    while !(check.is_sent && check.is_over) {
        at += STEP;
        if at > TILL {
            return Err(format!("the stream had not ended at {at}"));
        }
        let offered = world.there().counters().offered.bytes;
        world.run(at, |now, heard| check.hear(now, &heard));
        let sent = world.there().counters().offered.bytes - offered;
        if sent > in_trains(config.rate, STEP) {
            return Err(format!("{sent} bytes left within {STEP:?} at {at}"));
        }
        if let Some(wrong) = check.wrong.take() {
            return Err(format!("{wrong} at {at}"));
        }
    }
    check.sum_up(&world, messages)?;
    Ok(world.there().counters().offered.packets)
}

/// Returns a random configuration, with a ring that fits the blocks in flight.
fn config(scene: &Scene, rng: &mut Rng) -> Config {
    let sources = 1 + rng.below(20) as u8;
    let code = match rng.below(3) {
        0 => Code::None,
        1 => Code::Xor(sources.min(4)),
        _ => Code::ReedSolomon(sources, 1 + rng.below(8) as u8),
    };
    let deadline = Duration::from_micros(log_uniform(rng, 100, 1_000_000));
    Config {
        message_len: scene.packet_len.min(2000),
        code,
        blocks: 2 + rng.below(1000) as u16,
        linger: Duration::from_micros(rng.below(20_000)),
        deadline: (rng.below(2) == 0).then_some(deadline),
        late: if rng.below(2) == 0 {
            Late::Drop
        } else {
            Late::Deliver
        },
        overhead_len: scene.world.overhead_len,
        rate: scene.rate,
        stream: 0,
        settle: Duration::from_millis(rng.below(200)),
        ahead_nanos: 0,
    }
}

/// Events of the run, and the first fault in them.
struct EventCheck {
    config: Config,
    delay: Duration,
    seen: BTreeSet<(u64, u8)>,
    is_sent: bool,
    is_over: bool,
    wrong: Option<String>,
}

impl EventCheck {
    const fn new(config: Config, delay: Duration) -> Self {
        Self {
            config,
            delay,
            seen: BTreeSet::new(),
            is_sent: false,
            is_over: false,
            wrong: None,
        }
    }

    fn hear(&mut self, now: Instant, heard: &FlowEvent<SenderEvent, ReceiverEvent>) {
        let wrong = match heard {
            FlowEvent::Left(SenderEvent::Complete) if self.is_sent => {
                Some("the sender completed twice".into())
            }
            FlowEvent::Left(SenderEvent::Complete) => {
                self.is_sent = true;
                None
            }
            FlowEvent::Right(ReceiverEvent::Complete) if self.is_over => {
                Some("the receiver completed twice".into())
            }
            FlowEvent::Right(ReceiverEvent::Complete) => {
                self.is_over = true;
                None
            }
            FlowEvent::Right(ReceiverEvent::Message(arrived)) => self.judge(now, arrived),
            FlowEvent::Left(SenderEvent::Room) | FlowEvent::Right(ReceiverEvent::Repair(_)) => None,
        };
        self.wrong = self.wrong.take().or(wrong);
    }

    /// Returns the fault of a message, if any.
    fn judge(&mut self, now: Instant, arrived: &DeliveredMessage) -> Option<String> {
        let age = now.since(arrived.since);
        let is_late = self.config.deadline.is_some_and(|most| age > most);
        let why = if !self.seen.insert((arrived.block, arrived.symbol)) {
            "arrived twice"
        } else if self.is_over {
            "arrived after the end"
        } else if age + STAMP < self.delay {
            "arrived faster than the path allows"
        } else if arrived.late != is_late {
            "has a wrong mark of lateness"
        } else if is_late && self.config.late == Late::Drop {
            "was late and not dropped"
        } else if arrived.repaired && self.config.code == Code::None {
            "was repaired without a code"
        } else {
            return None;
        };
        Some(format!("{arrived:?}, {age:?} old, {why}"))
    }

    /// Checks the counters of both sides.
    fn sum_up(&self, world: &Simulation<Feed, Receiver>, messages: u64) -> Result<(), String> {
        let (sender, receiver) = (world.left().sender(), world.right());
        let counts = receiver.counts();
        let sent = sender.offered() - sender.dropped();
        let delivered = self.seen.len() as u64;
        let dropped = if self.config.late == Late::Drop {
            counts.late
        } else {
            0
        };
        let holds = [
            (sender.offered() == messages, "all messages were offered"),
            (
                counts.received <= sent,
                "no more messages arrived than were sent",
            ),
            (
                counts.received == delivered + dropped,
                "all arrived messages were reported",
            ),
            (
                counts.ignored + sender.ignored() == 0,
                "all messages were valid",
            ),
            (
                receiver.end().is_some_and(|end| end.sent == sent),
                "the end reports the number sent",
            ),
        ];
        let broken = holds.iter().find(|(holds, _)| !holds);
        broken.map_or(Ok(()), |(_, what)| {
            Err(format!("violated: {what}: {counts:?}, {sent} sent"))
        })
    }
}

/// Precision of a timestamp.
const STAMP: Duration = Duration::from_micros(1);
