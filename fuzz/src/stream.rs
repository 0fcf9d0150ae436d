//! Streams: the frames of their input, and the ring in which lost messages are restored.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Message, Rate, Reader, Via};
use lighthaul_io::store::Store;
use lighthaul_proto::fec::{Code, Config, Late, Receiver, ReceiverEvent};
use lighthaul_stream::coded::{Coded, Ring};
use lighthaul_stream::frames::{Cutter, Frames, TooLong};

/// Cuts octets into frames of every kind; the frames do not depend on the pieces in which the octets arrive.
pub fn frames(octets: &[u8]) {
    let Some((first, octets)) = octets.split_first() else {
        return;
    };
    let len = NonZeroU32::MIN.saturating_add(u32::from(*first) % 40);
    for kind in [Frames::Lines, Frames::Prefixed, Frames::Fixed(len)] {
        let whole = cut(kind, octets, octets.len().max(1));
        assert_eq!(cut(kind, octets, 1), whole);
        assert_eq!(cut(kind, octets, len.get() as usize), whole);
        let (cut, _) = whole;
        assert!(cut.iter().all(|frame| frame.len() <= FRAME_LEN_MAX));
    }
}

/// Returns the frames, and what ended them early.
fn cut(kind: Frames, octets: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let mut cutter = Cutter::new(kind, FRAME_LEN_MAX);
    let mut frames = Vec::new();
    for piece in octets.chunks(piece) {
        cutter.push(piece);
        loop {
            match cutter.cut() {
                Ok(Some(frame)) => frames.push(frame.to_vec()),
                Ok(None) => break,
                Err(TooLong(len)) => {
                    assert!(len > FRAME_LEN_MAX);
                    return (frames, true);
                }
            }
        }
    }
    frames.extend(cutter.last());
    (frames, false)
}

/// Hands datagrams of a message stream to a receiver and its ring, and restores what it asks for. A message is never
/// longer than the stream allows.
pub fn coded(octets: &[u8]) {
    let mut reader = Reader::new(octets);
    let Some(config) = config(&mut reader) else {
        return;
    };
    let ring = Rc::new(RefCell::new(Ring::new(config)));
    let mut store = Coded::new(Rc::clone(&ring));
    let mut receiver = Receiver::new(Instant::ZERO, config, 1);
    while let Some((head, len, octet)) = datagram(&mut reader) {
        let message = Message {
            via: Via::Datagram,
            head: &head,
            len,
        };
        if let Some(span) = receiver.handle_message(Instant::ZERO, message) {
            let slot = store.slot(span).expect("memory has room");
            slot.expect("a ring has slots").fill(octet);
            store.placed(span).expect("memory has room");
        }
        while let Some(event) = receiver.poll_event() {
            match event {
                ReceiverEvent::Repair(job) => ring.borrow_mut().repair(&job),
                ReceiverEvent::Message(arrived) => {
                    let len = ring.borrow().message(arrived.span).len();
                    assert!(len <= config.message_len as usize);
                }
                ReceiverEvent::Complete => {}
            }
        }
    }
}

/// Parameters of a small ring.
fn config(reader: &mut Reader<'_>) -> Option<Config> {
    let (sources, repairs) = (reader.u8().ok()? % 16, reader.u8().ok()? % 8);
    let config = Config {
        message_len: u32::from(reader.u8().ok()?),
        code: match repairs {
            0 => Code::None,
            1 => Code::Xor(sources),
            _ => Code::ReedSolomon(sources, repairs),
        },
        blocks: u16::from(reader.u8().ok()? % 8),
        linger: Duration::ZERO,
        deadline: None,
        late: Late::Deliver,
        overhead_len: 28,
        rate: Rate::UNLIMITED,
        stream: 1,
        settle: Duration::ZERO,
        ahead_nanos: 0,
    };
    config.check().ok().map(|()| config)
}

/// A head of a datagram, the length of its body, and the octet of which the body consists.
fn datagram(reader: &mut Reader<'_>) -> Option<([u8; 12], u32, u8)> {
    // a block near the first, a count, a symbol, and a time stamp
    let [block, count, symbol, len, octet] = reader.array().ok()?;
    let head = [0, 0, 0, 0, 0, block, count, symbol, 0, 0, 0, 0];
    Some((head, u32::from(len), octet))
}

/// Longest frame in the first test.
const FRAME_LEN_MAX: usize = 300;
