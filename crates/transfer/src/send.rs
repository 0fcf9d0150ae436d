//! The sending side of a transfer.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lighthaul_base::{Endpoint, Instant, Rate};
use lighthaul_io::drive::{Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::read_ahead::ReadAhead;
use lighthaul_proto::rbudp::{Sender, SenderEvent};

use crate::digest;
use crate::ease::Ease;
use crate::error::{Code, Error};
use crate::manifest::{Manifest, pack};
use crate::message::{Message, Offer, Progress};
use crate::mover;
use crate::path::{Door, Path, explore};
use crate::session::Session;
use crate::source::{Report, TreeSource};
use crate::walk::Tree;
use crate::watch::{Motion, Sight, Summary, Watcher};

/// Entries in a chunk of the manifest.
const CHUNK: usize = 4000;
/// Used when a path carries datagrams but none of a train arrived.
const RATE_UNKNOWN: Rate = Rate::from_mbps(10);
/// What a blast may deliver nothing for, before the stream takes over.
const BARREN: Duration = Duration::from_millis(1500);
/// How long the receiver may stay silent; it reports twenty times a second.
const SILENCE: Duration = Duration::from_secs(20);
/// How long the receiver may take to sync and publish.
const VERDICT_PATIENCE: Duration = Duration::from_mins(10);

/// How to send.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Datagrams are not encrypted.
    pub plain: bool,
    /// The digest of each file.
    pub digest: digest::Kind,
    /// The rate on the wire; measured if nobody says.
    pub rate: Option<Rate>,
}

/// Sends `tree` to the peer, which has agreed to take it.
pub fn send(
    session: &Session,
    door: &Door<'_>,
    tree: Tree,
    settings: Settings,
    watcher: Watcher<'_>,
) -> Result<Summary, Error> {
    let begun = session.clock.now();
    let (manifest, places, named) = list(tree, watcher)?;
    let mut path = explore(session, door, true)?;
    let rate = choose_rate(session, &mut path, settings.rate)?;
    let offer = Offer {
        object_len: manifest.object_len(),
        packet_len: mover::packet_len(&path),
        rate_bps: rate.as_bps(),
        settle_us: mover::settle(session.rtt).as_micros() as u32,
        named,
        udp: path.udp.is_some(),
        entries: manifest.entries().len() as u64,
        file_bytes: manifest.file_bytes(),
    };
    let config = mover::config(&offer, settings.plain, session.peer_address())?;
    session.say(&Message::Offer(offer))?;
    tell(session, &manifest)?;
    if offer.file_bytes == 0 {
        session.say(&Message::ReportsEnd)?;
    }
    let started = session.clock.now();
    mover::announce(
        session,
        &offer,
        settings.plain,
        started.since(begun),
        watcher,
    );
    let (told, reports) = channel();
    let source = TreeSource::new(Arc::clone(&manifest), places.into(), settings.digest, told);
    let mut store = ReadAhead::start(source, offer.packet_len)?;
    let mut lane = mover::lane(session, path, settings.plain)?;
    let mut sender = Sender::new(started, config, begun.as_nanos());
    let mut owner = SendOwner {
        session,
        watcher,
        reports,
        unreported: manifest
            .entries()
            .iter()
            .filter(|entry| entry.size() > 0)
            .count(),
        verdict: None,
        offer,
        udp: offer.udp,
        progress: Progress::default(),
        heard_at: started,
        moved: (started, 0),
        ease: Ease::new(started, rate),
        failed: None,
    };
    let ran = run(&mut sender, &mut lane, &mut store, &mut owner);
    drop(store);
    owner.settle(ran)?;
    let motion = owner.motion(&sender);
    owner.pass_on_reports()?;
    let mut summary = match owner.verdict.take() {
        Some(failures) => weigh(failures, &manifest)?,
        None => conclude(session, &manifest)?,
    };
    summary.elapsed = session.clock.now().since(begun);
    summary.moving = session.clock.now().since(started);
    summary.motion = Motion {
        done: motion.total,
        ..motion
    };
    Ok(summary)
}

