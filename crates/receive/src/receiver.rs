//! Receiver: threads and messages of the receiving side.
//!
//! [`receive`] starts the threads: the entry checker, the comparison of held ranges, the publisher, and the set-up of
//! the path, which starts one for each lane. Then it handles messages of the sender until all entries are settled:
//!
//! ```text
//! entries -> entry checker -> requests -> lanes -> temporary files -> publisher -> final names
//! ```

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::{self, Scope};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::delta_message::BASES_MAX;
use lighthaul_copy::error::Fault;
use lighthaul_copy::failures::Failures;
use lighthaul_copy::message::{Announced, Listing, Message, Progress, UNANSWERED_MAX};
use lighthaul_copy::monitor::Monitor;
use lighthaul_copy::report::Report;
use lighthaul_copy::stall::Stall;
use lighthaul_copy::thread_group::ThreadGroup;
use lighthaul_copy::watch::{CopyEvent, Failed, Summary, Watcher};
use lighthaul_files::list::ListSender;
use lighthaul_files::object::Layout;
use lighthaul_files::options::Planned;
use lighthaul_files::temp_names::Writer;
use lighthaul_files::writer_lock::WriterLock;
use lighthaul_io::control::{Frame, Stream};
use lighthaul_session::error::{Code, Error, FileAction, caught};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::halt::HaltOnDrop;
use lighthaul_session::keepalive::Keepalive;
use lighthaul_session::protocol;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

use super::entry_checker::EntryChecker;
use super::held::HeldRange;
use super::job::{Incoming, Job, OBJECTS_MAX};
use super::metadata::MetadataWriter;
use super::publish::Publisher;
use super::queues::{Lanes, Queues, StartedLanes};
use super::settings::{OpenTarget, Settings};
use super::target_folder::TargetFolder;
use super::temp_files::TempFiles;
use super::transfer::Transfer;

/// Most messages that wait until the target is open.
const EARLY_MAX: usize = 1 << 10;
/// Longest wait for the lanes after the first object was announced.
const LANES_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of reports to the sender.
const PROGRESS: Duration = Duration::from_millis(50);
/// Longest wait for a message before other work is done.
const TICK: Duration = Duration::from_millis(10);
/// Maximum number of announced objects without reports of the sender.
const UNREPORTED_MAX: usize = 1 << 8;
/// Shorter wait, and the time during which it is used.
const SHORT_TICK: Duration = Duration::from_millis(1);
const SHORT_COPY: Duration = Duration::from_millis(200);
/// Maximum number of files that wait to be hashed.
const FILES_MAX: usize = 1 << 12;

/// Number of copies that this process has started to receive.
static TRANSFERS: AtomicU64 = AtomicU64::new(0);

/// Longest wait until the result is sent, and longest silence of the sender before it closes the connection.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Receives a copy from the peer into `target_folder`.
pub fn receive(
    session: &Session,
    role: Role,
    target_folder: TargetFolder,
    mut settings: Settings,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    settings.options.check()?;
    let list = settings.names.take().map(ListSender::start).transpose()?;
    let transfer = Transfer::new(session, settings)?;
    let Transfer {
        threads,
        table,
        monitor,
        stream,
        settings,
        ..
    } = &transfer;
    let keep = settings.permit.limit(settings.options.keep);
    let metadata = MetadataWriter::new(keep, monitor);
    let writer = Writer::new(TRANSFERS.fetch_add(1, Relaxed));
    let (jobs, todo) = channel();
    let checker = EntryChecker {
        jobs: jobs.clone(),
        transfer: &transfer,
        list: list.as_ref(),
        metadata: &metadata,
        writer: writer.clone(),
    };
    let dry = settings.options.dry_run.is_some();
    let (in_place, unhashed) = sync_channel(FILES_MAX);
    if !settings.options.hash.is_empty() && !dry {
        table.report_files(in_place);
    }
    let mut receiving = Receiving {
        transfer: &transfer,
        unhashed: Cell::new(Some(unhashed)),
        metadata: &metadata,
        watcher,
        begun: session.clock.now(),
        failures: Failures::default(),
        done: VecDeque::new(),
        early: VecDeque::new(),
    };
    if settings.options.remove_source && !dry {
        table.placed.start();
    }
    let result = thread::scope(|scope| {
        let (opened, open_targets) = sync_channel(1);
        if let Some(list) = &list {
            scope.spawn(|| threads.run("list", || send_list(list, threads, stream)));
        }
        scope.spawn(|| {
            threads.run("entry checker", move || {
                checker.run(target_folder, |root, folder, made| {
                    let failed = |e| Error::file(FileAction::Open, folder, &e);
                    let lock = (!dry).then(|| root.another()).transpose().map_err(failed)?;
                    let lock = lock.and_then(|root| WriterLock::acquire(root, &writer, made));
                    let access = (root.another().map_err(failed)?, folder.to_owned(), lock);
                    // a receiver that stopped waiting has failed
                    opened.send(access).ok();
                    Ok(())
                })
            });
        });
        let mut queues = None;
        let result = caught("receiver", || {
            receiving.run(scope, role, (&open_targets, jobs, todo), &mut queues)
        });
        if let Err(error) = &result {
            threads.fail(error.clone());
        }
        // other threads see the queues close, and must know the error by then
        drop(queues);
        drop(receiving.unhashed.take());
        monitor.close();
        result
    });
    result.map_err(|error| session.blame(threads.take_failure().unwrap_or(error)))
}

