//! Tests of lanes: objects arrive complete, with every fault of datagrams and every path through
//! the kernel.

use crate::pair::{assert_carried, config, lane, sockets, streams};
use crate::relay::Relay;

#[test]
fn object_arrives_despite_lost_changed_and_forged_datagrams() {
    for (seed, scatter) in [(1, None), (2, Some(1440)), (3, None), (4, Some(1440))] {
        println!("seed {seed}");
        let config = config(3_000_001, 1440);
        let mut relay = None;
        let udp = sockets(|[_, receiver]| {
            let between = Relay::start(receiver, seed);
            let ends = between.ends;
            relay = Some(between);
            ends
        });
        let mut streams = streams().into_iter();
        let mut lanes = udp.map(|udp| lane(streams.next().unwrap(), Some(udp), true));
        lanes[1].scatter = scatter;
        let seen = assert_carried(config, lanes);
        let harm = relay.unwrap().stop();
        println!("{harm:?} {seen:?}");
        assert!(
            seen.duplicates >= harm.duplicated / 2,
            "{seen:?} of {harm:?}"
        );
        assert!(
            2 * seen.resent >= harm.dropped + harm.corrupted,
            "{seen:?} of {harm:?}"
        );
        // Foreign: connection number changed, head truncated, or datagram invented.
        assert!(
            seen.foreign > 0 && seen.forged > harm.corrupted / 2,
            "{seen:?} of {harm:?}"
        );
        let bad = harm.corrupted + harm.truncated + harm.invented;
        assert!(seen.foreign + seen.forged <= bad, "{seen:?} of {harm:?}");
    }
}

#[test]
fn every_combination_of_offloads_delivers_the_object() {
    for case in 0..32_u32 {
        let [sealed, segments, coalesces, scatters, large] =
            [1, 2, 4, 8, 16].map(|bit| case & bit == 0);
        let packet_len = if large { 8928 } else { 1440 };
        let config = config(700_001, packet_len);
        let udp = sockets(|[sender, receiver]| [receiver, sender]);
        if !segments {
            udp[0].stop_segmenting();
        }
        if !coalesces {
            udp[1].stop_coalescing();
        }
        let mut streams = streams().into_iter();
        let mut lanes = udp.map(|udp| lane(streams.next().unwrap(), Some(udp), sealed));
        lanes[1].scatter = scatters.then_some(packet_len);
        let packets = config.framing.packets();
        let seen = assert_carried(config, lanes);
        let said = format!(
            "sealed {sealed}, segments {segments}, coalesces {coalesces}, scatters {scatters}: {seen:?}"
        );
        // A busy host may lose datagrams, which are then sent again.
        assert_eq!(seen.sent, packets + seen.resent, "{said}");
        assert_eq!(seen.received, packets + seen.duplicates, "{said}");
        assert_eq!((seen.foreign, seen.forged), (0, 0), "{said}");
    }
}

#[test]
fn object_crosses_on_the_stream_without_a_socket() {
    for len in [1, 32 << 10, (32 << 10) + 1, 20_000_003] {
        let lanes = streams().map(|stream| lane(stream, None, true));
        let seen = assert_carried(config(len, 32 << 10), lanes);
        assert_eq!(
            (seen.sent, seen.resent, seen.duplicates),
            (0, 0, 0),
            "{seen:?}"
        );
    }
}

#[test]
fn objects_smaller_than_two_packets_arrive() {
    for len in [1, 2, 1439, 1440, 1441] {
        let udp = sockets(|[sender, receiver]| [receiver, sender]);
        let mut streams = streams().into_iter();
        let mut lanes = udp.map(|udp| lane(streams.next().unwrap(), Some(udp), true));
        lanes[1].scatter = Some(1440);
        assert_carried(config(len, 1440), lanes);
    }
}
