//! The receiving side of a transfer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender as Chunks, channel};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::blocks::Blocks;
use lighthaul_io::clock::unix_nanos;
use lighthaul_io::disk::Root;
use lighthaul_io::drive::{Counters, Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_proto::rbudp::{Receiver, ReceiverEvent};

use crate::error::{Code, Error};
use crate::landing::Landing;
use crate::manifest::{Entry, unpack};
use crate::message::{Message, Offer, Progress};
use crate::mover;
use crate::path::{Door, explore};
use crate::session::Session;
use crate::sink::{self, TreeSink};
use crate::source::Report;
use crate::watch::{Motion, Sight, Summary, Watcher};

/// How often the sender hears how we are doing.
const PROGRESS: Duration = Duration::from_millis(50);
/// The most files, folders and links in one transfer.
const ENTRIES_MAX: u64 = 1 << 26;
/// How long the sender may stay silent, data and all.
const SILENCE: Duration = Duration::from_secs(20);

/// How to receive.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Datagrams are not encrypted.
    pub plain: bool,
    /// How files are written.
    pub sink: sink::Settings,
}

/// Receives what the peer sends, and puts it in `landing`.
pub fn receive(
    session: &Session,
    door: &Door<'_>,
    landing: Landing,
    settings: Settings,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let begun = session.clock.now();
    let mut path = explore(session, door, false)?;
    let Message::Offer(offer) = path.listen(session)? else {
        return Err(Error::new(Code::Protocol, "the peer offered nothing"));
    };
    let config = mover::config(&offer, settings.plain, session.peer_address())?;
    let landing = landing.prepare(&offer)?;
    let started = session.clock.now();
    mover::announce(
        session,
        &offer,
        settings.plain,
        started.since(begun),
        watcher,
    );
    let (chunks, learned) = channel();
    let root = Root::open(&landing.folder)
        .map_err(|e| Error::file(Code::Open, "cannot open", &landing.folder, &e))?;
    let writing = sink::Settings {
        transfer: unix_nanos(),
        ..settings.sink
    };
    let sink = TreeSink::new(root, landing.folder.clone(), writing, learned);
    let mut store = Blocks::start(sink, offer.object_len, offer.packet_len)?;
    let mut lane = mover::lane(session, path, settings.plain)?;
    let mut receiver = Receiver::new(started, config, begun.as_nanos());
    let mut owner = ReceiveOwner {
        session,
        watcher,
        landing,
        chunks: Some(chunks),
        counters: Arc::clone(&lane.counters),
        offer,
        reports: BTreeMap::new(),
        reported: false,
        listed: 0,
        progress_at: started,
        heard_at: started,
        received: 0,
        failed: None,
    };
    let ran = run(&mut receiver, &mut lane, &mut store, &mut owner);
    let ran = owner.settle(ran);
    let ran = ran.and_then(|()| owner.hear_out());
    owner.chunks = None;
    let motion = owner.motion(&receiver);
    let reports = std::mem::take(&mut owner.reports);
    let mut summary = conclude(session, store, ran, &reports)?;
    summary.elapsed = session.clock.now().since(begun);
    summary.moving = session.clock.now().since(started);
    summary.motion = motion;
    Ok(summary)
}

/// Publishes what arrived, or cleans up after a failure, and tells the sender.
fn conclude(
    session: &Session,
    store: Blocks<TreeSink>,
    ran: Result<(), Error>,
    reports: &BTreeMap<usize, Report>,
) -> Result<Summary, Error> {
    let (sink, written) = store.finish();
    let Some(mut sink) = sink else {
        return Err(Error::new(Code::Io, "the writer broke down"));
    };
    // the sink knows best why it failed, but not why it was left waiting
    let blames_sink = ran
        .as_ref()
        .err()
        .is_none_or(|error| error.code == Code::Io);
    let ran = match sink.take_failure().filter(|_| blames_sink) {
        Some(failure) => Err(failure),
        None => ran.and_then(|()| Ok(written?)),
    };
    let published = ran
        .and_then(|()| sink.learn_all())
        .and_then(|()| sink.publish(reports));
    let failures = match published {
        Ok(failures) => failures,
        Err(error) => {
            sink.clean();
            return Err(error);
        }
    };
    let verdict = failures
        .iter()
        .map(|(i, code, why)| (*i as u64, *code as u8, why.clone()));
    // a sender that is gone does not undo what is published
    session.say(&Message::Verdict(verdict.collect())).ok();
    session.control.flush(Duration::from_secs(10));
    let entries = sink.manifest().entries();
    let lost: u64 = failures
        .iter()
        .map(|(index, ..)| entries[*index].size())
        .sum();
    Ok(Summary {
        entries: (entries.len() - failures.len()) as u64,
        bytes: sink.manifest().file_bytes() - lost,
        failures: failures
            .into_iter()
            .map(|(_, code, why)| (code as u8, why))
            .collect(),
        ..Summary::default()
    })
}

