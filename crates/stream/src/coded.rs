//! Ring of symbols of a message stream, and the store that computes repair symbols for sending.
//!
//! A [`Ring`] has the bytes of all blocks in flight, and [`Coded`] is the [`Store`] through which
//! the driver reads and writes them. Machines handle spans only, and the bytes stay here. The
//! sender computes the repair symbols of a block once, when the first of them is sent. The receiver
//! restores a block when the machine asks for it. The owner of the machine shares the ring with the
//! driver on one thread.

use std::cell::RefCell;
use std::rc::Rc;

use lighthaul_base::Span;
use lighthaul_io::error::Error;
use lighthaul_io::store::Store;
use lighthaul_proto::fec::config::LEN_LEN;
use lighthaul_proto::fec::{Coder, Config, RepairJob};

/// Slots for symbols, in the layout of [`lighthaul_proto::fec`]. Each holds the length of a
/// message, the message, and zeros.
#[derive(Debug)]
pub struct Ring {
    config: Config,
    octets: Vec<u8>,
    /// Source symbols written to each block, and true if its repair symbols were computed.
    blocks: Vec<(u8, bool)>,
    coder: Coder,
}

impl Ring {
    /// Creates a ring for the machines of a stream with `config`, which must be valid.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            octets: vec![0; config.ring_len() as usize],
            blocks: vec![(0, false); config.blocks.into()],
            coder: Coder::new(config.code),
        }
    }

    /// Writes a message to the span that the machine assigned.
    pub fn write(&mut self, span: Span, message: &[u8]) {
        let (block, symbol) = self.source(span);
        self.blocks[block] = (symbol + 1, false);
        let start = span.offset as usize;
        let slot = &mut self.octets[start..start + self.config.symbol_len() as usize];
        let (len, body) = slot.split_at_mut(LEN_LEN as usize);
        len.copy_from_slice(&(message.len() as u16).to_be_bytes());
        body[..message.len()].copy_from_slice(message);
        // the code pads shorter messages with zeros
        body[message.len()..].fill(0);
    }

    /// Returns the message at `span`, with the length stored in the ring.
    pub fn message(&self, span: Span) -> &[u8] {
        let slot = &self.octets[span.offset as usize..][..self.config.symbol_len() as usize];
        let (len, body) = slot.split_at(LEN_LEN as usize);
        let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
        // a repaired length may have any value
        &body[..len.min(self.config.message_len as usize)]
    }

    /// Returns the bytes of `span` to send: a message, or a repair symbol, which is computed on
    /// first use.
    pub fn gather(&mut self, span: Span) -> &[u8] {
        let start = span.offset as usize;
        if span.offset < self.repairs_at() {
            let start = start + LEN_LEN as usize;
            return &self.octets[start..start + span.len as usize];
        }
        let nth = (span.offset - self.repairs_at()) / u64::from(self.config.symbol_len());
        let block = nth / u64::from(self.config.code.repairs());
        self.make(block, span.len as usize);
        &self.octets[start..start + span.len as usize]
    }

    /// Stores the received bytes of `span`.
    pub fn place(&mut self, span: Span, body: &[u8]) {
        if span.offset < self.repairs_at() {
            self.write(span, body);
        } else {
            self.octets[span.offset as usize..][..body.len()].copy_from_slice(body);
        }
    }

    /// Restores the missing symbols of a block.
    pub fn repair(&mut self, job: &RepairJob) {
        let code = self.config.code;
        let have = |symbol: u8| {
            job.have.has(symbol).then(|| {
                let span = self.config.span(job.block, symbol, job.symbol_len);
                (
                    symbol,
                    &self.octets[span.offset as usize..][..span.len as usize],
                )
            })
        };
        let sources: Vec<_> = (0..job.count).filter_map(have).collect();
        let first = code.sources();
        let repairs: Vec<_> = (first..first + code.repairs())
            .filter_map(have)
            .map(|(symbol, octets)| (symbol - first, octets))
            .collect();
        let restored = self.coder.restore(job.count, &sources, &repairs);
        for (symbol, octets) in restored.unwrap_or_default() {
            let span = self.config.span(job.block, symbol, job.symbol_len);
            self.octets[span.offset as usize..][..octets.len()].copy_from_slice(&octets);
        }
    }

    /// Computes the repair symbols of the block at index `block`.
    fn make(&mut self, block: u64, len: usize) {
        let (count, made) = self.blocks[block as usize];
        if made || count == 0 {
            return;
        }
        self.blocks[block as usize].1 = true;
        let config = self.config;
        let slot = |symbol| config.span(block, symbol, 0).offset as usize;
        let sources: Vec<_> = (0..count)
            .map(|nth| &self.octets[slot(nth)..][..len])
            .collect();
        let repairs = self.coder.repair(&sources);
        for (nth, repair) in (config.code.sources()..).zip(repairs) {
            self.octets[slot(nth)..][..len].copy_from_slice(&repair);
        }
    }

    /// Returns the offset of the first repair symbol.
    const fn repairs_at(&self) -> u64 {
        self.config.blocks as u64
            * self.config.code.sources() as u64
            * self.config.symbol_len() as u64
    }

    /// Returns the block and the symbol of a source symbol's span.
    fn source(&self, span: Span) -> (usize, u8) {
        let slot = span.offset / u64::from(self.config.symbol_len());
        let sources = u64::from(self.config.code.sources());
        ((slot / sources) as usize, (slot % sources) as u8)
    }
}

