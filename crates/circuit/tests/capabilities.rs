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

#[test]
fn capabilities_at_their_limits_are_accepted() {
    let good = capabilities(1_000_000, 1_000_000_000, 1_000_000);
    for (limit, bad) in [
        (
            Capabilities {
                rate_min: good.rate_max,
                ..good
            },
            Capabilities {
                rate_min: Rate::from_bps(1_000_000_001).unwrap(),
                ..good
            },
        ),
        (
            Capabilities {
                granularity: good.rate_max,
                ..good
            },
            Capabilities {
                granularity: Rate::from_bps(1_000_000_001).unwrap(),
                ..good
            },
        ),
        (
            Capabilities {
                entries_max: 65_000,
                ..good
            },
            Capabilities {
                entries_max: 65_001,
                ..good
            },
        ),
        (
            Capabilities {
                settling: Duration::from_millis(599_993),
                ..good
            },
            Capabilities {
                settling: Duration::from_nanos(599_993_000_001),
                ..good
            },
        ),
        (
            Capabilities {
                timer_max: Some(Duration::from_secs(4)),
                ..good
            },
            Capabilities {
                timer_max: Some(Duration::from_nanos(3_999_999_999)),
                ..good
            },
        ),
    ] {
        assert!(limit.check().is_ok(), "{limit:?}");
        assert!(bad.check().is_err(), "{bad:?}");
    }
}

#[test]
fn timer_outlives_the_rate_by_the_guard_time_and_five_seconds() {
    let millis = Duration::from_millis;
    let mut can = capabilities(1, 2, 1);
    assert_eq!(can.timer(millis(1000)), None);
    can.timer_max = Some(millis(60_000));
    assert_eq!(can.timer(millis(1000)), Some(millis(6010)));
    assert_eq!(can.timer(millis(54_990)), Some(millis(60_000)));
    assert_eq!(can.timer(millis(54_991)), Some(millis(60_000)));
    assert_eq!(can.timer(Duration::MAX), Some(millis(60_000)));
}

#[test]
fn calendar_gets_the_limits_of_the_device() {
    let mut can = capabilities(1000, 3000, 500);
    let limits = can.limits();
    assert_eq!(limits.capacity, can.rate_max);
    assert_eq!(limits.channel, can.granularity);
    assert_eq!(limits.least, can.rate_min);
    assert_eq!(limits.guard, Duration::from_millis(10));
    assert_eq!((limits.packet_bytes, limits.circuits_max), (0, 1));
    for (layer, overhead_bytes, expected) in [
        (Layer::Payload, 7, 7),
        (Layer::Ip, 38, 38),
        (Layer::Link, 24, 38),
        (Layer::Link, u16::MAX, u16::MAX),
    ] {
        can.counted = CountedBytes {
            layer,
            overhead_bytes,
        };
        assert_eq!(can.limits().packet_bytes, expected);
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
