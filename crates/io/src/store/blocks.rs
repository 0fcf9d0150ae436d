//! Receiver's store: collects packets in resequencing blocks, which a writer thread hands to a [`Sink`].
//!
//! A block is about 1 MiB of packets. It is written when it is complete, or with gaps if too many blocks are open:
//!
//! ```text
//! socket --> slot() --> open blocks --> writer thread --> Sink
//!               ^                            |
//!               +------- free blocks <-------+
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use lighthaul_base::{Load, Span};

use crate::error::Error;
use crate::host::panics;
use crate::store::Store;
use crate::store::block::{Block, PAGE};
use crate::store::waits::Waits;

/// Destination of objects' bytes, one object after another.
pub trait Sink: Send + 'static {
    /// Description of an object, passed to [`Sink::begin`].
    type Object: Send + 'static;

    /// Starts `object`, to which all following bytes belong.
    fn begin(&mut self, object: Self::Object) -> Result<(), Error>;
    /// Writes `bytes` at `offset` of the object. Spans arrive in any order, each byte once.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error>;
    /// Ends the object, after all its bytes have been written.
    fn end(&mut self) -> Result<(), Error>;
}

/// Approximate length of a block, in bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// Maximum number of incomplete blocks of datagrams. Beyond that, the lowest block is written with gaps.
const FILLING_MAX: usize = 24;
/// Blocks that are filling or written, without which a receiver cannot continue.
const BLOCKS_MIN: usize = 4;

/// Block that still receives packets.
struct Filling {
    block: Block,
    present: Vec<u64>,
    count: usize,
}

/// Order to the writer thread.
enum Job<O> {
    Begin(O),
    /// Write the byte ranges of the block, which starts at an offset of the object.
    Write(Block, u64, Vec<Range<usize>>),
    End,
}

/// Bytes that wait for a [`Sink`].
#[derive(Clone, Debug)]
pub struct Backlog {
    waiting: Arc<AtomicUsize>,
    block_len: usize,
}

impl Backlog {
    /// Returns the number of bytes that wait now.
    pub fn bytes(&self) -> u64 {
        (self.waiting.load(Ordering::Relaxed) * self.block_len) as u64
    }
}

/// Store between the network and a [`Sink`], with a bounded amount of memory.
// fields: blocks in each state, their limits, and the channels to the writer
pub struct Blocks<K: Sink> {
    object_len: u64,
    packet_len: usize,
    block_len: usize,
    filling: BTreeMap<u64, Filling>,
    spare: Vec<Block>,
    allocated: usize,
    limit: usize,
    filling_max: usize,
    jobs: Option<Sender<Job<K::Object>>>,
    done: Receiver<Result<Option<Block>, Error>>,
    backlog: Backlog,
    waits: Waits,
    writer: Option<JoinHandle<Option<K>>>,
}

