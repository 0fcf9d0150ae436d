//! Tests of the sender of slabs, step by step.

use super::super::SessionId;
use super::super::config::EXAMPLE;
use super::*;

/// Returns a sender with one slab of two pages, of which `sent` datagrams have been sent.
fn sender(sent: usize) -> Sender {
    let mut sender = Sender::new(Instant::ZERO, EXAMPLE, None);
    sender.grant(10);
    let record = Record {
        session: SessionId([0; 16]),
        offset: 0,
        len: 45_000,
        crc: 0,
        end: None,
    };
    let part = RecordPages {
        record,
        pages: 0..2,
    };
    sender.launch([part].into(), &[44_000, 1000], false);
    for _ in 0..sent {
        assert!(sender.poll_datagram(Instant::ZERO).is_some());
    }
    sender
}

#[test]
fn custody_of_unsent_slab_is_refused() {
    let early = Err(PeerMisbehaved::UnsentSlab(0));
    for sent in [0, 1, 44] {
        assert_eq!(sender(sent).handle_verdict(0, &[]), early);
    }
    let mut whole = sender(45);
    assert_eq!(
        whole.handle_verdict(1, &[]),
        Err(PeerMisbehaved::UnsentSlab(1))
    );
    assert_eq!(whole.handle_verdict(0, &[]).map(|parts| parts.len()), Ok(1));
    assert_eq!(whole.handle_verdict(0, &[]), early);
    assert_eq!((whole.held_pages(), whole.held_slabs()), (0, 0));
}

#[test]
fn record_can_be_rejected_once_sent() {
    let early = Err(PeerMisbehaved::UnsentSlab(0));
    let mut sender = sender(0);
    let record = |pages: Range<u64>| RecordPages {
        pages,
        ..sender.slabs[0].records[0].clone()
    };
    sender.slabs[0].records = [record(0..1), record(1..2)].into();
    for sent in 0..44 {
        assert_eq!(sender.handle_verdict(0, &[0]), early, "{sent} sent");
        assert!(sender.poll_datagram(Instant::ZERO).is_some());
    }
    assert_eq!(sender.handle_verdict(0, &[1]), early);
    assert_eq!(sender.handle_verdict(0, &[]), early);
    assert_eq!(sender.handle_verdict(0, &[0]), Ok(Vec::new()));
    let left = core::iter::from_fn(|| sender.poll_datagram(Instant::ZERO));
    assert_eq!(left.count(), 45);
}

#[test]
fn connection_is_spent_before_turns_repeat() {
    let mut sender = sender(0);
    sender.turns_end = 3;
    let left = core::iter::from_fn(|| sender.poll_datagram(Instant::ZERO));
    assert_eq!(left.count(), 3);
    assert!(sender.is_spent() && sender.due().is_none());
    assert_eq!(sender.poll_question(), Some(3));
    sender.reconnect();
    assert!(!sender.is_spent());
    assert_eq!(sender.turns_end, 3 + TURNS_EACH);
    assert!(sender.poll_datagram(Instant::ZERO).is_some());
}

fn one(range: Range<u64>) -> Vec<Range<u64>> {
    core::iter::once(range).collect()
}

/// A sender that has sent one slab of pages of these lengths.
fn sent(lens: &[u32], trc: Option<&str>) -> Sender {
    let trc = trc.map(|trc| trc.parse().unwrap());
    let mut sender = Sender::new(Instant::ZERO, EXAMPLE, trc);
    let record = Record {
        session: SessionId([0; 16]),
        offset: 0,
        len: lens.iter().sum(),
        crc: 0,
        end: None,
    };
    let part = RecordPages {
        record,
        pages: 0..lens.len() as u64,
    };
    sender.launch([part].into(), lens, false);
    while sender.poll_datagram(Instant::ZERO).is_some() {}
    sender
}

#[test]
fn complaints_stop_at_twice_the_packets_that_are_held() {
    let mut sender = sent(&[44_000; 3], None);
    for _ in 0..3 {
        assert_eq!(sender.handle_verdict(0, &[0]), Ok(Vec::new()));
    }
    let complaint = sender.handle_verdict(0, &[0]);
    assert_eq!(complaint, Err(PeerMisbehaved::Complaints(0)));
}