/// Store of symbols for a driver. It shares the ring with the owner of the machine.
#[derive(Debug)]
pub struct Coded {
    ring: Rc<RefCell<Ring>>,
    /// Symbols that are being sent, since the owner may write to the ring meanwhile.
    out: Vec<Vec<u8>>,
    used: usize,
    /// Bytes that the receiver writes next, before they are placed in the ring.
    received: Vec<u8>,
}

impl Coded {
    /// Creates a store around `ring`.
    pub const fn new(ring: Rc<RefCell<Ring>>) -> Self {
        Self {
            ring,
            out: Vec::new(),
            used: 0,
            received: Vec::new(),
        }
    }
}

impl Store for Coded {
    fn gather(&mut self, span: Span) -> Result<&[u8], Error> {
        if self.used == self.out.len() {
            self.out.push(Vec::new());
        }
        let out = &mut self.out[self.used];
        self.used += 1;
        out.clear();
        out.extend_from_slice(self.ring.borrow_mut().gather(span));
        Ok(out)
    }

    fn sent(&mut self) {
        self.used = 0;
    }

    fn slot(&mut self, span: Span) -> Result<Option<&mut [u8]>, Error> {
        self.received.resize(span.len as usize, 0);
        Ok(Some(&mut self.received))
    }

    fn placed(&mut self, span: Span) -> Result<(), Error> {
        self.ring.borrow_mut().place(span, &self.received);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use lighthaul_base::{Body, Endpoint, Instant, Message, Rate, Via};
    use lighthaul_proto::fec::{Code, Late, Receiver, ReceiverEvent, Sender};
    use proptest::prelude::*;

    use super::*;

    fn config(code: Code) -> Config {
        Config {
            message_len: 40,
            code,
            blocks: 4,
            linger: Duration::from_millis(2),
            deadline: None,
            late: Late::Deliver,
            overhead_len: 28,
            rate: Rate::UNLIMITED,
            stream: 1,
            settle: Duration::ZERO,
            ahead_nanos: 0,
        }
    }

    /// Sender and receiver with a store each, and a path between them.
    struct Pair {
        sender: Sender,
        receiver: Receiver,
        source: Rc<RefCell<Ring>>,
        target: Rc<RefCell<Ring>>,
        stores: [Coded; 2],
        came: Vec<(Vec<u8>, bool)>,
    }

    impl Pair {
        fn new(config: Config) -> Self {
            let [source, target] = [(); 2].map(|()| Rc::new(RefCell::new(Ring::new(config))));
            let stores = [&source, &target].map(|ring| Coded::new(Rc::clone(ring)));
            Self {
                sender: Sender::new(Instant::ZERO, config, 1),
                receiver: Receiver::new(Instant::ZERO, config, 1),
                source,
                target,
                stores,
                came: Vec::new(),
            }
        }

        fn offer(&mut self, message: &[u8]) {
            let span = self
                .sender
                .offer(Instant::ZERO, message.len() as u32)
                .unwrap();
            self.source.borrow_mut().write(span, message);
        }

        /// Moves all pending datagrams to the receiver, except those that `loses` drops.
        fn cross(&mut self, loses: &mut impl FnMut() -> bool) {
            while let Some(transmit) = self.sender.poll_transmit(Instant::ZERO) {
                let Body::Object(span) = transmit.body else {
                    continue;
                };
                let body = self.stores[0].gather(span).unwrap();
                let head = transmit.head.as_slice();
                let sent = body.to_vec();
                self.stores[0].sent();
                if loses() {
                    continue;
                }
                let message = Message {
                    via: Via::Datagram,
                    head,
                    len: span.len,
                };
                if let Some(span) = self.receiver.handle_message(Instant::ZERO, message) {
                    self.stores[1]
                        .slot(span)
                        .unwrap()
                        .unwrap()
                        .copy_from_slice(&sent);
                    self.stores[1].placed(span).unwrap();
                }
                while let Some(event) = self.receiver.poll_event() {
                    match event {
                        ReceiverEvent::Repair(job) => self.target.borrow_mut().repair(&job),
                        ReceiverEvent::Message(arrived) => {
                            let message = self.target.borrow().message(arrived.span).to_vec();
                            self.came.push((message, arrived.repaired));
                        }
                        ReceiverEvent::Complete => {}
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Each received message was sent, arrives once, and is intact even if it was restored.
        #[test]
        fn received_messages_equal_sent_messages(
            code in prop_oneof![
                Just(Code::None), (1_u8..5).prop_map(Code::Xor),
                (1_u8..8, 1_u8..4).prop_map(|(k, m)| Code::ReedSolomon(k, m)),
            ],
            bursts in prop::collection::vec((1_usize..12, any::<u64>()), 1..40),
            seed: u64,
            loss_percent in 0_u64..60,
        ) {
            let mut rng = lighthaul_base::Rng::new(seed);
            let mut pair = Pair::new(config(code));
            let mut sent = BTreeSet::new();
            for (count, noise) in bursts {
                // at most as many at a time as the ring holds
                for nth in 0..count.min(3 * usize::from(code.sources())) {
                    let number = sent.len() as u64;
                    let len = 8 + (noise as usize + nth * 7) % 33;
                    let mut message = number.to_be_bytes().to_vec();
                    message.resize(len, noise as u8);
                    pair.offer(&message);
                    sent.insert(message);
                }
                pair.sender.handle_timeout(Instant::ZERO + Duration::from_millis(2));
                pair.cross(&mut || rng.next_u64() % 100 < loss_percent);
            }
            let came: BTreeSet<_> = pair.came.iter().map(|(message, _)| message.clone()).collect();
            prop_assert_eq!(came.len(), pair.came.len(), "a message arrived twice");
            prop_assert!(came.is_subset(&sent));
            if loss_percent == 0 {
                prop_assert_eq!(came, sent);
            }
        }
    }

    #[test]
    fn single_message_is_restored_from_its_repair_symbol() {
        for code in [Code::Xor(3), Code::ReedSolomon(10, 3)] {
            let mut pair = Pair::new(config(code));
            pair.offer(b"alone");
            pair.sender
                .handle_timeout(Instant::ZERO + Duration::from_millis(2));
            let mut first = true;
            pair.cross(&mut || std::mem::take(&mut first));
            assert_eq!(pair.came, [(b"alone".to_vec(), true)], "{code}");
        }
    }
}
