//! SABUL: its decoders, and its machines with any sequence of calls.

use std::time::Duration;

use lighthaul_base::{Instant, Rate, Reader};
use lighthaul_proto::sabul::wire::{Control, Packet};
use lighthaul_proto::sabul::{Config, Memory, Mode, Receiver, Sender};

use crate::pair::{self, Pair, framing};

/// Decodes any octets. What decodes encodes to octets that decode to the same value.
pub fn wire(octets: &[u8]) {
    if let Ok(packet) = Packet::decode(octets) {
        assert_eq!(packet.encode(), octets);
    }
    if let Ok(control) = Control::decode(octets) {
        let head = control.transmit(1).octets();
        assert_eq!(Control::decode(&head), Ok(control));
    }
}

/// Reads the octets as a transfer and a list of calls, and makes them on both machines.
pub fn machines(octets: &[u8]) {
    pair::run(octets, begin, &[], |sender, receiver| {
        assert!(receiver.received() <= receiver.total());
        assert!(sender.missing() <= sender.total());
        for list in [sender.losses(), receiver.losses()] {
            assert!(list.len() <= list.len_max());
        }
    });
}

fn begin(reader: &mut Reader<'_>) -> Option<Pair<Sender, Receiver>> {
    let config = Config {
        framing: framing(reader)?,
        mode: if reader.u8().ok()? % 2 == 0 {
            Mode::Paper
        } else {
            Mode::Swift
        },
        memory: Memory {
            has_lost: reader.u8().ok()? % 2 == 0,
            has_started: reader.u8().ok()? % 2 == 0,
            ..Memory::new(
                Rate::from_bps(reader.u64().ok()?)?,
                Duration::from_micros(u64::from(reader.u16().ok()?)),
            )
        },
        rate_max: Rate::from_bps(reader.u64().ok()?)?,
        burst: None,
        stream: 1,
        window_max: u32::from(reader.u8().ok()?),
        ranges_max: u32::from(reader.u8().ok()?),
    };
    config.check().ok()?;
    let sender = Sender::new(Instant::ZERO, config, 1);
    let receiver = Receiver::new(Instant::ZERO, config, 1);
    Some(Pair::new(config.framing.object_len, sender, receiver))
}
