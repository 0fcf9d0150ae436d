//! Sender's store: a reader thread reads the spans that the machine will send next.
//!
//! ```text
//! Source --> reader thread --> batches --> gather() --> socket
//!               ^                              |
//!               +-------- free batches <-------+
//! ```

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};
use std::thread;

use lighthaul_base::{Endpoint, Span};
use lighthaul_io::error::Error;
use lighthaul_io::host::panics;
use lighthaul_io::store::Store;
use lighthaul_io::store::block::Block;
use lighthaul_io::store::waits::Waits;

/// Origin of objects' bytes, one object after another.
pub(crate) trait Source: Send + 'static {
    /// Description of an object, passed to [`Source::begin`].
    type Object: Send + 'static;

    /// Starts `object`, to which all following reads belong.
    fn begin(&mut self, object: Self::Object);
    /// Fills `buffer` with the object's bytes from `offset` on.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error>;
}

const BATCH_BYTES: usize = 1 << 20;
const BATCH_SPANS_MAX: usize = 256;
/// Number of batches with which the machine never waits.
const BATCHES_MAX: usize = 24;
/// Number of batches without which the machine cannot continue.
const BATCHES_MIN: usize = 4;

/// Order to the reader thread.
enum Job<O> {
    Begin(O),
    Fill(Batch),
}

/// Spans in ascending order; one block has their bytes once they are read.
struct Batch {
    spans: Vec<Span>,
    block: Block,
}

/// Batch that is being sent.
struct Front {
    batch: Batch,
    /// Index of the next span.
    index: usize,
    /// Position of the next span in the block.
    start: usize,
    /// Offset of the next byte of the object; earlier bytes of the batch have been sent.
    next: u64,
}

/// Store that reads ahead of a machine, which sends in ascending order, pass after pass.
pub(crate) struct ReadAhead<S: Source> {
    requests: SyncSender<Job<S::Object>>,
    ready: Receiver<Result<Batch, Error>>,
    waits: Waits,
    front: Option<Front>,
    retired: Vec<Batch>,
    spare: Vec<Batch>,
    outstanding: usize,
    /// Batches that arrived while a retransmission was read.
    waiting: VecDeque<Batch>,
    /// Retransmissions during a pass, kept until they are sent.
    again: Vec<Batch>,
    /// Size of a batch in bytes, a multiple of the packet's length.
    batch_len: usize,
    /// Offset of the next request.
    cursor: u64,
}

impl<S: Source> ReadAhead<S> {
    /// Starts a thread that reads `source` in packets of `packet_len` bytes (at most 1 MiB), with `memory` for buffers.
    pub(crate) fn start(source: S, packet_len: u32, memory: usize) -> Result<Self, Error> {
        let batches = (memory / BATCH_BYTES).clamp(BATCHES_MIN, BATCHES_MAX);
        let (requests, asked) = sync_channel::<Job<S::Object>>(batches + 1);
        let (answers, ready) = sync_channel(batches);
        let mut source = source;
        thread::Builder::new()
            .name("reader".into())
            .spawn(move || {
                let read = || read_all(&mut source, &asked, &answers);
                if let Err(panic) = panics::catch("reader", read) {
                    answers.send(Err(panic.into())).ok();
                }
            })
            .map_err(|error| Error::world("cannot start the reader thread", error))?;
        let spare = (0..batches)
            .map(|_| Batch {
                spans: Vec::new(),
                block: Block::new(BATCH_BYTES),
            })
            .collect();
        Ok(Self {
            requests,
            ready,
            waits: Waits::default(),
            front: None,
            retired: Vec::new(),
            spare,
            outstanding: 0,
            waiting: VecDeque::new(),
            again: Vec::new(),
            batch_len: batch_len(packet_len),
            cursor: 0,
        })
    }

    /// Sets the length of the packets of the objects that begin from now on.
    pub(crate) const fn set_packet_len(&mut self, packet_len: u32) {
        self.batch_len = batch_len(packet_len);
    }

    /// Starts `object`, which the machine sends next.
    pub(crate) fn begin(&mut self, object: S::Object) -> Result<(), Error> {
        self.forget()?;
        self.cursor = 0;
        let sent = self.requests.send(Job::Begin(object));
        sent.map_err(|_| self.gone())
    }

    /// Returns the time that the user of the store has waited for the source.
    pub(crate) fn waits(&self) -> Waits {
        self.waits.clone()
    }

    /// Takes all batches back.
    fn forget(&mut self) -> Result<(), Error> {
        while self.outstanding > 0 {
            let batch = self.next_batch()?;
            self.spare.push(batch);
        }
        self.spare
            .extend(self.front.take().map(|front| front.batch));
        self.spare.append(&mut self.retired);
        Ok(())
    }