impl<K: Sink> Blocks<K> {
    /// Starts the thread that writes to `sink`.
    ///
    /// Packets have `packet_len` bytes, a multiple of 32; an object's last packet may be shorter. Memory is limited to
    /// `ring_bytes`, but is at least 28 blocks. Panics if `packet_len` is zero or not a multiple of 32.
    pub fn start(sink: K, packet_len: u32, ring_bytes: usize) -> Result<Self, Error> {
        let packet_len = packet_len as usize;
        assert!(
            packet_len.is_multiple_of(32) && packet_len > 0,
            "the packet length is a multiple of 32"
        );
        // the fewest packets that fill whole pages: at most 128
        let unit = packet_len << PAGE.ilog2().saturating_sub(packet_len.trailing_zeros());
        let block_len = unit * BLOCK_BYTES.div_ceil(unit);
        assert!(block_len.is_multiple_of(PAGE), "blocks are whole pages");
        let limit = (ring_bytes / block_len).max(BLOCKS_MIN);
        let filling_max = if packet_len.is_multiple_of(PAGE) {
            // such packets come on streams, of which one may be far behind the others
            limit - limit / 8
        } else {
            (limit - BLOCKS_MIN).clamp(BLOCKS_MIN / 2, FILLING_MAX)
        };
        let (jobs, todo) = channel::<Job<K::Object>>();
        let (answers, done) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&waiting);
        let mut sink = sink;
        let writer = thread::Builder::new()
            .name("writer".into())
            .spawn(move || {
                for job in todo {
                    let done = panics::catch("writer", || perform(&mut sink, job));
                    let is_broken = done.is_err();
                    let done = done.unwrap_or_else(|panic| Err(panic.into()));
                    if matches!(done, Ok(Some(_))) {
                        counter.fetch_sub(1, Ordering::Relaxed);
                    }
                    if answers.send(done).is_err() || is_broken {
                        return (!is_broken).then_some(sink);
                    }
                }
                Some(sink)
            })
            .map_err(|error| Error::world("cannot start the writer thread", error))?;
        Ok(Self {
            object_len: 0,
            packet_len,
            block_len,
            filling: BTreeMap::new(),
            spare: Vec::new(),
            allocated: 0,
            limit,
            filling_max,
            jobs: Some(jobs),
            done,
            backlog: Backlog { waiting, block_len },
            waits: Waits::default(),
            writer: Some(writer),
        })
    }

    /// Returns the time that the user of the store has waited for the sink.
    pub fn waits(&self) -> Waits {
        self.waits.clone()
    }

    /// Returns the bytes that wait for the sink.
    pub fn backlog(&self) -> Backlog {
        self.backlog.clone()
    }

    /// Starts `object`, which has `len` bytes. Packets that follow belong to it.
    pub fn begin(&mut self, object: K::Object, len: u64) -> Result<(), Error> {
        self.object_len = len;
        self.order(Job::Begin(object))
    }

    /// Queues the object's incomplete blocks for writing, and then [`Sink::end`].
    pub fn end(&mut self) -> Result<(), Error> {
        self.drain()?;
        self.order(Job::End)?;
        self.take_back()
    }

    /// Writes the remaining blocks, stops the writer, and returns the sink (`None` after a panic) and the first error.
    pub fn finish(mut self) -> (Option<K>, Result<(), Error>) {
        let written = self.drain();
        self.jobs = None;
        let sink = self.writer.take().and_then(|writer| writer.join().ok()?);
        let answers = self
            .done
            .try_iter()
            .try_for_each(|answer| answer.map(|_| ()));
        (sink, answers.and(written))
    }

    fn drain(&mut self) -> Result<(), Error> {
        while let Some((index, filling)) = self.filling.pop_first() {
            self.dispatch(index, filling)?;
        }
        Ok(())
    }

    fn dispatch(&mut self, index: u64, filling: Filling) -> Result<(), Error> {
        let start = index * self.block_len as u64;
        let end = (self.object_len - start).min(self.block_len as u64) as usize;
        let runs = runs(&filling.present, self.packet_len, end);
        self.backlog.waiting.fetch_add(1, Ordering::Relaxed);
        self.order(Job::Write(filling.block, start, runs))
    }

    fn order(&self, job: Job<K::Object>) -> Result<(), Error> {
        self.jobs
            .as_ref()
            .and_then(|jobs| jobs.send(job).ok())
            .ok_or_else(|| self.gone())
    }

    /// Returns the reason why the writer has ended.
    fn gone(&self) -> Error {
        let mut answers = self.done.try_iter();
        let why = answers.find_map(Result::err);
        why.unwrap_or_else(|| Error::Internal("writer: its thread has ended".into()))
    }

    fn take_back(&mut self) -> Result<(), Error> {
        loop {
            match self.done.try_recv() {
                Ok(block) => self.spare.extend(block?),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(self.gone()),
            }
        }
    }

    fn fresh(&mut self) -> Result<Block, Error> {
        if self.filling.len() >= self.filling_max
            && let Some((index, filling)) = self.filling.pop_first()
        {
            self.dispatch(index, filling)?;
        }
        self.take_back()?;
        if let Some(block) = self.spare.pop() {
            return Ok(block);
        }
        if self.allocated < self.limit {
            self.allocated += 1;
            return Ok(Block::new(self.block_len));
        }
        loop {
            if let Some(block) = self.waits.receive(&self.done).map_err(|_| self.gone())?? {
                return Ok(block);
            }
        }
    }

    fn place(&self, span: Span) -> (u64, usize) {
        let len = self.block_len as u64;
        (span.offset / len, (span.offset % len) as usize)
    }
}

impl<K: Sink> Store for Blocks<K> {
    fn gather(&mut self, _span: Span) -> Result<&[u8], Error> {
        Err(Error::Store("a receiver has nothing to send".into()))
    }

