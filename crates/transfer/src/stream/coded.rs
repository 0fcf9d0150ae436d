//! The ring that a message stream's bytes lie in, around which a store makes repair symbols when they are gathered.

use std::cell::RefCell;
use std::rc::Rc;

use lighthaul_base::Span;
use lighthaul_io::error::Error;
use lighthaul_io::store::Store;
use lighthaul_proto::fec::config::LEN_LEN;
use lighthaul_proto::fec::{Coder, Config, Puzzle};

/// Slots for symbols, as [`lighthaul_proto::fec`] lays them out: each a message with its length in front, and zeros.
#[derive(Debug)]
pub struct Ring {
    config: Config,
    octets: Vec<u8>,
    /// Source symbols written of each block, and whether its repair symbols were made.
    blocks: Vec<(u8, bool)>,
    coder: Coder,
}

impl Ring {
    /// A ring for both machines of a stream with this config, which passed its check.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            octets: vec![0; config.ring_len() as usize],
            blocks: vec![(0, false); config.blocks.into()],
            coder: Coder::new(config.code),
        }
    }

    /// Writes a message where the machine said.
    pub fn write(&mut self, span: Span, message: &[u8]) {
        let (block, symbol) = self.source(span);
        self.blocks[block] = (symbol + 1, false);
        let start = span.offset as usize;
        let slot = &mut self.octets[start..start + self.config.symbol_len() as usize];
        let (len, body) = slot.split_at_mut(LEN_LEN as usize);
        len.copy_from_slice(&(message.len() as u16).to_be_bytes());
        body[..message.len()].copy_from_slice(message);
        // the code takes what a shorter message lacks for zeros
        body[message.len()..].fill(0);
    }

    /// The message at `span`, whose length the ring knows.
    pub fn message(&self, span: Span) -> &[u8] {
        let slot = &self.octets[span.offset as usize..][..self.config.symbol_len() as usize];
        let (len, body) = slot.split_at(LEN_LEN as usize);
        let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
        // a repair symbol may have said anything
        &body[..len.min(self.config.message_len as usize)]
    }

    /// What crosses of `span`: a message, or a repair symbol, which is made if nobody has asked for it before.
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

    /// Takes in what came for `span`.
    pub fn place(&mut self, span: Span, body: &[u8]) {
        if span.offset < self.repairs_at() {
            self.write(span, body);
        } else {
            self.octets[span.offset as usize..][..body.len()].copy_from_slice(body);
        }
    }

    /// Restores what is missing of a block.
    pub fn solve(&mut self, puzzle: &Puzzle) {
        let code = self.config.code;
        let have = |symbol: u8| {
            puzzle.have.has(symbol).then(|| {
                let span = self.config.span(puzzle.block, symbol, puzzle.symbol_len);
                (
                    symbol,
                    &self.octets[span.offset as usize..][..span.len as usize],
                )
            })
        };
        let sources: Vec<_> = (0..puzzle.count).filter_map(have).collect();
        let first = code.sources();
        let repairs: Vec<_> = (first..first + code.repairs())
            .filter_map(have)
            .map(|(symbol, octets)| (symbol - first, octets))
            .collect();
        let solved = self.coder.solve(puzzle.count, &sources, &repairs);
        for (symbol, octets) in solved.unwrap_or_default() {
            let span = self.config.span(puzzle.block, symbol, puzzle.symbol_len);
            self.octets[span.offset as usize..][..octets.len()].copy_from_slice(&octets);
        }
    }

    /// Makes the repair symbols of the block at place `block`.
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

    /// Where repair symbols begin.
    const fn repairs_at(&self) -> u64 {
        self.config.blocks as u64
            * self.config.code.sources() as u64
            * self.config.symbol_len() as u64
    }

    /// Which block and symbol a source symbol's span is of.
    fn source(&self, span: Span) -> (usize, u8) {
        let slot = span.offset / u64::from(self.config.symbol_len());
        let sources = u64::from(self.config.code.sources());
        ((slot / sources) as usize, (slot % sources) as u8)
    }
}

/// What a driver gathers symbols from and places them in: a ring that it shares with an owner.
#[derive(Debug)]
pub struct Coded {
    ring: Rc<RefCell<Ring>>,
    /// Symbols on their way out, since sealing would spoil those that repair symbols are made of.
    out: Vec<Vec<u8>>,
    used: usize,
    landing: Vec<u8>,
}

impl Coded {
    /// A store around `ring`.
    pub const fn new(ring: Rc<RefCell<Ring>>) -> Self {
        Self {
            ring,
            out: Vec::new(),
            used: 0,
            landing: Vec::new(),
        }
    }
}

impl Store for Coded {
    fn gather(&mut self, span: Span) -> Result<&mut [u8], Error> {
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
        self.landing.resize(span.len as usize, 0);
        Ok(Some(&mut self.landing))
    }

    fn placed(&mut self, span: Span) -> Result<(), Error> {
        self.ring.borrow_mut().place(span, &self.landing);
        Ok(())
    }
}