    fn request(&mut self, batch: Batch) -> Result<(), Error> {
        let sent = self.requests.send(Job::Fill(batch));
        sent.map_err(|_| self.gone())?;
        self.outstanding += 1;
        Ok(())
    }

    fn next_batch(&mut self) -> Result<Batch, Error> {
        self.outstanding -= 1;
        match self.waiting.pop_front() {
            Some(batch) => Ok(batch),
            None => self
                .waits
                .receive(&self.ready)
                .map_err(|RecvError| self.gone())?,
        }
    }

    /// Returns the reason why the reader has ended.
    fn gone(&self) -> Error {
        let why = self.ready.try_iter().find_map(Result::err);
        why.unwrap_or_else(gone)
    }

    /// Reads `span` for a retransmission, besides the batches read ahead. Kept until [`Store::sent`].
    fn read_again(&mut self, span: Span) -> Result<(), Error> {
        let block = Block::new(span.len as usize);
        let spans = vec![span];
        self.request(Batch { spans, block })?;
        self.outstanding -= 1;
        for _ in self.waiting.len()..self.outstanding {
            let batch = self.ready.recv().map_err(|RecvError| self.gone())??;
            self.waiting.push_back(batch);
        }
        let batch = self.ready.recv().map_err(|RecvError| self.gone())??;
        self.again.push(batch);
        Ok(())
    }

    /// Discards the batches read ahead, and reads `span`.
    fn restart(&mut self, span: Span) -> Result<(), Error> {
        while self.outstanding > 0 {
            let batch = self.next_batch()?;
            self.spare.push(batch);
        }
        let mut batch = match self.spare.pop() {
            Some(batch) => batch,
            None => Batch {
                spans: Vec::new(),
                block: Block::new(BATCH_BYTES),
            },
        };
        batch.spans.clear();
        batch.spans.push(span);
        self.cursor = span.end();
        self.request(batch)
    }

    /// Reports whether more of the present pass is read or requested. If so, an earlier span is a retransmission.
    fn is_amid(&self) -> bool {
        let rest = |front: &Front| {
            let last = front.batch.spans.last();
            last.is_some_and(|last| front.next < last.end())
        };
        self.outstanding > 0 || self.front.as_ref().is_some_and(rest)
    }

    /// Returns to the start of the object for the machine's next pass, which retransmits lost packets.
    fn turn_back<E: Endpoint>(&mut self, endpoint: &E) {
        if !self.is_amid()
            && endpoint.upcoming(self.cursor, 1).is_none()
            && let Some(first) = endpoint.upcoming(0, 1)
        {
            self.retired
                .extend(self.front.take().map(|front| front.batch));
            self.cursor = first.offset;
        }
    }

    /// Finds the position of `span` in the front batch. Returns `None` if the batch does not have it, or has passed it.
    fn find(&mut self, span: Span) -> Option<usize> {
        let front = self
            .front
            .as_mut()
            .filter(|front| span.offset >= front.next)?;
        while let Some(at) = front.batch.spans.get(front.index) {
            if span.offset < at.offset {
                return None;
            }
            if span.end() <= at.end() {
                front.next = span.end();
                return Some(front.start + (span.offset - at.offset) as usize);
            }
            front.start += at.len as usize;
            front.index += 1;
        }
        None
    }
}

impl<S: Source> Store for ReadAhead<S> {
    fn read_ahead_for<E: Endpoint>(&mut self, endpoint: &E) -> Result<(), Error> {
        self.turn_back(endpoint);
        while let Some(mut batch) = self.spare.pop() {
            batch.spans.clear();
            let mut room = self.batch_len;
            while batch.spans.len() < BATCH_SPANS_MAX && room > 0 {
                let Some(span) = endpoint.upcoming(self.cursor, room as u32) else {
                    break;
                };
                self.cursor = span.end();
                room -= span.len as usize;
                batch.spans.push(span);
            }
            if batch.spans.is_empty() {
                self.spare.push(batch);
                break;
            }
            self.request(batch)?;
        }
        Ok(())
    }

    fn gather(&mut self, span: Span) -> Result<&[u8], Error> {
        let start = loop {
            if let Some(start) = self.find(span) {
                break start;
            }
            let behind = self
                .front
                .as_ref()
                .is_some_and(|front| span.offset < front.next);
            if behind && self.is_amid() {
                self.read_again(span)?;
                let batch = self.again.last().ok_or_else(gone)?;
                return Ok(&batch.block[..span.len as usize]);
            }
            self.retired
                .extend(self.front.take().map(|front| front.batch));
            if behind || self.outstanding == 0 {
                self.restart(span)?;
            }
            let batch = self.next_batch()?;
            let next = batch.spans.first().map_or(0, |first| first.offset);
            self.front = Some(Front {
                batch,
                index: 0,
                start: 0,
                next,
            });
        };
        let Some(front) = &self.front else {
            return Err(gone());
        };
        Ok(&front.batch.block[start..start + span.len as usize])
    }

