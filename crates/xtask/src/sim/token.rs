//! Gateways that share one channel in turns, in random simulations with lost messages and failing
//! elements.
//!
//! Checks: no two send at once for longer than the guard time, and one sends again soon after a
//! failure.

use std::time::Duration;

use lighthaul_base::Rng;

use super::worlds::Scene;
use lighthaul_workload::cluster::{Cluster, Faults};

/// Runs a cluster in a scene, in which elements fail, return, and change their demand. Returns the
/// messages sent, or the check that failed.
pub(super) fn run_token(scene: &Scene) -> Result<u64, String> {
    let mut rng = Rng::new(scene.seed);
    let count = 2 + rng.below(7) as u8;
    let faults = Faults {
        lost: rng.below(80),
        late: rng.below(40),
        doubled: rng.below(100),
    };
    let mut cluster = Cluster::new(count, faults, scene.seed);
    cluster.run(Duration::from_millis(400));
    for _ in 0..=rng.below(16) {
        let failures = befall(&mut cluster, &mut rng, count);
        cluster.run(Duration::from_millis(1 + rng.below(700)));
        // With lost messages, one failure may count as several.
        let bound = cluster.bound() * (failures + 2);
        let (empty, shared) = (cluster.watch.empty_max, cluster.watch.shared_max);
        if empty > bound {
            return Err(format!(
                "no element had the channel for {empty:?}, at most {bound:?}"
            ));
        }
        if shared > cluster.config.guard {
            return Err(format!("two elements had the channel for {shared:?}"));
        }
    }
    Ok(cluster.watch.messages)
}

/// Applies one random event to an element. Returns its number of failures.
fn befall(cluster: &mut Cluster, rng: &mut Rng, count: u8) -> u32 {
    let nth = rng.below(count.into()) as usize;
    let living = cluster.elements.iter().flatten().count();
    let holder = cluster.holder();
    match (rng.below(4), holder) {
        (0, _) if living > 1 && cluster.elements[nth].is_some() => cluster.kill(nth),
        (1, Some(holder)) if living > 1 => cluster.kill(holder),
        (2, _) if cluster.elements[nth].is_none() => cluster.start(nth as u8),
        _ => {
            let wants = !cluster.wants[nth];
            cluster.want(nth, wants);
            return 0;
        }
    }
    1
}
