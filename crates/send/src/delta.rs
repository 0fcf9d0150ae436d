//! Thread of the sender that finds out which parts of changed files the receiver has.
//!
//! ```text
//! RequestSums --> sums of the basis --> search --> Delta (copies, digest), and gaps to the queue
//! ```
//!
//! `DeltaSender` requests sums for several files ahead, as far as their blocks fit in memory. It
//! searches one file at a time. A file whose basis is too large is sent whole. The receiver
//! compares the digest of the copies; if it differs, they are sent like gaps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_copy::delta_message::{DeltaStretch, SumsRequest};
use lighthaul_copy::message::Message;
use lighthaul_copy::report::Report;
use lighthaul_files::delta::index::Index;
use lighthaul_files::delta::scan::{Environment, Scan, blocks};
use lighthaul_files::delta::stretch::{Copied, Stretch, gaps};
use lighthaul_files::delta::summer::{Summer, block_len};
use lighthaul_files::digest::{Digest, DigestKind};
use lighthaul_files::object::{Piece, Span};
use lighthaul_files::options::DeltaMode;
use lighthaul_files::source_store::SourceFile;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_session::error::Error;

use super::deltas::DeltaFile;
use super::held::{changed, unreadable};
use super::queue::HeldRange;
use super::transfer::Transfer;

/// Rate of the fastest path on which a delta is likely faster than sending the whole file. One core searches several
/// times as fast.
const RATE_MAX: Rate = Rate::from_mbps(1000);
/// Shortest round-trip time of a path of unknown rate on which a delta is likely faster.
const RTT_MIN: Duration = Duration::from_millis(2);

/// Returns true if deltas are wanted on a path with the given rate (none if unknown) and round-trip time.
pub(super) fn pays(mode: DeltaMode, rate: Option<Rate>, rtt: Duration) -> bool {
    match mode {
        DeltaMode::Always => true,
        DeltaMode::Never => false,
        DeltaMode::Auto => rate.map_or(rtt >= RTT_MIN, |rate| rate <= RATE_MAX),
    }
}

/// Sender of deltas.
pub(super) struct DeltaSender<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    /// Maximum number of blocks of all deltas in progress. Without any, files are sent as a whole.
    pub(super) blocks_max: usize,
}

/// Delta whose sums were requested.
struct Begun {
    file: DeltaFile,
    summer: Summer,
}

/// Reason for which a search ends early.
enum Stop {
    /// The file cannot be sent.
    File(Error),
    /// The receiver has reported that the file failed.
    Dropped,
    /// The copy has failed.
    Copy(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Copy(error)
    }
}

impl DeltaSender<'_> {
    /// Searches files until the receiver cannot want any more files.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let mut begun = VecDeque::new();
        loop {
            self.begin(&mut begun)?;
            if let Some(next) = begun.pop_front() {
                self.send(&next, &mut begun)?;
                continue;
            }
            let blocks = |file: &DeltaFile| self.layout(file).1;
            let (queue, threads) = (&self.transfer.queue, &self.transfer.threads);
            if !queue.await_delta(threads, blocks, self.blocks_max)? {
                return Ok(());
            }
        }
    }

    /// Requests the sums of the next files, as long as memory allows it.
    fn begin(&self, begun: &mut VecDeque<Begun>) -> Result<(), Error> {
        let queue = &self.transfer.queue;
        while let Some((file, count)) =
            queue.next_delta(|file| self.layout(file).1, self.blocks_max)
        {
            if count == 0 {
                self.decline(&file)?;
                continue;
            }
            let request = SumsRequest {
                entry: file.number,
                block: self.layout(&file).0,
                key: random_octets(),
            };
            self.transfer.say(&Message::RequestSums(request))?;
            self.transfer.monitor.delta().files += 1;
            let summer = Summer::new(request.key, request.block);
            begun.push_back(Begun { file, summer });
        }
        Ok(())
    }

    /// Returns the length and the number of blocks of a basis.
    fn layout(&self, file: &DeltaFile) -> (u32, usize) {
        let block = block_len(file.basis, self.blocks_max as u64);
        (block, blocks(file.basis, block as usize))
    }

    /// Sends all of a file.
    fn decline(&self, file: &DeltaFile) -> Result<(), Error> {
        for span in &file.spans {
            let nothing = Report::Digest(Digest::None);
            self.say(file.number, (*span, Vec::new()), nothing)?;
        }
        let queue = &self.transfer.queue;
        queue.send_gaps(file, &file.spans);
        queue.end_delta(file.number);
        Ok(())
    }

    /// Searches one file.
    fn send(&self, next: &Begun, begun: &mut VecDeque<Begun>) -> Result<(), Error> {
        match self.search(next, begun) {
            Ok(()) | Err(Stop::Dropped) => {}
            Err(Stop::File(error)) => {
                let report = Report::Failed {
                    code: error.code() as u8,
                    why: error.text(),
                };
                self.say(next.file.number, ((0, 0), Vec::new()), report)?;
            }
            Err(Stop::Copy(error)) => return Err(error),
        }
        self.transfer.queue.end_delta(next.file.number);
        Ok(())
    }

    fn search(&self, next: &Begun, begun: &mut VecDeque<Begun>) -> Result<(), Stop> {
        let file = &next.file;
        let input = self.transfer.sources.file(&file.item.place);
        let input = input.map_err(|error| Stop::File(unreadable(&file.item, &error)))?;
        let mut search = Search {
            sender: self,
            file,
            input,
            block: next.summer.block() as u64,
            stretch: Stretch::default(),
            begun,
        };
        let sizes = (file.item.size, file.basis);
        Scan::new(&mut search, &next.summer, sizes).run(&file.spans)?;
        search.tell()
    }

    fn say(
        &self,
        entry: u64,
        (span, copies): (Span, Vec<Copied>),
        report: Report,
    ) -> Result<(), Error> {
        self.transfer.say(&Message::Delta(DeltaStretch {
            entry,
            span,
            copies,
            report,
        }))
    }
}

