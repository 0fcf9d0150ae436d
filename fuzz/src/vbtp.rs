//! VBTP: vectors of users, its decoders, and its machines with any sequence of calls.

use std::time::Duration;

use lighthaul_base::{Instant, Reader, Trc};
use lighthaul_proto::vbtp::wire::{self, Control, Packet};
use lighthaul_proto::vbtp::{Config, Receiver, Sender};

use crate::pair::{self, Pair, framing};

/// Reads a vector. A rejected one has an error message, and an accepted one stays the same when it
/// is written and read again.
pub fn trc(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    match text.parse::<Trc>() {
        Ok(trc) => {
            assert!(trc.start() < trc.end());
            assert_eq!(trc.to_string().parse(), Ok(trc));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Decodes any octets. What decodes encodes to octets that decode to the same value.
pub fn wire(octets: &[u8]) {
    if let Ok(packet) = Packet::decode(octets) {
        assert_eq!(packet.encode(), octets);
    }
    if let Ok(Control::Report(report)) = Control::decode(octets) {
        let said = [report.answered.into(), report.below, report.turns];
        let (packets, turns) = (report.packets.iter(), report.lost_turns.iter());
        let head = wire::report(0, said, packets, turns).octets();
        let Ok(Control::Report(again)) = Control::decode(&head) else {
            panic!("an encoded report does not decode");
        };
        assert!(report.packets.iter().eq(again.packets.iter()));
        assert!(report.lost_turns.iter().eq(again.lost_turns.iter()));
        assert!(
            report
                .packets
                .iter()
                .all(|range| range.end <= report.packets.end())
        );
    }
}

/// Reads the octets as a transfer and a list of calls, and makes them on both machines.
pub fn machines(octets: &[u8]) {
    pair::run(octets, begin, &[], |sender, receiver| {
        assert!(receiver.received() <= receiver.total());
        assert!(sender.missing() <= sender.total());
    });
}

fn begin(reader: &mut Reader<'_>) -> Option<Pair<Sender, Receiver>> {
    let config = Config {
        framing: framing(reader)?,
        stream: 1,
        burst: None,
        share: (1, u32::from(reader.u8().ok()?)),
        rtt: Duration::from_micros(u64::from(reader.u16().ok()?)),
        settle: Duration::from_micros(u64::from(reader.u8().ok()?)),
        ack_every: Duration::from_micros(u64::from(reader.u8().ok()?)),
        window: u32::from(reader.u16().ok()?),
        block: u32::from(reader.u8().ok()?),
        losses_max: u32::from(reader.u8().ok()?),
    };
    config.check().ok()?;
    let steps = [reader.u8().ok()?, reader.u8().ok()?, reader.u8().ok()?];
    let [from, len, rate] = steps.map(u64::from);
    let text = format!("{from}us-{}us {}Mb/s, 3s-4s 1Mb/s", from + len, rate);
    let sender = Sender::new(Instant::ZERO, config, text.parse().ok()?, 1);
    let receiver = Receiver::new(Instant::ZERO, config, 1);
    Some(Pair::new(config.framing.object_len, sender, receiver))
}