/// Sends the list of paths to the sender, as it requests pages.
fn send_list(list: &ListSender, threads: &ThreadGroup, stream: &Stream) -> Result<(), Error> {
    while !list.has_ended() {
        threads.check()?;
        let say = |page| Ok(stream.send(&Frame::message(Listing::Paths(page).encode()))?);
        list.send_pages(|| stream.has_room(), say)?;
        // a user may type the list
        threads.work.wait();
        thread::park_timeout(TICK);
    }
    Ok(())
}

/// Reports the small receive buffer of this host to both sides, if datagrams were dropped because it was full.
fn warn_of_drops(monitor: &Monitor, small_buffer: Option<String>) {
    if let Some(text) = small_buffer.filter(|_| monitor.progress(0).buffer_drops > 0) {
        monitor.warn(text);
    }
}

/// State of a copy on the receiving side.
pub(super) struct Receiving<'a, 'w> {
    pub(super) transfer: &'a Transfer<'a>,
    /// Files whose hashes are wanted.
    pub(super) unhashed: Cell<Option<Receiver<PathBuf>>>,
    metadata: &'a MetadataWriter<'a>,
    pub(super) watcher: Watcher<'w>,
    pub(super) begun: Instant,
    pub(super) failures: Failures,
    /// Changed entries that were not reported to the sender.
    pub(super) done: VecDeque<Planned>,
    /// Messages that came before the target was open.
    early: VecDeque<Message>,
}

