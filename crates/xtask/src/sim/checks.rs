//! Checks that must hold in every simulation.

use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Load, Rate, Rng};
use lighthaul_parts::TRAIN_BYTES_MAX;
use lighthaul_sim::{FlowEvent, Simulation};

use super::worlds::Scene;

/// Checks of the machines of one protocol.
pub(super) struct MachineChecks<L: Endpoint, R: Endpoint> {
    /// Reports whether an event means that the transfer is complete.
    pub(super) is_complete: fn(&FlowEvent<L::Event, R::Event>) -> bool,
    /// Returns the limit of bytes that may leave at a rate in a time.
    pub(super) most: fn(Rate, Duration) -> u64,
    /// Returns the fault of the machines, if any.
    pub(super) wrong: fn(&L, &R) -> Option<String>,
}

/// Runs machines in a scene. After a crash, runs new ones for the missing bytes. Returns the
/// datagrams sent, or the check that failed.
pub(super) fn check<L: Endpoint, R: Endpoint>(
    scene: &Scene,
    make: impl Fn(&Scene) -> (L, R),
    checks: &MachineChecks<L, R>,
) -> Result<u64, String> {
    let first = run_machines(scene, make(scene), checks)?;
    if first.bytes == scene.object_len {
        return Ok(first.packets);
    }
    let rest = Scene {
        object_len: scene.object_len - first.bytes,
        crash_at: None,
        seed: scene.seed.wrapping_add(1),
        ..*scene
    };
    let second = run_machines(&rest, make(&rest), checks)?;
    Ok(first.packets + second.packets)
}

/// Result of machines until their end or crash.
struct RunResult {
    packets: u64,
    bytes: u64,
}

/// Runs machines until their end or crash.
fn run_machines<L: Endpoint, R: Endpoint>(
    scene: &Scene,
    (left, right): (L, R),
    checks: &MachineChecks<L, R>,
) -> Result<RunResult, String> {
    let mut world = Simulation::new(left, right, &scene.world, scene.seed).with_ledger();
    let mut rng = Rng::new(scene.seed);
    let (mut complete, mut stalled) = (0, false);
    let mut at = Instant::ZERO;
    while complete < 2 && scene.crash_at.is_none_or(|crash| at < crash) {
        at += STEP;
        if at > TILL {
            return Err(format!("the transfer had not ended at {at}"));
        }
        let offered = world.there().counters().offered.bytes;
        let hear = |_: Instant, heard| complete += u8::from((checks.is_complete)(&heard));
        world.run(at, hear);
        let sent = world.there().counters().offered.bytes - offered;
        if sent > (checks.most)(scene.rate, STEP) {
            return Err(format!("{sent} bytes left within {STEP:?} at {at}"));
        }
        if let Some(wrong) = (checks.wrong)(world.left(), world.right()) {
            return Err(format!("{wrong} at {at}"));
        }
        if stalled || rng.below(1000) < scene.stalls {
            stalled = !stalled && complete == 0;
            let load = Load {
                backlog_bytes: u64::from(stalled),
                backlog_bytes_max: 1,
                ..Load::default()
            };
            let hear = |_: Instant, heard| complete += u8::from((checks.is_complete)(&heard));
            let now = world.now().max(at);
            world.handle_load(now, load, hear);
        }
    }
    let ledger = world.ledger().ok_or("the simulation kept no ledger")?;
    if complete > 0 && !ledger.is_whole(scene.object_len) {
        return Err("the machines reported completion, but some bytes are missing".into());
    }
    Ok(RunResult {
        packets: world.there().counters().offered.packets,
        bytes: ledger.bytes(),
    })
}

/// Returns the limit of bytes for a sender in trains, which may catch up at 1.05 of its rate.
pub(super) fn in_trains(rate: Rate, time: Duration) -> u64 {
    rate.bytes_in(time) * 21 / 20 + TRAIN_BYTES_MAX + 1
}

/// Returns the limit of bytes for a circuit's policer: the rate, and a burst of a millisecond or
/// two datagrams.
pub(super) fn as_policed(rate: Rate, time: Duration) -> u64 {
    let burst = rate.bytes_in(Duration::from_millis(1));
    rate.bytes_in(time) + burst.max(2 * DATAGRAM_BYTES_MAX) + 1
}

/// Interval between checks.
pub(super) const STEP: Duration = Duration::from_millis(10);
/// Time limit of a transfer, longer than any needs.
pub(super) const TILL: Instant = Instant::from_nanos(200_000_000_000_000);
/// Length above that of any scene's datagrams, headers included.
const DATAGRAM_BYTES_MAX: u64 = 9000;
