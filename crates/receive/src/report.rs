//! Reports about single entries, to the sender and from the sender.

use std::collections::VecDeque;

use lighthaul_copy::message::{Failure, Message, in_parts};
use lighthaul_copy::thread_group::CHECK_INTERVAL;
use lighthaul_copy::watch::{CopyEvent, Failed};
use lighthaul_files::options::Planned;
use lighthaul_io::host::wait::pause;
use lighthaul_session::error::Error;
use lighthaul_session::topic::ITEMS_MAX;

use super::receiver::Receiving;

/// Changed entries that are reported together.
const REPORTED_MAX: usize = 64;

impl Receiving<'_, '_> {
    /// Reports changed entries, as fast as the sender reads, and entries that are on disk.
    pub(super) fn report_entries(&mut self) -> Result<(), Error> {
        for planned in self.transfer.table.take_done() {
            (self.watcher)(CopyEvent::Done(planned.clone()));
            self.done.push_back(planned);
        }
        let session = self.transfer.session;
        while !self.done.is_empty() && session.stream.has_room() {
            let reported = first(&mut self.done);
            let bytes = reported.iter().map(|planned| planned.path.len()).sum();
            self.transfer.table.reported(bytes);
            for entries in in_parts(reported) {
                session.say(&Message::Done { entries })?;
            }
        }
        for failures in in_parts(self.transfer.table.take_kept()) {
            session.say(&Message::NotRemoved { failures })?;
        }
        let placed = self.transfer.table.placed.take();
        for placed in placed.chunks(ITEMS_MAX) {
            let entries = placed.to_vec();
            session.say(&Message::Placed { entries })?;
        }
        Ok(())
    }

    /// Reports all changed entries.
    pub(super) fn finish_entries(&mut self) -> Result<(), Error> {
        loop {
            self.report_entries()?;
            if self.done.is_empty() || self.transfer.session.control.has_ended() {
                return Ok(());
            }
            self.transfer.threads.check()?;
            self.transfer.threads.work.advance();
            pause(CHECK_INTERVAL);
        }
    }

    /// Records files that the sender did not remove.
    pub(super) fn take_source_kept(&mut self, failures: Vec<Failure>) {
        for mut failure in failures {
            self.transfer.monitor.reasons.limit(&mut failure.why);
            self.failures.push(Failed::from(failure));
        }
    }
}

/// Takes the first entries.
fn first(done: &mut VecDeque<Planned>) -> Vec<Planned> {
    let count = done.len().min(REPORTED_MAX);
    done.drain(..count).collect()
}
