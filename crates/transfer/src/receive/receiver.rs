//! The receiving side of a transfer.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::{self, Scope};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_files::list::Told;
use lighthaul_files::object::Layout;
use lighthaul_files::temp_names::Writer;
use lighthaul_io::control::{Frame, Stream};
use lighthaul_session::alive::Alive;
use lighthaul_session::door::Door;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::join::join;
use lighthaul_session::offer;
use lighthaul_session::path::explore;
use lighthaul_session::protocol::{self, Protocol};
use lighthaul_session::session::Session;

use super::claim::Claim;
use super::dress::Wardrobe;
use super::held::{HeldCheck, HeldRange};
use super::job::{Incoming, Job};
use super::judge::Judge;
use super::landing::Landing;
use super::publish::Publisher;
use super::settings::{Landed, Settings};
use super::transfer::Transfer;
use crate::crew::Crew;
use crate::failures::Failures;
use crate::message::{Announced, Listing, Message, Progress, Report, UNANSWERED_MAX};
use crate::stall::Stall;
use crate::watch::{Failed, Sight, Summary, Watcher, announce};

/// How often the sender hears how we are doing.
const PROGRESS: Duration = Duration::from_millis(50);
/// How often we look at what there is to say.
const TICK: Duration = Duration::from_millis(10);
/// Objects that may have been announced, and not reported on.
const UNREPORTED_MAX: usize = 1 << 8;
/// Files that wait to be hashed.
const FILES_MAX: usize = 1 << 12;

/// Transfers that this process has begun to receive.
static TRANSFERS: AtomicU64 = AtomicU64::new(0);

/// How long the verdict may take to leave, and the sender to say nothing before it closes.
const FLUSH: Duration = Duration::from_secs(10);
const FAREWELL: Duration = Duration::from_secs(5);

/// Receives what the peer sends, and puts it in `landing`.
pub fn receive(
    session: &Session,
    door: &Door<'_>,
    landing: Landing,
    mut settings: Settings,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let list = settings.names.take().map(Told::begin).transpose()?;
    let transfer = Transfer::new(session, settings)?;
    let Transfer {
        crew,
        ledger,
        board,
        stream,
        settings,
        ..
    } = &transfer;
    let keep = settings.permit.limit(settings.options.keep);
    let wardrobe = Wardrobe::new(keep, board);
    let writer = Writer::new(TRANSFERS.fetch_add(1, Relaxed));
    let judge = Judge {
        transfer: &transfer,
        list: list.as_ref(),
        wardrobe: &wardrobe,
        writer: writer.clone(),
    };
    let dry = settings.options.dry_run.is_some();
    let (in_place, unhashed) = sync_channel(FILES_MAX);
    if !settings.options.hash.is_empty() && !dry {
        ledger.tell_files(in_place);
    }
    let mut receiving = Receiving {
        transfer: &transfer,
        unhashed: Cell::new(Some(unhashed)),
        wardrobe: &wardrobe,
        watcher,
        begun: session.clock.now(),
        protocol: Protocol::default(),
        failures: Failures::default(),
    };
    let result = thread::scope(|scope| {
        let (landed, lands) = sync_channel(1);
        if let Some(list) = &list {
            scope.spawn(|| crew.run("list", || tell(list, crew, stream)));
        }
        scope.spawn(|| {
            crew.run("judge", move || {
                judge.run(landing, |root, folder, made| {
                    let failed = |e| Error::file(Code::Io, "cannot open", folder, &e);
                    let claim = (!dry).then(|| root.another()).transpose().map_err(failed)?;
                    let claim = claim.and_then(|root| Claim::stake(root, &writer, made));
                    let ground = (root.another().map_err(failed)?, folder.to_owned(), claim);
                    // who does not wait any more has failed
                    landed.send(ground).ok();
                    Ok(())
                })
            });
        });
        let mut outlets = None;
        let result = caught("receiver", || {
            receiving.run(scope, door, &lands, &mut outlets)
        });
        if let Err(error) = &result {
            crew.fail(error.clone());
        }
        // The other parts see them close, and must know why by then.
        drop(outlets);
        drop(receiving.unhashed.take());
        board.close();
        result
    });
    result.map_err(|error| session.blame(crew.take_failure().unwrap_or(error)))
}

/// Tells the sender which paths it is to look for.
fn tell(list: &Told, crew: &Crew, stream: &Stream) -> Result<(), Error> {
    while !list.has_ended() {
        crew.check()?;
        let say = |page| Ok(stream.send(&Frame::message(Listing::Take(page).encode()))?);
        list.answer(|| stream.has_room(), say)?;
        // the list may come from somebody who thinks
        crew.work.wait();
        thread::park_timeout(TICK);
    }
    Ok(())
}