    fn sent(&mut self) {
        self.spare.append(&mut self.retired);
        self.again.clear();
    }

    fn slot(&mut self, _span: Span) -> Result<Option<&mut [u8]>, Error> {
        Err(Error::PeerMisbehaved("a receiver sent data".into()))
    }
}

impl<S: Source> std::fmt::Debug for ReadAhead<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "ReadAhead(cursor {}, outstanding {})",
            self.cursor, self.outstanding
        )
    }
}

/// Returns the length of a batch of whole packets.
const fn batch_len(packet_len: u32) -> usize {
    BATCH_BYTES / packet_len as usize * packet_len as usize
}

/// Executes orders until no more come, or until the receiver of answers is gone.
fn read_all<S: Source>(
    source: &mut S,
    asked: &Receiver<Job<S::Object>>,
    answers: &SyncSender<Result<Batch, Error>>,
) {
    for job in asked {
        let mut batch = match job {
            Job::Begin(object) => {
                source.begin(object);
                continue;
            }
            Job::Fill(batch) => batch,
        };
        let filled = fill(source, &mut batch);
        if answers.send(filled.map(|()| batch)).is_err() {
            return;
        }
    }
}

fn fill(source: &mut impl Source, batch: &mut Batch) -> Result<(), Error> {
    let mut start = 0;
    for span in &batch.spans {
        let end = start + span.len as usize;
        source.read(span.offset, &mut batch.block[start..end])?;
        start = end;
    }
    Ok(())
}

fn gone() -> Error {
    Error::Internal("reader: its thread has ended".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lighthaul_base::{Deadline, Instant, Message, Transmit};

    const PACKET: u32 = 1000;

    /// Machine that sends spans, pass after pass. The store only asks for its upcoming spans.
    struct Passes {
        spans: Vec<Span>,
    }

    impl Endpoint for Passes {
        type Event = ();

        fn handle_message(&mut self, _: Instant, _: Message<'_>) -> Option<Span> {
            None
        }
        fn handle_timeout(&mut self, _: Instant) {}
        fn poll_transmit(&mut self, _: Instant) -> Option<Transmit> {
            None
        }
        fn poll_event(&mut self) -> Option<()> {
            None
        }
        fn poll_timeout(&self) -> Option<Deadline> {
            None
        }
        fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
            let span = self.spans.iter().find(|span| span.end() > offset)?;
            let start = span.offset.max(offset);
            Some(Span::new(start, ((span.end() - start) as u32).min(len)))
        }
    }

    /// Source in which each octet is the number of its packet.
    struct Numbers;

    impl Source for Numbers {
        type Object = ();

        fn begin(&mut self, (): ()) {}
        fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
            for (at, octet) in buffer.iter_mut().enumerate() {
                *octet = ((offset + at as u64) / u64::from(PACKET)) as u8;
            }
            Ok(())
        }
    }

    /// Source whose thread panics.
    struct Broken(bool);

    impl Source for Broken {
        type Object = ();

        fn begin(&mut self, (): ()) {
            assert!(!self.0, "broken at the beginning");
        }
        fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Error> {
            panic!("broken in the middle");
        }
    }

    #[test]
    fn panic_of_the_source_ends_the_transfer() {
        for (early, expected) in [(true, "beginning"), (false, "middle")] {
            let mut store = ReadAhead::start(Broken(early), PACKET, 0).unwrap();
            store.begin(()).unwrap();
            let error = store.gather(packet(0)).unwrap_err();
            assert!(matches!(error, Error::Internal(_)), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    fn packet(number: u64) -> Span {
        Span::new(number * u64::from(PACKET), PACKET)
    }

    #[test]
    fn retransmission_pass_is_read_ahead() {
        for memory in [0, usize::MAX] {
            read_passes(ReadAhead::start(Numbers, PACKET, memory).unwrap());
        }
    }

    fn read_passes(mut store: ReadAhead<Numbers>) {
        store.begin(()).unwrap();
        for numbers in [(0..200).collect(), vec![3, 4, 90, 199], vec![3, 199]] {
            let spans = numbers.iter().map(|number| packet(*number)).collect();
            let mut passes = Passes { spans };
            for number in numbers {
                store.read_ahead_for(&passes).unwrap();
                assert!(store.is_amid(), "packet {number} was not read ahead");
                let bytes = store.gather(packet(number)).unwrap();
                assert!(bytes.iter().all(|octet| u64::from(*octet) == number));
                assert!(store.again.is_empty());
                store.sent();
                passes.spans.remove(0);
            }
            assert!(!store.is_amid());
        }
    }
}
