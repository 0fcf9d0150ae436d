//! RBUDP: its decoders, and its machines with any sequence of calls.

use std::time::Duration;

use lighthaul_base::{Absence, Endpoint, Instant, Load, Rate, Reader};
use lighthaul_parts::Tally;
use lighthaul_proto::rbudp::wire::{Control, Packet};
use lighthaul_proto::rbudp::{Config, FeedbackConfig, Receiver, Sender};

use crate::pair::{self, Pair, framing};

/// Decodes any octets. What decodes encodes to octets that decode to the same value.
pub fn wire(octets: &[u8]) {
    if let Ok(packet) = Packet::decode(octets) {
        assert_eq!(packet.encode(), octets);
    }
    let _ = Control::decode(octets);
    let mut reader = Reader::new(octets);
    let Ok(total) = reader.u16() else { return };
    if let Ok(tally) = Tally::decode(reader.rest(), u64::from(total)) {
        let mut out = Vec::new();
        tally.encode(&mut out);
        assert_eq!(Tally::decode(&out, u64::from(total)), Ok(tally));
    }
}

/// Reads the octets as a transfer and a list of calls, and makes them on both machines.
pub fn machines(octets: &[u8]) {
    pair::run(octets, begin, &[foresee], |sender, receiver| {
        assert!(receiver.received() <= receiver.total());
        assert!(sender.missing() <= sender.total());
    });
}

fn begin(reader: &mut Reader<'_>) -> Option<Pair<Sender, Receiver>> {
    let config = Config {
        framing: framing(reader)?,
        rate: Rate::from_bps(reader.u64().ok()?)?,
        burst: reader.u16().ok().map(u32::from),
        stream: 1,
        settle: Duration::from_micros(u64::from(reader.u16().ok()?)),
        repeat: Duration::from_micros(u64::from(reader.u16().ok()?)),
        feedback: match u64::from(reader.u16().ok()?) {
            0 => None,
            micros => Some(FeedbackConfig {
                rtt: Duration::from_micros(micros),
                pause_max: Duration::from_micros(micros * 1000),
            }),
        },
    };
    config.check().ok()?;
    let sender = Sender::new(Instant::ZERO, config, 1);
    let receiver = Receiver::new(Instant::ZERO, config, 1);
    Some(Pair::new(config.framing.object_len, sender, receiver))
}

/// Reports an absence to the receiver: long, short, over, or far in the future.
fn foresee(pair: &mut Pair<Sender, Receiver>, reader: &mut Reader<'_>) -> Option<()> {
    let [socket, ahead, len, every] = reader.array::<4>().ok()?.map(u64::from);
    let time = |octet: u64| Duration::from_nanos((1 << (octet / 4)) - 1);
    let load = Load {
        socket_bytes: socket,
        socket_bytes_max: 128,
        is_shared: every % 3 * len > 2,
        absence: Some(Absence {
            from: pair.now + time(ahead),
            len: time(len),
            every: time(every),
        }),
        ..Load::default()
    };
    pair.receiver.handle_load(pair.now, load);
    Some(())
}
