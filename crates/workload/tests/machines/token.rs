//! Elements of a cluster in virtual time. Two elements never hold the channel together for longer than a guard time.
//! After any loss of messages or elements, one of them soon holds it again.

use std::time::Duration;

use lighthaul_workload::cluster::{Cluster, Faults};
use proptest::prelude::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the number of tokens that the elements of a cluster have created.
fn tokens_founded(cluster: &Cluster) -> u64 {
    let elements = cluster.elements.iter().flatten();
    elements.map(|element| element.counts().1).sum()
}

#[test]
fn busy_elements_get_equal_shares_of_the_whole_channel() {
    for count in 2..=8 {
        let mut cluster = Cluster::new(count, Faults::default(), 1);
        cluster.run(ms(500));
        cluster.watch.forget();
        cluster.run(ms(5000));
        let all: Duration = cluster.watch.had.iter().sum();
        assert!(all >= ms(4950), "{count}: {all:?} of 5 s");
        for had in &cluster.watch.had {
            let share = had.as_secs_f64() * f64::from(count) / all.as_secs_f64();
            assert!((0.97..1.03).contains(&share), "{count}: {share}");
        }
        assert!(cluster.watch.shared_max <= cluster.config.guard);
        let founded = tokens_founded(&cluster);
        assert_eq!(founded, 1);
    }
}

#[test]
fn idle_element_takes_no_time_from_other_elements() {
    let mut cluster = Cluster::new(4, Faults::default(), 1);
    cluster.want(1, false);
    cluster.want(3, false);
    cluster.run(ms(500));
    cluster.watch.forget();
    cluster.run(ms(2000));
    let had = &cluster.watch.had;
    assert_eq!((had[1], had[3]), (Duration::ZERO, Duration::ZERO));
    assert!(had[0] > ms(950) && had[2] > ms(950), "{had:?}");
}

#[test]
fn idle_token_rests_and_moves_on_demand() {
    let mut cluster = Cluster::new(4, Faults::default(), 1);
    (0..4).for_each(|nth| cluster.want(nth, false));
    cluster.run(ms(500));
    let (before, at) = (cluster.watch.messages, cluster.holder().unwrap());
    cluster.run(ms(1000));
    assert_eq!(cluster.holder(), Some(at));
    let said = cluster.watch.messages - before;
    assert!(said <= 4 * 3 * 201, "{said} messages in a second");
    let other = (at + 2) % 4;
    cluster.want(other, true);
    cluster.run(ms(2));
    assert_eq!(cluster.holder(), Some(other));
    assert!(cluster.elements[other].as_ref().unwrap().slot().is_some());
}

#[test]
fn cluster_survives_failure_and_return_of_the_holder() {
    for count in 2..=8 {
        let mut cluster = Cluster::new(count, Faults::default(), u64::from(count));
        cluster.run(ms(703));
        let dead = cluster.holder().unwrap();
        cluster.kill(dead);
        cluster.watch.forget();
        cluster.run(ms(1000));
        assert!(cluster.watch.empty_max <= cluster.bound());
        let founded = tokens_founded(&cluster);
        assert!(founded <= 2, "one at the start and one now: {founded}");
        cluster.watch.forget();
        cluster.start(dead as u8);
        cluster.run(ms(2000));
        assert!(
            cluster.watch.empty_max < ms(1),
            "an element that returns disturbs no other"
        );
        let share = cluster.watch.had[dead].as_secs_f64() * f64::from(count) / 2.0;
        assert!(share > 0.9, "a returning element gets its share: {share}");
        assert!(cluster.watch.shared_max <= cluster.config.guard);
    }
}

#[test]
fn healed_partition_has_one_token() {
    let mut cluster = Cluster::new(
        4,
        Faults {
            lost: 1000,
            ..Faults::default()
        },
        1,
    );
    cluster.run(ms(500));
    let holds = |cluster: &Cluster| {
        cluster
            .elements
            .iter()
            .flatten()
            .filter(|e| e.holds())
            .count()
    };
    assert_eq!(
        holds(&cluster),
        4,
        "an element without messages from others is alone"
    );
    cluster.faults.lost = 0;
    cluster.run(ms(20));
    cluster.watch.shared_max = Duration::ZERO;
    cluster.watch.shared = Duration::ZERO;
    cluster.run(ms(2000));
    assert!(cluster.watch.shared_max <= cluster.config.guard);
    assert!(holds(&cluster) <= 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_element_has_the_channel_after_any_faults(
        count in 2_u8..=8,
        seed: u64,
        lost in 0_u64..=80,
        late in 0_u64..=40,
        doubled in 0_u64..=100,
        story in prop::collection::vec((0_u8..8, 0_u8..4, 1_u64..700), 1..16),
    ) {
        let mut cluster = Cluster::new(count, Faults { lost, late, doubled }, seed);
        cluster.run(ms(400));
        for (nth, deed, wait) in story {
            let nth = usize::from(nth % count);
            let living = cluster.elements.iter().flatten().count();
            let mut failures = 1;
            match deed {
                0 if living > 1 && cluster.elements[nth].is_some() => cluster.kill(nth),
                1 => match cluster.holder() {
                    Some(holder) if living > 1 => cluster.kill(holder),
                    _ => {}
                },
                2 if cluster.elements[nth].is_none() => cluster.start(nth as u8),
                _ => {
                    let wants = !cluster.wants[nth];
                    cluster.want(nth, wants);
                    failures = 0;
                }
            }
            cluster.run(ms(wait));
            // lost messages may turn one failure into several
            let bound = cluster.bound() * (failures + 2);
            prop_assert!(cluster.watch.empty_max <= bound, "no element had it for {:?}", cluster.watch.empty_max);
            prop_assert!(
                cluster.watch.shared_max <= cluster.config.guard,
                "two had it for {:?}", cluster.watch.shared_max
            );
        }
    }
}