/// The tree as a manifest, where its entries are, and whether they are named after their source.
fn list(tree: Tree, watcher: Watcher<'_>) -> Result<(Arc<Manifest>, Vec<PathBuf>, bool), Error> {
    for skipped in &tree.skipped {
        watcher(Sight::Warning(format!("left out: {skipped}")));
    }
    let mut manifest = Manifest::default();
    for entry in tree.entries {
        manifest
            .push(entry)
            .map_err(|_| Error::new(Code::Usage, "the sources are too large"))?;
    }
    Ok((Arc::new(manifest), tree.places, tree.named))
}

/// Sends the manifest, piece by piece.
fn tell(session: &Session, manifest: &Manifest) -> Result<(), Error> {
    for chunk in manifest.entries().chunks(CHUNK) {
        session.say(&Message::Manifest(pack(chunk)?))?;
    }
    session.say(&Message::ManifestEnd)
}

/// The rate asked for, else a little less than what the path was seen to carry.
fn choose_rate(session: &Session, path: &mut Path, asked: Option<Rate>) -> Result<Rate, Error> {
    if path.udp.is_none() {
        return Ok(Rate::UNLIMITED);
    }
    if let Some(rate) = asked {
        return Ok(rate);
    }
    let measured = path.measure(session)?;
    Ok(measured.map_or(RATE_UNKNOWN, |rate| rate.scaled(995, 1000)))
}

/// Waits for the receiver to say what it has published.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else a peer says is out of turn"
)]
fn conclude(session: &Session, manifest: &Manifest) -> Result<Summary, Error> {
    let deadline = session.clock.now() + VERDICT_PATIENCE;
    loop {
        match session.hear_for(session.clock.until(deadline))? {
            Message::Verdict(failures) => return weigh(failures, manifest),
            Message::Progress(_) | Message::Train(..) => {}
            _ => return Err(Error::new(Code::Protocol, "the peer gave no verdict")),
        }
    }
}

/// What a verdict means, if it is about files that were sent, each once.
fn weigh(failures: Vec<(u64, u8, String)>, manifest: &Manifest) -> Result<Summary, Error> {
    let entries = manifest.entries();
    let named: BTreeSet<u64> = failures.iter().map(|(index, ..)| *index).collect();
    if named.len() != failures.len() || named.last().is_some_and(|i| *i >= entries.len() as u64) {
        return Err(Error::new(
            Code::Protocol,
            "the peer's verdict is about files that were not sent",
        ));
    }
    let lost: u64 = named
        .iter()
        .map(|index| entries[*index as usize].size())
        .sum();
    let failed = |(_, code, why)| (Code::from_number(code) as u8, why);
    Ok(Summary {
        entries: (entries.len() - named.len()) as u64,
        bytes: manifest.file_bytes() - lost,
        failures: failures.into_iter().map(failed).collect(),
        ..Summary::default()
    })
}

struct SendOwner<'a, 'w> {
    session: &'a Session,
    watcher: Watcher<'w>,
    reports: Receiver<(usize, Report)>,
    /// Files of which nothing has been reported yet.
    unreported: usize,
    verdict: Option<Vec<(u64, u8, String)>>,
    offer: Offer,
    udp: bool,
    progress: Progress,
    heard_at: Instant,
    /// When datagrams last arrived, and how many had been sent by then.
    moved: (Instant, u64),
    ease: Ease,
    failed: Option<Error>,
}

impl SendOwner<'_, '_> {
    fn motion(&self, sender: &Sender) -> Motion {
        let done = self
            .progress
            .packets
            .saturating_mul(u64::from(self.offer.packet_len));
        Motion {
            done: done.min(self.offer.object_len),
            total: self.offer.object_len,
            round: sender.round(),
            sent: sender.sent(),
            resent: sender.resent(),
            buffer_drops: self.progress.buffer_drops,
            foreign: self.progress.foreign,
            held: sender.is_held(),
        }
    }

