//! Paths between two machines, and lengths of objects.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_sim::{BurstLoss, LinkConfig, PathConfig, Reorder};
use proptest::prelude::*;

/// Returns a path of 1 Gb/s with a queue of 1 MiB.
pub(crate) fn gigabit(delay: Duration) -> PathConfig {
    let there = LinkConfig {
        rate: Some(Rate::from_mbps(1000)),
        delay,
        queue_bytes_max: 1 << 20,
        ..LinkConfig::default()
    };
    PathConfig {
        there,
        stream_delay: delay,
        overhead_len: 28,
        ..PathConfig::default()
    }
}

/// Generates the same path with any mixture of datagram faults.
pub(crate) fn any_path() -> impl Strategy<Value = PathConfig> {
    let delay = (0_u64..60_000).prop_map(Duration::from_micros);
    let late = (0_u64..200_000_000, 0_u64..20_000);
    let bad = (
        0_u64..300_000_000,
        0_u64..20_000_000,
        late,
        0_u64..100_000_000,
    );
    (delay, 20_000_u64..500_000, bad).prop_map(|(delay, queue_bytes_max, bad)| {
        let (loss_ppb, enter_ppb, (ppb, extra_us), duplicate_ppb) = bad;
        let len_mean = 30;
        let extra = Duration::from_micros(extra_us);
        let path = gigabit(delay);
        let there = LinkConfig {
            queue_bytes_max,
            loss_ppb,
            burst: Some(BurstLoss {
                enter_ppb,
                len_mean,
            }),
            reorder: Some(Reorder { ppb, extra }),
            duplicate_ppb,
            ..path.there
        };
        PathConfig { there, ..path }
    })
}