impl<'a> Receiving<'a, '_> {
    fn run<'s>(
        &mut self,
        scope: &'s Scope<'s, 'a>,
        role: Role,
        (open_targets, jobs, todo): (&Receiver<OpenTarget>, Sender<Job>, Receiver<Job>),
        open: &mut Option<Queues>,
    ) -> Result<Summary, Error> {
        let transfer = self.transfer;
        let (session, threads) = (transfer.session, &*transfer.threads);
        protocol::asked(&transfer.options().protocol)?;
        let _alive = Keepalive::start(scope, session, threads.work.counter());
        let end = HaltOnDrop::new(Fault::Stopped.into());
        let (open_files, files) = sync_channel(1);
        let starting = self.set_up_path(scope, role, (files, jobs.clone()), &end);
        let (root, target, lock) = self.opened(open_targets)?;
        let files = TempFiles::new(transfer, &root, target.clone())?;
        // a set-up that has ended needs no files
        let failed = |e| Error::file(FileAction::Open, &target, &e);
        open_files.send(files.another().map_err(failed)?).ok();
        let (held, ranges) = sync_channel(UNANSWERED_MAX);
        let (bases, unread) = sync_channel(BASES_MAX);
        let (done, finished) = channel();
        self.hash(scope, &files, done.clone())?;
        self.read_bases(scope, &files, unread)?;
        self.compare(scope, files, (ranges, jobs.clone()));
        *open = Some(Queues {
            lanes: Lanes::new(starting),
            held,
            jobs,
            bases,
            unreported: BTreeMap::new(),
        });
        let mut publisher = Publisher::new(
            &transfer.threads,
            &transfer.table,
            (root, target, lock),
            self.metadata,
            (&transfer.settings, transfer.temp_place.clone()),
        );
        scope.spawn(move || {
            threads.run("publisher", || publisher.run(&todo));
            threads.run("cleaning", || {
                publisher.clean();
                Ok(())
            });
            drop((publisher, done));
        });
        let mut summary = self.watch(open, &finished, &end)?;
        let now = session.clock.now();
        summary.elapsed = now.since(self.begun);
        let started = transfer.started.get().copied();
        summary.moving = now.since(started.unwrap_or(self.begun));
        Ok(summary)
    }

    /// Waits until the target directory is open.
    fn opened(&mut self, open_targets: &Receiver<OpenTarget>) -> Result<OpenTarget, Error> {
        let (session, threads) = (self.transfer.session, &self.transfer.threads);
        let mut stall = Stall::new(session.clock.now(), self.transfer.options().stall);
        loop {
            threads.check()?;
            let now = session.clock.now();
            stall.check(now, &threads.work, session.told_work())?;
            let patience = self.transfer.options().stall_timeout();
            if now.since(self.begun.max(session.heard_at())) > patience {
                return Err(Fault::Silent("sender", patience.as_secs()).into());
            }
            if self.early.len() < EARLY_MAX {
                match session.heard() {
                    Ok(message) => self.early.extend(message),
                    // noticed below
                    Err(error) if error.code() == Code::Network => {}
                    Err(error) => return Err(error),
                }
            }
            match open_targets.recv_timeout(TICK) {
                Ok(opened) => return Ok(opened),
                Err(_) if self.transfer.session.control.has_ended() => {
                    return Err(Fault::NoList.into());
                }
                Err(_) => {}
            }
        }
    }

    /// Receives messages and reports progress, until all entries are settled.
    fn watch(
        &mut self,
        queues: &mut Option<Queues>,
        finished: &Receiver<()>,
        end: &HaltOnDrop,
    ) -> Result<Summary, Error> {
        let clock = self.transfer.session.clock;
        let mut progress_at = clock.now();
        let mut moved = (clock.now(), 0);
        let transfer = self.transfer;
        let work = &transfer.threads.work;
        let mut stall = Stall::new(clock.now(), self.transfer.options().stall);
        let mut arrived = 0;
        let mut small_buffer = None;
        loop {
            self.transfer.threads.check()?;
            self.show();
            self.failures.check()?;
            let now = clock.now();
            if now >= progress_at {
                progress_at = now + PROGRESS;
                self.send_progress()?;
            }
            let motion = self.transfer.monitor.progress(u64::MAX);
            if motion.done > arrived || motion.held {
                arrived = arrived.max(motion.done);
                work.advance();
            }
            stall.check(now, work, self.transfer.session.told_work())?;
            let bytes = motion.sent;
            if bytes != moved.1 || motion.held || queues.is_none() {
                moved = (now, bytes);
            }
            if self.is_over(queues.as_ref()) {
                Queues::end(queues, self.transfer.options(), &self.transfer.monitor);
            }
            match queues {
                Some(queues) if small_buffer.is_none() => {
                    let lanes = queues.lanes.wait(Duration::ZERO);
                    small_buffer = lanes.and_then(|lanes| lanes.small_buffer.clone());
                }
                Some(_) => {}
                None => end.stop(),
            }
            if queues.is_none() && matches!(finished.try_recv(), Err(TryRecvError::Disconnected)) {
                self.transfer.threads.check()?;
                warn_of_drops(&self.transfer.monitor, small_buffer);
                return self.conclude();
            }
            let next = if let Some(message) = self.early.pop_front() {
                Ok(message)
            } else {
                // a small copy ends soon
                let is_short = queues.is_none() || now.since(self.begun) < SHORT_COPY;
                let tick = if is_short { SHORT_TICK } else { TICK };
                self.transfer.session.hear_for(tick)
            };
            match next {
                Err(error) if error.code() == Code::TimedOut => {
                    // pending messages have been read by now
                    let patience = self.transfer.options().stall_timeout();
                    if now.since(moved.0.max(self.transfer.session.heard_at())) > patience {
                        return Err(Fault::Silent("sender", patience.as_secs()).into());
                    }
                }
                message => {
                    if !self.take(message?, queues)? {
                        Queues::end(queues, self.transfer.options(), &self.transfer.monitor);
                    }
                }
            }
        }
    }

    /// Returns true if no further message can change the result, so the end of the objects need not arrive.
    fn is_over(&self, queues: Option<&Queues>) -> bool {
        let reported = queues.is_some_and(|queues| queues.unreported.is_empty());
        reported && self.transfer.table.is_complete()
    }

    /// Shows the choices and changes that the sender reports. Returns any other message.
    fn explain(&self, message: Message) -> Option<Message> {
        let event = if let Message::Chosen { protocol, why } = message {
            CopyEvent::Chosen(protocol.name().to_owned(), why)
        } else if let Message::Changed(why) = message {
            CopyEvent::Changed(why)
        } else if message == Message::CircuitReleased {
            CopyEvent::CircuitReleased
        } else {
            return Some(message);
        };
        self.transfer.monitor.show(event);
        None
    }

    /// Handles a message. Returns true if more objects may come.
    fn take(&mut self, message: Message, queues: &mut Option<Queues>) -> Result<bool, Error> {
        let invalid = |what| Err(PeerFault::Invalid(what).into());
        if !matches!(message, Message::Warning { .. }) {
            self.transfer.threads.work.advance();
        }
        if message == Message::Sent && queues.is_none() {
            return Ok(false);
        }
        let Some(message) = self.explain(message) else {
            // without data, the copy may be complete by now
            return Ok(queues.is_some());
        };
        let Some(queues) = queues else {
            return invalid("a message after its last one");
        };
        match message {
            Message::Object(announced) => self.announce(announced, queues)?,
            Message::Reports {
                object,
                mut reports,
            } => {
                self.take_reasons(&mut reports);
                let left = queues.unreported.get(&object);
                let left = left.and_then(|left| left.checked_sub(reports.len()));
                let Some(left) = left.filter(|_| !reports.is_empty()) else {
                    return invalid("a report on a piece that it did not send");
                };
                if left == 0 {
                    queues.unreported.remove(&object);
                } else {
                    queues.unreported.insert(object, left);
                }
                // a publisher that has stopped has reported the reason
                queues.jobs.send(Job::Reports(object, reports)).ok();
            }
            Message::Held(mut held) => {
                self.take_reasons(std::slice::from_mut(&mut held.report));
                let range = HeldRange {
                    file: self.transfer.table.compare(held.entry, held.span)?,
                    span: held.span,
                    copies: Vec::new(),
                    report: held.report,
                };
                if queues.held.try_send(range).is_err() {
                    self.transfer.threads.check()?;
                    return invalid("more digests than the limit");
                }
            }
            Message::RequestSums(request) => self.take_request(request, queues)?,
            Message::Delta(stretch) => self.take_stretch(stretch, queues)?,
            Message::Warning { text } => self.transfer.monitor.show(CopyEvent::Warning(text)),
            Message::SourceKept { failures } => self.take_source_kept(failures),
            Message::Sent => return Ok(false),
            Message::Explore
            | Message::Offer(_)
            | Message::Chosen { .. }
            | Message::Changed(_)
            | Message::CircuitReleased
            | Message::Progress(_)
            | Message::Settled { .. }
            | Message::Hashed(_)
            | Message::Placed { .. }
            | Message::Done { .. }
            | Message::NotRemoved { .. }
            | Message::Result(_) => {
                return Err(PeerFault::Unexpected("the next message of a copy").into());
            }
        }
        Ok(true)
    }

    /// Limits the reasons in `reports` to the remaining space for reasons.
    pub(super) fn take_reasons(&self, reports: &mut [Report]) {
        for report in reports {
            if let Report::Failed { why, .. } = report {
                self.transfer.monitor.reasons.limit(why);
            }
        }
    }

    fn announce(&self, announced: Announced, queues: &mut Queues) -> Result<(), Error> {
        let invalid = |what| Error::from(PeerFault::Invalid(what));
        let layout = Layout::new(announced.pieces).map_err(|_| invalid("an invalid object"))?;
        let files = self.transfer.table.announce(layout.pieces())?;
        if queues.unreported.len() >= UNREPORTED_MAX {
            return Err(invalid("more objects without reports than the limit"));
        }
        let pieces = layout.pieces().len();
        if announced.number >= OBJECTS_MAX {
            return Err(invalid("the number of an object"));
        }
        if queues.unreported.insert(announced.number, pieces).is_some() {
            return Err(invalid("an object twice"));
        }
        let incoming = Incoming {
            number: announced.number,
            protocol: announced.protocol,
            layout,
            files,
        };
        let number = usize::from(announced.lane);
        let lanes = self.started_lanes(queues)?;
        lanes.allow(announced.protocol, self.transfer.options())?;
        if let Some(counts) = self.transfer.monitor.lanes().get(number) {
            counts.source_wait.store(announced.source_wait, Relaxed);
        }
        let lane = lanes.queues.get(number);
        if lane.is_some_and(|lane| lane.try_send(incoming).is_ok()) {
            return Ok(());
        }
        self.transfer.threads.check()?;
        Err(invalid("more objects than a lane accepts"))
    }

    /// Waits for the lanes, since the sender may use them before this side has started them.
    fn started_lanes<'q>(&self, queues: &'q mut Queues) -> Result<&'q StartedLanes, Error> {
        let clock = self.transfer.session.clock;
        let until = clock.now() + LANES_TIMEOUT;
        while queues.lanes.wait(TICK).is_none() {
            self.transfer.threads.check()?;
            if clock.now() >= until {
                return Err(PeerFault::Unexpected("an offer").into());
            }
        }
        let lanes = queues.lanes.wait(Duration::ZERO);
        lanes.ok_or_else(|| PeerFault::Unexpected("an offer").into())
    }

    fn send_progress(&mut self) -> Result<(), Error> {
        for text in self.transfer.monitor.take_warnings() {
            self.transfer.session.say(&Message::Warning { text })?;
        }
        let (settled, failures) = self.transfer.table.take_settled();
        for failure in failures.iter().cloned() {
            self.failures.push(Failed::from(failure));
        }
        for message in Message::settled(settled, failures) {
            self.transfer.session.say(&message)?;
        }
        self.report_entries()?;
        let counts = self.transfer.table.counts();
        let published = counts.entries - counts.unchanged;
        self.transfer.monitor.published.store(published, Relaxed);
        let motion = self.transfer.monitor.progress(self.transfer.table.wanted());
        let lanes = self.transfer.monitor.lanes();
        let datagrams = lanes.iter().map(|lane| lane.datagrams.load(Relaxed));
        self.transfer.session.say(&Message::Progress(Progress {
            bytes: motion.done,
            duplicates: motion.resent,
            datagrams: datagrams.collect(),
            buffer_drops: motion.buffer_drops,
            foreign: motion.foreign,
            published,
            disk_wait: motion.target_wait,
            disk_backlog: self.transfer.monitor.backlog_bytes(),
            run_delay: self.transfer.monitor.run_delay(),
        }))
    }

    fn show(&mut self) {
        // the observer may be slow, like a user with a pager
        let _step = self.transfer.threads.work.begin();
        for event in self.transfer.monitor.take_events() {
            if let CopyEvent::Failed(failed) = &event {
                self.failures.push(failed.clone());
            }
            (self.watcher)(event);
        }
        let motion = self.transfer.monitor.progress(self.transfer.table.wanted());
        if motion.sent > 0 {
            (self.watcher)(CopyEvent::Moving(motion));
            (self.watcher)(CopyEvent::Current(self.transfer.monitor.current()));
        }
    }

    /// Waits until the sender has processed the reports and closes the session.
    fn await_end(&mut self) {
        let (session, work) = (self.transfer.session, &self.transfer.threads.work);
        let mut stall = Stall::new(session.clock.now(), self.transfer.options().stall);
        loop {
            match session.hear_for::<Message>(TICK) {
                Ok(Message::SourceKept { failures }) => self.take_source_kept(failures),
                Ok(_) => {}
                Err(error) if error.code() == Code::TimedOut => {
                    if session.clock.now().since(session.heard_at()) >= CLOSE_TIMEOUT {
                        return;
                    }
                }
                Err(_) => return,
            }
            let worked = stall.check(session.clock.now(), work, session.told_work());
            if worked.is_err() {
                return;
            }
        }
    }

    fn conclude(&mut self) -> Result<Summary, Error> {
        let Settings { plain, options, .. } = &self.transfer.settings;
        let start_up = self.transfer.session.clock.now().since(self.begun);
        let protection = (*plain, options.digest);
        let monitor = &self.transfer.monitor;
        monitor.announce_list(self.transfer.session, protection, start_up);
        self.show();
        self.send_progress()?;
        self.finish_entries()?;
        let counts = self.transfer.table.counts();
        // published files stay even if the sender has left
        self.transfer.session.say(&Message::Result(counts)).ok();
        self.transfer.session.control.flush(FLUSH_TIMEOUT);
        // the sender closes when it has read the result, and sends keepalives until then; closing
        // first would look like a lost connection
        self.await_end();
        Ok(Summary {
            entries: counts.entries,
            bytes: counts.bytes,
            unchanged: counts.unchanged,
            motion: self.transfer.monitor.progress(self.transfer.table.wanted()),
            failures: self.failures.finish(),
            ..Summary::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_buffer_is_reported_to_both_sides_only_after_drops() {
        let monitor = Monitor::default();
        monitor.lane(0).packets.store(1000, Relaxed);
        warn_of_drops(&monitor, Some("small".into()));
        assert!(monitor.take_events().is_empty());
        monitor.lane(0).buffer_drops.store(1, Relaxed);
        warn_of_drops(&monitor, None);
        assert!(monitor.take_events().is_empty());
        warn_of_drops(&monitor, Some("small".into()));
        assert_eq!(monitor.take_warnings(), ["small"]);
        let shown = [CopyEvent::Warning("small".into())];
        assert_eq!(monitor.take_events(), shown);
    }
}
