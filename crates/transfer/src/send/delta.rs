//! Thread of the sender that finds out which parts of changed files the receiver has.

use std::collections::VecDeque;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_files::delta::index::Index;
use lighthaul_files::delta::parts::Part;
use lighthaul_files::delta::scan::{Environment, Scan, blocks};
use lighthaul_files::delta::summer::{Summer, block_len};
use lighthaul_files::options::DeltaMode;
use lighthaul_fs::disk::InputFile;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_session::error::Error;

use super::deltas::DeltaFile;
use super::held::{changed, unreadable};
use super::transfer::Transfer;
use crate::delta_message::{Delta, DeltaStep, PARTS_A_MESSAGE};
use crate::message::Message;

/// Rate of a path on which a delta does not pay: about that at which one core reads, sums and
/// copies.
const RATE_MAX: Rate = Rate::from_mbps(2000);
/// Round-trip time of a path of unknown rate on which a delta pays.
const RTT_MIN: Duration = Duration::from_millis(2);
/// Longest wait of parts that were found.
const FLUSH: Duration = Duration::from_millis(20);

/// Sender of deltas.
pub(super) struct DeltaSender<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    /// Rate of the path, if it is known.
    pub(super) rate: Option<Rate>,
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
    /// Searches files until no more can be wanted.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let mut begun = VecDeque::new();
        loop {
            self.begin(&mut begun)?;
            if let Some(next) = begun.pop_front() {
                self.send(&next, &mut begun)?;
            } else if !self.transfer.queue.await_delta(&self.transfer.threads)? {
                return Ok(());
            }
        }
    }

    /// Requests the sums of the next files, as long as there is room for them.
    fn begin(&self, begun: &mut VecDeque<Begun>) -> Result<(), Error> {
        let queue = &self.transfer.queue;
        let blocks_max = self.transfer.settings.budget.delta_blocks();
        let layout = |file: &DeltaFile| {
            let block = block_len(file.basis, blocks_max as u64);
            (block, blocks(file.basis, block as usize))
        };
        while let Some(file) = queue.next_delta(|file| layout(file).1, blocks_max) {
            let (block, count) = layout(&file);
            if !self.pays() || count > blocks_max {
                self.say(file.number, DeltaStep::Decline)?;
                queue.decline_delta(&file);
                continue;
            }
            let key = random_octets();
            queue.begin_delta(&file, count);
            self.say(file.number, DeltaStep::Begin { block, key })?;
            let summer = Summer::new(key, block);
            begun.push_back(Begun { file, summer });
        }
        Ok(())
    }

    /// Returns true if a delta is likely faster than sending all.
    fn pays(&self) -> bool {
        if self.transfer.options().delta == DeltaMode::Always {
            return true;
        }
        self.rate.map_or_else(
            || self.transfer.session.rtt >= RTT_MIN,
            |rate| rate <= RATE_MAX,
        )
    }

    /// Searches one file.
    fn send(&self, next: &Begun, begun: &mut VecDeque<Begun>) -> Result<(), Error> {
        let (file, queue) = (&next.file, &self.transfer.queue);
        let (step, ended) = match self.search(next, begun) {
            Ok(()) => (DeltaStep::End, Ok(())),
            Err(Stop::File(error)) => (
                DeltaStep::Failed {
                    code: error.code as u8,
                    why: error.text,
                },
                Ok(()),
            ),
            Err(Stop::Dropped) => (
                DeltaStep::Failed {
                    code: lighthaul_session::error::Code::Io as u8,
                    why: String::new(),
                },
                Ok(()),
            ),
            Err(Stop::Copy(error)) => (DeltaStep::End, Err(error)),
        };
        ended?;
        queue.end_delta(file.number);
        self.say(file.number, step)
    }

    fn search(&self, next: &Begun, begun: &mut VecDeque<Begun>) -> Result<(), Stop> {
        let file = &next.file;
        let input = self.transfer.access.file(&file.item.place);
        let input = input.map_err(|error| Stop::File(unreadable(&file.item, &error)))?;
        let mut search = Search {
            sender: self,
            file,
            input,
            parts: Vec::new(),
            told: self.transfer.session.clock.now(),
            begun,
        };
        let sizes = (file.item.size, file.basis);
        let is_auto = self.transfer.options().delta == DeltaMode::Auto;
        let scan = Scan::new(&mut search, &next.summer, sizes, (file.digest, is_auto));
        scan.run(&file.spans)?;
        search.tell()
    }

    fn say(&self, entry: u64, step: DeltaStep) -> Result<(), Error> {
        let session = self.transfer.session;
        session.say(&Message::Delta(Delta { entry, step }))
    }
}

/// Search of one file.
struct Search<'s, 'a> {
    sender: &'s DeltaSender<'a>,
    file: &'s DeltaFile,
    input: InputFile,
    /// Parts that were not sent yet.
    parts: Vec<Part>,
    told: Instant,
    begun: &'s mut VecDeque<Begun>,
}

impl Search<'_, '_> {
    /// Tells the receiver about the parts, if the file is unchanged since it was listed, and queues
    /// those that are missing.
    fn tell(&mut self) -> Result<(), Stop> {
        let transfer = self.sender.transfer;
        transfer.threads.check()?;
        let parts = std::mem::take(&mut self.parts);
        if !parts.is_empty() {
            if !matches!(self.file.item.is_unchanged(&self.input), Ok(true)) {
                return Err(Stop::File(changed(&self.file.item)));
            }
            for parts in parts.chunks(PARTS_A_MESSAGE) {
                let step = DeltaStep::Parts(parts.to_vec());
                transfer.queue.note_parts(self.file.number, parts);
                self.sender.say(self.file.number, step)?;
                transfer.queue.send_missing(self.file, parts);
            }
        }
        transfer.threads.work.advance();
        self.told = transfer.session.clock.now();
        Ok(self.sender.begin(self.begun)?)
    }
}

impl Environment for Search<'_, '_> {
    type Error = Stop;

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Stop> {
        let item = &self.file.item;
        let _step = self.sender.transfer.threads.work.begin();
        match self.input.read_at(buffer, offset) {
            Ok(count) if count == buffer.len() => Ok(()),
            Ok(_) => Err(Stop::File(changed(item))),
            Err(error) => Err(Stop::File(unreadable(item, &error))),
        }
    }

    fn wait_for(&mut self, index: &mut Index, count: usize) -> Result<(), Stop> {
        let known = index.known();
        if index.is_complete() || count < known {
            return Ok(());
        }
        let wanted = count.min(index.blocks()) - known;
        let transfer = self.sender.transfer;
        let mut taken = transfer.queue.take_sums(self.file.number, wanted);
        if taken.is_none() {
            self.tell()?;
        }
        while taken.is_none() {
            taken = transfer
                .queue
                .await_sums(&transfer.threads, self.file.number, wanted)?;
            self.sender.begin(self.begun)?;
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

    fn found(&mut self, parts: Vec<Part>) -> Result<(), Stop> {
        self.parts.extend(parts);
        let now = self.sender.transfer.session.clock.now();
        if self.parts.len() >= PARTS_A_MESSAGE || now.since(self.told) >= FLUSH {
            self.tell()?;
        }
        Ok(())
    }
}