struct ReceiveOwner<'a, 'w> {
    session: &'a Session,
    watcher: Watcher<'w>,
    landing: Landing,
    chunks: Option<Chunks<Vec<Entry>>>,
    counters: Arc<Counters>,
    offer: Offer,
    reports: BTreeMap<usize, Report>,
    reported: bool,
    /// Entries of the manifest so far.
    listed: u64,
    progress_at: Instant,
    heard_at: Instant,
    received: u64,
    failed: Option<Error>,
}

impl ReceiveOwner<'_, '_> {
    fn motion(&self, receiver: &Receiver) -> Motion {
        let done = receiver
            .received()
            .saturating_mul(u64::from(self.offer.packet_len));
        Motion {
            done: done.min(self.offer.object_len),
            total: self.offer.object_len,
            round: receiver.round(),
            sent: receiver.datagrams(),
            resent: receiver.duplicates(),
            buffer_drops: self.counters.buffer_drops.load(Relaxed),
            foreign: self.counters.foreign.load(Relaxed) + self.counters.forged.load(Relaxed),
            held: receiver.is_holding(),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever else a peer says is out of turn"
    )]
    fn take(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Manifest(packed) => {
                let entries = unpack(&packed).map_err(|_| {
                    Error::new(
                        Code::Protocol,
                        "the peer's manifest makes no sense or is unsafe",
                    )
                })?;
                self.listed += entries.len() as u64;
                if self.listed > self.offer.entries.min(ENTRIES_MAX) {
                    let text = "the peer's manifest is longer than it said, or than is taken";
                    return Err(Error::new(Code::Protocol, text));
                }
                let mut renamed = Vec::with_capacity(entries.len());
                for entry in entries {
                    let entry = self.landing.rename(entry);
                    self.landing.check(&entry)?;
                    renamed.push(entry);
                }
                if let Some(chunks) = &self.chunks {
                    // a writer that is gone has left its error with the store
                    chunks.send(renamed).ok();
                }
            }
            Message::ManifestEnd if self.listed == self.offer.entries => self.chunks = None,
            Message::Reports(reports) => {
                let reports = reports
                    .into_iter()
                    .map(|(index, report)| (index as usize, report));
                self.reports.extend(reports);
                if self.reports.len() as u64 > self.offer.entries {
                    return Err(Error::new(
                        Code::Protocol,
                        "the peer reported too many files",
                    ));
                }
            }
            Message::ReportsEnd => self.reported = true,
            _ => return Err(Error::new(Code::Protocol, "the peer spoke out of turn")),
        }
        Ok(())
    }

    fn listen(&mut self) -> Result<(), Error> {
        while let Some(message) = self.session.heard()? {
            self.take(message)?;
        }
        Ok(())
    }

    /// After the last byte: hears the rest of what the sender has to say.
    fn hear_out(&mut self) -> Result<(), Error> {
        while !self.reported {
            let message = self.session.hear()?;
            self.take(message)?;
        }
        Ok(())
    }

    fn tell_progress(&mut self, receiver: &Receiver) -> Result<(), Error> {
        let progress = Progress {
            packets: receiver.received(),
            duplicates: receiver.duplicates(),
            datagrams: self.counters.received.load(Relaxed) + receiver.received(),
            buffer_drops: self.counters.buffer_drops.load(Relaxed),
            foreign: self.counters.foreign.load(Relaxed) + self.counters.forged.load(Relaxed),
        };
        self.session.say(&Message::Progress(progress))
    }

    fn settle(&mut self, ran: Result<(), World>) -> Result<(), Error> {
        match (ran, self.failed.take()) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(self.session.explain(error)),
        }
    }

    fn look(&mut self, receiver: &Receiver, now: Instant) -> Result<(), Error> {
        self.listen()?;
        if now >= self.progress_at {
            self.progress_at = now + PROGRESS;
            self.tell_progress(receiver)?;
        }
        if receiver.datagrams() != self.received {
            self.received = receiver.datagrams();
            self.heard_at = now;
        }
        if now.since(self.heard_at) > SILENCE && !receiver.is_holding() {
            let text = format!("nothing came from the sender for {} s", SILENCE.as_secs());
            return Err(Error::new(Code::TimedOut, text));
        }
        Ok(())
    }
}

impl Owner<Receiver> for ReceiveOwner<'_, '_> {
    fn event(&mut self, _: &mut Receiver, event: ReceiverEvent, _: Instant) -> Result<Next, World> {
        match event {
            ReceiverEvent::Tallied { .. } => Ok(Next::Continue),
            ReceiverEvent::Complete => Ok(Next::Finish),
            ReceiverEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        }
    }

    fn tick(&mut self, receiver: &mut Receiver, now: Instant) -> Result<Next, World> {
        if let Err(error) = self.look(receiver, now) {
            self.failed = Some(error);
            return Err(World::Interrupted);
        }
        let motion = self.motion(receiver);
        (self.watcher)(Sight::Moving(motion));
        Ok(Next::Continue)
    }
}