    fn slot(&mut self, span: Span) -> Result<Option<&mut [u8]>, Error> {
        let (index, start) = self.place(span);
        if !self.filling.contains_key(&index) {
            let block = self.fresh()?;
            let words = (self.block_len / self.packet_len).div_ceil(64);
            self.filling.insert(
                index,
                Filling {
                    block,
                    present: vec![0; words],
                    count: 0,
                },
            );
        }
        let filling = self.filling.get_mut(&index);
        Ok(filling.map(|filling| &mut filling.block[start..start + span.len as usize]))
    }

    fn placed(&mut self, span: Span) -> Result<(), Error> {
        let (index, start) = self.place(span);
        let packet = start / self.packet_len;
        let first = index * self.block_len as u64;
        let end = (self.object_len - first).min(self.block_len as u64) as usize;
        let Some(filling) = self.filling.get_mut(&index) else {
            return Ok(());
        };
        filling.present[packet / 64] |= 1 << (packet % 64);
        filling.count += 1;
        if filling.count == end.div_ceil(self.packet_len)
            && let Some(filling) = self.filling.remove(&index)
        {
            self.dispatch(index, filling)?;
        }
        Ok(())
    }

    fn load(&self) -> Load {
        Load {
            backlog_bytes: self.backlog.bytes(),
            backlog_bytes_max: (self.limit * self.block_len) as u64,
            ..Load::default()
        }
    }
}

impl<K: Sink> std::fmt::Debug for Blocks<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blocks({} of {} allocated)", self.allocated, self.limit)
    }
}

/// Executes `job`. Returns the block that a write has freed.
fn perform<K: Sink>(sink: &mut K, job: Job<K::Object>) -> Result<Option<Block>, Error> {
    match job {
        Job::Begin(object) => sink.begin(object).map(|()| None),
        Job::End => sink.end().map(|()| None),
        Job::Write(block, start, runs) => {
            for run in runs {
                sink.write(start + run.start as u64, &block[run])?;
            }
            Ok(Some(block))
        }
    }
}

/// Returns the byte ranges of the packets that are present, in the first `end` bytes of the block.
fn runs(present: &[u64], packet_len: usize, end: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for packet in 0..end.div_ceil(packet_len) {
        if present[packet / 64] >> (packet % 64) & 1 == 0 {
            continue;
        }
        let start = packet * packet_len;
        let stop = (start + packet_len).min(end);
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = stop,
            _ => runs.push(start..stop),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sink that drops all bytes.
    struct NullSink {
        /// True to panic at the end of an object.
        is_broken: bool,
    }

    impl Sink for NullSink {
        type Object = ();

        fn begin(&mut self, (): ()) -> Result<(), Error> {
            Ok(())
        }

        fn write(&mut self, _offset: u64, _bytes: &[u8]) -> Result<(), Error> {
            Ok(())
        }

        fn end(&mut self) -> Result<(), Error> {
            assert!(!self.is_broken, "broken at the end");
            Ok(())
        }
    }

    #[test]
    fn receiver_needs_a_few_mebibytes_for_any_packet_length() {
        for packet_len in [32, 1408, 8928, 65_536] {
            let mut blocks = Blocks::start(NullSink { is_broken: false }, packet_len, 0).unwrap();
            let len = 64 << 20;
            blocks.begin((), len).unwrap();
            // the last packets of each block are late
            let packets = len / u64::from(packet_len);
            for number in (0..packets).filter(|number| number % 900 != 899) {
                let span = Span::new(number * u64::from(packet_len), packet_len);
                blocks.slot(span).unwrap().unwrap().fill(1);
                blocks.placed(span).unwrap();
            }
            assert!(blocks.allocated * blocks.block_len <= 6 << 20, "{blocks:?}");
            blocks.end().unwrap();
            blocks.finish().1.unwrap();
        }
    }

    #[test]
    fn panic_of_the_sink_is_an_error_even_in_the_last_job() {
        let mut blocks = Blocks::start(NullSink { is_broken: true }, 32, 0).unwrap();
        blocks.begin((), 64).unwrap();
        let ended = blocks.end();
        let (sink, finished) = blocks.finish();
        let error = ended.and(finished).unwrap_err();
        assert!(matches!(error, Error::Internal(_)), "{error}");
        assert!(error.to_string().contains("broken at the end"), "{error}");
        assert!(sink.is_none());
    }

    #[test]
    fn runs_join_adjacent_present_packets() {
        assert_eq!(runs(&[0b1011], 32, 128), vec![0..64, 96..128]);
        assert_eq!(runs(&[0b1011], 32, 100), vec![0..64, 96..100]);
        assert_eq!(runs(&[0], 32, 128), vec![]);
    }
}