#[test]
fn channel_is_kept_to_and_filled() {
    let mut sender = sent(&[44_000; 200], Some("0s-10s 80Mb/s"));
    assert_eq!(sender.rate(), Some(Rate::from_mbps(80)));
    let (mut now, mut bytes) = (Instant::ZERO, 0);
    while now < Instant::ZERO + Duration::from_millis(500) {
        let due = sender.due().unwrap();
        assert!(due > now, "it waits for the channel");
        assert_eq!(sender.poll_datagram(now), None);
        now = due;
        while let Some(left) = sender.poll_datagram(now) {
            bytes += u64::from(EXAMPLE.wire_bytes(left.body.object_len()));
        }
        let carried = Rate::from_mbps(80).bytes_in(now.since(Instant::ZERO));
        // a millisecond of it leaves at once, and as much may wait
        let apart = carried.abs_diff(bytes);
        assert!(apart <= 10_000, "{bytes} of {carried} bytes have left");
    }
    assert_eq!(sender.poll_question(), None);
    sender.follow(now, None);
    assert_eq!((sender.rate(), sender.due()), (None, Some(Instant::ZERO)));
    while sender.poll_datagram(now).is_some() {}
    assert_eq!((sender.sent(), sender.has_more()), (200 * 44, false));
}

#[test]
fn next_slab_is_wanted_two_milliseconds_before_the_end_of_the_last() {
    let hungry = |lens: &[u32], trc| {
        let trc: Trc = str::parse(trc).unwrap();
        let mut sender = Sender::new(Instant::ZERO, EXAMPLE, Some(trc));
        assert!(sender.is_hungry());
        let pages = 0..0;
        let record = sent(&[1], None).slabs[0].records[0].record;
        sender.launch([RecordPages { record, pages }].into(), lens, false);
        sender.is_hungry()
    };
    assert!(hungry(&[1999], "0s-1s 8Mb/s"));
    assert!(!hungry(&[2000], "0s-1s 8Mb/s"));
    // in a gap, once less than a page waits
    assert!(hungry(&[43_999], "1s-2s 8Mb/s"));
    assert!(!hungry(&[44_000], "1s-2s 8Mb/s"));
}

#[test]
fn path_is_dark_once_all_is_lost_for_two_seconds() {
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let mut sender = sent(&[44_000], None);
    let lost = sender.handle_report(at(1000), 0, &[1..20, 20..32]);
    assert_eq!((lost, sender.is_dark(at(9000))), (Ok(()), false));
    sender.handle_report(at(1500), 0, &one(32..33)).unwrap();
    assert!(!sender.is_dark(at(2999)) && sender.is_dark(at(3000)));
    // the first packet, which no report named, has arrived
    sender.handle_report(at(3000), 33, &[]).unwrap();
    assert!(!sender.is_dark(at(9000)));
    sender.handle_report(at(4000), 33, &one(33..44)).unwrap();
    while sender.poll_datagram(at(4000)).is_some() {}
    sender.handle_report(at(5000), 80, &one(44..80)).unwrap();
    assert!(sender.is_dark(at(6000)));
    sender.reconnect();
    assert!(!sender.is_dark(at(6000)));
}

#[test]
fn lost_packet_is_resent_unless_in_custody() {
    let mut sender = sender(45);
    assert_eq!(
        sender.handle_report(Instant::ZERO, 45, &[3..5, 44..45]),
        Ok(())
    );
    assert!(sender.has_more());
    let again = sender.poll_datagram(Instant::ZERO).unwrap();
    assert_eq!(again.body, Body::Object(Span::new(3000, 1000)));
    assert_eq!(sender.resent(), 1);
    sender.handle_verdict(0, &[]).unwrap();
    assert!(!sender.has_more());
    assert_eq!(sender.poll_datagram(Instant::ZERO), None);
    let beyond = PeerMisbehaved::UnsentTurn(47);
    assert_eq!(sender.handle_report(Instant::ZERO, 47, &[]), Err(beyond));
}
