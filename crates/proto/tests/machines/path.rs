//! Paths between two machines, and transfers over them.

use std::fmt::Debug;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate};
use lighthaul_sim::{BurstLoss, FlowEvent, LinkConfig, Reorder, World, WorldConfig};
use proptest::prelude::*;

/// Events of both machines, in order.
pub(crate) type Story<L, R> = Vec<FlowEvent<<L as Endpoint>::Event, <R as Endpoint>::Event>>;

/// Returns a path of 1 Gb/s with a queue of 1 MiB.
pub(crate) fn gigabit(delay: Duration) -> WorldConfig {
    let there = LinkConfig {
        rate: Some(Rate::from_mbps(1000)),
        delay,
        queue_bytes_max: 1 << 20,
        ..LinkConfig::default()
    };
    WorldConfig {
        there,
        stream_delay: delay,
        overhead_len: 28,
        ..WorldConfig::default()
    }
}

/// Generates the same path with any mixture of datagram faults.
pub(crate) fn any_path() -> impl Strategy<Value = WorldConfig> {
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
        WorldConfig { there, ..path }
    })
}

/// Runs a transfer to its end. Returns its world and the events.
pub(crate) fn run<L: Endpoint, R: Endpoint>(
    left: L,
    right: R,
    path: &WorldConfig,
    seed: u64,
) -> (World<L, R>, Story<L, R>) {
    let mut world = World::new(left, right, path, seed).with_ledger();
    let mut story = Vec::new();
    world.run(Instant::from_nanos(u64::MAX / 2), |_, event| {
        story.push(event);
    });
    (world, story)
}

/// Asserts that every byte was placed, and that both owners were notified.
pub(crate) fn assert_whole<L: Endpoint, R: Endpoint>(
    world: &World<L, R>,
    story: &[FlowEvent<L::Event, R::Event>],
    object_len: u64,
    ends: (L::Event, R::Event),
) where
    L::Event: Debug + PartialEq,
    R::Event: Debug + PartialEq,
{
    assert!(world.ledger().unwrap().is_whole(object_len));
    for end in [FlowEvent::Left(ends.0), FlowEvent::Right(ends.1)] {
        assert!(story.contains(&end), "{story:?}");
    }
}
