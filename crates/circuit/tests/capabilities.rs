//! Capabilities beside a reference that tries every rate.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::controller::Controller;
use lighthaul_circuit::driver::{Capabilities, CountedBytes, Layer};
use proptest::prelude::*;

fn capabilities(min: u64, max: u64, granularity: u64) -> Capabilities {
    Capabilities {
        rate_min: Rate::from_bps(min).unwrap(),
        rate_max: Rate::from_bps(max).unwrap(),
        granularity: Rate::from_bps(granularity).unwrap(),
        reconfiguration: Duration::from_millis(7),
        settling: Duration::from_millis(3),
        entries_max: 1,
        counted: CountedBytes::IP,
        timer_max: None,
    }
}

#[test]
fn contradictory_capabilities_are_refused() {
    let good = capabilities(1_000_000, 1_000_000_000, 1_000_000);
    for bad in [
        Capabilities {
            rate_min: Rate::from_mbps(2000),
            ..good
        },
        Capabilities {
            granularity: Rate::from_mbps(2000),
            ..good
        },
        Capabilities {
            entries_max: 0,
            ..good
        },
        Capabilities {
            entries_max: usize::MAX,
            ..good
        },
        Capabilities {
            reconfiguration: Duration::MAX,
            ..good
        },
        Capabilities {
            timer_max: Some(Duration::from_secs(3)),
            ..good
        },
    ] {
        assert!(Controller::new(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    /// A rate becomes the highest multiple that is not above it, or is refused.
    #[test]
    fn rates_are_rounded_down_to_the_granularity_of_the_device(
        min in 1_u64..3000, more in 0_u64..3000, granularity in 1_u64..3000, asked in 1_u64..7000,
    ) {
        let max = min + more;
        let can = capabilities(min, max, granularity);
        let multiple = (1..=asked).rev().find(|bits| bits % granularity == 0);
        let is_near = multiple.is_some_and(|bits| asked - bits < 1000);
        let expected = multiple.filter(|_| is_near && (min..=max).contains(&asked));
        prop_assert_eq!(can.fit(Rate::from_bps(asked).unwrap()).map(Rate::as_bps), expected);
    }
}

#[test]
fn guard_is_the_sum_of_both_times_and_has_a_limit() {
    let mut can = capabilities(1, 2, 1);
    assert_eq!(can.guard(), Duration::from_millis(10));
    can.check().unwrap();
    for (reconfiguration, settling) in [
        (Duration::from_mins(6), Duration::from_mins(6)),
        (Duration::MAX, Duration::MAX),
    ] {
        can.reconfiguration = reconfiguration;
        can.settling = settling;
        let why = can.check().unwrap_err().to_string();
        assert_eq!(why, "the guard time of a device is at most ten minutes");
    }
}

#[test]
fn counted_bytes_include_the_headers_of_the_layer() {
    let count = |layer, overhead_bytes| {
        let counted = CountedBytes {
            layer,
            overhead_bytes,
        };
        counted.of_packet(1000, 28)
    };
    assert_eq!(count(Layer::Payload, 0), 1000);
    assert_eq!(count(Layer::Ip, 38), 1066);
    assert_eq!(count(Layer::Link, 24), 1066);
}
