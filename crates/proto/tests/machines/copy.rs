//! Transfers of an object in virtual time, to their end.

use std::fmt::Debug;

use lighthaul_base::{Endpoint, Instant};
use lighthaul_sim::{FlowEvent, PathConfig, Simulation};

/// Events of both machines, in order.
pub(crate) type Story<L, R> = Vec<FlowEvent<<L as Endpoint>::Event, <R as Endpoint>::Event>>;

/// Runs a transfer to its end. Returns its world and the events.
pub(crate) fn run<L: Endpoint, R: Endpoint>(
    left: L,
    right: R,
    path: &PathConfig,
    seed: u64,
) -> (Simulation<L, R>, Story<L, R>) {
    let mut world = Simulation::new(left, right, path, seed).with_ledger();
    let mut story = Vec::new();
    world.run(Instant::from_nanos(u64::MAX / 2), |_, event| {
        story.push(event);
    });
    (world, story)
}

/// Asserts that every byte was placed, and that both owners were notified.
pub(crate) fn assert_whole<L: Endpoint, R: Endpoint>(
    world: &Simulation<L, R>,
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