/// Search of one file.
struct Search<'s, 'a> {
    sender: &'s DeltaSender<'a>,
    file: &'s DeltaFile,
    input: SourceFile,
    block: u64,
    /// Stretch that was not sent yet.
    stretch: Stretch,
    begun: &'s mut VecDeque<Begun>,
}

impl Search<'_, '_> {
    /// Sends the stretch, if the file is unchanged since it was listed, and queues its gaps.
    fn tell(&mut self) -> Result<(), Stop> {
        if self.stretch.is_empty() {
            return Ok(());
        }
        let (transfer, file) = (self.sender.transfer, self.file);
        let (span, copies, digest) = std::mem::take(&mut self.stretch).finish();
        if !matches!(file.item.is_unchanged(&self.input), Ok(true)) {
            return Err(Stop::File(changed(&file.item)));
        }
        let gaps = gaps(span, &copies, self.block).unwrap_or_default();
        let range = HeldRange {
            piece: Piece {
                entry: file.number,
                offset: span.0,
                len: span.1 - span.0,
            },
            item: Arc::clone(&file.item),
            digest: DigestKind::Blake3,
            copies: copies.clone(),
        };
        if !transfer.queue.begin_stretch(&transfer.threads, range)? {
            return Err(Stop::Dropped);
        }
        self.sender
            .say(file.number, (span, copies), Report::Digest(digest))?;
        // the receiver must know the gaps before they are announced
        transfer.queue.send_gaps(file, &gaps);
        let sent = gaps.iter().map(|(from, till)| till - from).sum();
        transfer.monitor.delta().add(span.1 - span.0 - sent, sent);
        transfer.threads.work.advance();
        Ok(self.sender.begin(self.begun)?)
    }
}

impl Environment for Search<'_, '_> {
    type Error = Stop;

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Stop> {
        let item = &self.file.item;
        self.sender.transfer.threads.check()?;
        let _step = self.sender.transfer.threads.work.begin();
        match self.input.read_at(buffer, offset) {
            Ok(count) if count == buffer.len() => Ok(()),
            Ok(_) => Err(Stop::File(changed(item))),
            Err(error) => Err(Stop::File(unreadable(item, &error))),
        }
    }

    fn wait_for(&mut self, index: &mut Index, count: usize) -> Result<(), Stop> {
        let known = index.known();
        if index.is_complete() || count <= known {
            return Ok(());
        }
        let wanted = count.min(index.blocks()) - known;
        let (transfer, number) = (self.sender.transfer, self.file.number);
        let mut taken = transfer.queue.take_sums(number, wanted);
        if taken.is_none() {
            self.tell()?;
        }
        while taken.is_none() {
            taken = transfer
                .queue
                .await_sums(&transfer.threads, number, wanted)?;
        }
        let Some(taken) = taken.filter(|taken| !taken.failed) else {
            return Err(Stop::Dropped);
        };
        // more sums than blocks were refused when they arrived
        if index.extend(&taken.sums).is_err() || taken.complete {
            index.finish();
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.sender.transfer.queue.is_idle()
    }

    fn matched(&mut self, at: u64, from: u64, bytes: &[u8]) -> Result<(), Stop> {
        if !self.stretch.fits_copy(at, bytes.len() as u64) {
            self.tell()?;
        }
        self.stretch.copy(at, from, bytes);
        Ok(())
    }

    fn missing(&mut self, span: Span) -> Result<(), Stop> {
        if !self.stretch.fits_gap(span) {
            self.tell()?;
        }
        self.stretch.skip(span);
        if self.stretch.is_full() {
            self.tell()?;
        }
        Ok(())
    }
}