    /// Tells of the files that were read through, and says when that was the last: early, so that the
    /// receiver can give its verdict as soon as it has all bytes.
    fn pass_on_reports(&mut self) -> Result<(), Error> {
        while self.unreported > 0 {
            let batch: Vec<_> = self
                .reports
                .try_iter()
                .take(CHUNK)
                .map(|(index, report)| (index as u64, report))
                .collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.unreported = self.unreported.saturating_sub(batch.len());
            self.session.say(&Message::Reports(batch))?;
            if self.unreported == 0 {
                self.session.say(&Message::ReportsEnd)?;
            }
        }
        Ok(())
    }

    /// Takes what the receiver says; eases off when its socket buffer overflows.
    fn listen(&mut self, sender: &mut Sender, now: Instant) -> Result<(), Error> {
        while let Some(message) = self.session.heard()? {
            // a busy host sees a train in two parts, and tells of both
            if matches!(message, Message::Train(..)) {
                continue;
            }
            if let Message::Verdict(failures) = message {
                // the tally that completes the object is on its way on another stream
                self.verdict = Some(failures);
                continue;
            }
            let Message::Progress(progress) = message else {
                return Err(Error::new(Code::Protocol, "the peer spoke out of turn"));
            };
            let dropped = progress.buffer_drops > self.progress.buffer_drops;
            if self.udp
                && let Some(rate) = self.ease.hear(now, dropped)
            {
                sender.handle_rate(now, rate);
            }
            if progress.datagrams > self.progress.datagrams || sender.is_held() {
                self.moved = (now, sender.sent());
            }
            self.progress = progress;
            self.heard_at = now;
        }
        if now.since(self.heard_at) > SILENCE {
            let text = format!(
                "nothing was heard of the receiver for {} s",
                SILENCE.as_secs()
            );
            return Err(Error::new(Code::TimedOut, text));
        }
        Ok(())
    }

    fn divert(&mut self, why: &str) -> Next {
        if !self.udp {
            return Next::Continue;
        }
        self.udp = false;
        (self.watcher)(Sight::Diverted(format!(
            "{why}, so TCP carries the data from now on"
        )));
        Next::Divert
    }

    /// Keeps `error` for the caller and stops the driver.
    fn stop(&mut self, error: Error) -> World {
        self.failed = Some(error);
        World::Interrupted
    }

    /// What the driver's end means: an error of ours that stopped it goes before its own.
    fn settle(&mut self, ran: Result<(), World>) -> Result<(), Error> {
        match (ran, self.failed.take()) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(self.session.explain(error)),
        }
    }
}

impl Owner<Sender> for SendOwner<'_, '_> {
    fn event(&mut self, _: &mut Sender, event: SenderEvent, _: Instant) -> Result<Next, World> {
        match event {
            SenderEvent::Round { number, packets } => {
                (self.watcher)(Sight::Round { number, packets });
                Ok(Next::Continue)
            }
            SenderEvent::Barren { .. } => Ok(self.divert("a whole round of datagrams was lost")),
            SenderEvent::Complete => Ok(Next::Finish),
            SenderEvent::Failed(why) => Err(World::PeerMisbehaved(why.to_string())),
        }
    }

    fn tick(&mut self, sender: &mut Sender, now: Instant) -> Result<Next, World> {
        let heard = self
            .pass_on_reports()
            .and_then(|()| self.listen(sender, now));
        heard.map_err(|error| self.stop(error))?;
        let motion = self.motion(sender);
        (self.watcher)(Sight::Moving(motion));
        let (at, sent) = self.moved;
        if sender.sent() > sent && now.since(at) > BARREN + self.session.rtt {
            return Ok(self.divert("no datagram arrives"));
        }
        Ok(Next::Continue)
    }
}