/// A transfer on the receiving side.
pub(super) struct Receiving<'a, 'w> {
    pub(super) transfer: &'a Transfer<'a>,
    /// Files whose hashes are to be taken.
    pub(super) unhashed: Cell<Option<Receiver<PathBuf>>>,
    wardrobe: &'a Wardrobe<'a>,
    watcher: Watcher<'w>,
    begun: Instant,
    protocol: Protocol,
    failures: Failures,
}

/// Where objects and reports go.
pub(super) struct Outlets {
    pub(super) lanes: Vec<SyncSender<Incoming>>,
    /// Ranges that are to be compared.
    held: SyncSender<HeldRange>,
    pub(super) jobs: Sender<Job>,
    /// Objects on which the sender has not reported, and pieces of each that are left.
    unreported: BTreeMap<u64, usize>,
}

impl<'a> Receiving<'a, '_> {
    fn run<'s>(
        &mut self,
        scope: &'s Scope<'s, 'a>,
        door: &Door<'_>,
        lands: &Receiver<Landed>,
        open: &mut Option<Outlets>,
    ) -> Result<Summary, Error> {
        let session = self.transfer.session;
        let options = self.transfer.options();
        let asked = protocol::asked(&options.protocol)?;
        let lanes = offer::lanes(asked, !options.trc.is_empty());
        let mut path = explore(session, door, false, lanes)?;
        let Message::Offer(offer) = path.listen(session)? else {
            return Err(Error::new(Code::Protocol, "the peer offered nothing"));
        };
        if !offer.udp {
            path.sockets.clear();
        }
        self.protocol = offer.protocol;
        offer::check(&offer, &path)?;
        let joined = join(session, door, offer.joins, self.transfer.settings.plain)?;
        let started = session.clock.now();
        announce(
            session,
            (asked, &offer),
            (self.transfer.settings.plain, self.transfer.options().digest),
            started.since(self.begun),
            self.watcher,
        );
        self.warn(offer::scarce(&offer, &path))?;
        let (root, target, claim) = self.landed(lands)?;
        let (jobs, todo) = channel();
        let (held, ranges) = sync_channel(UNANSWERED_MAX);
        let mut outlets = Outlets {
            lanes: Vec::new(),
            held,
            jobs,
            unreported: BTreeMap::new(),
        };
        let lanes = offer::lanes_over(session, &offer, path, &joined)?;
        let check =
            |lane| offer::setup(&offer, (0, 1), lane, self.transfer.settings.plain).map(drop);
        lanes.iter().try_for_each(check)?;
        let files = self.temp_files(&root, &target)?;
        let crew = &*self.transfer.crew;
        for lane in self.equip(offer, lanes, &files, &mut outlets)? {
            scope.spawn(move || crew.run("lane", || lane.run()));
        }
        let (done, finished) = channel();
        self.hash(scope, &files, done.clone())?;
        let mut check = HeldCheck {
            transfer: self.transfer,
            files,
            jobs: outlets.jobs.clone(),
        };
        scope.spawn(move || crew.run("comparison", || check.run(&ranges)));
        let mut publisher = Publisher::new(
            &self.transfer.crew,
            &self.transfer.ledger,
            (root, target, claim),
            self.wardrobe,
            (&self.transfer.settings, self.transfer.cradle.clone()),
        );
        scope.spawn(move || {
            crew.run("publisher", || publisher.run(&todo));
            crew.run("cleaning", || {
                publisher.clean();
                Ok(())
            });
            drop((publisher, done));
        });
        let _alive = Alive::say(scope, session, crew.work.counter());
        *open = Some(outlets);
        let mut summary = self.watch(open, &finished)?;
        summary.elapsed = session.clock.now().since(self.begun);
        summary.moving = session.clock.now().since(started);
        Ok(summary)
    }

    /// Waits until it is known where files go.
    fn landed(&self, lands: &Receiver<Landed>) -> Result<Landed, Error> {
        let (session, crew) = (self.transfer.session, &self.transfer.crew);
        let mut stall = Stall::new(session.clock.now(), self.transfer.options().stall);
        loop {
            crew.check()?;
            stall.check(session.clock.now(), &crew.work, session.told_work())?;
            match lands.recv_timeout(TICK) {
                Ok(landed) => return Ok(landed),
                Err(_) if self.transfer.session.control.has_ended() => {
                    return Err(Error::new(
                        Code::Network,
                        "the peer left before it listed anything",
                    ));
                }
                Err(_) => {}
            }
        }
    }

    /// Hears from the sender, and tells it how it goes, until everything is in place.
    fn watch(
        &mut self,
        outlets: &mut Option<Outlets>,
        finished: &Receiver<()>,
    ) -> Result<Summary, Error> {
        let clock = self.transfer.session.clock;
        let mut progress_at = clock.now();
        let mut moved = (clock.now(), 0);
        let transfer = self.transfer;
        let work = &transfer.crew.work;
        let mut stall = Stall::new(clock.now(), self.transfer.options().stall);
        let mut arrived = 0;
        loop {
            self.transfer.crew.check()?;
            self.show();
            self.failures.bear()?;
            let now = clock.now();
            if now >= progress_at {
                progress_at = now + PROGRESS;
                self.tell_progress()?;
            }
            let motion = self.transfer.board.motion(u64::MAX);
            if motion.done > arrived || motion.held {
                arrived = arrived.max(motion.done);
                work.advance();
            }
            stall.check(now, work, self.transfer.session.told_work())?;
            let bytes = motion.sent;
            if bytes != moved.1 || motion.held || outlets.is_none() {
                moved = (now, bytes);
            }
            if self.is_over(outlets.as_ref()) {
                *outlets = None;
            }
            if outlets.is_none() && matches!(finished.try_recv(), Err(TryRecvError::Disconnected)) {
                self.transfer.crew.check()?;
                return self.conclude();
            }
            match self.transfer.session.hear_for(TICK) {
                Err(error) if error.code == Code::TimedOut => {
                    // what waited to be heard while others looked is heard by now
                    let patience = self.transfer.options().patience();
                    if now.since(moved.0.max(self.transfer.session.heard_at())) > patience {
                        let text =
                            format!("nothing came from the sender for {} s", patience.as_secs());
                        return Err(Error::new(Code::TimedOut, text));
                    }
                }
                message => {
                    if !self.take(message?, outlets)? {
                        *outlets = None;
                    }
                }
            }
        }
    }

    /// Whether nothing is left to hear, so that the sender's last word need not be waited for.
    fn is_over(&self, outlets: Option<&Outlets>) -> bool {
        let reported = outlets.is_some_and(|outlets| outlets.unreported.is_empty());
        reported && self.transfer.ledger.is_complete()
    }

    /// Takes in what the sender says; answers whether more objects are to come.
    fn take(&mut self, message: Message, outlets: &mut Option<Outlets>) -> Result<bool, Error> {
        let lie = |text: &str| Err(Error::new(Code::Protocol, text));
        if !matches!(message, Message::Warning { .. }) {
            self.transfer.crew.work.advance();
        }
        if message == Message::Sent && outlets.is_none() {
            return Ok(false);
        }
        if let Message::Chosen { why } = message {
            // where nothing is wanted, all may be over by then
            let name = self.protocol.name().to_owned();
            self.transfer.board.show(Sight::Chosen(name, why));
            return Ok(outlets.is_some());
        }
        let Some(outlets) = outlets else {
            return lie("the peer spoke after its last word");
        };
        match message {
            Message::Object(announced) => self.announce(announced, outlets)?,
            Message::Reports {
                object,
                mut reports,
            } => {
                self.take_reasons(&mut reports);
                let left = outlets.unreported.get(&object);
                let left = left.and_then(|left| left.checked_sub(reports.len()));
                let Some(left) = left.filter(|_| !reports.is_empty()) else {
                    return lie("the peer reported on what it did not send");
                };
                if left == 0 {
                    outlets.unreported.remove(&object);
                } else {
                    outlets.unreported.insert(object, left);
                }
                // a publisher that is gone has said why
                outlets.jobs.send(Job::Reports(object, reports)).ok();
            }
            Message::Held(mut held) => {
                self.take_reasons(std::slice::from_mut(&mut held.report));
                let range = HeldRange {
                    file: self.transfer.ledger.compare(held.entry, held.span)?,
                    span: held.span,
                    report: held.report,
                };
                if outlets.held.try_send(range).is_err() {
                    self.transfer.crew.check()?;
                    return lie("the peer sends more digests than it may");
                }
            }
            Message::Warning { text } => self.transfer.board.show(Sight::Warning(text)),
            Message::Sent => return Ok(false),
            Message::Offer(_)
            | Message::Chosen { .. }
            | Message::Progress(_)
            | Message::Settled { .. }
            | Message::Hashed(_)
            | Message::Verdict(_) => return lie("the peer spoke out of turn"),
        }
        Ok(true)
    }

    /// Takes the reasons of `reports` in, as far as there is room for them.
    fn take_reasons(&self, reports: &mut [Report]) {
        for report in reports {
            if let Report::Failed { why, .. } = report {
                self.transfer.board.reasons.take(why);
            }
        }
    }

    fn announce(&self, announced: Announced, outlets: &mut Outlets) -> Result<(), Error> {
        let lie = |text: &str| Error::new(Code::Protocol, text);
        let layout =
            Layout::new(announced.pieces).map_err(|_| lie("the peer's object makes no sense"))?;
        let files = self.transfer.ledger.announce(layout.pieces())?;
        if outlets.unreported.len() >= UNREPORTED_MAX {
            return Err(lie("the peer does not report on what it sends"));
        }
        let pieces = layout.pieces().len();
        if outlets
            .unreported
            .insert(announced.number, pieces)
            .is_some()
        {
            return Err(lie("the peer sends an object twice"));
        }
        let incoming = Incoming {
            number: announced.number,
            layout,
            files,
        };
        let lane = outlets.lanes.get(usize::from(announced.lane));
        let sent = lane.map(|lane| lane.try_send(incoming).is_ok());
        if sent == Some(true) {
            return Ok(());
        }
        self.transfer.crew.check()?;
        Err(lie("the peer sends more than its lanes take"))
    }

    /// Tells both sides which limit of this host's kernel binds, if one does.
    fn warn(&self, scarce: Option<String>) -> Result<(), Error> {
        if let Some(text) = scarce {
            self.transfer
                .session
                .say(&Message::Warning { text: text.clone() })?;
            self.transfer.board.show(Sight::Warning(text));
        }
        Ok(())
    }

    fn tell_progress(&mut self) -> Result<(), Error> {
        for text in self.transfer.board.take_untold() {
            self.transfer.session.say(&Message::Warning { text })?;
        }
        let (settled, failures) = self.transfer.ledger.take_news();
        for failure in failures.iter().cloned() {
            self.failures.push(Failed::from(failure));
        }
        for message in Message::settled(settled, failures) {
            self.transfer.session.say(&message)?;
        }
        let verdict = self.transfer.ledger.verdict();
        let published = verdict.entries - verdict.unchanged;
        self.transfer.board.published.store(published, Relaxed);
        let motion = self.transfer.board.motion(self.transfer.ledger.wanted());
        self.transfer.session.say(&Message::Progress(Progress {
            bytes: motion.done,
            duplicates: motion.resent,
            datagrams: self
                .transfer
                .board
                .lanes()
                .iter()
                .map(|lane| lane.datagrams.load(Relaxed))
                .collect(),
            buffer_drops: motion.buffer_drops,
            foreign: motion.foreign,
            published,
        }))
    }

    fn show(&mut self) {
        // whoever looks may take long, as with a pager
        let _step = self.transfer.crew.work.begin();
        for sight in self.transfer.board.take_sights() {
            if let Sight::Failed(failed) = &sight {
                self.failures.push(failed.clone());
            }
            (self.watcher)(sight);
        }
        let motion = self.transfer.board.motion(self.transfer.ledger.wanted());
        if motion.sent > 0 {
            (self.watcher)(Sight::Moving(motion));
        }
    }

    /// Waits until the sender closes, as long as it works on what it was told.
    fn await_end(&self) {
        let (session, work) = (self.transfer.session, &self.transfer.crew.work);
        let mut stall = Stall::new(session.clock.now(), self.transfer.options().stall);
        loop {
            match session.hear_for::<Message>(TICK) {
                Ok(_) => {}
                Err(error) if error.code == Code::TimedOut => {
                    if session.clock.now().since(session.heard_at()) >= FAREWELL {
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
        self.show();
        self.tell_progress()?;
        let verdict = self.transfer.ledger.verdict();
        // a sender that is gone does not undo what is published
        self.transfer.session.say(&Message::Verdict(verdict)).ok();
        self.transfer.session.control.flush(FLUSH);
        // it closes when it has heard that, and says that it is there until then; to close first would be to
        // take it for a loss
        self.await_end();
        Ok(Summary {
            entries: verdict.entries,
            bytes: verdict.bytes,
            unchanged: verdict.unchanged,
            motion: self.transfer.board.motion(self.transfer.ledger.wanted()),
            failures: self.failures.finish(),
            ..Summary::default()
        })
    }
}
